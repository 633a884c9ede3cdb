package governor

// probe gets a governor out of a corner that its own caution made: where only
// small steps were seen lately, nothing tells a constant cost from one that
// grows with width, and the fit believes the worse. Now and then, if what is
// known allows it, a step twice as large as planned is tried.
type probe struct {
	wait  int // short steps until the next one
	pause int
	out   bool // one is under way
}

const (
	firstProbe = 8
	longProbe  = 512
)

// due counts a short step and reports whether a larger one should be tried.
func (p *probe) due() bool {
	p.wait--
	return p.wait < 0
}

// ended tells what came of the step: a probe that failed waits twice as long
// for the next.
func (p *probe) ended(failed bool) {
	if !p.out {
		return
	}
	p.out = false
	if failed {
		p.pause = min(2*max(p.pause, firstProbe), longProbe)
	} else {
		p.pause = 0
	}
	p.wait = p.pause
}

// dare tries a larger step in place of a short one.
func (g *Governor) dare(d *draft, wanted shape) {
	if d.fixed || g.retry.area > 0 || !g.probe.due() {
		return
	}
	s := d.shape
	if s.width < wanted.width {
		s.width = min(2*s.width, wanted.width)
	} else {
		for _, dep := range g.depths {
			if dep.part <= 2.1*s.part {
				s.part = dep.part
				break
			}
		}
	}
	if s == d.shape || !g.table.hopes(s, d.room, d.last) {
		return
	}
	g.probe.out = true
	d.setWidth(int(s.width), d.Reason)
	for _, dep := range g.depths {
		if dep.part == s.part {
			d.setDepth(dep)
		}
	}
}

// hopes reports whether a step would fit if costs were as constant as what
// was seen allows.
func (t *table) hopes(s shape, room, last [seconds]float64) bool {
	if _, blocked := t.blocked(s, room); blocked {
		return false
	}
	for q := range seconds {
		fit := t.solve(q, &hopeful)
		if fit.dot(s.terms(q)) > room[q]+last[q] {
			return false
		}
	}
	return true
}
