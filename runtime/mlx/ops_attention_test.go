package mlx

import (
	"fmt"
	"testing"
)

// attention is a case's sizes: sequences of {rows, length} over caches of cap positions.
type attention struct {
	h, kvh, d, cap int
	seqs           []Attended
	o              AttentionOptions
	sinks          bool
}

func TestRaggedAttention(t *testing.T) {
	for name, a := range map[string]attention{
		"decode":           {4, 2, 32, 24, []Attended{{Rows: 1, Length: 17}}, AttentionOptions{Scale: 0.2}, false},
		"prefill":          {4, 2, 32, 24, []Attended{{Rows: 6, Length: 6}}, AttentionOptions{Scale: 0.2}, false},
		"later chunk":      {4, 1, 16, 40, []Attended{{Rows: 7, Length: 33}}, AttentionOptions{Scale: 0.2}, false},
		"mixed":            {4, 2, 32, 40, []Attended{{Rows: 5, Length: 11}, {Rows: 1, Length: 40}, {Rows: 1, Length: 1}}, AttentionOptions{Scale: 0.2}, false},
		"window":           {2, 2, 16, 40, []Attended{{Rows: 9, Length: 30}, {Rows: 1, Length: 5}}, AttentionOptions{Scale: 0.3, Window: 4}, false},
		"softcap":          {2, 1, 16, 20, []Attended{{Rows: 3, Length: 20}}, AttentionOptions{Scale: 2, Softcap: 1.5}, false},
		"softcap, window":  {2, 1, 16, 20, []Attended{{Rows: 3, Length: 20}}, AttentionOptions{Scale: 2, Softcap: 1.5, Window: 6}, false},
		"sinks":            {4, 2, 32, 20, []Attended{{Rows: 4, Length: 9}, {Rows: 1, Length: 20}}, AttentionOptions{Scale: 0.2}, true},
		"sinks and window": {4, 2, 32, 20, []Attended{{Rows: 4, Length: 19}}, AttentionOptions{Scale: 0.2, Window: 5}, true},
	} {
		// Our own kernels serve float32, MLX's operations the rest.
		t.Run(name, func(t *testing.T) {
			on(t, func(s *Scope) error { return a.check(s, Float32, 1e-4) })
			on(t, func(s *Scope) error { return a.check(s, Float16, 1e-2) })
		})
	}
}

func (a attention) check(s *Scope, dt Dtype, tol float64) error {
	rows := 0
	for i := range a.seqs {
		a.seqs[i].K = s.AsType(wave(s, 10+i, 1, a.kvh, a.cap, a.d), dt)
		a.seqs[i].V = s.AsType(wave(s, 20+i, 1, a.kvh, a.cap, a.d), dt)
		rows += a.seqs[i].Rows
	}
	q := s.AsType(wave(s, 1, 1, rows, a.h, a.d), dt)
	if a.sinks {
		a.o.Sinks = wave(s, 5, a.h)
	}
	want, err := a.reference(q)
	if err != nil {
		return err
	}
	y := s.RaggedAttention(q, a.o, a.seqs...)
	got, err := floats(y)
	if err != nil {
		return fmt.Errorf("%w; %w", err, s.Err())
	}
	if y.Dtype() != dt {
		return fmt.Errorf("%v from %v", y, dt)
	}
	return near(got, want, tol)
}

func (a attention) reference(q *Array) (want []float32, err error) {
	qv, err := floats(q)
	if err != nil {
		return nil, err
	}
	var sinks []float32
	if a.sinks {
		if sinks, err = floats(a.o.Sinks); err != nil {
			return nil, err
		}
	}
	row := 0
	for _, seq := range a.seqs {
		kv, _ := floats(seq.K)
		vv, _ := floats(seq.V)
		for r := range seq.Rows {
			to := seq.Length - seq.Rows + r + 1
			from := 0
			if a.o.Window > 0 {
				from = max(0, to-a.o.Window)
			}
			for h := range a.h {
				var sink *float32
				if a.sinks {
					sink = &sinks[h]
				}
				at := h / (a.h / a.kvh) * a.cap * a.d
				want = append(want, attendRef(qv[(row*a.h+h)*a.d:], kv[at:], vv[at:], a.d, from, to, a.o, sink)...)
			}
			row++
		}
	}
	return want, nil
}

func TestManySequences(t *testing.T) {
	on(t, func(s *Scope) error {
		const n, d = maxAttended + 5, 16
		k, v := wave(s, 2, 1, 1, 3, d), wave(s, 3, 1, 1, 3, d)
		seqs := make([]Attended, n)
		for i := range seqs {
			seqs[i] = Attended{K: k, V: v, Rows: 1, Length: 1 + i%3}
		}
		q := wave(s, 1, 1, n, 2, d)
		o := AttentionOptions{Scale: 0.5}
		got := s.RaggedAttention(q, o, seqs...)
		last := s.RaggedAttention(s.SliceAxis(q, 1, n-1, n), o, seqs[n-1])
		return same(s.SliceAxis(got, 1, n-1, n), last, 1e-6)
	})
}

func TestSDPA(t *testing.T) {
	on(t, func(s *Scope) error {
		const h, kvh, r, l, d = 4, 2, 3, 9, 16
		q, k, v := wave(s, 1, 1, h, r, d), wave(s, 2, 1, kvh, l, d), wave(s, 3, 1, kvh, l, d)
		seen := s.Tri(Bool, r, l, l-r)
		byHand := func(mask *Array) *Array {
			score := s.Mul(s.MatMul(q, s.SwapAxes(s.Repeat(k, h/kvh, 1), 2, 3)), s.Scalar(0.3))
			if mask != nil {
				score = s.Where(mask, score, s.Scalar(-1e9))
			}
			return s.MatMul(s.Softmax(score, -1, true), s.Repeat(v, h/kvh, 1))
		}
		if err := same(s.SDPA(q, k, v, 0.3, NoMask), byHand(nil), 1e-5); err != nil {
			return fmt.Errorf("no mask: %w", err)
		}
		if err := same(s.SDPA(q, k, v, 0.3, Causal), byHand(seen), 1e-5); err != nil {
			return fmt.Errorf("causal: %w", err)
		}
		return same(s.SDPA(q, k, v, 0.3, MaskArray(seen)), byHand(seen), 1e-5)
	})
}
