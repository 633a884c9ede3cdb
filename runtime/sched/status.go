package sched

import (
	"fmt"
	"time"

	"ingot/runtime/governor"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// Status is the scheduler's state, as gauges show it.
type Status struct {
	Running  int // turns in steps
	Queued   int
	Width    int // of the last prefill step
	WidthMax int // widest so far allowed
	Reason   turn.Reason
	TokS     float64       // tokens sampled a second, lately
	Steps    uint64        // committed
	Predict  time.Duration // of the step now running; 0: none is
	Buffers  turn.BufferGauge
	Memory   turn.MemoryGauge
	Levers   []Lever // pulled since the last Status
}

// Lever is one measure against a limit.
type Lever struct{ Name, Detail string }

// announce tells the state before a step, so that a watcher knows how long
// the silence may be.
func (s *Scheduler) announce(p governor.Plan) {
	st := &s.status
	st.Levers = s.levers(p)
	if p.Width > 0 {
		st.Width, st.Reason = p.Width, p.Reason
		st.WidthMax = max(st.WidthMax, p.Width)
	}
	st.Predict = max(p.Predict.Time, 1)
	s.tellStatus()
}

// report tells the state of a scheduler that has nothing to do.
func (s *Scheduler) report() {
	s.status.Levers, s.status.Predict = nil, 0
	s.meter = meter{}
	s.tellStatus()
}

func (s *Scheduler) tellStatus() {
	st := &s.status
	r := s.eng.Reading()
	st.Buffers = buffersOf(r, st.Buffers.Peak)
	st.Memory = memoryOf(r, st.Memory.Peak)
	st.Running, st.TokS = len(s.running), s.meter.tokS
	s.mu.Lock()
	st.Queued = len(s.waiting)
	s.mu.Unlock()
	s.cfg.Watch(*st)
}

// levers lists what a plan does against a limit, for the log: those pulled
// between steps, and what is narrower or deeper than before in this squeeze.
func (s *Scheduler) levers(p governor.Plan) []Lever {
	out := s.aside
	s.aside = nil
	for _, l := range p.Levers {
		out = append(out, Lever{string(l.Kind), detail(l)})
	}
	switch {
	case p.Width == 0:
	case !pressed(p):
		s.narrowest = 0
	case s.narrowest == 0 || p.Width < s.narrowest:
		s.narrowest = p.Width
		out = append(out, Lever{"narrow", fmt.Sprintf("to %d tokens: %s", p.Width, p.Reason)})
	}
	switch {
	case p.Depth == 0:
		s.deepest = 0
	case s.deepest == 0 || p.Depth < s.deepest:
		s.deepest = p.Depth
		out = append(out, Lever{"deepen", fmt.Sprintf("to %d layers at a time", p.Depth)})
	}
	return out
}

// pressed reports whether a limit shaped the plan.
func pressed(p governor.Plan) bool {
	return p.Reason == turn.ReasonBuffers || p.Reason == turn.ReasonBytes || p.Reason == turn.ReasonFault
}

func detail(l governor.Lever) string {
	if l.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d entries", l.Count)
}

func buffersOf(r step.Reading, peak turn.Buffers) turn.BufferGauge {
	return turn.BufferGauge{Live: r.Live, Peak: max(peak, r.Live), Limit: r.Limit}
}

func memoryOf(r step.Reading, peak turn.Bytes) turn.MemoryGauge {
	return turn.MemoryGauge{Active: r.Bytes, Peak: max(peak, r.Bytes), Limit: r.LimitBytes}
}
