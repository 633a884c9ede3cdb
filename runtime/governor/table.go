package governor

import (
	"math"
	"math/bits"
)

// shape is a step as the cost model sees it.
type shape struct {
	width   float64
	context float64
	rows    float64 // of decode
	part    float64 // of the model between evaluations, (0, 1]
}

// area is the size of what is in flight at once.
func (s shape) area() float64 { return (s.width + s.rows) * s.part }

// quantity is one of the things that a step costs.
type quantity int

const (
	buffers quantity = iota
	memory
	seconds
	quantities
)

// terms returns what a cost is a sum of. Buffers and bytes grow with the part
// of the model in flight, time with the number of evaluations; the product of
// width and context covers attention and everything else that is superlinear.
func (s shape) terms(q quantity) vector {
	pairs := s.width * (s.context + s.width) / (1 << 24)
	if q == seconds {
		return vector{1, 1 / s.part / 16, s.width / 1024, pairs, s.context / 16384, s.rows / 8}
	}
	return vector{1, s.part, s.part * s.width / 1024, s.part * pairs, s.context / 16384, s.part * s.rows / 8}
}

// Pulls towards zero say what to believe while too little is known. Cautious:
// that cost is proportional to width, else to the part in flight; constants
// have to be shown. Hopeful: the other way round.
var (
	cautious = vector{1e-2, 1e-4, 1e-8, 1e-5, 1e-3, 1e-6}
	hopeful  = vector{1e-8, 1e-6, 1e-3, 1e-1, 1e-3, 1e-3}
)

// Believed of a model before its first step, for each token in flight.
const (
	priorBuffers = 8
	priorBytes   = 1 << 20
	priorSeconds = 0.007 // a slow machine's: the first step tells better
)

const (
	tableSize = 40
	patience  = 8    // observations before what stands in the way is tried again
	maxStrike = 6    // doublings of patience
	faintest  = 0.02 // weight of the oldest entry
	cold      = 3    // the first steps of a process include compilation: they are doubted at once
)

// entry is what is known of one size of step.
type entry struct {
	key     uint32
	shape   shape
	cost    [quantities]float64
	failed  bool // the step failed: cost is a guess above what there was
	lacked  quantity
	room    float64 // of what it lacked
	ignored bool    // no longer believed, kept to count strikes
	seen    int     // table.now when last observed
	strikes int     // how often a new trial confirmed it
	cold    bool
}

// doubtAfter is how many observations later the entry may be doubted.
func (e *entry) doubtAfter() int {
	if e.cold {
		return 1
	}
	if e.failed {
		return 2 * patience << e.strikes
	}
	return patience << e.strikes
}

// table is the memory of a Governor: the last cost seen at each size of step,
// and the sum of terms that fits them, recent ones first.
type table struct {
	entries []entry
	now     int // observations so far
	fit     [quantities]vector
	stale   bool                // fit is older than entries
	largest float64             // area committed so far, within memory
	margin  [quantities]float64 // by how much recent steps exceeded the fit
	known   bool
}

func newTable() table { return table{entries: make([]entry, 0, tableSize)} }

// keyOf puts like steps into one bucket: width by quarter octaves, the rest
// by octaves. Failures have buckets of their own, whatever the context.
func keyOf(s shape, failed bool) uint32 {
	k := octave(s.rows)<<16 | octave(1/s.part)<<24
	if s.width >= 1 {
		k |= 1 + uint32(4*math.Log2(s.width))
	}
	if failed {
		return k | 1<<31
	}
	return k | octave(s.context)<<8
}

func octave(x float64) uint32 { return uint32(bits.Len64(uint64(x))) }

// learn takes in what a committed step cost.
func (t *table) learn(s shape, cost [quantities]float64) {
	e := t.slot(keyOf(s, false))
	e.merge(s, cost)
	e.cold = t.now <= cold
	t.known = true
	for i := range t.entries {
		if f := &t.entries[i]; f.failed && f.refuted(s, cost) {
			f.ignored, f.strikes = true, 0
		}
	}
}

// fail takes in that a step of that shape lacked room.
func (t *table) fail(s shape, cost [quantities]float64, lacked quantity, room float64) {
	e := t.slot(keyOf(s, true))
	if e.ignored {
		e.strikes = min(e.strikes+1, maxStrike)
	} else {
		s.context = min(s.context, e.shape.context)
	}
	e.failed, e.ignored, e.lacked, e.room = true, false, lacked, room
	e.shape, e.cost = s, cost
}

// merge takes in a new observation. Buffers and bytes rise at once and fall
// by halves; time goes by halves. What was doubted is replaced, and doubted
// less easily if it was true.
func (e *entry) merge(s shape, cost [quantities]float64) {
	if e.ignored {
		e.strikes++
		for q := range seconds {
			if cost[q] < 0.8*e.cost[q] {
				e.strikes = 0
			}
		}
		e.strikes = min(e.strikes, maxStrike)
	}
	fresh := e.ignored || math.Abs(s.width-e.shape.width) > 0.02*e.shape.width
	for q := range cost {
		if !fresh && (quantity(q) == seconds || cost[q] < e.cost[q]) {
			cost[q] = (cost[q] + e.cost[q]) / 2
		}
	}
	e.shape, e.cost, e.ignored = s, cost, false
}

// within reports that s is as large as the entry, or nearly.
func (e *entry) within(s shape) bool {
	return s.width >= 0.9*e.shape.width && s.rows >= 0.9*e.shape.rows && s.part >= 0.99*e.shape.part && s.context >= 0.9*e.shape.context
}

// refuted reports that a failure can't be so any more: a step as large has
// been committed, or one nearly as large cost so little that even quadratic
// growth leaves the larger one room.
func (e *entry) refuted(s shape, cost [quantities]float64) bool {
	if s.part < e.shape.part || s.context < e.shape.context {
		return false
	}
	if s.width >= e.shape.width && s.rows >= e.shape.rows {
		return true
	}
	grow := e.shape.area() / s.area()
	return 1.2*cost[e.lacked]*grow*grow < e.room
}

// blocked reports that a step as small has failed for want of no less room.
func (t *table) blocked(s shape, room [seconds]float64) (quantity, bool) {
	for i := range t.entries {
		if e := &t.entries[i]; e.failed && !e.ignored && e.within(s) && room[e.lacked] <= 1.02*e.room {
			return e.lacked, true
		}
	}
	return 0, false
}

// slot returns the entry of a key, else a new one, in place of the oldest if
// need be, as seen now.
func (t *table) slot(key uint32) *entry {
	t.now++
	t.stale = true
	at := 0
	for i := range t.entries {
		if t.entries[i].key == key {
			t.entries[i].seen = t.now
			return &t.entries[i]
		}
		if t.entries[i].seen < t.entries[at].seen {
			at = i
		}
	}
	if len(t.entries) < tableSize {
		t.entries = append(t.entries, entry{})
		at = len(t.entries) - 1
	}
	t.entries[at] = entry{key: key, seen: t.now, ignored: true, strikes: -1}
	return &t.entries[at]
}

// doubt stops believing what stands in the way of steps larger than the one
// just made and has not been seen for long. If it is still true, the next
// trial shows it, and it is believed for twice as long.
func (t *table) doubt(done shape) {
	for i := range t.entries {
		e := &t.entries[i]
		if !e.ignored && e.shape.area() > 1.1*done.area() && t.now-e.seen >= e.doubtAfter() {
			e.ignored, t.stale = true, true
		}
	}
}

// predict returns the expected cost of a step.
func (t *table) predict(s shape, q quantity) float64 {
	if !t.known {
		return prior(s, q)
	}
	t.refit()
	y := t.fit[q].dot(s.terms(q))
	if over := s.area() / (4 * t.largest); q != seconds && over > 1 {
		y *= over // far from anything seen: it may grow faster than the fit
	}
	return y
}

func prior(s shape, q quantity) float64 {
	switch q {
	case buffers:
		return priorBuffers * (s.area() + 40*s.part)
	case memory:
		return priorBytes * s.area()
	}
	return priorSeconds * (s.width + s.rows)
}

func (t *table) refit() {
	if !t.stale {
		return
	}
	t.stale = false
	t.largest = 1
	for i := range t.entries {
		if e := &t.entries[i]; !e.failed {
			t.largest = max(t.largest, e.shape.area())
		}
	}
	for q := range quantities {
		t.fit[q] = t.solve(q, &cautious)
	}
}

// solve fits one quantity by relative error, what was seen last weighing
// most.
func (t *table) solve(q quantity, pulls *vector) vector {
	var n normal
	var widest vector
	top := t.top(q)
	if top == 0 {
		return vector{}
	}
	for i := range t.entries {
		e := &t.entries[i]
		if !e.counts(q) {
			continue
		}
		row := e.shape.terms(q)
		scale := 1 / max(e.cost[q], top/64)
		for i := range row {
			widest[i] = max(widest[i], row[i])
			row[i] *= scale
		}
		n.add(row, e.cost[q]*scale, t.weight(e))
	}
	for i, w := range widest {
		n.g[i][i] += pulls[i] * (w / top) * (w / top)
	}
	return n.solve()
}

// weight of an entry halves with its age; a failure stands until it is
// doubted.
func (t *table) weight(e *entry) float64 {
	if e.failed {
		return 1
	}
	return fading[min(t.now-e.seen, len(fading)-1)]
}

// fading is the weight by age.
var fading = func() (w [64]float64) {
	for age := range w {
		w[age] = max(math.Exp2(-float64(age)/patience), faintest)
	}
	return w
}()

// counts: a failure tells of what it lacked only, if it knows how much.
func (e *entry) counts(q quantity) bool {
	return !e.ignored && !(e.failed && (q != e.lacked || e.cost[q] == 0))
}

func (t *table) top(q quantity) (top float64) {
	for i := range t.entries {
		if e := &t.entries[i]; e.counts(q) {
			top = max(top, e.cost[q])
		}
	}
	return top
}
