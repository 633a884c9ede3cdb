package sched_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ingot/runtime/governor"
	"ingot/runtime/sched"
	"ingot/runtime/sched/schedtest"
	"ingot/runtime/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a scheduler over a fake, in virtual time.
type world struct {
	t      testing.TB
	script *schedtest.Script
	eng    *schedtest.Engine
	s      *sched.Scheduler
	stop   context.CancelFunc
	done   chan error
}

func start(t testing.TB, script string, cfg sched.Config) *world {
	w := &world{t: t, script: schedtest.Must(script), done: make(chan error, 1)}
	w.eng = schedtest.New(w.script)
	w.s = sched.New(w.eng, governor.New(governor.Config{Layers: w.script.Layers}), cfg)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() { w.done <- w.s.Run(ctx) }()
	return w
}

// close stops the scheduler and checks that nothing is left in the engine.
func (w *world) close() {
	w.t.Helper()
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Errorf("Run: %v", err)
	}
	if n := w.eng.OpenSequences(); n != 0 {
		w.t.Errorf("%d sequences left open", n)
	}
}

func (w *world) submit(r sched.Request) *sched.Handle {
	w.t.Helper()
	h, err := w.s.Submit(r)
	if err != nil {
		w.t.Fatalf("submit: %v", err)
	}
	return h
}

// answer is what a reader of one turn saw.
type answer struct {
	tokens   [][]turn.TokenID
	finish   []turn.Finish
	prefills []turn.Prefill
	places   []int
	ends     int
	end      sched.End
	took     time.Duration
}

func read(h *sched.Handle, n int) *answer {
	a := &answer{tokens: make([][]turn.TokenID, n), finish: make([]turn.Finish, n)}
	from := time.Now()
	for u, ok := h.Next(); ok; u, ok = h.Next() {
		a.add(u)
	}
	a.took = time.Since(from)
	return a
}

func (a *answer) add(u sched.Update) {
	if u.Queued != nil {
		a.places = append(a.places, u.Queued.Position)
	}
	if u.Prefill != nil {
		a.prefills = append(a.prefills, *u.Prefill)
	}
	for _, g := range u.Gains {
		for _, p := range g.Picked {
			a.tokens[g.Choice] = append(a.tokens[g.Choice], p.Token)
		}
		if g.Finish != "" {
			a.finish[g.Choice] = g.Finish
		}
	}
	if u.End != nil {
		a.ends++
		a.end = *u.End
	}
}

func params(max int) turn.Params {
	p := turn.Neutral()
	p.Temperature, p.MaxTokens = 0, max
	return p
}

func prompt(n, salt int) []turn.TokenID {
	out := make([]turn.TokenID, n)
	for i := range out {
		out[i] = turn.TokenID((i*7 + salt*13 + i*i*salt) % 60)
	}
	return out
}

// expect checks a finished turn against the oracle.
func (w *world) expect(name string, a *answer, r sched.Request) {
	w.t.Helper()
	if a.end.Err != nil || a.ends != 1 {
		w.t.Errorf("%s: %d ends, error %v", name, a.ends, a.end.Err)
		return
	}
	for c := range r.Params.N {
		want, why := w.script.Oracle(r.Prompt, r.Params, c)
		got := a.tokens[c]
		if r.Resume != nil {
			got = append(slices.Clone(r.Resume.Choices[c].Tokens), got...)
		}
		if !slices.Equal(got, want) || a.finish[c] != why {
			w.t.Errorf("%s choice %d: got %v (%s)\nwant %v (%s)", name, c, got, a.finish[c], want, why)
		}
	}
}

func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestOneTurn(t *testing.T) {
	inBubble(t, "to max_tokens", func(t *testing.T) {
		w := start(t, "cost 1ms 10us\nresident 10\nsequence 3\nlimit 5000", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: prompt(100, 1), Params: params(20)}
		a := read(w.submit(r), 1)
		w.expect("turn", a, r)
		rep := a.end.Report
		if rep.Prefill.Tokens != 100 || len(rep.Prefill.Steps) != 1 || rep.Decode.Tokens != 20 {
			t.Errorf("report %+v", rep)
		}
		if rep.Prefill.MS != 2 || math.Abs(rep.Decode.MS-19*1.01) > 1e-6 || rep.Buffers.Limit != 5000 {
			t.Errorf("report %+v", rep)
		}
	})
	inBubble(t, "to a stop token", func(t *testing.T) {
		w := start(t, "eos 2\nsay 7: 20 21 2 9", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: []turn.TokenID{7}, Params: params(0)}
		a := read(w.submit(r), 1)
		w.expect("turn", a, r)
		if want := []turn.TokenID{20, 21, 2}; !slices.Equal(a.tokens[0], want) {
			t.Errorf("got %v", a.tokens[0])
		}
	})
	inBubble(t, "to the end of the context", func(t *testing.T) {
		w := start(t, "context 64", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: prompt(60, 2), Params: params(0)}
		a := read(w.submit(r), 1)
		w.expect("turn", a, r)
		if len(a.tokens[0]) != 4 || a.finish[0] != turn.FinishLength {
			t.Errorf("%d tokens, %s", len(a.tokens[0]), a.finish[0])
		}
	})
}

func TestManyTurnsBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 1ms 20us\neos 5", sched.Config{})
		defer w.close()
		w.many(12, func(i int) sched.Request {
			r := sched.Request{Prompt: prompt(1+i*97, i), Params: params(10 + 3*i)}
			r.Params.N = 1 + i%3
			r.Params.Deterministic = i%4 == 0
			r.Params.Temperature, r.Params.Seed = float64(i%2), uint64(i)
			return r
		})
		for _, s := range w.eng.Log() {
			if s.Lonely && len(s.Rows) != 1 {
				t.Errorf("a deterministic row had company: %v", s.Rows)
			}
			if wide := slices.DeleteFunc(slices.Clone(s.Rows), func(n int) bool { return n == 1 }); len(wide) > 1 {
				t.Errorf("two chunks in one step: %v", s.Rows)
			}
		}
	})
}

// many runs n turns at once and checks each against the oracle.
func (w *world) many(n int, request func(i int) sched.Request) {
	w.t.Helper()
	got := make([]*answer, n)
	reqs := make([]sched.Request, n)
	var readers sync.WaitGroup
	for i := range n {
		reqs[i] = request(i)
		h := w.submit(reqs[i])
		readers.Go(func() { got[i] = read(h, reqs[i].Params.N) })
	}
	readers.Wait()
	for i := range n {
		w.expect(fmt.Sprintf("turn %d", i), got[i], reqs[i])
	}
}

func TestDeterministicGrid(t *testing.T) {
	for _, tc := range []struct {
		step int
		want []int
	}{{0, []int{256, 256, 88}}, {100, []int{100, 100, 100, 100, 100, 100}}, {1000, []int{256, 256, 88}}} {
		inBubble(t, fmt.Sprint(tc.step), func(t *testing.T) {
			w := start(t, "cost 1ms 1us", sched.Config{})
			defer w.close()
			r := sched.Request{Prompt: prompt(600, 3), Params: params(4)}
			r.Params.Deterministic, r.Params.PrefillStep = true, tc.step
			a := read(w.submit(r), 1)
			w.expect("turn", a, r)
			var got []int
			for _, p := range a.prefills {
				got = append(got, p.Width)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("widths %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "context 50\ncost 10ms 0s", sched.Config{MaxTurns: 1, MaxQueue: 1})
		defer w.close()
		if _, err := w.s.Submit(sched.Request{Params: params(1)}); !errors.Is(err, sched.ErrNoPrompt) {
			t.Errorf("no prompt: %v", err)
		}
		var ce *sched.ContextError
		if _, err := w.s.Submit(sched.Request{Prompt: prompt(50, 1), Params: params(1)}); !errors.As(err, &ce) || ce.Tokens != 50 || ce.Context != 50 {
			t.Errorf("too long: %v", err)
		}
		r := sched.Request{Prompt: prompt(5, 1), Params: params(10)}
		first := w.submit(r)
		synctest.Wait()
		second := w.submit(r)
		var qe *sched.QueueFullError
		if _, err := w.s.Submit(r); !errors.As(err, &qe) || qe.Queued != 1 || qe.RetryAfter < time.Second {
			t.Errorf("queue full: %v", err)
		}
		w.expect("first", read(first, 1), r)
		a := read(second, 1)
		w.expect("second", a, r)
		if !slices.Equal(a.places, []int{0}) || a.end.Report.QueueMS < 90 {
			t.Errorf("places %v, queued %v ms", a.places, a.end.Report.QueueMS)
		}
	})
}

func TestCancelIsSeenWithinAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 100ms 0s", sched.Config{MaxTurns: 2})
		defer w.close()
		r := sched.Request{Prompt: prompt(5, 1), Params: params(1000)}
		running, waiting := w.submit(r), (*sched.Handle)(nil)
		w.submit(r).Park(true)
		waiting = w.submit(r)
		time.Sleep(1050 * time.Millisecond)
		at := time.Now()
		running.Cancel()
		waiting.Cancel()
		for _, h := range []*sched.Handle{running, waiting} {
			a := read(h, 1)
			if a.finish[0] != turn.FinishCancelled || a.end.Err != nil || time.Since(at) > 100*time.Millisecond {
				t.Errorf("finish %q, %v after %v", a.finish[0], a.end.Err, time.Since(at))
			}
		}
	})
}

func TestFullMailboxParksThatTurnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 1ms 0s", sched.Config{Mailbox: 4})
		defer w.close()
		r := sched.Request{Prompt: prompt(5, 1), Params: params(50)}
		sleeper := w.submit(r)
		w.expect("neighbour", read(w.submit(r), 1), r)
		synctest.Wait()
		before := len(w.eng.Log())
		time.Sleep(time.Second)
		if n := len(w.eng.Log()); n != before {
			t.Errorf("%d steps for a turn that nobody reads", n-before)
		}
		w.expect("sleeper", read(sleeper, 1), r)
	})
}

func TestSleepersGiveTheirPlaceAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 1ms 0s\nkeep 2", sched.Config{MaxTurns: 2})
		defer w.close()
		r := sched.Request{Prompt: prompt(30, 1), Params: params(40)}
		a, b := w.submit(r), w.submit(r)
		time.Sleep(10 * time.Millisecond)
		a.Park(true)
		b.Park(true)
		w.expect("third", read(w.submit(r), 1), r)
		a.Park(false)
		b.Park(false)
		w.expect("first", read(a, 1), r)
		w.expect("second", read(b, 1), r)
	})
}

func TestFinishByTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 1ms 0s", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: prompt(9, 1), Params: params(100)}
		r.Params.N = 2
		h := w.submit(r)
		time.Sleep(20 * time.Millisecond)
		h.Finish(0, turn.FinishStop)
		a := read(h, 2)
		if n := len(a.tokens[0]); n == 0 || n > 21 || len(a.tokens[1]) != 100 || a.ends != 1 {
			t.Errorf("%d and %d tokens, %d ends", n, len(a.tokens[1]), a.ends)
		}
	})
}

func TestShutdownEndsEveryTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 10ms 0s", sched.Config{MaxTurns: 1})
		r := sched.Request{Prompt: prompt(9, 1), Params: params(1000)}
		hs := []*sched.Handle{w.submit(r), w.submit(r)}
		time.Sleep(55 * time.Millisecond)
		w.close()
		for _, h := range hs {
			if a := read(h, 1); !errors.Is(a.end.Err, sched.ErrClosed) || a.ends != 1 {
				t.Errorf("%d ends, %v", a.ends, a.end.Err)
			}
		}
		if _, err := w.s.Submit(r); !errors.Is(err, sched.ErrClosed) {
			t.Errorf("submit after the end: %v", err)
		}
	})
}

func TestPrefixIsReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 1ms 1us\nkeep 2", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: prompt(600, 1), Params: params(8)}
		w.expect("cold", read(w.submit(r), 1), r)
		a := read(w.submit(r), 1)
		w.expect("warm", a, r)
		if a.end.Cached != 599 || a.end.Report.Prefill.Cached != 599 || a.end.Report.Prefill.Tokens != 1 {
			t.Errorf("cached %d, report %+v", a.end.Cached, a.end.Report.Prefill)
		}
	})
}

var _ sched.Engine = (*schedtest.Engine)(nil)
