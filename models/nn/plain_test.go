package nn

import (
	"math"
	"testing"

	"ingot/runtime/mlx"
)

// Plain numbers for the oracles.

func exp(v float64) float64 { return math.Exp(v) }

// mat is w [n, len(x)] times x.
func mat[T float32 | float64](w []float32, x []T, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		for j, v := range x {
			out[i] += float64(w[i*len(x)+j]) * float64(v)
		}
	}
	return out
}

func softmax(v []float64) []float64 {
	var sum float64
	out := make([]float64, len(v))
	for i := range v {
		out[i] = exp(v[i])
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// swiglu gates the first half of gu and multiplies it with the second.
func swiglu(gu []float64) []float64 {
	n := len(gu) / 2
	out := make([]float64, n)
	for i := range out {
		out[i] = gu[i] / (1 + exp(-gu[i])) * gu[n+i]
	}
	return out
}

// top is the k largest, by index.
func top(v []float64, k int) []int {
	var best []int
	for range k {
		at := -1
		for i := range v {
			taken := false
			for _, b := range best {
				taken = taken || b == i
			}
			if !taken && (at < 0 || v[i] > v[at]) {
				at = i
			}
		}
		best = append(best, at)
	}
	return best
}

// The convolution of each channel sees its own past only.
func TestConvolutionAgreesWithTheOracle(t *testing.T) {
	const channels, kernel, tokens = 3, 4, 9
	w, x := random(1, channels*kernel), random(2, (tokens+kernel-1)*channels)
	want := make([]float32, tokens*channels)
	for at := range tokens {
		for c := range channels {
			var sum float64
			for j := range kernel {
				sum += float64(w[c*kernel+j]) * float64(x[(at+j)*channels+c])
			}
			want[at*channels+c] = float32(sum / (1 + exp(-sum)))
		}
	}
	on(t, func(s *mlx.Scope) error {
		n := &DeltaNet{DeltaShape: DeltaShape{Kernel: kernel, KeyDim: 4}, Conv: s.FromFloat32(w, channels, kernel), ALog: s.FromFloat32([]float32{0})}
		if err := n.Prepare(s); err != nil {
			return err
		}
		defer n.Free()
		close32(t, "convolution", floats(t, n.convolve(s, s.FromFloat32(x, 1, tokens+kernel-1, channels), tokens)), want, 1e-6)
		return s.Err()
	})
}
