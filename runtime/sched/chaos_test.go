package sched_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ingot/runtime/sched"
	"ingot/runtime/turn"
)

// client is one turn and what its reader does to it.
type client struct {
	at      time.Duration // when it comes
	prompt  int
	params  turn.Params
	cancel  time.Duration // after it came; 0: never
	park    time.Duration // after it came; 0: never
	parked  time.Duration
	dawdles time.Duration // between two updates
	cut     int           // resumed behind so many tokens; -1: a new turn
}

// scene is a whole run as values.
type scene struct {
	script  string
	cfg     sched.Config
	clients []client
}

func (s scene) String() string {
	return fmt.Sprintf("%s\n%+v\n%+v", s.script, s.cfg, s.clients)
}

var millis = rapid.Custom(func(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond
})

var clients = rapid.Custom(func(t *rapid.T) client {
	p := turn.Neutral()
	p.MaxTokens = rapid.IntRange(1, 40).Draw(t, "max_tokens")
	p.N = rapid.IntRange(1, 3).Draw(t, "n")
	p.Temperature = float64(rapid.IntRange(0, 1).Draw(t, "temperature"))
	p.Seed = rapid.Uint64Range(0, 9).Draw(t, "seed")
	p.Deterministic = rapid.Bool().Draw(t, "deterministic")
	p.PrefillStep = rapid.SampledFrom([]int{0, 0, 50, 300}).Draw(t, "prefill_step")
	p.RepetitionPenalty = rapid.SampledFrom([]float64{1, 1.3}).Draw(t, "penalty")
	return client{
		at: millis.Draw(t, "at"), prompt: rapid.IntRange(1, 900).Draw(t, "prompt"), params: p,
		cancel:  rapid.SampledFrom([]time.Duration{0, 0, 0, 1, 20e6, 300e6}).Draw(t, "cancel"),
		park:    rapid.SampledFrom([]time.Duration{0, 0, 0, 1, 30e6}).Draw(t, "park"),
		parked:  millis.Draw(t, "parked"),
		dawdles: rapid.SampledFrom([]time.Duration{0, 0, 0, 5e6, 100e6}).Draw(t, "dawdles"),
		cut:     rapid.SampledFrom([]int{-1, -1, 0, 3, 25}).Draw(t, "cut"),
	}
})

var scenes = rapid.Custom(func(t *rapid.T) scene {
	lines := []string{"eos 5", "cost 1ms 20us", "resident 100", "sequence 8", "width 2"}
	limit := rapid.SampledFrom([]int{0, 156, 400, 2000}).Draw(t, "limit")
	lines = append(lines, fmt.Sprintf("limit %d", limit))
	lines = append(lines, fmt.Sprintf("keep %d", rapid.IntRange(0, 4).Draw(t, "keep")))
	at, most := 0, 6
	if limit > 0 && limit < 1000 {
		most = 0 // one that hit the smallest step there is would rightly be the end
	}
	for range rapid.IntRange(0, most).Draw(t, "faults") {
		at += rapid.IntRange(3, 40).Draw(t, "apart")
		lines = append(lines, fmt.Sprintf("fault step %d %s", at, rapid.SampledFrom([]string{"buffers", "bytes", "launch"}).Draw(t, "fault")))
	}
	cs := rapid.SliceOfN(clients, 1, 10).Draw(t, "clients")
	for i := range cs { // whoever is alone fits; a step of the whole grid would not
		cs[i].params.Deterministic = cs[i].params.Deterministic && limit != 156
	}
	return scene{
		script:  strings.Join(lines, "\n"),
		cfg:     sched.Config{MaxTurns: rapid.IntRange(1, 5).Draw(t, "turns"), Mailbox: rapid.IntRange(1, 8).Draw(t, "mailbox")},
		clients: cs,
	}
})

// TestWhateverComes runs random scenes: each turn ends once, with the tokens
// of its oracle; nobody waits for ever (a run that sticks is a deadlock to
// synctest); nothing stays in the engine.
func TestWhateverComes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := scenes.Draw(rt, "scene")
		var complaints []string
		synctest.Test(t, func(t *testing.T) { complaints = s.play(t) })
		if len(complaints) > 0 {
			rt.Fatalf("%s", strings.Join(complaints, "\n"))
		}
	})
}

func (s scene) play(t *testing.T) (complaints []string) {
	w := start(t, s.script, s.cfg)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, c := range s.clients {
		all.Go(func() {
			if why := w.serve(i, c); why != "" {
				mu.Lock()
				defer mu.Unlock()
				complaints = append(complaints, fmt.Sprintf("client %d: %s", i, why))
			}
		})
	}
	tooLong := time.AfterFunc(3*time.Minute, w.stop) // a livelock: its turns end with ErrClosed
	all.Wait()
	tooLong.Stop()
	w.stop()
	if err := <-w.done; err != nil {
		complaints = append(complaints, err.Error())
	}
	if n := w.eng.OpenSequences(); n != 0 {
		complaints = append(complaints, fmt.Sprintf("%d sequences left open", n))
	}
	return complaints
}

// serve plays one client and judges what it got.
func (w *world) serve(i int, c client) string {
	time.Sleep(c.at)
	r := sched.Request{Prompt: prompt(c.prompt, i), Params: c.params}
	if c.cut >= 0 {
		r.Resume = w.resume(r, c.cut)
	}
	h, err := w.s.Submit(r)
	if err != nil {
		return err.Error()
	}
	var timers []*time.Timer
	if c.cancel > 0 {
		timers = append(timers, time.AfterFunc(c.cancel, h.Cancel))
	}
	if c.park > 0 {
		timers = append(timers, time.AfterFunc(c.park, func() { h.Park(true) }), time.AfterFunc(c.park+c.parked+1, func() { h.Park(false) }))
	}
	a := &answer{tokens: make([][]turn.TokenID, r.Params.N), finish: make([]turn.Finish, r.Params.N)}
	for u, ok := h.Next(); ok; u, ok = h.Next() {
		a.add(u)
		time.Sleep(c.dawdles)
	}
	for _, tm := range timers {
		tm.Stop()
	}
	return w.judge(a, r)
}

func (w *world) resume(r sched.Request, cut int) *sched.Resume {
	out := &sched.Resume{}
	for c := range r.Params.N {
		all, _ := w.script.Oracle(r.Prompt, r.Params, c)
		out.Choices = append(out.Choices, sched.Delivered{Tokens: all[:min(cut, len(all))]})
	}
	return out
}

func (w *world) judge(a *answer, r sched.Request) string {
	if a.ends != 1 || a.end.Err != nil {
		return fmt.Sprintf("%d ends, error %v", a.ends, a.end.Err)
	}
	for c := range r.Params.N {
		want, why := w.script.Oracle(r.Prompt, r.Params, c)
		got := a.tokens[c]
		if r.Resume != nil {
			got = append(slices.Clone(r.Resume.Choices[c].Tokens), got...)
		}
		if a.end.Finish[c] == turn.FinishCancelled && len(got) < len(want) {
			want, why = want[:len(got)], turn.FinishCancelled
		}
		if !slices.Equal(got, want) || a.end.Finish[c] != why {
			return fmt.Sprintf("choice %d: got %v (%s)\nwant %v (%s)", c, got, a.end.Finish[c], want, why)
		}
	}
	return ""
}
