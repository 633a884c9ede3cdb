package nn

import (
	"fmt"
	"math"
	"testing"

	"ingot/runtime/mlx"
)

// deltaCase is one call of the rule in plain numbers: b sequences of t
// tokens, hk heads of keys, hv of values, both d wide.
type deltaCase struct {
	b, t, hk, hv, d         int
	q, k, v, g, beta, state []float32
}

// newDelta is a case with unit keys and mild decay.
func newDelta(seed uint64, b, t, hk, hv, d int) *deltaCase {
	c := &deltaCase{b: b, t: t, hk: hk, hv: hv, d: d}
	c.q, c.k = random(seed, b*t*hk*d), random(seed+1, b*t*hk*d)
	c.v, c.state = random(seed+2, b*t*hv*d), random(seed+5, b*hv*d*d)
	c.g, c.beta = random(seed+3, b*t*hv), random(seed+4, b*t*hv)
	for i := range c.g {
		c.g[i] = -(c.g[i] + 1) / 4
		c.beta[i] = (c.beta[i] + 1) / 2
	}
	c.normalize()
	return c
}

func (c *deltaCase) normalize() {
	for _, x := range [][]float32{c.q, c.k} {
		for i := 0; i < len(x); i += c.d {
			var sum float64
			for _, v := range x[i : i+c.d] {
				sum += float64(v) * float64(v)
			}
			for j := range c.d {
				x[i+j] /= float32(math.Sqrt(sum))
			}
		}
	}
}

// slow is the rule token by token in float64: the oracle.
func (c *deltaCase) slow() (y, state []float32) {
	s := make([]float64, len(c.state))
	for i, v := range c.state {
		s[i] = float64(v)
	}
	y = make([]float32, len(c.v))
	for b := range c.b {
		for t := range c.t {
			for h := range c.hv {
				c.token(s[(b*c.hv+h)*c.d*c.d:], y, (b*c.t+t)*c.hv+h, (b*c.t+t)*c.hk+h*c.hk/c.hv)
			}
		}
	}
	for _, v := range s {
		state = append(state, float32(v))
	}
	return y, state
}

// token steps one head's S [d, d]; v is the row of values, k that of keys.
func (c *deltaCase) token(s []float64, y []float32, v, k int) {
	key, query, decay, beta := c.k[k*c.d:], c.q[k*c.d:], math.Exp(float64(c.g[v])), float64(c.beta[v])
	for i := range c.d {
		row := s[i*c.d : (i+1)*c.d]
		var seen float64
		for j := range row {
			row[j] *= decay
			seen += row[j] * float64(key[j])
		}
		write := beta * (float64(c.v[v*c.d+i]) - seen)
		var out float64
		for j := range row {
			row[j] += write * float64(key[j])
			out += row[j] * float64(query[j])
		}
		y[v*c.d+i] = float32(out)
	}
}

// fast is Delta in steps of the given numbers of tokens.
func (c *deltaCase) fast(t *testing.T, s *mlx.Scope, cuts ...int) (y, state []float32) {
	q, k := s.FromFloat32(c.q, c.b, c.t, c.hk, c.d), s.FromFloat32(c.k, c.b, c.t, c.hk, c.d)
	v := s.FromFloat32(c.v, c.b, c.t, c.hv, c.d)
	g, beta := s.FromFloat32(c.g, c.b, c.t, c.hv), s.FromFloat32(c.beta, c.b, c.t, c.hv)
	st := s.FromFloat32(c.state, c.b, c.hv, c.d, c.d)
	var ys []*mlx.Array
	at := 0
	for _, n := range cuts {
		part := func(a *mlx.Array) *mlx.Array { return s.SliceAxis(a, 1, at, at+n) }
		var out *mlx.Array
		out, st = Delta(s, part(q), part(k), part(v), part(g), part(beta), st)
		ys = append(ys, out)
		at += n
	}
	return floats(t, s.Concat(1, ys...)), floats(t, st)
}

func (c *deltaCase) check(t *testing.T, what string, tol float64, cuts ...int) {
	t.Helper()
	on(t, func(s *mlx.Scope) error {
		wantY, wantS := c.slow()
		y, st := c.fast(t, s, cuts...)
		close32(t, what+": y", y, wantY, tol)
		close32(t, what+": state", st, wantS, tol)
		return s.Err()
	})
}

func TestDeltaAgreesWithTheOracle(t *testing.T) {
	for _, n := range []int{1, 2, 3, 17, 63, 64, 65, 128, 200} {
		newDelta(uint64(n), 1, n, 2, 4, 16).check(t, fmt.Sprintf("%d tokens", n), 5e-6, n)
	}
	newDelta(7, 3, 5, 2, 2, 8).check(t, "three sequences", 5e-6, 5)
	newDelta(8, 4, 1, 1, 3, 32).check(t, "four steps at once", 5e-6, 1)
}

func TestDeltaInPieces(t *testing.T) {
	c := newDelta(3, 1, 150, 2, 4, 16)
	for _, cuts := range [][]int{{64, 86}, {1, 149}, {149, 1}, {63, 1, 1, 85}, {50, 50, 50}} {
		c.check(t, fmt.Sprint(cuts), 1e-5, cuts...)
	}
}

// What breaks an inverse by powers: parallel keys that are written in full
// and never fade.
func TestDeltaIsStable(t *testing.T) {
	for what, spoil := range map[string]func(c *deltaCase){
		"parallel keys": func(c *deltaCase) {
			for i := range c.k {
				c.k[i] = c.k[i%c.d] + 1e-3*c.k[i]
			}
		},
		"opposite keys": func(c *deltaCase) {
			for i := range c.k {
				c.k[i] = c.k[i%c.d] * float32(1-2*(i/c.d%2))
			}
		},
		"keys of nothing": func(c *deltaCase) {
			clear(c.k[len(c.k)/2:])
		},
	} {
		for decay, g := range map[string]float32{"never fades": 0, "fades slowly": -1e-4, "fades at once": -80, "is gone": -1e4} {
			for _, beta := range []float32{1, 0.999, 0} {
				c := newDelta(11, 1, 130, 1, 2, 16)
				for i := range c.g {
					c.g[i], c.beta[i] = g, beta
				}
				spoil(c)
				if what != "keys of nothing" {
					c.normalize()
				}
				c.check(t, fmt.Sprintf("%s, %s, beta %v", what, decay, beta), 2e-5, 130)
			}
		}
	}
}

func TestDeltaWithDecayAllOver(t *testing.T) {
	c := newDelta(12, 1, 256, 1, 2, 16)
	for i := range c.g {
		c.g[i] = []float32{0, -1e-6, -50, -0.3, -1000, -1e-3}[i%6]
		c.beta[i] = []float32{1, 0.5, 1, 0}[i%4]
	}
	c.check(t, "decay from none to all", 2e-5, 256)
}
