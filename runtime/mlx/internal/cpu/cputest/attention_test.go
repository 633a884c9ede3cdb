package cputest

import (
	"fmt"
	"math"
	"testing"
)

// Scores of size up to 10 carry rounding errors of about 1e-6, which their
// exponentials keep: so much of values of size about one.
const attnTol = 1e-5

// attnRef is the definition, in f64.
func attnRef(h Heads, q, k, v []float32, capacity int, seqs []Seq) []float64 {
	var out []float64
	row := 0
	for _, s := range seqs {
		for r := range s.Rows {
			for head := range h.H {
				out = append(out, headRef(h, q[(row*h.H+head)*h.D:], k[s.AtK:], v[s.AtV:], capacity, s, r, head)...)
			}
			row++
		}
	}
	return out
}

func headRef(h Heads, q, k, v []float32, capacity int, s Seq, r, head int) []float64 {
	kv := head / (h.H / h.KVH)
	position := s.Length - s.Rows + r
	scores, top := map[int]float64{}, math.Inf(-1)
	if h.Sinks != nil {
		top = float64(h.Sinks[head])
	}
	for p := range s.Length {
		if (h.Causal && p > position) || (h.Window > 0 && p <= position-h.Window) {
			continue
		}
		dot := 0.0
		for d := range h.D {
			dot += float64(q[d]) * float64(k[(kv*capacity+p)*h.D+d])
		}
		dot *= float64(h.Scale)
		if h.Softcap > 0 {
			dot = float64(h.Softcap) * math.Tanh(dot/float64(h.Softcap))
		}
		scores[p] = dot
		top = max(top, dot)
	}
	total := 0.0
	if h.Sinks != nil {
		total = math.Exp(float64(h.Sinks[head]) - top)
	}
	o := make([]float64, h.Dv)
	for p := range s.Length { // in order, so that the sum is the same each time
		if score, seen := scores[p]; seen {
			w := math.Exp(score - top)
			total += w
			for d := range o {
				o[d] += w * float64(v[(kv*capacity+p)*h.Dv+d])
			}
		}
	}
	for d := range o {
		o[d] /= total
	}
	return o
}

// Random shapes: every ratio of heads, odd sizes of head, windows, caps, sinks,
// rows and lengths on both sides of each block's border.
func TestAttentionAgainstDefinition(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(10)
		for i := range 60 {
			h := Heads{KVH: 1 + r.IntN(3), D: 1 + r.IntN(130), Causal: r.IntN(4) > 0, Scale: 0.2}
			h.H, h.Dv = h.KVH*(1+r.IntN(10)), h.D
			switch i % 6 {
			case 1:
				h.Window = 1 + r.IntN(200)
			case 2:
				h.Softcap = 5
			case 3:
				h.Sinks = normal(r, h.H)
			case 4:
				h.Dv = 1 + r.IntN(100)
			}
			capacity := 1 + r.IntN(600)
			length := 1 + r.IntN(capacity)
			rows := 1 + r.IntN(min(length, 40))
			k, v := normal(r, h.KVH*capacity*h.D), normal(r, h.KVH*capacity*h.Dv)
			q := normal(r, rows*h.H*h.D)
			seqs := []Seq{{Rows: rows, Length: length}}
			o := make([]float32, rows*h.H*h.Dv)
			RawAttention(h, q, k, v, capacity, seqs, o)
			near(t, fmt.Sprintf("case %d %+v rows %d of %d", i, h, rows, length), o, attnRef(h, q, k, v, capacity, seqs), ones(len(o)), attnTol)
		}
	})
}

// Rows of many sequences in one call, decode and prefill together: each row has
// the bits that its sequence gets alone.
func TestRaggedRowsAreIndependent(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(11)
		h := Heads{H: 9, KVH: 3, D: 64, Dv: 64, Causal: true, Scale: 0.125}
		const capacity = 700
		size := int64(h.KVH * capacity * h.D)
		seqs := []Seq{{Rows: 1, Length: 1}, {Rows: 1, Length: 700}, {Rows: 30, Length: 300}, {Rows: 0, Length: 5}, {Rows: 2, Length: 257}}
		total := 0
		for i := range seqs {
			seqs[i].AtK, seqs[i].AtV = int64(i)*size, int64(i)*size
			total += seqs[i].Rows
		}
		k, v := normal(r, len(seqs)*int(size)), normal(r, len(seqs)*int(size))
		q := normal(r, total*h.H*h.D)
		o := make([]float32, total*h.H*h.Dv)
		RawAttention(h, q, k, v, capacity, seqs, o)
		near(t, "together", o, attnRef(h, q, k, v, capacity, seqs), ones(len(o)), attnTol)
		row := 0
		for _, s := range seqs {
			n := s.Rows * h.H * h.D
			one := make([]float32, n)
			RawAttention(h, q[row:], k, v, capacity, []Seq{s}, one)
			same(t, fmt.Sprintf("%+v", s), o[row:row+n], one)
			row += n
		}
	})
}

// A prompt in chunks gives the bits of the prompt in one, where chunks have at
// least as many rows as the block path takes.
func TestPrefillInChunks(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(12)
		for _, window := range []int{0, 50} {
			h := Heads{H: 6, KVH: 2, D: 48, Dv: 48, Causal: true, Scale: 0.15, Window: window}
			const n = 400
			k, v := normal(r, h.KVH*n*h.D), normal(r, h.KVH*n*h.D)
			q := normal(r, n*h.H*h.D)
			whole := make([]float32, len(q))
			RawAttention(h, q, k, v, n, []Seq{{Rows: n, Length: n}}, whole)
			parts := make([]float32, len(q))
			at := 0
			for _, rows := range []int{7, 93, 100, 6, 194} {
				off := at * h.H * h.D
				RawAttention(h, q[off:], k, v, n, []Seq{{Rows: rows, Length: at + rows}}, parts[off:])
				at += rows
			}
			same(t, fmt.Sprintf("window %d", window), whole, parts)
		}
	})
}

// Scores far apart neither overflow nor give NaN.
func TestAttentionExtremes(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(13)
		for _, rows := range []int{1, 20} {
			h := Heads{H: 2, KVH: 1, D: 32, Dv: 32, Causal: true, Scale: 40}
			k, v := normal(r, 300*h.D), normal(r, 300*h.D)
			q := normal(r, rows*h.H*h.D)
			o := make([]float32, len(q))
			seqs := []Seq{{Rows: rows, Length: 300}}
			RawAttention(h, q, k, v, 300, seqs, o)
			near(t, fmt.Sprintf("%d rows", rows), o, attnRef(h, q, k, v, 300, seqs), ones(len(o)), 2e-3)
		}
	})
}
