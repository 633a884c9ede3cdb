package mlx

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// The references here are the slow, plain ones: loops over Go slices in float64.

func matmulRef(a, b []float32, n, k, m int) []float32 {
	out := make([]float32, n*m)
	for i := range n {
		for j := range m {
			sum := 0.0
			for x := range k {
				sum += float64(a[i*k+x]) * float64(b[x*m+j])
			}
			out[i*m+j] = float32(sum)
		}
	}
	return out
}

func TestMatMul(t *testing.T) {
	on(t, func(s *Scope) error {
		const n, k, m = 5, 70, 9
		a, b := wave(s, 1, n, k), wave(s, 2, k, m)
		av, _ := floats(a)
		bv, _ := floats(b)
		want := matmulRef(av, bv, n, k, m)
		got, err := floats(s.MatMul(a, b))
		if err != nil {
			return err
		}
		if err := near(got, want, 1e-5); err != nil {
			return fmt.Errorf("matmul: %w", err)
		}
		for i := range want {
			want[i] += 2
		}
		if got, err = floats(s.AddMM(s.Scalar(2), a, b)); err != nil {
			return err
		}
		return near(got, want, 1e-5)
	})
}

func TestGatherMM(t *testing.T) {
	on(t, func(s *Scope) error {
		a, b := wave(s, 1, 3, 2, 8), wave(s, 2, 4, 8, 5)
		lhs, rhs := s.FromUint32([]uint32{0, 2}), s.FromUint32([]uint32{1, 3})
		want := s.MatMul(s.Take(a, lhs, 0), s.Take(b, rhs, 0))
		return same(s.GatherMM(a, b, lhs, rhs, true), want, 1e-5)
	})
}

func TestConv1D(t *testing.T) {
	on(t, func(s *Scope) error {
		const T, C, K = 6, 3, 4
		x, w := wave(s, 1, 1, T+K-1, C), wave(s, 2, C, K, 1)
		xv, _ := floats(x)
		wv, _ := floats(w)
		var want []float32
		for i := range T {
			for c := range C {
				sum := float32(0)
				for k := range K {
					sum += xv[(i+k)*C+c] * wv[c*K+k]
				}
				want = append(want, sum)
			}
		}
		got, err := floats(s.Conv1D(x, w, 1, 0, 1, C))
		if err != nil {
			return err
		}
		return near(got, want, 1e-5)
	})
}

// unpack reads affine-packed rows in Go: element i of a row has bits*i..., low bits first.
func unpack(packed []uint32, scales, biases []float32, rows, k, group, bits int) []float32 {
	out := make([]float32, rows*k)
	words := k * bits / 32
	for r := range rows {
		for i := range k {
			at := i * bits
			v := uint64(packed[r*words+at/32])
			if at/32+1 < words {
				v |= uint64(packed[r*words+at/32+1]) << 32
			}
			q := float32(v >> (at % 32) & (1<<bits - 1))
			g := r*(k/group) + i/group
			out[r*k+i] = q*scales[g] + biases[g]
		}
	}
	return out
}

func TestQuantized(t *testing.T) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			t.Run(fmt.Sprintf("%d bits, groups of %d", bits, group), func(t *testing.T) {
				on(t, func(s *Scope) error { return checkQuantized(s, group, bits) })
			})
		}
	}
}

func checkQuantized(s *Scope, group, bits int) error {
	const n, k = 24, 256
	w := wave(s, 3, n, k)
	p, sc, bi := s.Quantize(w, group, bits, Affine)
	if err := s.Eval(p, sc, bi); err != nil {
		return err
	}
	packed := make([]uint32, p.Size())
	if err := p.Uint32s(packed); err != nil {
		return err
	}
	scales, _ := floats(sc)
	biases, _ := floats(bi)
	plain := unpack(packed, scales, biases, n, k, group, bits)
	got, err := floats(s.Dequantize(p, sc, bi, group, bits, Affine, Float32))
	if err != nil {
		return err
	}
	if err := near(got, plain, 1e-6); err != nil {
		return fmt.Errorf("dequantize: %w", err)
	}
	whole := s.FromFloat32(plain, n, k)
	ids := s.FromInt32([]int32{5, 0, 23}, 1, 3)
	if err := same(s.QuantizedEmbedding(ids, p, sc, bi, group, bits, Affine, Float32), s.Take(whole, ids, 0), 1e-6); err != nil {
		return fmt.Errorf("embedding: %w", err)
	}
	half := s.QuantizedEmbedding(ids, p, s.AsType(sc, Float16), s.AsType(bi, Float16), group, bits, Affine, Float16)
	if err := same(half, s.Take(whole, ids, 0), 1e-2); err != nil || half.Dtype() != Float16 {
		return fmt.Errorf("embedding: %v: %w", half, err)
	}
	for _, rows := range []int{1, 3, 40} {
		x := wave(s, 4, 1, rows, k)
		want := s.MatMul(x, s.Transpose(whole, 1, 0))
		if err := same(s.QuantizedMatMul(x, p, sc, bi, group, bits, Affine), want, 2e-5); err != nil {
			return fmt.Errorf("product of %d rows: %w", rows, err)
		}
	}
	return nil
}

func TestExperts(t *testing.T) {
	on(t, func(s *Scope) error {
		const e, n, k, group, bits = 5, 16, 128, 64, 4
		p, sc, bi := s.Quantize(wave(s, 3, e, n, k), group, bits, Affine)
		whole := s.Dequantize(p, sc, bi, group, bits, Affine, Float32)
		idx := s.FromInt32([]int32{3, 1, 0, 4, 3, 3}, 3, 2)
		chosen := s.SwapAxes(s.Take(whole, idx, 0), -1, -2) // [T, k, K, N]
		for _, per := range []int{1, 2} {
			x := wave(s, 5, 3, per, k)
			want := s.Squeeze(s.MatMul(s.ExpandDims(x, -2), chosen), 2)
			if err := same(s.ExpertsQMM(x, p, sc, bi, idx, group, bits, Affine, false), want, 2e-5); err != nil {
				return fmt.Errorf("%d rows a token: %w", per, err)
			}
			half := func(a *Array) *Array { return s.AsType(a, Float16) }
			if err := same(s.ExpertsQMM(half(x), p, half(sc), half(bi), idx, group, bits, Affine, false), want, 2e-2); err != nil {
				return fmt.Errorf("float16, %d rows a token: %w", per, err)
			}
			raw := s.GatherQMM(s.ExpandDims(x, -2), p, sc, bi, nil, idx, group, bits, Affine, false)
			if err := same(s.Squeeze(raw, 2), want, 2e-5); err != nil {
				return fmt.Errorf("gathered, %d rows a token: %w", per, err)
			}
		}
		return nil
	})
}

func TestOtherModes(t *testing.T) {
	for _, m := range []struct {
		mode        QuantMode
		group, bits int
	}{{MXFP4, 32, 4}, {NVFP4, 16, 4}, {MXFP8, 32, 8}} {
		t.Run(string(m.mode), func(t *testing.T) {
			on(t, func(s *Scope) error {
				w := wave(s, 3, 8, 64)
				p, sc, bi := s.Quantize(w, m.group, m.bits, m.mode)
				if err := s.Err(); err != nil {
					return err
				}
				if bi.Alive() {
					return fmt.Errorf("%s has biases", m.mode)
				}
				whole := s.Dequantize(p, sc, nil, m.group, m.bits, m.mode, Float32)
				if err := same(whole, w, 0.2); err != nil {
					return err
				}
				x := wave(s, 4, 3, 64)
				want := s.MatMul(x, s.Transpose(whole, 1, 0))
				return same(s.QuantizedMatMul(x, p, sc, nil, m.group, m.bits, m.mode), want, 1e-4)
			})
		})
	}
}

func TestNorms(t *testing.T) {
	on(t, func(s *Scope) error {
		const rows, d, eps = 3, 40, 1e-5
		x, y, w, b := wave(s, 1, rows, d), wave(s, 2, rows, d), wave(s, 3, d), wave(s, 4, d)
		rms := s.Mul(s.Mul(x, s.Rsqrt(s.Add(s.MeanKeep(s.Square(x), -1), s.Scalar(eps)))), w)
		if err := same(s.RMSNorm(x, w, eps), rms, 1e-5); err != nil {
			return fmt.Errorf("rms: %w", err)
		}
		if err := same(s.Mul(s.RMSNorm(x, nil, eps), w), rms, 1e-5); err != nil {
			return fmt.Errorf("rms without weight: %w", err)
		}
		for _, dt := range []Dtype{Float16, BFloat16} {
			h := func(a *Array) *Array { return s.AsType(a, dt) }
			sum, norm := s.AddRMSNorm(h(x), h(y), h(w), eps)
			if err := errors.Join(same(sum, s.Add(h(x), h(y)), 0), same(norm, s.RMSNorm(sum, h(w), eps), 0)); err != nil {
				return fmt.Errorf("%v: %w", dt, err)
			}
			for _, pair := range [][2]*Array{{s.SwiGLU(h(x), h(y)), s.SwiGLU(x, y)}, {s.GeGLU(h(x), h(y)), s.GeGLU(x, y)}} {
				if err := same(pair[0], pair[1], 2e-2); err != nil || pair[0].Dtype() != dt {
					return fmt.Errorf("%v: %v: %w", dt, pair[0], err)
				}
			}
		}
		sum, norm := s.AddRMSNorm(x, y, w, eps)
		if err := same(sum, s.Add(x, y), 0); err != nil {
			return fmt.Errorf("sum: %w", err)
		}
		if err := same(norm, s.RMSNorm(s.Add(x, y), w, eps), 1e-6); err != nil {
			return fmt.Errorf("norm of sum: %w", err)
		}
		c := s.Sub(x, s.MeanKeep(x, -1))
		layer := s.Add(s.Mul(s.Mul(c, s.Rsqrt(s.Add(s.MeanKeep(s.Square(c), -1), s.Scalar(eps)))), w), b)
		return same(s.LayerNorm(x, w, b, eps), layer, 1e-5)
	})
}

// ropeRef turns one head's row of d features at a position.
func ropeRef(row []float32, r Rotary, freqs []float32, pos int) []float32 {
	out := append([]float32(nil), row...)
	half := r.Dims / 2
	for i := range half {
		inv := math.Pow(r.Base, -float64(2*i)/float64(r.Dims))
		if freqs != nil {
			inv = 1 / float64(freqs[i])
		}
		a, b := i, i+half
		if r.Traditional {
			a, b = 2*i, 2*i+1
		}
		sin, cos := math.Sincos(float64(pos) * r.scale() * inv)
		x, y := float64(row[a]), float64(row[b])
		out[a], out[b] = float32(x*cos-y*sin), float32(x*sin+y*cos)
	}
	return out
}

func TestRoPE(t *testing.T) {
	freqs := []float32{1, 3, 10, 40}
	for name, r := range map[string]Rotary{
		"plain":       {Dims: 16, Base: 10000},
		"partial":     {Dims: 8, Base: 500},
		"traditional": {Dims: 16, Base: 10000, Traditional: true},
		"scaled":      {Dims: 16, Base: 10000, Scale: 0.25},
		"freqs":       {Dims: 8},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, func(s *Scope) error { return checkRoPE(s, r, freqs, Float32, 1e-4) })
			on(t, func(s *Scope) error { return checkRoPE(s, r, freqs, Float16, 1e-2) })
		})
	}
}

func checkRoPE(s *Scope, r Rotary, freqs []float32, dt Dtype, tol float64) error {
	const h, rows, d = 2, 5, 16
	x := s.AsType(wave(s, 1, 1, rows, h, d), dt)
	xv, err := floats(x)
	if err != nil {
		return err
	}
	if r.Base == 0 {
		r.Freqs = s.FromFloat32(freqs)
	} else {
		freqs = nil
	}
	at := func(pos ...int) (want []float32) {
		for i := range rows * h {
			want = append(want, ropeRef(xv[i*d:(i+1)*d], r, freqs, pos[i/h])...)
		}
		return want
	}
	got, err := floats(s.Transpose(s.RoPE(s.Transpose(x, 0, 2, 1, 3), r, 7), 0, 2, 1, 3))
	if err != nil {
		return err
	}
	if err := near(got, at(7, 8, 9, 10, 11), tol); err != nil {
		return fmt.Errorf("one sequence: %w", err)
	}
	if got, err = floats(s.RoPERows(x, r, Run{30, 2}, Run{0, 1}, Run{4, 2})); err != nil {
		return err
	}
	if err := near(got, at(30, 31, 0, 4, 5), tol); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

// attendRef is attention of one row over the keys [from, to) of one head.
func attendRef(q, k, v []float32, d, from, to int, o AttentionOptions, sink *float32) []float32 {
	out, total, top := make([]float64, d), 0.0, math.Inf(-1)
	score := make([]float64, to)
	for j := from; j < to; j++ {
		for x := range d {
			score[j] += float64(q[x]) * float64(k[j*d+x])
		}
		score[j] *= o.Scale
		if o.Softcap > 0 {
			score[j] = o.Softcap * math.Tanh(score[j]/o.Softcap)
		}
		top = max(top, score[j])
	}
	if sink != nil {
		top = max(top, float64(*sink))
		total = math.Exp(float64(*sink) - top)
	}
	for j := from; j < to; j++ {
		p := math.Exp(score[j] - top)
		total += p
		for x := range d {
			out[x] += p * float64(v[j*d+x])
		}
	}
	row := make([]float32, d)
	for x := range d {
		row[x] = float32(out[x] / total)
	}
	return row
}
