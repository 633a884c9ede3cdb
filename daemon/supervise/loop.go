package supervise

import (
	"fmt"
	"time"

	"ingot/daemon/lifecycle"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// How often deadlines are looked at: seldom while there is just a process,
// often while its end or its restart is near.
const (
	tickIdle = time.Second
	tickNear = 50 * time.Millisecond
)

// run is the supervisor's goroutine:
//
//	run ── calls of clients (submitted, cancel, ask, stop, close)
//	    ├─ frames of the runner (frame ── ready, failed, step, ...)
//	    ├─ the end of the runner (died ── revive ── launch)
//	    └─ tick ── watchdog, kill deadlines, restart
func (s *Supervisor) run() {
	defer close(s.done)
	for {
		var tick <-chan time.Time
		var timer *time.Timer
		if pause := s.pause(); pause > 0 {
			timer = time.NewTimer(pause)
			tick = timer.C
		}
		select {
		case <-s.in.ready:
		case <-tick:
			s.tick(time.Now())
		}
		if timer != nil {
			timer.Stop()
		}
		calls, closed := s.in.take()
		for _, f := range calls {
			f()
		}
		if closed {
			return
		}
	}
}

// pause is how long until the deadlines are looked at again; 0: there are
// none.
func (s *Supervisor) pause() time.Duration {
	switch {
	case !s.retryAt.IsZero(), s.gen != nil && !(s.gen.deadline.IsZero() && s.gen.killed.IsZero()):
		return tickNear
	case s.gen != nil:
		return tickIdle
	}
	return 0
}

// set changes the state and tells it.
func (s *Supervisor) set(st lifecycle.State) {
	s.state = st
	s.tell()
}

func (s *Supervisor) tell() {
	st := s.status
	st.State = s.state
	st.Sent, _ = s.plan.Running()
	st.Open = len(s.plan.open)
	if s.gen != nil {
		st.PID = s.gen.proc.PID
	}
	if st.State == lifecycle.Ready && st.Open > 0 {
		st.State = lifecycle.Busy
	}
	if s.state != lifecycle.Failed && s.state != lifecycle.Stalled {
		st.Err = nil
	}
	s.opt.Changed(st)
}

// submitted places a turn that has just come.
func (s *Supervisor) submitted(id turn.ID) {
	switch s.state {
	case lifecycle.Stalled:
		s.drop(id, s.status.Err)
	case lifecycle.Restarting:
		s.opt.Turns.Phase(id, "restarting")
	case lifecycle.Loading:
		s.opt.Turns.Tell(id, loadingEvent(s.status.Progress))
	}
	s.pump()
	s.tell()
}

func loadingEvent(p float64) turn.Event {
	return turn.Event{Type: turn.EventLoading, Loading: &turn.Loading{Progress: p}}
}

// drop ends a turn here with an error.
func (s *Supervisor) drop(id turn.ID, err *wire.Error) {
	s.over(id)
	s.opt.Turns.Failed(id, err)
}

func (s *Supervisor) over(id turn.ID) {
	s.plan.Remove(id)
	delete(s.cancelled, id)
}

func (s *Supervisor) cancel(id turn.ID) {
	switch {
	case !s.plan.Has(id):
		return
	case s.plan.Sent(id):
		s.cancelled[id] = true
		s.gen.send(&wire.Cancel{Turn: id})
		return
	}
	s.over(id)
	s.opt.Turns.Cancelled(id)
	s.pump()
	s.tell()
}

// pump hands turns to a ready runner as the plan allows.
func (s *Supervisor) pump() {
	if s.state != lifecycle.Ready {
		return
	}
	for {
		id, ok := s.plan.Next()
		if !ok {
			return
		}
		sub, again, ok := s.opt.Turns.Submission(id)
		if !ok {
			s.over(id)
			continue
		}
		if n, _ := s.plan.Running(); n == 1 {
			s.gen.alive() // silence counts from when there is work
		}
		s.gen.send(sub)
		if again {
			s.opt.Turns.Resumed(id)
		}
	}
}

// wake starts a runner unless there is one or one is on its way.
func (s *Supervisor) wake() {
	if s.closing || s.gen != nil || !s.retryAt.IsZero() {
		return
	}
	s.deaths = 0
	s.launch(lifecycle.Loading)
}

// launch starts a process and greets it.
func (s *Supervisor) launch(st lifecycle.State) {
	s.retryAt = time.Time{}
	s.nth++
	s.loadErr = nil
	s.status.Progress, s.status.Ready, s.status.Gauge = 0, time.Time{}, wire.Gauge{}
	s.set(st) // told even if it lasts for a moment: somebody waits for a change
	proc, err := s.opt.Launch(s.opt.Log)
	if err != nil {
		s.hopeless(&wire.Error{Name: "model_failed", Message: fmt.Sprintf("start the runner of %s: %v", s.opt.Model, err)})
		return
	}
	s.gen = newGeneration(s, proc)
	s.gen.send(&wire.Hello{
		Version: wire.Version, Model: s.opt.Model, Folder: s.opt.Folder, Mode: s.opt.Mode,
		Grant: s.grant, Policy: s.opt.Policy, Faults: s.opt.Faults.Text(), Nth: s.nth,
	})
	s.opt.Log.Info().Int("runner", proc.PID).Int("nth", s.nth).Str("state", string(st)).Msg("runner started")
	for _, id := range s.plan.Open() {
		if st == lifecycle.Loading {
			s.opt.Turns.Tell(id, loadingEvent(0))
		}
	}
	s.set(st)
}

// stop begins the runner's end; c closes when it is gone.
func (s *Supervisor) stop(c chan struct{}) {
	s.retryAt = time.Time{}
	if s.gen == nil {
		if s.state != lifecycle.Failed {
			s.set(lifecycle.Cold)
		}
		close(c)
		return
	}
	s.stops = append(s.stops, c)
	if s.gen.stopping {
		return
	}
	s.gen.stopping = true
	if s.state == lifecycle.Ready {
		s.gen.send(&wire.Stop{})
		s.gen.killBy(time.Now().Add(s.opt.Grace), "it did not stop in time")
	} else { // it is loading: there is nothing to wait for
		s.gen.kill("it is not needed any more")
	}
	if s.state != lifecycle.Stalled {
		s.set(lifecycle.Unloading)
	}
}

func (s *Supervisor) close(err *wire.Error) {
	s.closing = true
	for _, id := range s.plan.Open() {
		s.drop(id, err)
	}
	s.failAsks(err)
	s.finishLoads(err)
	c := make(chan struct{})
	s.stop(c)
	if s.gen == nil {
		s.in.close()
	}
}

func (s *Supervisor) kill() {
	if s.gen != nil {
		s.gen.kill("the daemon is stopping")
	}
}

func (s *Supervisor) finishLoads(err *wire.Error) {
	for _, c := range s.loads {
		if err != nil {
			c <- err
		} else {
			c <- nil
		}
	}
	s.loads = nil
}
