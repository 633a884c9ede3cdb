package sched

import (
	"ingot/runtime/sample"
	"ingot/runtime/turn"
)

// Request is one turn to run. The scheduler keeps the slices and never
// writes to them.
type Request struct {
	ID     turn.ID
	Prompt []turn.TokenID // at least one
	Params turn.Params    // resolved and validated
	Resume *Resume        // set: go on behind what was delivered
}

// Update is one piece of news of a turn: at most one a step. The last one
// has End set.
type Update struct {
	Queued  *turn.Queued  // the place in the queue changed
	Prefill *turn.Prefill // a prefill step was committed
	Gains   []Gain        // tokens and ends, at most one a choice
	End     *End
}

// Gain is what a step brought one choice.
type Gain struct {
	Choice int
	Picked []sample.Picked // in order; empty when only Finish is news
	Finish turn.Finish     // set: the choice is over
}

// End closes a turn.
type End struct {
	Err    error         // nil: answered; else one of this package's errors
	Finish []turn.Finish // of every choice; "" where Err ended it
	Cached int           // prompt tokens taken from a kept prefix, in the first life
	Report turn.Report
}

// Handle is a submitted turn. Next has one caller at a time; the other
// methods may be called from any goroutine, at any time.
type Handle struct {
	s   *Scheduler
	job *job
}

// Next waits for the next update. It returns false after the one with End.
// A caller that does not come parks its turn, and nobody else.
func (h *Handle) Next() (Update, bool) { return h.job.mail.take() }

// Cancel ends every open choice with finish reason cancelled, after the step
// now running.
func (h *Handle) Cancel() {
	h.s.tell(func() { h.s.cancel(h.job) })
}

// Finish ends one choice for a reason the scheduler can't see (a stop
// string): what it samples meanwhile is the caller's to drop.
func (h *Handle) Finish(choice int, why turn.Finish) {
	h.s.tell(func() { h.s.finish(h.job, choice, why) })
}

// Park keeps the turn out of steps, or lets it go on.
func (h *Handle) Park(parked bool) {
	h.s.tell(func() { h.job.parked = parked })
}

// Submit queues a turn. It refuses at once with *QueueFullError,
// *ContextError, ErrNoPrompt or ErrClosed. Any goroutine may call it; it
// never waits for the device.
func (s *Scheduler) Submit(r Request) (*Handle, error) {
	if len(r.Prompt) == 0 {
		return nil, ErrNoPrompt
	}
	if len(r.Prompt) >= s.cfg.Context {
		return nil, &ContextError{Tokens: len(r.Prompt), Context: s.cfg.Context}
	}
	j := s.newJob(r)
	if err := s.enqueue(j); err != nil {
		return nil, err
	}
	s.poke()
	return &Handle{s: s, job: j}, nil
}

// enqueue puts a job at the end of the queue. A turn that is taken over was
// admitted once and is never refused for lack of a place.
func (s *Scheduler) enqueue(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if n := len(s.waiting); n >= s.cfg.MaxQueue && j.req.Resume == nil {
		return &QueueFullError{Queued: n, RetryAfter: s.pace.wait(n, s.cfg.MaxTurns)}
	}
	if n := len(s.waiting); n > 0 || s.occupied >= s.cfg.MaxTurns {
		j.tellPlace(n)
	}
	s.number++
	j.number = s.number
	s.waiting = append(s.waiting, j)
	return nil
}
