package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"ingot/daemon/fakerunner"
	"ingot/daemon/journal"
	"ingot/daemon/lifecycle"
	"ingot/daemon/supervise"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// desk is a supervisor with its journal and a fleet of fake runners.
type desk struct {
	t     *testing.T
	fleet *fakerunner.Fleet
	j     *journal.Journal
	s     *supervise.Supervisor

	mu     sync.Mutex
	states []lifecycle.State
	status supervise.Status
}

func newDesk(t *testing.T, fleet *fakerunner.Fleet, change func(*supervise.Options)) *desk {
	d := &desk{t: t, fleet: fleet}
	d.j = journal.New(journal.Options{
		Flow: func(id turn.ID, parked bool) { d.s.Flow(id, parked) },
		Gone: func(id turn.ID) { d.s.Cancel(id) },
	})
	opt := supervise.Options{Model: "fake", Folder: "/none", Launch: fleet.Launch, Turns: book{d.j}, Log: zerolog.Nop(), Changed: d.changed}
	if change != nil {
		change(&opt)
	}
	d.s = supervise.New(opt)
	return d
}

func (d *desk) changed(st supervise.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = st
	if n := len(d.states); n == 0 || d.states[n-1] != st.State {
		d.states = append(d.states, st.State)
	}
}

func (d *desk) history() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Trim(fmt.Sprint(d.states), "[]")
}

func (d *desk) now() supervise.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

func (d *desk) close() {
	d.s.Close(context.Background(), &wire.Error{Name: "shutting_down", Message: "the test is over"})
	time.Sleep(time.Minute) // killed fakes end when they next wake
	if n := d.fleet.Alive(); n != 0 {
		d.t.Errorf("%d runners outlive their supervisor", n)
	}
}

// book is the journal as the supervisor sees it.
type book struct{ *journal.Journal }

func (b book) Ended(e *wire.End) {
	if e.Done != nil {
		b.Done(e.Turn, e.Done)
		return
	}
	b.Failed(e.Turn, e.Error)
}
func (b book) Failed(id turn.ID, e *wire.Error) {
	b.Journal.Failed(id, turn.Failure{Message: e.Name + ": " + e.Message})
}
func (b book) Cancelled(id turn.ID) { b.Journal.Cancelled(id) }

// ask opens a turn.
func (d *desk) ask(id, prompt string, change ...func(*wire.Submit)) *journal.Reader {
	s := wire.Submit{Turn: turn.ID(id), Text: &prompt, Params: turn.Neutral(), IDs: true}
	s.Params.Seed = 7
	for _, f := range change {
		f(&s)
	}
	r := d.j.Open(journal.Spec{Model: "fake", Submit: s, Linger: true})
	d.s.Submit(s.Turn)
	d.s.Start(wire.Grant{})
	return r
}

// answer reads a turn to its end: its text, tokens, final event.
type answer struct {
	text   string
	ids    []turn.TokenID
	types  []turn.EventType
	end    turn.Event
	resume int
}

func (d *desk) read(r *journal.Reader) answer {
	var a answer
	for seq := int64(0); ; seq++ {
		ev, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return a
		}
		if err != nil {
			d.t.Fatal(err)
		}
		if ev.Seq != seq {
			d.t.Fatalf("seq %d, want %d", ev.Seq, seq)
		}
		if ev.Text != nil {
			a.text += ev.Text.Delta
			a.ids = append(a.ids, ev.Text.TokenIDs...)
		}
		if ev.Type == turn.EventResumed {
			a.resume++
		}
		a.types = append(a.types, ev.Type)
		a.end = ev
	}
}

func (a *answer) wants(t *testing.T, n int) {
	t.Helper()
	if a.end.Done == nil {
		t.Fatalf("ended with %+v", a.end.Failure)
	}
	if want := fakerunner.Text(7, 0, n); a.text != want {
		t.Errorf("answer %q\nwant   %q", a.text, want)
	}
	if len(a.ids) != n || a.end.Done.Usage.CompletionTokens != n {
		t.Errorf("%d ids, usage %d, want %d", len(a.ids), a.end.Done.Usage.CompletionTokens, n)
	}
}

func (a *answer) failed(t *testing.T, name string) {
	t.Helper()
	if a.end.Failure == nil || !strings.HasPrefix(a.end.Failure.Message, name+":") {
		t.Errorf("ended with %+v, want %s", a.end.Failure, name)
	}
}

func TestATurnIsAnsweredByARunnerStartedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &fakerunner.Fleet{Options: fakerunner.Options{Load: time.Second}}, nil)
		defer d.close()
		a := d.read(d.ask("a", "tokens 20 pause 5ms"))
		a.wants(t, 20)
		if a.types[0] != turn.EventLoading {
			t.Errorf("first event %s, want loading", a.types[0])
		}
		if ms := a.end.Done.Report.LoadMS; ms < 999 || ms > 1100 {
			t.Errorf("load_ms %v, want 1000", ms)
		}
		if got := d.history(); got != "cold loading busy ready" {
			t.Errorf("states %s", got)
		}
	})
}

func TestAKilledRunnersTurnsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakerunner.Fleet{Options: fakerunner.Options{Load: 100 * time.Millisecond}}
		d := newDesk(t, fleet, nil)
		defer d.close()
		var readers []*journal.Reader
		for i := range 4 {
			readers = append(readers, d.ask(fmt.Sprint(i), "tokens 200 pause 10ms prefill 20ms"))
		}
		for _, pause := range []time.Duration{400, 777, 150, 50, 901} {
			time.Sleep(pause * time.Millisecond)
			fleet.Kill()
		}
		for _, r := range readers {
			a := d.read(r)
			a.wants(t, 200)
			if a.resume == 0 || a.end.Done.Report.Resumed != a.resume {
				t.Errorf("%d resumed events, report says %d", a.resume, a.end.Done.Report.Resumed)
			}
		}
		if got := d.now().Restarts; got != 5 {
			t.Errorf("%d restarts, want 5", got)
		}
	})
}

func TestManyKillsAtRandomMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakerunner.Fleet{Options: fakerunner.Options{Load: 50 * time.Millisecond}}
		d := newDesk(t, fleet, nil)
		defer d.close()
		stop := make(chan struct{})
		var killer sync.WaitGroup
		rng := rand.New(rand.NewPCG(1, 2))
		killer.Go(func() {
			for {
				select {
				case <-time.After(time.Duration(1+rng.IntN(2000)) * time.Millisecond):
					fleet.Kill()
				case <-stop:
					return
				}
			}
		})
		var clients sync.WaitGroup
		for c := range 4 {
			clients.Go(func() {
				for i := range 10 {
					a := d.read(d.ask(fmt.Sprintf("%d.%d", c, i), "tokens 100 pause 20ms prefill 30ms"))
					a.wants(t, 100)
				}
			})
		}
		clients.Wait()
		close(stop)
		killer.Wait()
		if n := d.now().Restarts; n < 10 {
			t.Errorf("only %d restarts: nothing was tried", n)
		}
	})
}

func TestTheGuiltyTurnFailsAlone(t *testing.T) {
	for _, bad := range []string{"die prefill prefill 5ms", "tokens 10 pause 1ms die 5", "tokens 10 die 0"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, &fakerunner.Fleet{}, nil)
			defer d.close()
			first := d.ask("first", "tokens 100 pause 30ms prefill 5ms")
			guilty := d.ask("guilty", bad)
			last := d.ask("last", "tokens 100 pause 20ms prefill 5ms")
			a := d.read(guilty)
			a.failed(t, "turn_killed_runner")
			for _, r := range []*journal.Reader{first, last} {
				a := d.read(r)
				a.wants(t, 100)
			}
		})
	}
}

func TestADeviceErrorNarrowsTheNextRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakerunner.Fleet{}
		d := newDesk(t, fleet, nil)
		defer d.close()
		a := d.read(d.ask("a", "tokens 9 device 4 until 1"))
		a.wants(t, 9)
		if fleet.Launched() != 2 {
			t.Errorf("%d runners, want 2", fleet.Launched())
		}
	})
}

func TestTheWatchdogRecyclesARunnerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &fakerunner.Fleet{}, nil)
		defer d.close()
		from := time.Now()
		a := d.read(d.ask("a", "tokens 9 pause 1ms hang 4 until 1"))
		a.wants(t, 9)
		if took := time.Since(from); took < 30*time.Second || took > 32*time.Second {
			t.Errorf("took %v, want the watchdog's 30 s", took)
		}
	})
}

func TestAProcessThatIgnoresSIGKILLIsStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakerunner.Fleet{Deaf: true}
		d := newDesk(t, fleet, nil)
		r := d.ask("a", "tokens 9 hang 4")
		a := d.read(r)
		a.failed(t, "engine_failed")
		if got := d.now(); got.State != lifecycle.Stalled || !strings.Contains(got.Err.Message, "SIGKILL") {
			t.Errorf("state %s, %v", got.State, got.Err)
		}
		late := d.read(d.ask("b", "tokens 1"))
		late.failed(t, "engine_failed")
		if fleet.Launched() != 1 {
			t.Errorf("%d runners while the first is not reaped", fleet.Launched())
		}
		fleet.Deaf = false
		fleet.Kill() // the driver lets go at last
		synctest.Wait()
		if got := d.now().State; got != lifecycle.Cold {
			t.Errorf("state %s after it was reaped", got)
		}
		after := d.read(d.ask("c", "tokens 3"))
		after.wants(t, 3)
		d.close()
	})
}

func TestALoadThatFailsIsToldOnceAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakerunner.Fleet{Options: fakerunner.Options{Fail: 1}}
		d := newDesk(t, fleet, nil)
		defer d.close()
		loaded := d.s.Loaded()
		a := d.read(d.ask("a", "tokens 3"))
		a.failed(t, "model_failed")
		if err := <-loaded; err == nil || !strings.Contains(err.Error(), "taste") {
			t.Errorf("load: %v", err)
		}
		time.Sleep(time.Minute)
		if st := d.now(); st.State != lifecycle.Failed || fleet.Launched() != 1 {
			t.Errorf("state %s after %d loads, want failed after 1", st.State, fleet.Launched())
		}
		b := d.read(d.ask("b", "tokens 3"))
		b.wants(t, 3)
		if st := d.now(); st.Err != nil {
			t.Errorf("the old error stays: %v", st.Err)
		}
	})
}

func TestACancelledTurnEndsAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakerunner.Fleet{Options: fakerunner.Options{Load: time.Second}}
		d := newDesk(t, fleet, nil)
		defer d.close()
		loading := d.ask("loading", "tokens 9")
		d.s.Cancel("loading")
		running := d.ask("running", "tokens 900 pause 10ms")
		time.Sleep(2 * time.Second)
		d.s.Cancel("running")
		hanging := d.ask("hanging", "tokens 9 hang 2")
		time.Sleep(time.Second)
		d.s.Cancel("hanging")
		for name, r := range map[string]*journal.Reader{"loading": loading, "running": running, "hanging": hanging} {
			if a := d.read(r); a.end.Done == nil || a.end.Done.FinishReason != turn.FinishCancelled {
				t.Errorf("%s: %+v", name, a.end)
			}
		}
	})
}

func TestASlowReaderParksItsTurnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &fakerunner.Fleet{}, nil)
		defer d.close()
		slow := d.ask("slow", "tokens 20000")
		fast := d.read(d.ask("fast", "tokens 100 pause 1ms"))
		fast.wants(t, 100)
		time.Sleep(time.Hour) // parked: silence is not the runner's fault
		if n := d.fleet.Launched(); n != 1 {
			t.Fatalf("%d runners: the watchdog took a parked turn for a hang", n)
		}
		d.fleet.Kill()
		other := d.read(d.ask("other", "tokens 10"))
		other.wants(t, 10)
		a := d.read(slow)
		a.wants(t, 20000)
	})
}

func TestQuestionsOutliveTheirRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakerunner.Fleet{Options: fakerunner.Options{Load: time.Second}}
		d := newDesk(t, fleet, nil)
		defer d.close()
		ask := func() (string, error) {
			raw, err := d.s.Ask(context.Background(), wire.OpDecode, &wire.DecodeAsk{Tokens: fakerunner.Encode("hi")})
			return string(raw), err
		}
		if _, err := ask(); !errors.Is(err, supervise.ErrGone) {
			t.Errorf("without a runner: %v", err)
		}
		d.s.Start(wire.Grant{})
		time.AfterFunc(500*time.Millisecond, fleet.Kill) // while it loads
		if got, err := ask(); err != nil || got != `{"text":"hi"}` {
			t.Errorf("%s, %v", got, err)
		}
		<-d.s.Halt()
		if _, err := ask(); !errors.Is(err, supervise.ErrGone) {
			t.Errorf("after the halt: %v", err)
		}
	})
}

func TestHaltEndsTheProcess(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fleet := &fakerunner.Fleet{Options: fakerunner.Options{Stubborn: stubborn}}
			d := newDesk(t, fleet, nil)
			defer d.close()
			a := d.read(d.ask("a", "tokens 3"))
			a.wants(t, 3)
			<-d.s.Halt()
			if st := d.now(); st.State != lifecycle.Cold || st.PID != 0 || fleet.Alive() != 0 {
				t.Errorf("stubborn %v: %+v, %d alive", stubborn, st, fleet.Alive())
			}
			r := d.ask("b", "tokens 100 pause 10ms")
			time.Sleep(100 * time.Millisecond)
			<-d.s.Halt() // declined: it has a turn
			b := d.read(r)
			b.wants(t, 100)
		})
	}
}

func TestARunnerThatAlwaysDiesIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &fakerunner.Fleet{}, func(o *supervise.Options) {
			o.Launch = func(log zerolog.Logger) (*supervise.Process, error) {
				f := &fakerunner.Fleet{Options: fakerunner.Options{Load: time.Second}}
				p, err := f.Launch(log)
				time.AfterFunc(100*time.Millisecond, f.Kill)
				return p, err
			}
		})
		defer d.close()
		from := time.Now()
		a := d.read(d.ask("a", "tokens 3"))
		a.failed(t, "engine_failed")
		if took := time.Since(from); took > time.Minute {
			t.Errorf("given up after %v", took)
		}
		if st := d.now(); st.State != lifecycle.Failed || !strings.Contains(st.Err.Message, "died 7 times") {
			t.Errorf("%+v", st)
		}
	})
}

func TestClosingEndsEveryTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &fakerunner.Fleet{Options: fakerunner.Options{Stubborn: true}}, nil)
		r := d.ask("a", "tokens 900 pause 10ms")
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		from := time.Now()
		d.s.Close(ctx, &wire.Error{Name: "shutting_down", Message: "now"})
		if took := time.Since(from); took > 1200*time.Millisecond {
			t.Errorf("took %v beyond the deadline of 1 s", took)
		}
		a := d.read(r)
		a.failed(t, "shutting_down")
		time.Sleep(time.Minute)
		if n := d.fleet.Alive(); n != 0 {
			t.Errorf("%d runners left", n)
		}
	})
}
