package supervise

import (
	"fmt"
	"time"

	"ingot/daemon/lifecycle"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// maxDeaths is how many runners in a row may die before the turns that
// wait are given up, counted without a delivered token between.
const maxDeaths = 6

// backoff is the pause before a restart, by deaths without progress: the
// first two restarts are at once, since turns wait for them.
func backoff(deaths int) time.Duration {
	if deaths < 3 {
		return 0
	}
	return min(100*time.Millisecond<<(deaths-3), 5*time.Second)
}

// tick looks at the deadlines.
func (s *Supervisor) tick(now time.Time) {
	if g := s.gen; g != nil {
		s.watch(g, now)
		return
	}
	if !s.retryAt.IsZero() && !now.Before(s.retryAt) {
		s.launch(lifecycle.Restarting)
	}
}

func (s *Supervisor) watch(g *generation, now time.Time) {
	switch {
	case !g.killed.IsZero():
		if now.Sub(g.killed) >= s.opt.Reap && s.state != lifecycle.Stalled {
			s.stall()
		}
	case !g.deadline.IsZero():
		if !now.Before(g.deadline) {
			g.kill(g.why)
		}
	case s.patience(g) > 0 && now.Sub(g.heard) >= s.patience(g):
		g.kill(fmt.Sprintf("no progress for %v", now.Sub(g.heard).Round(time.Second)))
	}
}

// patience is how long the runner may be silent; 0: it owes nothing.
func (s *Supervisor) patience(g *generation) time.Duration {
	_, flowing := s.plan.Running()
	switch {
	case s.state == lifecycle.Loading || s.state == lifecycle.Restarting:
		return 4 * s.opt.Watchdog
	case flowing > 0 || len(s.asks) > 0:
		return max(s.opt.Watchdog, 5*g.predict)
	}
	return 0
}

// stall gives up waiting for a process that SIGKILL does not end.
func (s *Supervisor) stall() {
	err := &wire.Error{Name: "engine_failed", Message: fmt.Sprintf(
		"runner %d of %s ignores SIGKILL: it is stuck in the system's GPU driver, and only a restart of the machine may end it",
		s.gen.proc.PID, s.opt.Model)}
	s.giveUp(lifecycle.Stalled, err)
}

// giveUp fails everybody who waits. The state is told first, so that whoever
// asks for it on hearing of the failure finds it.
func (s *Supervisor) giveUp(st lifecycle.State, err *wire.Error) {
	s.status.Err = err
	ids := s.plan.Open()
	for _, id := range ids {
		s.over(id)
	}
	s.set(st)
	for _, id := range ids {
		s.opt.Turns.Failed(id, err)
	}
	s.failAsks(err)
	s.finishLoads(err)
}

// hopeless ends in the state failed. The next Start tries again.
func (s *Supervisor) hopeless(err *wire.Error) {
	if err.Data == nil {
		err.Data = map[string]any{}
	}
	err.Data["model"] = s.opt.Model
	s.opt.Log.Error().Str("error", err.Message).Msg("model failed")
	s.giveUp(lifecycle.Failed, err)
}

// died handles the end of the present runner, reaped.
func (s *Supervisor) died(exit Exit) {
	g, was := s.gen, s.state
	s.gen = nil
	steady := !s.status.Ready.IsZero() && time.Since(s.status.Ready) > time.Minute
	s.status.Ready = time.Time{}
	log := s.opt.Log.Info()
	clean := g.stopping || exit.Code == wire.ExitOK && len(s.plan.open) == 0
	if !clean {
		log = s.opt.Log.Error()
	}
	log.Int("runner", g.proc.PID).Str("why", reason(g, exit)).Msg("runner ended")

	guilty, progress := s.plan.Died()
	s.endCancelled()
	switch {
	case s.closing:
		s.in.close()
	case g.stopping || was == lifecycle.Stalled || clean && len(s.asks) == 0 && len(s.loads) == 0:
		s.askElsewhere()
		s.set(lifecycle.Cold)
	case s.loadErr != nil && s.firstLoad(was):
		s.hopeless(s.loadErr)
	default:
		s.revive(g, exit, guilty != "" || progress || steady)
	}
	s.condemn(guilty, g, exit)
	s.settleStops()
}

// firstLoad reports whether nobody was promised anything by an earlier
// runner: a load that fails then is told at once, not tried again.
func (s *Supervisor) firstLoad(was lifecycle.State) bool { return was == lifecycle.Loading }

// endCancelled ends the turns whose clients asked for it before the death.
func (s *Supervisor) endCancelled() {
	for _, id := range s.plan.Open() {
		if s.cancelled[id] {
			s.over(id)
			s.opt.Turns.Cancelled(id)
		}
	}
}

func (s *Supervisor) settleStops() {
	for _, c := range s.stops {
		close(c)
	}
	s.stops = nil
}

// condemn fails the turn that ended its runner twice, if there is one.
func (s *Supervisor) condemn(guilty turn.ID, g *generation, exit Exit) {
	switch {
	case guilty == "":
	case s.cancelled[guilty]:
		delete(s.cancelled, guilty)
		s.opt.Turns.Cancelled(guilty)
	default:
		s.opt.Turns.Failed(guilty, &wire.Error{Name: "turn_killed_runner", Data: map[string]any{"turn": guilty},
			Message: fmt.Sprintf("this turn ended its runner twice (%s)", reason(g, exit))})
	}
}

func reason(g *generation, exit Exit) string {
	if g.why != "" && !g.killed.IsZero() {
		return g.why
	}
	return exit.String()
}

// revive restarts the runner after an accident. The count of deaths starts
// again where something got on since the last one, or its cause is gone.
func (s *Supervisor) revive(g *generation, exit Exit, afresh bool) {
	s.status.Restarts++
	s.deaths++
	if afresh {
		s.deaths = 1
	}
	s.dropAsks()
	if exit.Code == wire.ExitDevice {
		s.narrow()
	}
	if s.deaths > maxDeaths {
		err := &wire.Error{Name: "engine_failed", Message: fmt.Sprintf(
			"the runner of %s died %d times in a row (%s)", s.opt.Model, s.deaths, reason(g, exit))}
		if s.loadErr != nil {
			err = s.loadErr
		}
		s.hopeless(err)
		return
	}
	for _, id := range s.plan.Open() {
		s.opt.Turns.Phase(id, "restarting")
	}
	if pause := backoff(s.deaths); pause > 0 {
		s.retryAt = time.Now().Add(pause)
		s.set(lifecycle.Restarting)
		return
	}
	s.launch(lifecycle.Restarting)
}

// narrow halves the prefill width that the next runner may use, since a
// device error may have come of the last one.
func (s *Supervisor) narrow() {
	w := s.status.Gauge.Width
	if c := s.opt.Policy.WidthCap; c > 0 && (w == 0 || c < w) {
		w = c
	}
	if w == 0 {
		w = 2048
	}
	s.opt.Policy.WidthCap = max(w/2, 32)
}
