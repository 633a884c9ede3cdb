package runner

import (
	"sync"
	"time"

	"ingot/runtime/sched"
	"ingot/runtime/wire"
)

// gaugePeriod is the least time between two gauges; longStep is what makes
// one urgent: the daemon must know that a silence is planned.
const (
	gaugePeriod = 250 * time.Millisecond
	longStep    = time.Second
)

// gauges passes the scheduler's state on to the daemon, the newest only but
// every lever. watch is called by the scheduler and never waits.
type gauges struct {
	send func(wire.Message)
	poke chan struct{}

	mu     sync.Mutex
	last   sched.Status
	levers []wire.Lever
	urgent bool
	news   bool
}

func newGauges(send func(wire.Message)) *gauges {
	return &gauges{send: send, poke: make(chan struct{}, 1)}
}

func (g *gauges) watch(s sched.Status) {
	g.mu.Lock()
	g.urgent = g.urgent || s.Predict >= longStep
	g.last, g.news = s, true
	for _, l := range s.Levers {
		g.levers = append(g.levers, wire.Lever(l))
	}
	g.mu.Unlock()
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// run sends until done closes.
func (g *gauges) run(done <-chan struct{}) {
	next := time.NewTimer(0)
	defer next.Stop()
	rested := false
	for {
		select {
		case <-done:
			return
		case <-next.C:
			rested = true
		case <-g.poke:
		}
		m := g.take(rested)
		if m == nil {
			continue
		}
		g.send(m)
		if rested {
			rested = false
			next.Reset(gaugePeriod)
		}
	}
}

// take returns the gauge that is due, or nil.
func (g *gauges) take(rested bool) *wire.Gauge {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.news || !rested && !g.urgent {
		return nil
	}
	s := g.last
	m := &wire.Gauge{
		Buffers: s.Buffers, Memory: s.Memory, Running: s.Running, Queued: s.Queued,
		Width: s.Width, WidthMax: s.WidthMax, Reason: s.Reason, TokS: s.TokS,
		Steps: s.Steps, PredictMS: float64(s.Predict) / float64(time.Millisecond), Levers: g.levers,
	}
	g.news, g.urgent, g.levers = false, false, nil
	return m
}
