package fakerunner

import (
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// holdEvery tokens, the text of one is held back until the next, as at a
// stop string's beginning.
const holdEvery = 3

// serve runs one turn from its prefill to its last frame.
func (r *runner) serve(j *job) {
	s := &j.script
	if s.fail != "" {
		r.end(j, &wire.End{Turn: j.id, Error: &wire.Error{Name: s.fail, Message: "as the prompt says"}})
		return
	}
	doomed := r.nth <= s.until
	time.Sleep(s.prefill)
	if s.diePrefill && doomed {
		r.opt.Exit(1)
		return
	}
	r.conn.Send(&wire.Step{Turn: j.id, Events: []turn.Event{{Type: turn.EventPrefill, Prefill: &turn.Prefill{
		Done: len(j.prompt), Total: len(j.prompt), Plan: turn.Plan{Width: len(j.prompt), Reason: turn.ReasonPrompt}, Live: 10, Limit: 1000}}}})
	finish := make([]turn.Finish, j.params.N)
	total := 0
	for c := range finish {
		f, n, ok := r.choice(j, c, doomed)
		if !ok {
			return
		}
		finish[c] = f
		total += n
	}
	r.end(j, &wire.End{Turn: j.id, Done: j.done(finish, total)})
}

func (j *job) done(finish []turn.Finish, total int) *turn.Done {
	d := &turn.Done{FinishReason: finish[0]}
	if len(finish) > 1 {
		d.FinishReasons = finish
	}
	d.Usage = turn.Usage{PromptTokens: len(j.prompt), CompletionTokens: total, TotalTokens: len(j.prompt) + total}
	d.Report.Seed = j.params.Seed
	d.Report.Prefill.Steps = []turn.PrefillStep{{Width: len(j.prompt), Reason: turn.ReasonPrompt, PeakLive: 10}}
	d.Report.Decode.Tokens = total
	return d
}

func (r *runner) end(j *job, e *wire.End) {
	r.mu.Lock()
	delete(r.turns, j.id)
	r.live--
	r.mu.Unlock()
	r.conn.Send(e)
	r.gauge()
}

func (r *runner) gauge() {
	r.mu.Lock()
	r.steps++
	g := &wire.Gauge{Running: r.live, Steps: r.steps, Width: 16, WidthMax: 2048, Reason: turn.ReasonPrompt,
		Buffers: turn.BufferGauge{Live: 10, Peak: 12, Limit: 1000}, Memory: turn.MemoryGauge{Active: 1 << 20, Peak: 1 << 20, Limit: 1 << 30}}
	r.mu.Unlock()
	r.conn.Send(g)
}

// choice answers one choice; !ok: the process is gone, or hangs.
func (r *runner) choice(j *job, c int, doomed bool) (f turn.Finish, n int, ok bool) {
	n, end := j.tokens()
	from := 0
	if j.resumed != nil {
		d := j.resumed.Choices[c]
		from = len(d.Tokens)
		if d.Finish != "" {
			return d.Finish, from, true
		}
	}
	for pos := from; pos < n; pos++ {
		time.Sleep(j.script.pause)
		if cancelled := j.wait(); cancelled {
			return turn.FinishCancelled, pos, true
		}
		if doomed && !r.survives(j, pos) {
			return "", 0, false
		}
		f := turn.Finish("")
		if pos == n-1 {
			f = end
		}
		r.conn.Send(j.step(c, pos, f))
	}
	return end, n, true
}

func (j *job) tokens() (int, turn.Finish) {
	if m := j.params.MaxTokens; m > 0 && m < j.script.tokens {
		return m, turn.FinishLength
	}
	return j.script.tokens, turn.FinishStop
}

// wait blocks while the turn is parked; it reports whether it was cancelled.
func (j *job) wait() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.parked && !j.ended {
		j.cond.Wait()
	}
	return j.ended
}

// survives does what the prompt says of this position.
func (r *runner) survives(j *job, pos int) bool {
	switch pos {
	case j.script.die:
		r.opt.Exit(1)
		return false
	case j.script.device:
		r.opt.Exit(wire.ExitDevice)
		return false
	case j.script.hang:
		return false
	}
	return true
}

// step is the frame of one token. Its text comes with it, or with the next
// one where it is held back.
func (j *job) step(c, pos int, f turn.Finish) *wire.Step {
	st := &wire.Step{Turn: j.id, Choices: []wire.Advance{{Choice: c, Tokens: []turn.TokenID{Token(j.params.Seed, c, pos)}, Finish: f}}}
	if f == "" && held(pos) {
		return st
	}
	first := pos
	for first > 0 && held(first-1) {
		first--
	}
	t := &turn.Text{}
	for p := first; p <= pos; p++ {
		id := Token(j.params.Seed, c, p)
		t.Delta += string(rune(id))
		if j.ids {
			t.TokenIDs = append(t.TokenIDs, id)
		}
	}
	st.Events = []turn.Event{{Type: turn.EventText, Choice: &c, Text: t}}
	return st
}

func held(pos int) bool { return pos%holdEvery == holdEvery-1 }
