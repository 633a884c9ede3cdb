package governor

import (
	"math"
	"math/rand/v2"
	"time"

	"ingot/runtime/turn"
)

// plant is a simulated model: what a step costs, exactly, and the limit that
// it fails at.
type plant struct {
	layers  int
	limits  Limits
	states  turn.Buffers // live between steps, beyond the weights
	buffers vector       // in the terms of shape
	bytes   vector
	seconds vector
	power   float64 // costs in flight grow with width to this power (1: affine)
	noise   float64 // relative, of buffers, bytes and time
	rng     *rand.Rand
	kept    []Kept
	launch  int     // rows that the device starts; 0: any
	over    float64 // the next step needs so many times as much; 0: as usual
	slow    float64 // and takes so many times as long

	clock         time.Duration
	faults, steps int
	highest       turn.Buffers
}

func (p *plant) jitter() float64 { return 1 + p.noise*(2*p.rng.Float64()-1) }

func (p *plant) need(s shape) (b, m float64) {
	bent := s
	if p.power > 0 {
		bent.width = 1024 * math.Pow(s.width/1024, p.power)
	}
	j := p.jitter()
	return bent.terms(buffers).dot(p.buffers) * j, bent.terms(memory).dot(p.bytes) * j
}

func (p *plant) level() Level {
	l := Level{Live: p.limits.Resident + p.states, Bytes: p.limits.ResidentBytes}
	for _, k := range p.kept {
		l.Live += k.Buffers
		l.Bytes += k.Bytes
	}
	return l
}

func (p *plant) evict(n int) { p.kept = p.kept[min(n, len(p.kept)):] }

func (p *plant) part(layers int) float64 {
	if layers <= 0 {
		return 1
	}
	return min(1, float64(layers)/float64(p.layers))
}

// step runs a plan and says what it took.
func (p *plant) step(a Ask, pl Plan) Reading {
	r := Reading{Width: pl.Width, Context: a.Context, Decode: pl.Rows, Depth: pl.Depth, Before: p.level(), Limits: p.limits}
	s := shape{float64(pl.Width), float64(a.Context), float64(pl.Rows), p.part(pl.Depth)}
	b, m := p.need(s)
	elapsed := s.terms(seconds).dot(p.seconds) * p.jitter()
	if p.over > 0 {
		b, m = b*p.over, m*p.over
	}
	if p.slow > 0 {
		elapsed *= p.slow
	}
	p.over, p.slow = 0, 0
	r.PeakLive, r.PeakBytes = r.Before.Live+turn.Buffers(b), r.Before.Bytes+turn.Bytes(m)
	switch {
	case p.limits.Buffers > 0 && r.PeakLive > p.limits.Buffers:
		r.Fault, r.PeakLive = FaultBuffers, p.limits.Buffers
	case p.limits.Bytes > 0 && r.PeakBytes > p.limits.Bytes:
		r.Fault, r.PeakBytes = FaultBytes, p.limits.Bytes
	case p.launch > 0 && pl.Width+pl.Rows > p.launch:
		r.Fault = FaultLaunch
	}
	r.Live = r.Before.Live
	if r.Fault != FaultNone {
		p.faults++
		elapsed /= 2
	}
	r.Elapsed = time.Duration(elapsed * 1e9)
	p.clock += r.Elapsed
	p.steps++
	p.highest = max(p.highest, r.PeakLive)
	return r
}

// prefill takes a prompt through a governor and returns the widths of the
// committed steps; refused is not nil if it was refused.
func (p *plant) prefill(g *Governor, tokens int, each func(*Ask)) (widths []Plan, refused *Refusal) {
	for done := 0; done < tokens; {
		a := Ask{Remaining: tokens - done, Context: done, Limits: p.limits, Level: p.level(), Kept: p.kept}
		if each != nil {
			each(&a)
		}
		pl := g.Next(a)
		if pl.Refusal != nil {
			return widths, pl.Refusal
		}
		for _, l := range pl.Levers {
			if l.Kind == LeverEvict {
				p.evict(l.Count)
			}
		}
		r := p.step(a, pl)
		g.Observe(r)
		if r.Fault == FaultNone {
			done += pl.Width
			widths = append(widths, pl)
		}
		if p.steps > 100000 {
			panic("no end")
		}
	}
	return widths, nil
}
