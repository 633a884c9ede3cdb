package governor

import (
	"math"
	"time"

	"ingot/runtime/turn"
)

// draft is a plan in the making.
type draft struct {
	Plan
	shape  shape
	fixed  bool             // the width may not change (deterministic mode)
	wanted float64          // width, before room was looked at
	evict  int              // prefix entries to give up
	room   [seconds]float64 // buffers and bytes that the step may take
	last   [seconds]float64 // more of them, up to the limit: where nothing fits otherwise
	tight  quantity         // which of them was short last
}

// Next plans a step. It calls
//
//	refuse     when all that could be tried has failed
//	aim        remaining, user, grid, launch, ladder
//	inTime     MaxStep, RideStep
//	inRoom     evict, split, narrow
//	dare       or more than that, now and then
//	levers     detach, clear, evict, as needed
func (g *Governor) Next(a Ask) Plan {
	if ref := g.refuse(a); ref != nil {
		return Plan{Barrier: 1, Refusal: ref}
	}
	d := draft{room: roomOf(a.Level, a.Limits, g.cfg.Share)}
	g.aim(a, &d)
	g.inTime(&d)
	wanted := d.shape
	d.wanted = wanted.width
	g.inRoom(a, &d)
	short := d.shape.area() < wanted.area() || d.evict > 0
	g.pinch = short || d.Reason == turn.ReasonTime
	if d.shape.area() < wanted.area() {
		g.dare(&d, wanted)
	}
	g.levers(a, &d, short)
	d.Barrier = g.barrier(a, &d)
	d.Predict = g.cost(d.shape)
	g.lastResort = d.last != [seconds]float64{}
	return d.Plan
}

func (d *draft) setWidth(w int, why turn.Reason) {
	d.Width, d.Reason, d.shape.width = w, why, float64(w)
}

func (d *draft) setDepth(dep depth) { d.Depth, d.shape.part = dep.layers, dep.part }

// aim sets the width that would be best if room and time were endless.
func (g *Governor) aim(a Ask, d *draft) {
	d.shape = shape{context: float64(a.Context), rows: float64(a.Decode), part: 1}
	d.Rows = a.Decode
	d.setWidth(max(a.Remaining, 0), turn.ReasonPrompt)
	if d.Width == 0 {
		d.shape.context = 0
	}
	cut := func(limit int, why turn.Reason) {
		if limit > 0 && d.Width > limit {
			d.setWidth(limit, why)
		}
	}
	cut(a.Cap, turn.ReasonUser)
	cut(g.cfg.Width, turn.ReasonUser)
	if a.Grid > 0 {
		cut(a.Grid, turn.ReasonGrid)
		d.fixed = true
		return
	}
	cut(g.cfg.Cap, turn.ReasonFault)
	if !g.ladder.fixed {
		w, why := g.rung(d)
		cut(w, why)
	}
	if rows := d.Width + d.Rows; g.launch.limit(rows) < rows {
		d.Rows = min(d.Rows, max(g.launch.ceiling-1, min(d.Rows, 1)))
		d.shape.rows = float64(d.Rows)
		cut(max(1, g.launch.ceiling-d.Rows), turn.ReasonFault)
	}
}

// rung is the ladder's width, or that of a trial.
func (g *Governor) rung(d *draft) (int, turn.Reason) {
	try := g.ladder.next(d.Width)
	if try == 0 || d.Rows > 0 || g.launch.limit(try) < try || !g.free(d, try) {
		g.ladder.trial = 0
		return g.ladder.width, g.ladder.reason()
	}
	g.ladder.trial = try
	return try, turn.ReasonSpeed
}

// free reports whether a step of that width needs no lever: only then is it
// worth a trial.
func (g *Governor) free(d *draft, width int) bool {
	s := d.shape
	s.width = float64(width)
	return g.fits(d, s, d.room) && g.table.predict(s, seconds) <= timeShare*g.cfg.MaxStep.Seconds()
}

// reason of a width that is the rung's.
func (l *ladder) reason() turn.Reason {
	if l.tried {
		return turn.ReasonSpeed
	}
	return turn.ReasonStart
}

// inTime narrows a step that would take too long. Beside decode rows the
// prompt may at least double the step's time: both sides go on.
func (g *Governor) inTime(d *draft) {
	if d.fixed || d.Width == 0 {
		return
	}
	limit := g.cfg.MaxStep.Seconds()
	if d.Rows > 0 {
		alone := d.shape
		alone.width, alone.context = 0, 0
		limit = max(g.cfg.RideStep.Seconds(), 2*g.table.predict(alone, seconds))
	}
	limit *= timeShare
	fits := func(s shape) bool { return g.table.predict(s, seconds) <= limit }
	if w := max(widest(d.shape, fits), g.last(d.Rows)/slowing); w < d.Width {
		why := turn.ReasonTime
		if !g.table.known {
			why = turn.ReasonStart
		}
		d.setWidth(max(1, even(w)), why)
	}
}

// slowing is how much narrower than the one before a step may become for the
// sake of time: one slow step on a busy machine is no reason to crawl.
const slowing = 4

// last is the width of the last prefill step in like company.
func (g *Governor) last(rows int) int {
	if rows > 0 {
		return g.rode
	}
	return g.alone
}

// timeShare of the allowed time is aimed at, as steps vary.
const timeShare = 0.9

// fits reports whether a step keeps within the room, and within what a
// failed one leaves to try.
func (g *Governor) fits(d *draft, s shape, room [seconds]float64) bool {
	if g.retry.area > 0 && s.area() > g.retry.area/2 {
		return false
	}
	if q, blocked := g.table.blocked(s, room); blocked {
		d.tight = q
		return false
	}
	for q := range seconds {
		if g.table.predict(s, q)*(1+g.table.margin[q]) > room[q]+d.last[q] {
			d.tight = q
			return false
		}
	}
	return true
}

// inRoom pulls levers until the step fits: evict, split, narrow. A kept
// prefix is given up only where that helps.
func (g *Governor) inRoom(a Ask, d *draft) {
	if g.fits(d, d.shape, d.room) {
		return
	}
	for _, dep := range g.depths {
		s := d.shape
		s.part = dep.part
		if n, ok := g.evictions(a, d, s); ok {
			d.setDepth(dep)
			d.evict = n
			return
		}
	}
	d.evict = len(a.Kept)
	room := roomAfter(d.room, a.Kept)
	if g.narrow(d, room) < 1 {
		g.lastRoom(a, d)
		g.narrow(d, room)
	}
}

// lastRoom takes what is left between the share and the limit.
func (g *Governor) lastRoom(a Ask, d *draft) {
	all, share := roomOf(a.Level, a.Limits, 1), roomOf(a.Level, a.Limits, g.cfg.Share)
	for q, r := range all {
		if !math.IsInf(r, 1) {
			d.last[q] = max(0, r-share[q])
		}
	}
}

// evictions returns how many prefix entries must go for a step to fit.
func (g *Governor) evictions(a Ask, d *draft, s shape) (n int, ok bool) {
	room := d.room
	if g.fits(d, s, room) {
		return 0, true
	}
	if !g.fits(d, s, roomAfter(room, a.Kept)) {
		return 0, false
	}
	for n = range a.Kept {
		room = roomAfter(room, a.Kept[n:n+1])
		if g.fits(d, s, room) {
			return n + 1, true
		}
	}
	return 0, false
}

func roomAfter(room [seconds]float64, kept []Kept) [seconds]float64 {
	for _, k := range kept {
		room[buffers] += float64(k.Buffers)
		room[memory] += float64(k.Bytes)
	}
	return room
}

// levers lists what to do before the step. What the device is about to let
// go may make the others needless, so that is waited for alone.
func (g *Governor) levers(a Ask, d *draft, short bool) {
	if short && a.Level.Unsettled {
		d.Levers, d.Again = []Lever{{Kind: LeverDetach}}, true
		return
	}
	if g.crowded(a, d) {
		d.Levers = append(d.Levers, Lever{Kind: LeverClear})
	}
	if d.evict > 0 {
		d.Levers = append(d.Levers, Lever{Kind: LeverEvict, Count: d.evict})
	}
}

// crowded reports that what MLX's cache holds, with the step, nears the
// limit: MLX counts both, and would empty its cache at a bad moment.
func (g *Governor) crowded(a Ask, d *draft) bool {
	cached := [seconds]float64{float64(a.Level.Cached), float64(a.Level.CachedBytes)}
	for q := range seconds {
		if cached[q] > 0 && cached[q]+g.table.predict(d.shape, q) > d.room[q] {
			return true
		}
	}
	return false
}

// barrier rations decode steps that a family would leave unevaluated.
func (g *Governor) barrier(a Ask, d *draft) int {
	if a.Lazy <= 1 {
		return 1
	}
	left := d.room[buffers] - g.table.predict(d.shape, buffers)
	steps := left / (2 * max(g.drift, float64(g.cfg.Layers)))
	return int(max(1, min(float64(a.Lazy), steps)))
}

func (g *Governor) cost(s shape) Cost {
	return Cost{
		Buffers: turn.Buffers(math.Ceil(g.table.predict(s, buffers))),
		Bytes:   turn.Bytes(math.Ceil(g.table.predict(s, memory))),
		Time:    time.Duration(g.table.predict(s, seconds) * float64(time.Second)),
	}
}

// refuse ends a row of attempts whose last, the smallest there is, failed
// and after which nothing more was given up. It holds for this one Ask.
func (g *Governor) refuse(a Ask) *Refusal {
	r := g.retry
	if !r.least && !(a.Grid > 0 && r.deepest) {
		return nil
	}
	gave := len(a.Kept) > 0 || a.Level.Live < r.level.Live || a.Level.Bytes < r.level.Bytes
	if gave && r.tries < maxTries {
		return nil // more can be given up, or was
	}
	g.retry = retry{}
	ref := &Refusal{Buffers: r.fault != FaultBytes, Width: max(1, min(a.Grid, a.Remaining)), Fault: r.fault, Limit: a.Limits.Buffers}
	q := memory
	if ref.Buffers {
		q = buffers
	}
	if room := roomOf(a.Level, a.Limits, 1)[q]; !math.IsInf(room, 1) {
		ref.Have = int64(max(0, room))
	}
	s := shape{width: float64(ref.Width), context: float64(a.Context), part: g.deepest().part}
	ref.Need = max(ref.Have+1, int64(g.table.predict(s, q)))
	return ref
}

// maxTries of the smallest step are made while something else gives way.
const maxTries = 4
