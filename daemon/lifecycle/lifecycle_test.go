package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

// bench drives a manager: supervisors that do at once what they are told.
type bench struct {
	m      *Manager
	now    time.Time
	log    []string
	states map[string]State
	open   map[string]int
}

func newBench(budget turn.Bytes) *bench {
	return &bench{m: New(budget, 0), now: time.Unix(1e9, 0), states: map[string]State{}, open: map[string]int{}}
}

const gib turn.Bytes = 1 << 30

func (b *bench) want(name string, size turn.Bytes) {
	b.do(b.m.Want(name, size, time.Minute, b.open[name], b.now))
}

func (b *bench) report(name string, s State) {
	b.states[name] = s
	b.do(b.m.Report(name, s, b.open[name], b.open[name], b.now))
}

func (b *bench) turns(name string, n int) {
	b.open[name] = n
	b.report(name, b.states[name])
}

func (b *bench) after(d time.Duration) {
	b.now = b.now.Add(d)
	b.do(b.m.Tick(b.now))
}

func (b *bench) do(as []Action) {
	for _, a := range as {
		if a.Do == Regrant {
			continue
		}
		b.log = append(b.log, fmt.Sprintf("%s %s", a.Do, a.Model))
		switch a.Do {
		case Start:
			b.report(a.Model, Loading)
			b.report(a.Model, Ready)
		case Stop:
			b.report(a.Model, Unloading)
			b.report(a.Model, Cold)
		}
	}
}

func (b *bench) expect(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(b.log, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	b.log = nil
}

func TestTwoThatFitStay(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", 2*gib)
	b.want("b", 3*gib)
	b.want("a", 2*gib)
	b.expect(t, "start a, start b")
}

func TestAnIdleOneMakesRoom(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", 3*gib)
	b.after(time.Second)
	b.want("b", 3*gib)
	b.after(time.Second)
	b.want("c", 4*gib)
	b.expect(t, "start a, start b, stop a, start c")
}

func TestABusyOneIsWaitedFor(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", 6*gib)
	b.turns("a", 1)
	b.want("b", 6*gib)
	b.expect(t, "start a")
	b.turns("a", 0)
	b.expect(t, "stop a, start b")
}

func TestTheLineIsKept(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", 6*gib)
	b.turns("a", 1)
	b.want("big", 7*gib)
	b.want("small", gib) // would fit, but big must not starve
	b.expect(t, "start a")
	b.turns("a", 0)
	b.expect(t, "stop a, start big, start small")
}

func TestOneThatIsLargerThanTheBudgetRunsAlone(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", gib)
	b.want("huge", 20*gib)
	b.expect(t, "start a, stop a, start huge")
}

func TestAPinnedOneIsNotEvicted(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", 6*gib)
	b.m.Pin("a", true, b.now)
	b.want("b", 6*gib)
	b.expect(t, "start a, refuse b")
	b.after(time.Hour)
	b.expect(t, "")
	b.m.Pin("a", false, b.now)
	if b.m.Pinned("a") {
		t.Error("still pinned")
	}
	b.want("b", 6*gib)
	b.expect(t, "stop a, start b")
}

func TestIdleModelsExpire(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", gib)
	b.turns("a", 1)
	b.after(time.Hour)
	b.expect(t, "start a")
	b.turns("a", 0)
	if at, ok := b.m.Expires("a"); !ok || at.Sub(b.now) != time.Minute {
		t.Errorf("expires %v %v", at.Sub(b.now), ok)
	}
	b.after(59 * time.Second)
	b.expect(t, "")
	b.after(time.Second)
	b.expect(t, "stop a")
	b.want("a", gib)
	b.m.Keep("a", Forever)
	b.after(1000 * time.Hour)
	b.expect(t, "start a")
	b.do(b.m.Drop("a"))
	b.do(b.m.Drop("a"))
	b.do(b.m.Drop("never heard of"))
	b.expect(t, "stop a")
}

func TestAFailureIsNotTriedAgainByItself(t *testing.T) {
	b := newBench(10 * gib)
	for range 2 {
		as := b.m.Want("a", gib, time.Minute, 1, b.now)
		if len(as) != 1 || as[0].Do != Start {
			t.Fatalf("%v", as)
		}
		b.open["a"] = 1
		b.report("a", Loading)
		b.open["a"] = 0
		b.report("a", Failed)
		b.after(time.Hour)
		b.expect(t, "")
	}
}

func TestTurnsThatCameWhileItWasLeavingBringItBack(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", gib)
	as := b.m.Drop("a")
	b.open["a"] = 1
	b.report("a", Unloading)
	b.log = nil
	b.report("a", Cold)
	if len(as) != 1 {
		t.Errorf("%v", as)
	}
	b.expect(t, "start a")
}

func TestATurnThatCameWhileALoadFailedIsServed(t *testing.T) {
	b := newBench(10 * gib)
	b.m.Want("a", gib, time.Minute, 1, b.now)
	b.open["a"] = 1
	b.report("a", Loading)
	b.m.Want("a", gib, time.Minute, 1, b.now) // the first has failed, this is the next
	b.report("a", Failed)
	b.expect(t, "start a")
}

func TestAStopThatWasDeclinedIsForgotten(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", gib)
	b.now = b.now.Add(time.Hour)
	if as := b.m.Tick(b.now); len(as) != 1 { // told, but a turn has come first
		t.Fatalf("%v", as)
	}
	b.open["a"] = 1
	b.report("a", Busy)
	b.open["a"] = 0
	b.report("a", Ready)
	b.log = nil
	b.after(time.Minute)
	b.expect(t, "stop a")
}

// TestGrantsNeverOverlap: whatever comes and goes, what the runners may hold
// together is within the budget, as long as their needs are.
func TestGrantsNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(32*gib, 77)
		now := time.Unix(1e9, 0)
		grants := map[string]turn.Bytes{}
		states := map[string]State{}
		sizes := map[string]turn.Bytes{"a": gib, "b": 4 * gib, "c": 11 * gib, "d": 20 * gib}
		var do func(as []Action)
		report := func(n string, s State) { states[n] = s; do(m.Report(n, s, 0, 0, now)) }
		do = func(as []Action) {
			for _, a := range as {
				switch a.Do {
				case Start, Regrant:
					grants[a.Model] = a.Grant.Bytes
					if a.Grant.Buffers != 77 || a.Grant.Wired > a.Grant.Bytes {
						t.Fatalf("grant %+v", a.Grant)
					}
				case Refuse:
					t.Fatalf("refused though nothing is pinned: %v", a)
				}
			}
			for _, a := range as {
				if a.Do == Start {
					report(a.Model, Loading)
				}
				if a.Do == Stop {
					delete(grants, a.Model)
					report(a.Model, Cold)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			n := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "model")
			now = now.Add(time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0, 1:
				do(m.Want(n, sizes[n], time.Minute, 0, now))
			case 2:
				if states[n] == Loading {
					report(n, Ready)
				}
			case 3:
				do(m.Drop(n))
			}
			var sum turn.Bytes
			for _, g := range grants {
				sum += g
			}
			if sum > m.Budget() {
				t.Fatalf("%v: %d of %d", grants, sum, m.Budget())
			}
		}
	})
}

func TestPressureShrinksGrantsAndGivesThemBack(t *testing.T) {
	b := newBench(10 * gib)
	b.want("a", 2*gib)
	active := 6 * gib
	press := func(l Level) turn.Bytes {
		b.now = b.now.Add(time.Second)
		for _, a := range b.m.Pressure(l, func(string) turn.Bytes { return active }, b.now) {
			if a.Do != Regrant || a.Model != "a" {
				t.Errorf("%+v", a)
			}
		}
		return b.m.slots["a"].grant.Bytes
	}
	if got := press(Calm); got != 10*gib {
		t.Fatalf("at first %d", got)
	}
	last := press(Short)
	if last >= active {
		t.Errorf("short of memory: %d of %d in use", last, active)
	}
	for range 40 { // it obeys, the system stays short
		active = min(active, last)
		if got := press(Critical); got > last {
			t.Errorf("grew from %d to %d", last, got)
		} else {
			last = got
		}
	}
	if last != floor(2*gib) {
		t.Errorf("shrunk to %d, a turn alone needs %d", last, floor(2*gib))
	}
	for range 8 {
		press(Calm)
	}
	if got := press(Short); got > last { // calm was too short to count
		t.Errorf("given back early: %d", got)
	}
	for range 11 {
		press(Calm)
	}
	if got := press(Calm); got != 10*gib {
		t.Errorf("it latches at %d", got)
	}
}
