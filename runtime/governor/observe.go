package governor

import (
	"math"

	"ingot/runtime/turn"
)

// retry is what the last failed step was: until one is committed, every plan
// is smaller than that, so that trying ends.
type retry struct {
	area    float64 // of the failed step; 0: the last step was committed
	fault   Fault
	level   Level // before it
	deepest bool  // it went layer by layer
	least   bool  // and nothing smaller exists
	tries   int   // failures in a row of the least step
}

// Observe learns from a step that was taken, committed or not. Every step
// that was planned must be observed before the next one is.
func (g *Governor) Observe(r Reading) {
	s := shape{float64(r.Width), float64(r.Context), float64(r.Decode), g.part(r.Depth)}
	if r.Width == 0 {
		s.context = 0
	}
	if r.Fault != FaultNone {
		g.observeFault(r, s)
		return
	}
	cost := [quantities]float64{
		buffers: float64(max(0, r.PeakLive-r.Before.Live)),
		memory:  float64(max(0, r.PeakBytes-r.Before.Bytes)),
		seconds: r.Elapsed.Seconds(),
	}
	g.surprise(s, cost)
	g.table.learn(s, cost)
	if g.pinch {
		g.table.doubt(s)
	}
	g.retry = retry{}
	g.probe.ended(!g.lastResort && over(cost, roomOf(r.Before, r.Limits, g.cfg.Share)))
	g.launch.passed(r.Width + r.Decode)
	if r.Width > 0 && r.Decode > 0 {
		g.rode = r.Width
	} else if r.Width > 0 {
		g.alone = r.Width
	}
	if r.Width > 0 && r.Decode == 0 {
		g.table.refit()
		g.ladder.observe(r.Width, r.Context, cost[seconds], g.table.fit[seconds][3]/(1<<24))
	}
	if r.Width == 0 {
		g.drift += 0.25 * (float64(max(0, r.Live-r.Before.Live)) - g.drift)
	}
}

func over(cost [quantities]float64, room [seconds]float64) bool {
	return cost[buffers] > room[buffers] || cost[memory] > room[memory]
}

// surprise keeps, for buffers and bytes, by how much steps exceed their
// prediction, forgetting slowly.
func (g *Governor) surprise(s shape, cost [quantities]float64) {
	if !g.table.known {
		return
	}
	for q := range seconds {
		over := 0.0
		if y := g.table.predict(s, q); y > 0 {
			over = min(cost[q]/y-1, 1)
		}
		g.table.margin[q] = max(over, 0.8*g.table.margin[q])
	}
}

func (g *Governor) observeFault(r Reading, s shape) {
	deepest := s.part <= g.deepest().part
	next := retry{area: s.area(), fault: r.Fault, level: r.Before, deepest: deepest, least: deepest && s.width+s.rows <= 1}
	if next.least {
		next.tries = g.retry.tries + 1
	}
	g.retry = next
	g.ladder.failed()
	g.probe.ended(true)
	if r.Fault == FaultLaunch {
		g.launch.failed(r.Width + r.Decode)
		return
	}
	cost := [quantities]float64{
		buffers: float64(max(0, r.PeakLive-r.Before.Live)),
		memory:  float64(max(0, r.PeakBytes-r.Before.Bytes)),
	}
	room := roomOf(r.Before, r.Limits, 1)
	q := memory
	if r.Fault == FaultBuffers {
		q = buffers
	}
	if math.IsInf(room[q], 1) {
		cost[q] = 0 // no limit that we know of: only the shape can be remembered
	} else {
		cost[q] = max(cost[q], 1.25*max(room[q], 1))
	}
	g.table.fail(s, cost, q, roomOf(r.Before, r.Limits, g.cfg.Share)[q])
}

func (g *Governor) deepest() depth { return g.depths[len(g.depths)-1] }

// roomOf returns what a step may take beyond the level when share of the
// room between resident and limit may be used.
func roomOf(l Level, lim Limits, share float64) [seconds]float64 {
	room := [seconds]float64{math.Inf(1), math.Inf(1)}
	if lim.Buffers > 0 {
		room[buffers] = bound(lim.Resident, lim.Buffers, share) - float64(l.Live)
	}
	if lim.Bytes > 0 {
		room[memory] = bound(lim.ResidentBytes, lim.Bytes, share) - float64(l.Bytes)
	}
	return room
}

func bound[T turn.Buffers | turn.Bytes](resident, limit T, share float64) float64 {
	return float64(resident) + share*float64(limit-resident)
}
