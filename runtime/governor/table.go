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

// pulls say what to believe while too little is known: that cost is
// proportional to width, else to the part in flight. Constants have to be
// shown.
var pulls = vector{1e-2, 1e-4, 1e-8, 1e-5, 1e-3, 1e-6}

// Believed of a model before its first step, for each token in flight.
const (
	priorBuffers = 8
	priorBytes   = 1 << 20
	priorSeconds = 0.0005
)

const (
	tableSize = 40
	patience  = 8    // observations before what stands in the way is tried again
	maxStrike = 6    // doublings of patience
	faintest  = 0.02 // weight of the oldest entry
)

// entry is what is known of one size of step.
type entry struct {
	key     uint32
	shape   shape
	cost    [quantities]float64
	failed  bool // cost is a guess above what there was: the step failed
	ignored bool // no longer believed, kept to count strikes
	seen    int  // table.now when last observed
	strikes int  // how often a new trial confirmed it
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
// by octaves.
func keyOf(s shape) uint32 {
	w := uint32(0)
	if s.width >= 1 {
		w = 1 + uint32(4*math.Log2(s.width))
	}
	return w | octave(s.context)<<8 | octave(s.rows)<<16 | octave(1/s.part)<<24
}

func octave(x float64) uint32 { return uint32(bits.Len64(uint64(x))) }

// learn takes in what a step cost. A failed one cost at least that.
func (t *table) learn(s shape, cost [quantities]float64, failed bool) {
	t.now++
	t.stale = true
	key := keyOf(s)
	e := t.slot(key)
	if e.seen > 0 && e.key == key {
		e.again(s, cost, failed)
	} else {
		*e = entry{key: key, shape: s, cost: cost, failed: failed}
	}
	e.seen = t.now
	if !failed {
		t.known = true
	}
}

// again merges a new observation into an entry. Buffers and bytes rise at
// once and fall by halves; time goes by halves.
func (e *entry) again(s shape, cost [quantities]float64, failed bool) {
	switch {
	case e.ignored && failed:
		e.strikes = min(e.strikes+1, maxStrike)
	case !failed:
		e.strikes = 0
	}
	fresh := e.ignored || failed != e.failed || math.Abs(s.width-e.shape.width) > 0.02*e.shape.width
	for q := range cost {
		if !fresh && (quantity(q) == seconds || cost[q] < e.cost[q]) {
			cost[q] = (cost[q] + e.cost[q]) / 2
		}
	}
	e.shape, e.cost, e.failed, e.ignored = s, cost, failed, false
}

// slot returns the entry of a key, else a free one, else the oldest.
func (t *table) slot(key uint32) *entry {
	oldest := 0
	for i := range t.entries {
		if t.entries[i].key == key {
			return &t.entries[i]
		}
		if t.entries[i].seen < t.entries[oldest].seen {
			oldest = i
		}
	}
	if len(t.entries) < tableSize {
		t.entries = append(t.entries, entry{})
		return &t.entries[len(t.entries)-1]
	}
	return &t.entries[oldest]
}

// doubt stops believing what stands in the way of steps larger than the one
// just made and has not been seen for long. If it is still true, the next
// trial shows it, and it is believed for twice as long.
func (t *table) doubt(done shape) {
	for i := range t.entries {
		e := &t.entries[i]
		if !e.ignored && e.shape.area() > 1.1*done.area() && t.now-e.seen >= patience<<e.strikes {
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
		t.fit[q] = t.solve(q)
	}
}

// solve fits one quantity by relative error, what was seen last weighing
// most.
func (t *table) solve(q quantity) vector {
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
		age := float64(t.now-e.seen) / patience
		n.add(row, e.cost[q]*scale, max(math.Exp2(-age), faintest))
	}
	for i, w := range widest {
		n.g[i][i] += pulls[i] * (w / top) * (w / top)
	}
	return n.solve()
}

func (e *entry) counts(q quantity) bool { return !e.ignored && !(e.failed && q == seconds) }

func (t *table) top(q quantity) (top float64) {
	for i := range t.entries {
		if e := &t.entries[i]; e.counts(q) {
			top = max(top, e.cost[q])
		}
	}
	return top
}
