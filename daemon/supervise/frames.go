package supervise

import (
	"fmt"
	"time"

	"ingot/daemon/lifecycle"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// frame handles one message of the present runner.
func (s *Supervisor) frame(m wire.Message) {
	switch m := m.(type) {
	case *wire.Loading:
		s.loading(m.Progress)
	case *wire.Ready:
		s.ready(m)
	case *wire.Failed:
		s.gen.alive()
		s.loadErr = &m.Error
	case *wire.Prompt:
		s.gen.alive()
		s.opt.Turns.Prompted(m)
	case *wire.Step:
		s.step(m)
	case *wire.End:
		s.end(m)
	case *wire.Answer:
		s.gen.alive()
		s.answered(m)
	case *wire.Gauge:
		s.gauge(m)
	case *wire.Fault:
		s.opt.Faults.Fired(m.Name, m.Left)
		s.opt.Log.Warn().Str("fault", m.Name).Int("left", m.Left).Msg("fault fired")
	default:
		s.gen.kill(fmt.Sprintf("it sent a %T", m))
	}
}

// loadingStep is how much more must be loaded before it is told again.
const loadingStep = 0.05

func (s *Supervisor) loading(p float64) {
	s.gen.alive()
	if p < s.status.Progress+loadingStep && p < 1 {
		return
	}
	s.status.Progress = p
	if s.state == lifecycle.Loading { // in a restart, turns hear "waiting" and then "resumed"
		for _, id := range s.plan.Open() {
			s.opt.Turns.Tell(id, loadingEvent(p))
		}
	}
	s.tell()
}

func (s *Supervisor) ready(m *wire.Ready) {
	s.gen.alive()
	if m.Version != wire.Version {
		s.loadErr = &wire.Error{Name: "model_failed", Message: fmt.Sprintf(
			"runner speaks version %d of the frames, the daemon %d: they were not built together", m.Version, wire.Version)}
		s.gen.kill("wrong version")
		return
	}
	if s.gen.stopping {
		return
	}
	s.status.Info, s.status.Progress, s.status.Ready = m.Info, 1, time.Now()
	s.opt.Log.Info().Int("runner", s.gen.proc.PID).Str("family", m.Info.Family).Str("device", m.Info.Device).
		Float64("load_ms", m.Info.LoadMS).Int64("resident", int64(m.Info.Resident)).Msg("runner ready")
	s.state = lifecycle.Ready
	s.resendAsks()
	s.pump()
	s.tell()
	s.finishLoads(nil) // last: who waited for it reads the state told above
}

func (s *Supervisor) step(m *wire.Step) {
	s.gen.alive()
	if !s.plan.Sent(m.Turn) {
		return // ended here meanwhile
	}
	if s.opt.Turns.Stepped(m) {
		s.deaths = 0
		s.plan.Token(m.Turn)
	} else if prefilled(m.Events) {
		s.plan.Prefilled(m.Turn)
	}
	s.pump()
}

// prefilled reports whether the events tell the end of a prefill.
func prefilled(evs []turn.Event) bool {
	for i := range evs {
		if p := evs[i].Prefill; p != nil && p.Done >= p.Total {
			return true
		}
	}
	return false
}

func (s *Supervisor) end(m *wire.End) {
	s.gen.alive()
	if !s.plan.Has(m.Turn) {
		return
	}
	s.deaths = 0 // an end is progress too
	s.plan.Token(m.Turn)
	s.over(m.Turn)
	s.opt.Turns.Ended(m)
	s.pump()
	s.tell()
}

func (s *Supervisor) gauge(m *wire.Gauge) {
	if m.Steps != s.status.Gauge.Steps {
		s.gen.alive()
	}
	for _, l := range m.Levers {
		s.opt.Log.Info().Str("lever", l.Name).Str("detail", l.Detail).Msg("governor")
	}
	s.gen.predict = time.Duration(m.PredictMS * float64(time.Millisecond))
	s.status.Gauge = *m
	s.status.Gauge.Levers = nil
	s.tell()
}
