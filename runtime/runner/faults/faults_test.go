package faults

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ingot/runtime/sample"
	"ingot/runtime/sched/schedtest"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

func TestNonsenseIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"throw up 3":             `can't throw "up"`,
		"jump token 3":           `can't jump`,
		"kill token":             "2 words, want 3",
		"kill token soon":        `"soon" is neither`,
		"kill token 0":           `"0" is neither`,
		"slow step 9..3 1s":      `"9..3" is neither`,
		"stall step 3":           "3 words, want 4",
		"stall step 3 long":      `"long" is no duration`,
		"fail load 1; fail lode": `fault "fail lode"`,
	} {
		if _, err := Parse(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if s, err := Parse(" ; \n ", nil); err != nil || !s.Empty() {
		t.Errorf("nothing: %v", err)
	}
}

func TestLoad(t *testing.T) {
	fired := map[string]int{}
	s, err := Parse("fail load 2..3", func(name string, left int) { fired[name] = left })
	if err != nil {
		t.Fatal(err)
	}
	var le *LoadError
	if s.Load(1) != nil || !errors.As(s.Load(2), &le) || le.Nth != 2 || s.Load(4) != nil {
		t.Error("the wrong loads failed")
	}
	if fired["fail load 2..3"] != 1 {
		t.Errorf("fired %v", fired)
	}
}

// ledger counts three allocations a step, and fails as told.
type ledger struct{ total, at, fired int64 }

func (l *ledger) FailAt(n int64)   { l.at = n }
func (l *ledger) Fired() int64     { return l.fired }
func (l *ledger) Allocated() int64 { return l.total }

func (l *ledger) take() bool {
	if l.at > 0 {
		if l.at--; l.at == 0 {
			l.fired++
			return false
		}
	}
	l.total++
	return true
}

// device is a fake whose steps allocate.
type device struct {
	*schedtest.Engine
	l *ledger
}

func (d device) Step(st *step.Step) (*step.Result, error) {
	for range 3 {
		if !d.l.take() {
			return nil, &step.Error{Fault: step.FaultBuffers, Err: schedtest.ErrInjected}
		}
	}
	return d.Engine.Step(st)
}

// suffer runs n steps of one token and tells, for each, how it ended.
func suffer(t *testing.T, text string, n int) (ends []step.Fault, took []time.Duration, killed []int, fired map[string]int) {
	t.Helper()
	fired = map[string]int{}
	set, err := Parse(text, func(name string, left int) { fired[name]++ })
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	l := &ledger{}
	e := set.Wrap(device{schedtest.New(schedtest.Must("")), l}, l, func() { killed = append(killed, at) })
	id, _, _ := e.Open([]turn.TokenID{1}, 0)
	p := turn.Neutral()
	for at = 1; at <= n; at++ {
		from := time.Now()
		_, err := e.Step(&step.Step{Rows: []step.Row{{Seq: id, Tokens: []turn.TokenID{1}, Sampler: sample.New(&p, []turn.TokenID{1}, 0)}}})
		ends = append(ends, step.FaultOf(err))
		took = append(took, time.Since(from))
	}
	return ends, took, killed, fired
}

func TestEachFaultFiresWhereItSays(t *testing.T) {
	text := "throw eval 2; throw bytes 4..5\ndevice step 7 ;throw launch 6;throw malloc 5;throw malloc 8..9; kill token 4; kill step 9"
	ends, _, killed, fired := suffer(t, text, 10)
	// Steps 1 and 3 allocate 1 to 4, the fifth allocation fails step 3.
	want := []step.Fault{"", "buffers", "buffers", "bytes", "bytes", "launch", "device", "", "buffers", "buffers"}
	if !slices.Equal(ends, want) {
		t.Errorf("ends %q\nwant %q", ends, want)
	}
	if !slices.Equal(killed, []int{9}) {
		t.Errorf("killed at steps %v", killed)
	}
	wantFired := map[string]int{"throw eval 2": 1, "throw bytes 4..5": 2, "device step 7": 1, "throw launch 6": 1, "throw malloc 5": 1, "throw malloc 8..9": 2, "kill step 9": 1}
	if !maps.Equal(fired, wantFired) {
		t.Errorf("fired %v", fired)
	}
}

func TestKillAtAToken(t *testing.T) {
	_, _, killed, fired := suffer(t, "kill token 3", 6)
	if !slices.Equal(killed, []int{3}) || fired["kill token 3"] != 1 {
		t.Errorf("killed at %v, fired %v", killed, fired)
	}
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, took, _, fired := suffer(t, "stall step 2 10s; slow step 3..4 50ms", 5)
		want := []time.Duration{0, 10 * time.Second, 50 * time.Millisecond, 50 * time.Millisecond, 0}
		if !slices.Equal(took, want) || fired["slow step 3..4 50ms"] != 2 {
			t.Errorf("took %v, fired %v", took, fired)
		}
	})
}

func TestWithoutFaultsTheEngineIsItself(t *testing.T) {
	set, _ := Parse("", nil)
	e := schedtest.New(schedtest.Must(""))
	if set.Wrap(e, &ledger{}, nil) != e {
		t.Error("wrapped for nothing")
	}
}
