package governor

import (
	"slices"

	"ingot/runtime/turn"
)

// narrow takes the widest step that fits at any depth, and of depths that
// allow about the same the one that splits least; it returns the width that
// fits. Something is always tried: a step that fails costs nothing but its
// time.
func (g *Governor) narrow(d *draft, room [seconds]float64) int {
	if d.fixed {
		d.setDepth(g.deepest())
		return 1
	}
	best, at := g.deepWidth(d, room)
	d.setDepth(at)
	if d.Width > 0 {
		d.setWidth(max(1, even(best)), g.why(d))
	} else {
		d.Reason = g.why(d)
	}
	if best < 1 {
		g.thin(d, room)
	}
	return best
}

func (g *Governor) deepWidth(d *draft, room [seconds]float64) (best int, at depth) {
	fits := func(s shape) bool { return g.fits(d, s, room) }
	wanted := d.shape
	wanted.width = d.wanted
	best = -1
	for _, dep := range slices.Backward(g.depths) {
		s := wanted
		s.part = dep.part
		if w := widest(s, fits); 20*w >= 19*best {
			best, at = max(best, w), dep
		}
	}
	if best < 1 {
		at = g.deepest()
	}
	return best, at
}

// thin leaves decode rows out of a step that is as narrow as can be.
func (g *Governor) thin(d *draft, room [seconds]float64) {
	for d.Rows > 1 && !g.fits(d, d.shape, room) {
		d.Rows = d.Rows / 2
		d.shape.rows = float64(d.Rows)
	}
	if d.Rows == 1 && d.Width == 1 && !g.fits(d, d.shape, room) {
		if g.starved++; g.starved%patience == 0 && g.retry.area == 0 {
			return // a prediction alone holds no prompt up for ever
		}
		d.setWidth(0, d.Reason)
	}
}

func (g *Governor) why(d *draft) turn.Reason {
	switch {
	case g.retry.area > 0:
		return turn.ReasonFault
	case d.tight == memory:
		return turn.ReasonBytes
	}
	return turn.ReasonBuffers
}

// widest returns the largest width up to the shape's own that fits; 0 if
// none does.
func widest(s shape, fits func(shape) bool) int {
	if fits(s) {
		return int(s.width)
	}
	lo, hi := 0, int(s.width) // lo fits or is 0, hi does not
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		s.width = float64(mid)
		if fits(s) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// even rounds a width down to one that kernels and caches of buffers like.
func even(w int) int {
	for _, unit := range [...]int{256, 64, 8} {
		if w >= 4*unit {
			return w / unit * unit
		}
	}
	return w
}
