package sched_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"ingot/runtime/governor"
	"ingot/runtime/sched"
	"ingot/runtime/sched/schedtest"
)

func TestStepFaultsAreNobodysEnd(t *testing.T) {
	for name, script := range map[string]string{
		"a malloc throw":         "fault step 1 buffers\nfault step 7 bytes\nfault step 9 buffers",
		"no wide launches":       "fault width 300 launch",
		"a burst":                "fault step 5..14 buffers",
		"the engine's mistake":   "fault step 6 mistake",
		"no room for a copy":     "fault open 3 buffers",
		"a limit":                "resident 100\nsequence 5\nwidth 3\nlimit 700",
		"a limit, deterministic": "resident 100\nsequence 5\nwidth 3\nlimit 700\nkeep 3",
	} {
		inBubble(t, name, func(t *testing.T) {
			w := start(t, script+"\ncost 1ms 10us", sched.Config{})
			defer w.close()
			w.many(5, func(i int) sched.Request {
				r := sched.Request{Prompt: prompt(700-100*i, i), Params: params(30)}
				r.Params.N = 1 + i%2
				r.Params.Deterministic = name == "a limit, deterministic"
				return r
			})
			if limit := schedtest.Must(script).Limit; limit == 0 && w.eng.Fired() == 0 {
				t.Error("no fault fired")
			}
		})
	}
}

func TestTooBigAloneIsRefusedWithTheNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "resident 100\nsequence 50\nwidth 40\nlayers 4\nlimit 155\ncost 1ms 0s", sched.Config{})
		defer w.close()
		a := read(w.submit(sched.Request{Prompt: prompt(50, 1), Params: params(5)}), 1)
		var nr *sched.NoRoomError
		if !errors.As(a.end.Err, &nr) || nr.Resource != "buffers" || nr.Width != 1 || nr.Need <= nr.Have {
			t.Fatalf("end %v", a.end.Err)
		}
		w.s.SetGrant(1000, 0)
		r := sched.Request{Prompt: prompt(50, 1), Params: params(5)}
		w.expect("after the grant grew", read(w.submit(r), 1), r)
	})
}

func TestTooBigBesideAnotherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Two sequences leave no room for a step of even one token.
		w := start(t, "resident 100\nsequence 400\nwidth 40\nlayers 4\nlimit 700\ncost 1ms 0s", sched.Config{})
		defer w.close()
		w.many(4, func(i int) sched.Request {
			return sched.Request{Prompt: prompt(50+i, i), Params: params(5 + 10*i)}
		})
	})
}

func TestSleeperMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "resident 100\nsequence 400\nwidth 40\nlayers 4\nlimit 700\ncost 1ms 0s", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: prompt(50, 1), Params: params(40)}
		sleeper := w.submit(r)
		time.Sleep(10 * time.Millisecond)
		sleeper.Park(true)
		w.expect("neighbour", read(w.submit(r), 1), r)
		sleeper.Park(false)
		w.expect("sleeper", read(sleeper, 1), r)
	})
}

func TestMistakeFailsTheGuiltyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 1ms 0s\nfault step 4..6 mistake", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: prompt(5, 1), Params: params(20)}
		a, b, c := w.submit(r), w.submit(r), w.submit(r)
		time.Sleep(time.Minute)
		var failed int
		for _, h := range []*sched.Handle{a, b, c} {
			got := read(h, 1)
			var ee *sched.EngineError
			if errors.As(got.end.Err, &ee) && errors.Is(ee, schedtest.ErrInjected) {
				failed++
				continue
			}
			w.expect("neighbour", got, r)
		}
		if failed != 2 { // step 4 had all three; 5 and 6 one each
			t.Errorf("%d turns failed", failed)
		}
	})
}

func TestDeviceErrorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := schedtest.Must("cost 1ms 0s\nfault step 5 device")
		s := sched.New(schedtest.New(script), governor.New(governor.Config{Layers: 4}), sched.Config{})
		done := make(chan error, 1)
		go func() { done <- s.Run(context.Background()) }()
		h, err := s.Submit(sched.Request{Prompt: prompt(5, 1), Params: params(20)})
		if err != nil {
			t.Fatal(err)
		}
		a := read(h, 1)
		if err := <-done; !errors.Is(err, sched.ErrDevice) || !errors.Is(a.end.Err, sched.ErrDevice) {
			t.Errorf("Run: %v, turn: %v", err, a.end.Err)
		}
	})
}

func TestResume(t *testing.T) {
	for _, tc := range []struct {
		name          string
		n             int
		deterministic bool
		temperature   float64
	}{{"ordinary", 1, false, 0}, {"choices", 3, false, 0.8}, {"deterministic", 1, true, 0.8}, {"both", 2, true, 0.8}} {
		inBubble(t, tc.name, func(t *testing.T) {
			w := start(t, "cost 1ms 10us\neos 3", sched.Config{})
			defer w.close()
			for cut := range 25 {
				r := sched.Request{Prompt: prompt(300, 4), Params: params(24)}
				r.Params.N, r.Params.Deterministic, r.Params.Temperature, r.Params.Seed = tc.n, tc.deterministic, tc.temperature, 11
				r.Resume = &sched.Resume{Cached: 7}
				for c := range tc.n {
					all, _ := w.script.Oracle(r.Prompt, r.Params, c)
					r.Resume.Choices = append(r.Resume.Choices, sched.Delivered{Tokens: all[:min(cut+c, len(all))]})
				}
				a := read(w.submit(r), tc.n)
				for c, d := range r.Resume.Choices { // a choice that was over has no news
					if all, why := w.script.Oracle(r.Prompt, r.Params, c); len(d.Tokens) == len(all) {
						a.finish[c] = why
					}
				}
				w.expect(tc.name, a, r)
				if a.end.Cached != 7 {
					t.Errorf("cached %d", a.end.Cached)
				}
			}
		})
	}
}

func TestReplayFeedsOneTokenAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "cost 1ms 0s", sched.Config{})
		defer w.close()
		r := sched.Request{Prompt: prompt(300, 4), Params: params(20)}
		r.Params.Deterministic = true
		all, _ := w.script.Oracle(r.Prompt, r.Params, 0)
		r.Resume = &sched.Resume{Choices: []sched.Delivered{{Tokens: all[:10]}}}
		w.expect("replay", read(w.submit(r), 1), r)
		want := []int{256, 44}
		for i, s := range w.eng.Log() {
			n := 1
			if i < len(want) {
				n = want[i]
			}
			if len(s.Rows) != 1 || s.Rows[0] != n {
				t.Errorf("step %d: rows %v", i, s.Rows)
			}
		}
	})
}

func TestRideDoesNotStallNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "context 40000\ncost 1ms 1ms", sched.Config{})
		defer w.close()
		talker := w.submit(sched.Request{Prompt: prompt(4, 1), Params: params(300)})
		w.submit(sched.Request{Prompt: prompt(20000, 2), Params: params(1)})
		var gaps []time.Duration
		last := time.Now()
		for u, ok := talker.Next(); ok; u, ok = talker.Next() {
			if len(u.Gains) > 0 {
				gaps = append(gaps, time.Since(last))
				last = time.Now()
			}
		}
		late := 0
		for _, g := range gaps[1:] {
			if g > 2*governor.RideStep {
				late++
			}
		}
		if late > 3 { // the planner may need a few steps to learn the speed
			t.Errorf("%d of %d tokens came later than %v", late, len(gaps), 2*governor.RideStep)
		}
	})
}

func TestShortPromptDoesNotWaitForALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, "context 400000\ncost 1ms 1ms", sched.Config{})
		defer w.close()
		w.submit(sched.Request{Prompt: prompt(100000, 2), Params: params(1)})
		time.Sleep(3 * time.Second)
		r := sched.Request{Prompt: prompt(40, 1), Params: params(4)}
		a := read(w.submit(r), 1)
		w.expect("short", a, r)
		if a.took > 10*time.Second {
			t.Errorf("a short turn took %v beside a long prompt", a.took)
		}
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []sched.Status
		w := start(t, "cost 10ms 0s\nresident 10\nsequence 5\nlimit 900", sched.Config{Watch: func(s sched.Status) { seen = append(seen, s) }})
		r := sched.Request{Prompt: prompt(40, 1), Params: params(150)}
		w.expect("turn", read(w.submit(r), 1), r)
		w.close()
		last := seen[len(seen)-1]
		if last.Steps != 150 || last.Running != 0 || last.Predict != 0 || last.Width != 40 || last.Reason == "" {
			t.Errorf("last status %+v", last)
		}
		var fastest float64
		for _, s := range seen {
			fastest = max(fastest, s.TokS)
		}
		if fastest < 90 || fastest > 110 {
			t.Errorf("speed %v, want about 100", fastest)
		}
	})
}
