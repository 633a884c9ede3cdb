package sched

import (
	"fmt"
	"time"

	"ingot/runtime/governor"
	"ingot/runtime/sample"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// news gathers what one step brought one turn.
type news struct {
	Update
	prefilled, decoded bool
	err                error
}

// commit books a step: sequences grow, tokens are delivered, ends found.
func (s *Scheduler) commit(it item, p governor.Plan, res *step.Result) {
	s.failed = 0
	s.status.Steps++
	of := make(map[*job]*news)
	var order []*job
	picked := res.Picked
	for _, t := range it.threads() {
		n, wants := 1, false
		if t == it.chunk {
			n = p.Width
		}
		wants = n == t.need() && !t.forks()
		w := of[t.job]
		if w == nil {
			w = &news{}
			of[t.job] = w
			order = append(order, t.job)
		}
		s.advance(w, t, n, t == it.chunk)
		if wants {
			s.gain(w, t, picked[0])
			picked = picked[1:]
		}
	}
	s.meter.count(len(res.Picked), time.Now())
	for _, j := range order {
		s.deliver(j, of[j], p, res)
	}
}

// advance counts n tokens into the thread's sequence.
func (s *Scheduler) advance(w *news, t *thread, n int, chunk bool) {
	t.job.solo, t.job.refused, t.apart = false, 0, false
	t.stepped = s.status.Steps
	if chunk || t.prompting() && t.choice == 0 {
		w.prefilled = true
		w.Prefill = &turn.Prefill{Total: len(t.job.req.Prompt)}
		w.Prefill.Width = n
		w.Prefill.Done = min(t.pos+n, w.Prefill.Total)
	} else {
		w.decoded = true
	}
	t.pos += n
}

// gain adds a sampled token to its choice.
func (s *Scheduler) gain(w *news, t *thread, p sample.Picked) {
	if p.Err != nil {
		w.err = &EngineError{fmt.Errorf("choice %d: %w", t.choice, p.Err)}
		return
	}
	t.sampler.Accept(p.Token)
	t.tokens = append(t.tokens, p.Token)
	t.finish = t.job.ends(p.Token, len(t.tokens))
	t.job.book.sampled(1)
	t.job.gained = true
	w.Gains = append(w.Gains, Gain{Choice: t.choice, Picked: []sample.Picked{p}, Finish: t.finish})
}

// deliver books the step with the turn and tells its reader.
func (s *Scheduler) deliver(j *job, w *news, p governor.Plan, res *step.Result) {
	if w.prefilled {
		shape := turn.Plan{Width: w.Prefill.Width, Depth: p.Depth, Reason: reasonOf(p)}
		j.book.prefill(shape, res)
		w.Prefill.Plan, w.Prefill.Live, w.Prefill.Limit = shape, res.Live, s.eng.Reading().Limit
	} else if w.decoded {
		j.book.decode(res)
	}
	if w.err != nil {
		s.end(j, nil, w.err)
		return
	}
	live := j.live()
	if len(live) == 0 {
		s.end(j, &w.Update, nil)
		return
	}
	for _, t := range j.threads {
		if t.finish != "" {
			s.release(t, false)
		}
	}
	if w.Prefill != nil || len(w.Gains) > 0 {
		j.mail.put(w.Update)
	}
}

// reasonOf is the plan's reason; a step of rows only has none of its own.
func reasonOf(p governor.Plan) turn.Reason {
	if p.Reason == "" {
		return turn.ReasonPrompt
	}
	return p.Reason
}

// cancel ends what is left of a turn.
func (s *Scheduler) cancel(j *job) {
	if j.over {
		return
	}
	var u Update
	for _, t := range j.live() {
		t.finish = turn.FinishCancelled
		u.Gains = append(u.Gains, Gain{Choice: t.choice, Finish: t.finish})
	}
	s.end(j, &u, nil)
}

// finish ends one choice of a turn on its reader's word.
func (s *Scheduler) finish(j *job, choice int, why turn.Finish) {
	if j.over || choice < 0 || choice >= len(j.threads) || j.threads[choice].finish != "" {
		return
	}
	j.threads[choice].finish = why
	if len(j.live()) == 0 {
		s.end(j, nil, nil)
	} else if j.trunk == nil {
		s.release(j.threads[choice], false)
	}
}

// end closes a turn, in any state, with its last news. Its caches may serve
// others, unless it failed.
func (s *Scheduler) end(j *job, last *Update, err error) {
	if j.over {
		return
	}
	j.over = true
	for _, t := range j.sequences() {
		s.release(t, t.choice == 0 && err == nil)
	}
	s.running = without(s.running, j)
	s.mu.Lock()
	s.waiting = without(s.waiting, j)
	s.pace.ended(time.Since(j.since))
	s.mu.Unlock()
	s.unblock()
	if last == nil {
		last = &Update{}
	}
	r := s.eng.Reading()
	last.End = &End{Err: err, Cached: j.cached, Report: j.book.close(j, buffersOf(r, 0), memoryOf(r, 0))}
	for _, t := range j.threads {
		last.End.Finish = append(last.End.Finish, t.finish)
	}
	j.mail.put(*last)
	j.mail.close()
}
