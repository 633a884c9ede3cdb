package nn

import (
	"math"
	"testing"

	"ingot/models"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// attendCase is attention over sequences that already hold some rows.
type attendCase struct {
	heads, kvHeads, dim int
	at                  Attention
}

// oracle attends one row in float64: q [H, D] over k and v [n][KVH, D].
func (c *attendCase) oracle(q []float32, k, v [][]float32) []float32 {
	out := make([]float32, c.heads*c.dim)
	n := len(k)
	from := 0
	if c.at.Window > 0 {
		from = max(0, n-c.at.Window)
	}
	for h := range c.heads {
		g := h * c.kvHeads / c.heads
		var total float64
		sum := make([]float64, c.dim)
		for p := from; p < n; p++ {
			w := math.Exp(c.score(q[h*c.dim:], k[p][g*c.dim:]))
			total += w
			for d := range sum {
				sum[d] += w * float64(v[p][g*c.dim+d])
			}
		}
		for d := range sum {
			out[h*c.dim+d] = float32(sum[d] / total)
		}
	}
	return out
}

func (c *attendCase) score(q, k []float32) float64 {
	var dot float64
	for d := range c.dim {
		dot += float64(q[d]) * float64(k[d])
	}
	dot *= c.at.Scale
	if c.at.Softcap > 0 {
		dot = c.at.Softcap * math.Tanh(dot/c.at.Softcap)
	}
	return dot
}

// life is a sequence and all its keys and values so far.
type life struct {
	seq  *kv.Sequence
	k, v [][]float32
}

// step attends new rows of several lives at once and compares every row.
func (c *attendCase) step(t *testing.T, s *mlx.Scope, seed uint64, lives []*life, lens []int) error {
	n := 0
	p := &Step{}
	for i, l := range lives {
		if err := l.seq.Reserve(s, lens[i]); err != nil {
			return err
		}
		p.Segments = append(p.Segments, models.Segment{Seq: l.seq, Len: lens[i]})
		n += lens[i]
	}
	p.Rows = n
	q, k, v := random(seed, n*c.heads*c.dim), random(seed+1, n*c.kvHeads*c.dim), random(seed+2, n*c.kvHeads*c.dim)
	t1 := s.Child()
	defer t1.Close()
	y, err := Attend(t1, p, 0, t1.FromFloat32(q, 1, n, c.heads, c.dim), t1.FromFloat32(k, 1, n, c.kvHeads, c.dim), t1.FromFloat32(v, 1, n, c.kvHeads, c.dim), c.at)
	if err != nil {
		return err
	}
	got := floats(t, y)
	row, wide, kw := 0, c.heads*c.dim, c.kvHeads*c.dim
	for i, l := range lives {
		for range lens[i] {
			l.k, l.v = append(l.k, k[row*kw:(row+1)*kw]), append(l.v, v[row*kw:(row+1)*kw])
			close32(t, "row", got[row*wide:(row+1)*wide], c.oracle(q[row*wide:], l.k, l.v), 2e-5)
			row++
		}
		if err := t1.Eval(l.seq.States()...); err != nil {
			return err
		}
		l.seq.Commit(lens[i])
	}
	return nil
}

func TestAttendAgreesWithTheOracle(t *testing.T) {
	for name, c := range map[string]*attendCase{
		"one head for all":  {4, 4, 16, Attention{Scale: 0.25}},
		"grouped":           {6, 2, 8, Attention{Scale: 0.3}},
		"windowed":          {4, 1, 16, Attention{Scale: 0.25, Window: 5}},
		"wide window":       {2, 2, 32, Attention{Scale: 0.2, Window: 300}},
		"capped":            {2, 1, 16, Attention{Scale: 1, Softcap: 2}},
		"capped and window": {2, 1, 16, Attention{Scale: 1, Softcap: 2, Window: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, func(s *mlx.Scope) error {
				spec := kv.Spec{Kind: kv.KindAppend, Heads: c.kvHeads, KeyDim: c.dim, ValueDim: c.dim, Dtype: mlx.Float32}
				if c.at.Window > 0 {
					spec.Kind, spec.Window = kv.KindWindowed, c.at.Window
				}
				lives := make([]*life, 3)
				for i := range lives {
					lives[i] = &life{seq: kv.NewSequence([]kv.Spec{spec})}
					defer lives[i].seq.Free()
				}
				for i, lens := range [][]int{{1, 9, 4}, {1, 1, 1}, {270, 1, 3}, {1, 1, 1}, {2, 300, 1}} {
					if err := c.step(t, s, uint64(10*i), lives, lens); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
