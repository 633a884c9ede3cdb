package journal

import (
	"slices"
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Submission returns the frame that hands a turn to a runner: as it came the
// first time, as a resume once a runner has told its prompt. It also reports
// whether a runner had it before. A turn that is over has none.
func (j *Journal) Submission(id turn.ID) (s *wire.Submit, again, ok bool) {
	j.change(id, func(e *entry) {
		again, ok = !e.started.IsZero(), true
		if !again {
			e.started = j.opt.Now()
			e.loading = e.phase == "loading"
		} else {
			e.resumed++
		}
		c := e.submit
		s = &c
		if e.prompted && again {
			s.Resume = &wire.Resume{Choices: cloneDelivered(e.chosen, e.submit.Params.N), Cached: e.cached, Resumed: e.resumed}
		}
	})
	return s, again, ok
}

func cloneDelivered(ds []wire.Delivered, n int) []wire.Delivered {
	out := make([]wire.Delivered, max(n, len(ds)))
	for i := range ds {
		out[i] = wire.Delivered{Tokens: slices.Clone(ds[i].Tokens), Finish: ds[i].Finish}
	}
	return out
}

// Prompted records the ids and parameters that the first runner resolved.
func (j *Journal) Prompted(p *wire.Prompt) {
	j.change(p.Turn, func(e *entry) {
		if e.prompted {
			return
		}
		e.prompted = true
		e.submit.Tokens, e.submit.Text, e.submit.Chat = p.Tokens, nil, nil
		e.submit.Params = p.Params
	})
}

// Stepped records what a step brought a turn, tokens and events together.
// It reports whether there was a new token.
func (j *Journal) Stepped(s *wire.Step) (fresh bool) {
	j.change(s.Turn, func(e *entry) {
		fresh = e.gain(s.Choices)
		for i := range s.Events {
			if ev := s.Events[i]; !ev.Final() { // ends come as End frames
				e.noteCached(ev.Prefill)
				e.add(ev, j.opt.Now(), j.opt.Keep)
			}
		}
		if fresh {
			e.phase = "decode"
		}
	})
	return fresh
}

// Tell adds an event of the daemon's own: queued, loading, waiting.
func (j *Journal) Tell(id turn.ID, ev turn.Event) {
	j.change(id, func(e *entry) { e.add(ev, j.opt.Now(), j.opt.Keep) })
}

// Resumed tells a turn's client that a new runner has taken it over.
func (j *Journal) Resumed(id turn.ID) {
	j.change(id, func(e *entry) {
		ev := turn.Event{Type: turn.EventResumed, Resumed: &turn.Resumed{Tokens: e.delivered()}}
		e.add(ev, j.opt.Now(), j.opt.Keep)
	})
}

// Phase names what a silent turn waits for.
func (j *Journal) Phase(id turn.ID, phase string) {
	j.change(id, func(e *entry) { e.phase = phase })
}

// Summary is what a finished turn leaves to the log and to daemon.status.
type Summary struct {
	Turn  turn.ID
	Model string
	Born  time.Time
	Took  time.Duration
	Event turn.Event // the final one

	// What there is without a done event too.
	Usage   turn.Usage
	Resumed int
	Seed    uint64
}

// Done ends a turn that its runner answered. What only the daemon knows of
// the report (waiting, resumes) is filled in. A turn ends once: false, if it
// was over.
func (j *Journal) Done(id turn.ID, d *turn.Done) bool {
	return j.end(id, func(e *entry) turn.Event {
		out := *d
		j.completeLocked(e, &out.Report)
		return turn.Event{Type: turn.EventDone, Done: &out}
	})
}

// Cancelled ends a turn that no runner has, with what it had delivered.
func (j *Journal) Cancelled(id turn.ID) bool {
	return j.end(id, func(e *entry) turn.Event {
		d := &turn.Done{FinishReason: turn.FinishCancelled}
		if n := e.submit.Params.N; n > 1 {
			d.FinishReasons = slices.Repeat([]turn.Finish{turn.FinishCancelled}, n)
			for i := range e.chosen {
				if f := e.chosen[i].Finish; f != "" {
					d.FinishReasons[i] = f
				}
			}
			d.FinishReason = d.FinishReasons[0]
		}
		d.Usage = e.usage()
		d.Report.Prefill.Steps = []turn.PrefillStep{}
		d.Report.Decode.Tokens = d.Usage.CompletionTokens
		d.Report.Seed = e.submit.Params.Seed
		j.completeLocked(e, &d.Report)
		return turn.Event{Type: turn.EventDone, Done: d}
	})
}

func (e *entry) usage() turn.Usage {
	u := turn.Usage{CompletionTokens: e.delivered()}
	if e.prompted {
		u.PromptTokens = len(e.submit.Tokens)
		u.Prompt.CachedTokens = e.cached
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// Failed ends a turn that could not be answered.
func (j *Journal) Failed(id turn.ID, f turn.Failure) bool {
	return j.end(id, func(*entry) turn.Event {
		return turn.Event{Type: turn.EventError, Failure: &f}
	})
}

// end ends a turn once. Ended hears of it before the client does, so that a
// client that asks for the daemon's state next finds its turn there.
func (j *Journal) end(id turn.ID, f func(e *entry) turn.Event) bool {
	j.mu.Lock()
	e := j.turns[id]
	if e == nil || e.final || e.ending {
		j.mu.Unlock()
		return false
	}
	e.ending = true
	ev := f(e)
	s := Summary{Turn: id, Model: e.model, Born: e.born, Took: j.opt.Now().Sub(e.born), Event: ev,
		Usage: e.usage(), Resumed: e.resumed, Seed: e.submit.Params.Seed}
	j.mu.Unlock()
	j.opt.Ended(&s)
	j.mu.Lock()
	e.add(ev, j.opt.Now(), j.opt.Keep)
	e.submit, e.chosen = wire.Submit{Turn: id}, nil // of no further use
	if e.reader == nil && !e.linger {
		delete(j.turns, id)
	}
	after := j.settleLocked(e)
	j.mu.Unlock()
	after()
	j.squeeze()
	return true
}

// completeLocked fills in what the daemon knows of a report.
func (j *Journal) completeLocked(e *entry, r *turn.Report) {
	r.Resumed = e.resumed
	start := e.started
	if start.IsZero() {
		start = j.opt.Now()
	}
	wait := float64(start.Sub(e.born)) / float64(time.Millisecond)
	if e.loading {
		r.LoadMS += wait
	} else {
		r.QueueMS += wait
	}
}
