package sched

import (
	"fmt"
	"slices"
	"time"

	"ingot/runtime/governor"
	"ingot/runtime/step"
)

// maxFailed is how many steps in a row may fail before the scheduler stops
// trusting the planner to narrow and refuses by itself.
const maxFailed = 64

// maxRefused is how often in a row a turn alone must be refused to be ended:
// one failure may have been another's doing.
const maxRefused = 3

// thrifty is the width below which a prefill is so slow for want of room
// that another turn would slow all of them further.
const thrifty = 64

// admit moves turns from the queue to the engine, first come first served; a
// turn whose client does not read is passed over, and gives its place away.
func (s *Scheduler) admit() {
	for s.mayAdmit() {
		j := s.popWaiting()
		if j == nil {
			break
		}
		if !s.start(j) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.occupied = len(s.running)
	for i, j := range s.waiting {
		j.tellPlace(i)
	}
}

// mayAdmit reports whether there is a place for one more turn, if need be
// by taking a sleeper's.
func (s *Scheduler) mayAdmit() bool {
	if s.crowded && slices.ContainsFunc(s.running, (*job).active) {
		return false
	}
	if len(s.running) < s.cfg.MaxTurns {
		return true
	}
	sleeper := s.youngest((*job).sleeps)
	if sleeper == nil || !s.anyWaiting() {
		return false
	}
	s.preempt(sleeper)
	return true
}

// popWaiting takes the first turn out of the queue whose client reads.
func (s *Scheduler) popWaiting() *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.waiting, (*job).active)
	if i < 0 {
		return nil
	}
	j := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return j
}

func (s *Scheduler) anyWaiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.waiting, (*job).active)
}

// start opens a turn's sequence: the trunk of several choices, or the one
// choice that is not over. It reports whether the queue may go on.
func (s *Scheduler) start(j *job) bool {
	live := j.live()
	if len(live) == 0 {
		s.end(j, nil, nil)
		return true
	}
	t := live[0]
	if len(live) > 1 {
		t = &thread{job: j, end: len(j.req.Prompt) - 1}
		j.trunk = t
	}
	known := t.all()
	if j.grid() > 0 {
		known = known[:t.end]
	}
	id, cached, err := s.eng.Open(known, j.grid())
	if err != nil {
		return s.notOpened(j, err)
	}
	t.seq, t.open, t.pos = id, true, cached
	if !j.opened {
		j.cached, j.opened = min(cached, len(j.req.Prompt)), true
	}
	j.place, j.gained = -1, false
	j.book.queued += time.Since(j.since)
	s.running = append(s.running, j)
	return true
}

// notOpened puts a turn back that found no room beside the others; alone it
// is refused, and so it is when the engine failed otherwise.
func (s *Scheduler) notOpened(j *job, err error) bool {
	switch f := step.FaultOf(err); {
	case f == step.FaultNone || f == step.FaultDevice:
		s.end(j, nil, &EngineError{err})
		return true
	case len(s.running) == 0:
		s.end(j, nil, &NoRoomError{Resource: string(f), Width: 1, RetryAfter: time.Second})
		return true
	}
	s.requeue(j)
	s.crowded = true
	return false
}

// fork lets the choices of a turn go their own ways once the trunk holds the
// prompt but for its last token, which each feeds itself.
func (s *Scheduler) fork(j *job) {
	live := j.live()
	for _, t := range live[1:] {
		id, err := s.eng.Fork(j.trunk.seq)
		if err != nil {
			s.notForked(j, err)
			return
		}
		t.seq, t.open, t.pos = id, true, j.trunk.pos
	}
	live[0].seq, live[0].open, live[0].pos = j.trunk.seq, true, j.trunk.pos
	j.trunk.open, j.trunk = false, nil
}

func (s *Scheduler) notForked(j *job, err error) {
	for _, t := range j.live() {
		s.release(t, false)
	}
	f := step.FaultOf(err)
	if f == step.FaultNone || f == step.FaultDevice {
		s.end(j, nil, &EngineError{err})
		return
	}
	s.makeRoom(j, &governor.Refusal{Buffers: f == step.FaultBuffers, Width: 1})
}

// refused deals with an item for which there is no plan: the chunk is taken
// off its riders and tried alone; of several rows the youngest turn waits.
func (s *Scheduler) refused(it item, r *governor.Refusal) error {
	switch {
	case it.chunk != nil && len(it.rows) > 0:
		if err := s.do(item{rows: it.rows}); err != nil {
			return err
		}
		return s.do(item{chunk: it.chunk})
	case it.chunk != nil:
		s.makeRoom(it.chunk.job, r)
	default:
		s.makeRoom(it.rows[len(it.rows)-1].job, r)
	}
	return nil
}

// makeRoom has a turn wait for another to end; alone it is refused, unless
// the smallest step fits at the next attempt.
func (s *Scheduler) makeRoom(j *job, r *governor.Refusal) {
	for _, o := range s.running {
		if o != j && len(o.sequences()) > 0 {
			j.blocked, s.crowded = true, true
			return
		}
	}
	if j.refused++; j.refused < maxRefused {
		return
	}
	kind := "bytes"
	if r.Buffers {
		kind = "buffers"
	}
	s.end(j, nil, &NoRoomError{Resource: kind, Need: r.Need, Have: r.Have, Width: r.Width, RetryAfter: time.Second})
}

// squeezed reports whether a chunk was given less than thrifty for want of
// room.
func (t *thread) squeezed(p governor.Plan) bool {
	return pressed(p) && p.Width < min(thrifty, t.need())
}

// yields deals with a squeezed chunk beside others: nobody new comes in until
// a turn ends, and a turn that has told nothing yet goes back to the queue,
// where it is the first, rather than crawl and slow its elders. It reports
// whether the turn has gone.
func (s *Scheduler) yields(t *thread, p governor.Plan) bool {
	if t == nil || !t.squeezed(p) || len(s.running) < 2 {
		return false
	}
	s.crowded = true
	elder := func(o *job) bool { return o.number < t.job.number && o.active() }
	if t.job.gained || !slices.ContainsFunc(s.running, elder) {
		return false
	}
	s.setAside(t.job)
	return true
}

// setAside preempts for want of room, and says so.
func (s *Scheduler) setAside(j *job) {
	s.preempt(j)
	s.aside = append(s.aside, Lever{"wait", fmt.Sprintf("turn %s waits for room", j.req.ID)})
}

// unblock lets those try again who lacked room.
func (s *Scheduler) unblock() {
	s.crowded = false
	for _, j := range s.running {
		j.blocked = false
	}
}

// unstick finds room when everyone who could step lacks it: the youngest
// holder gives up its caches and goes back to the queue, a sleeper first. It
// reports whether that changed anything.
func (s *Scheduler) unstick() bool {
	i := slices.IndexFunc(s.running, func(j *job) bool { return j.blocked })
	if i < 0 {
		return false
	}
	oldest := s.running[i]
	other := func(j *job) bool { return j != oldest && len(j.sequences()) > 0 }
	victim := s.youngest(func(j *job) bool { return other(j) && !j.active() })
	if victim == nil {
		victim = s.youngest(other)
	}
	if victim != nil {
		s.setAside(victim)
	}
	s.unblock()
	s.crowded = victim != nil
	return true
}

// youngest is the last admitted of the running turns that fit, or nil.
func (s *Scheduler) youngest(fits func(*job) bool) *job {
	for _, j := range slices.Backward(s.running) {
		if fits(j) {
			return j
		}
	}
	return nil
}

// preempt sends a running turn back to the queue. It will compute again what
// the engine has let go by then; what it has told its client stays told.
func (s *Scheduler) preempt(j *job) {
	for _, t := range j.sequences() {
		s.release(t, t.choice == 0)
	}
	j.trunk, j.blocked, j.since = nil, false, time.Now()
	s.running = without(s.running, j)
	s.requeue(j)
}

// requeue puts a turn where its age belongs.
func (s *Scheduler) requeue(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.waiting, func(o *job) bool { return o.number > j.number })
	if i < 0 {
		i = len(s.waiting)
	}
	s.waiting = slices.Insert(s.waiting, i, j)
}

// release hands a thread's sequence back to the engine.
func (s *Scheduler) release(t *thread, keep bool) {
	if t.open {
		t.open, t.pos = false, 0
		s.eng.Close(t.seq, keep)
	}
}

// faulted deals with a step that failed. For want of room the planner, who
// has seen it, narrows the next one; an engine's mistake is narrowed down to
// the turn that causes it.
func (s *Scheduler) faulted(it item, err error) error {
	s.failed++
	switch f := step.FaultOf(err); {
	case f == step.FaultDevice:
		return fmt.Errorf("%w: %w", ErrDevice, err)
	case f == step.FaultNone:
		s.suspect(it, err)
	case s.failed > maxFailed:
		s.failed = 0
		return s.refused(it, &governor.Refusal{Buffers: f == step.FaultBuffers, Width: 1})
	}
	return nil
}

// suspect fails the one turn of the item, or has each of several step alone.
func (s *Scheduler) suspect(it item, err error) {
	ts := it.threads()
	for _, t := range ts {
		t.job.solo = true
	}
	if len(ts) == 1 {
		s.end(ts[0].job, nil, &EngineError{err})
	}
}

func without(js []*job, j *job) []*job {
	return slices.DeleteFunc(js, func(o *job) bool { return o == j })
}
