package cputest

import (
	"fmt"
	"math"
	"testing"
)

func rmsRef(x, w []float32, eps float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	r := 1 / math.Sqrt(sum/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) * r * float64(w[i])
	}
	return out
}

func TestRMS(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(20)
		for _, n := range []int{1, 3, 16, 17, 64, 576, 1000} {
			x, w := normal(r, n), normal(r, n)
			want := rmsRef(x, w, 1e-5)
			y := make([]float32, n)
			RawRMS(x, w, 1e-5, y)
			near(t, fmt.Sprint(n), y, want, ones(n), 2e-6)
			RawRMS(x, w, 1e-5, x)
			same(t, "in place", x, y)
		}
	})
}

func TestGates(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(21)
		for _, n := range []int{1, 5, 16, 33, 1536} {
			g, u := normal(r, n), normal(r, n)
			for i := range g {
				g[i] *= 8
			}
			if n > 4 {
				g[0], g[1], g[2], g[3] = 200, -200, 0, -87.5
			}
			silu, gelu := make([]float64, n), make([]float64, n)
			for i := range g {
				x := float64(g[i])
				silu[i] = x / (1 + math.Exp(-x)) * float64(u[i])
				gelu[i] = 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) * float64(u[i])
			}
			y := make([]float32, n)
			RawGate(false, g, u, y)
			near(t, fmt.Sprint("silu ", n), y, silu, sizes(silu), 1e-6)
			RawGate(true, g, u, y)
			near(t, fmt.Sprint("gelu ", n), y, gelu, sizes(gelu), 1e-6)
		}
	})
}

// sizes measures errors against 1 or the value, whichever is larger.
func sizes(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = max(1, math.Abs(v[i]))
	}
	return out
}

func TestRope(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(22)
		for _, c := range [][2]int{{64, 64}, {2, 5}, {20, 64}, {128, 128}, {6, 6}} {
			dims, n := c[0], c[1]
			x := normal(r, n)
			cos, sin := make([]float32, dims/2), make([]float32, dims/2)
			for i := range cos {
				a := r.Float64() * 10
				cos[i], sin[i] = float32(math.Cos(a)), float32(math.Sin(a))
			}
			for _, traditional := range []bool{false, true} {
				want := wide(x)
				for i := range dims / 2 {
					a, b := i, i+dims/2
					if traditional {
						a, b = 2*i, 2*i+1
					}
					want[a] = float64(x[a])*float64(cos[i]) - float64(x[b])*float64(sin[i])
					want[b] = float64(x[a])*float64(sin[i]) + float64(x[b])*float64(cos[i])
				}
				y := make([]float32, n)
				RawRope(x, cos, sin, y, dims, traditional)
				near(t, fmt.Sprint(c, traditional), y, want, ones(n), 1e-6)
				in := append([]float32{}, x...)
				RawRope(in, cos, sin, in, dims, traditional)
				same(t, "in place", in, y)
			}
		}
	})
}
