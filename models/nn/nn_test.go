package nn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ingot/models"
	"ingot/models/index"
	"ingot/models/modeltest"
	"ingot/models/weights"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

func TestMain(m *testing.M) { modeltest.Main(m) }

// on runs f on the device thread with a scope, and checks that it leaves
// nothing.
func on(t *testing.T, f func(s *mlx.Scope) error) {
	t.Helper()
	dev := modeltest.Device()
	handles := dev.Handles()
	err := dev.Do(func() error {
		s := dev.NewScope()
		defer s.Close()
		return f(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	if dev.Handles() != handles {
		t.Errorf("left %d handles", dev.Handles()-handles)
	}
}

func floats(t *testing.T, a *mlx.Array) []float32 {
	t.Helper()
	v := make([]float32, a.Size())
	if err := a.Float32s(v); err != nil {
		t.Fatal(err)
	}
	return v
}

// random is n numbers between -1 and 1.
func random(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = 2*r.Float32() - 1
	}
	return v
}

func close32(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tol) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// plainLinear is a Linear over numbers, not packed.
func plainLinear(s *mlx.Scope, w []float32, out, in int) Linear {
	return Linear{&weights.Matrix{W: s.FromFloat32(w, out, in), Out: out, In: in, Split: []int{out}}}
}

func TestJoinedCutsAcrossItsParts(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		// Three maps of one input: outputs 1 2 | 3 | 4 5 6.
		apart := Joined{[]Linear{plainLinear(s, []float32{1, 2}, 2, 1), plainLinear(s, []float32{3}, 1, 1), plainLinear(s, []float32{4, 5, 6}, 3, 1)}}
		one := Joined{[]Linear{plainLinear(s, []float32{1, 2, 3, 4, 5, 6}, 6, 1)}}
		one.maps[0].Split = []int{2, 1, 3}
		x := s.FromFloat32([]float32{1}, 1, 1, 1)
		for _, j := range []Joined{apart, one} {
			close32(t, "whole", floats(t, j.Whole(s, x)), []float32{1, 2, 3, 4, 5, 6}, 0)
			for i, want := range [][]float32{{1, 2}, {3}, {4, 5, 6}} {
				close32(t, "part", floats(t, j.Parts(s, x)[i]), want, 0)
			}
			for i, want := range [][]float32{{1}, {2, 3, 4}, {5, 6}} {
				close32(t, "cut", floats(t, j.Cut(s, x, 1, 3, 2)[i]), want, 0)
			}
		}
		return s.Err()
	})
}

func TestLinearAddsItsBias(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		l := plainLinear(s, []float32{1, 2, 3, 4}, 2, 2)
		l.Bias = s.FromFloat32([]float32{10, 20})
		close32(t, "y", floats(t, l.Apply(s, s.FromFloat32([]float32{1, 1}, 1, 1, 2))), []float32{13, 27}, 0)
		return s.Err()
	})
}

func TestRows(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		x := s.FromFloat32([]float32{0, 1, 2, 3, 4}, 1, 5, 1)
		for _, want := range [][]int{{0, 1, 2, 3, 4}, {3}, {1, 2}, {0, 2, 4}} {
			var nums []float32
			for _, w := range want {
				nums = append(nums, float32(w))
			}
			close32(t, "rows", floats(t, Rows(s, x, want)), nums, 0)
		}
		return s.Err()
	})
}

func TestGroups(t *testing.T) {
	q := make([]*kv.Sequence, 4)
	for i := range q {
		q[i] = kv.NewSequence(nil)
	}
	got := groups([]models.Segment{{Seq: q[0], Len: 1}, {Seq: q[1], Len: 3}, {Seq: q[2], Len: 1}, {Seq: q[3], Len: 2}})
	want := []group{{q[1:2], []int{1, 2, 3}}, {q[3:4], []int{5, 6}}, {[]*kv.Sequence{q[0], q[2]}, []int{0, 4}}}
	if len(got) != len(want) {
		t.Fatalf("%d groups", len(got))
	}
	for i := range want {
		if !slices.Equal(got[i].seqs, want[i].seqs) || !slices.Equal(got[i].rows, want[i].rows) {
			t.Errorf("group %d: rows %v, want %v", i, got[i].rows, want[i].rows)
		}
	}
}

func TestInOrder(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		a, b := s.FromFloat32([]float32{1, 2, 3}, 1, 3, 1), s.FromFloat32([]float32{0, 4}, 1, 2, 1)
		close32(t, "turned", floats(t, inOrder(s, []*mlx.Array{a, b}, []int{1, 2, 3, 0, 4})), []float32{0, 1, 2, 3, 4}, 0)
		if inOrder(s, []*mlx.Array{a}, []int{0, 1, 2}) != a {
			t.Error("rows in order were moved")
		}
		return s.Err()
	})
}

// counter is a recurrent cell: y is the running sum of x.
func counter(s *mlx.Scope, x, states []*mlx.Array) (*mlx.Array, []*mlx.Array) {
	y := s.Add(s.CumSum(x[0], 1), s.ExpandDims(states[0], 1))
	last := y.Dim(1)
	return y, []*mlx.Array{s.Contiguous(s.Squeeze(s.SliceAxis(y, 1, last-1, last), 1))}
}

func TestRecurMixesDecodeAndPrefill(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		spec := []kv.Spec{{Kind: kv.KindRecurrent, States: []kv.StateSpec{{Shape: []int{1}, Dtype: mlx.Float32}}}}
		a, b, c := kv.NewSequence(spec), kv.NewSequence(spec), kv.NewSequence(spec)
		for _, q := range []*kv.Sequence{a, b, c} {
			defer q.Free()
		}
		for _, step := range []struct {
			segs []models.Segment
			x, y []float32
		}{
			{[]models.Segment{{Seq: a, Len: 2}, {Seq: b, Len: 1}}, []float32{1, 2, 10}, []float32{1, 3, 10}},
			{[]models.Segment{{Seq: b, Len: 1}, {Seq: c, Len: 3}, {Seq: a, Len: 1}}, []float32{5, 100, 100, 100, 4}, []float32{15, 100, 200, 300, 7}},
			{[]models.Segment{{Seq: b, Len: 1}, {Seq: a, Len: 1}}, []float32{1, 1}, []float32{16, 8}},
			{[]models.Segment{{Seq: c, Len: 1}, {Seq: b, Len: 1}, {Seq: a, Len: 1}}, []float32{1, 1, 1}, []float32{301, 17, 9}},
		} {
			n := len(step.x)
			p := &Step{Segments: step.segs, Rows: n}
			y, err := Recur(s, p, 0, []*mlx.Array{s.FromFloat32(step.x, 1, n, 1)}, counter)
			if err != nil {
				return err
			}
			close32(t, "running sums", floats(t, y), step.y, 0)
			for _, g := range step.segs {
				g.Seq.Commit(g.Len)
			}
		}
		return nil
	})
}

// Rows sorted by expert, as the GPU has them, give what they give in order.
func TestSwitchMLPSortedIsTheSame(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		const experts, hidden, inner, rows, k = 5, 6, 4, 40, 2
		m := SwitchMLP{
			GateUp: Experts{&weights.Matrix{W: s.FromFloat32(random(1, experts*2*inner*hidden), experts, 2*inner, hidden), Out: 2 * inner}},
			Down:   Experts{&weights.Matrix{W: s.FromFloat32(random(2, experts*hidden*inner), experts, hidden, inner), Out: hidden}},
		}
		idx := make([]int32, rows*k)
		for i := range idx {
			idx[i] = int32(i * 7 % experts)
		}
		x, at := s.FromFloat32(random(3, rows*hidden), rows, hidden), s.FromInt32(idx, rows, k)
		close32(t, "sorted", floats(t, m.sorted(s, x, at)), floats(t, m.Apply(s, x, at)), 1e-6)
		return s.Err()
	})
}

func TestHybridNamesWhatIsWrong(t *testing.T) {
	good := func() *Hybrid {
		return &Hybrid{Hidden: 64, Inner: 64, Layers: 4, Heads: 4, KVHeads: 2, Vocab: 9, ValueHeads: 4, KeyHeads: 2, KeyDim: 8, ValueDim: 8, Kernel: 4,
			Experts: 4, PerToken: 2, ExpertInner: 8, SharedInner: 8, MLPOnly: []int{1}}
	}
	c := good()
	c.Complete(true)
	if err := c.Validate("f"); err != nil {
		t.Fatal(err)
	}
	if c.HeadDim != 16 || c.Interval != 4 || !*c.Normalize || c.Linear(3) || !c.Linear(2) || c.Sparse(1) || !c.Sparse(2) {
		t.Errorf("%+v", c)
	}
	for field, spoil := range map[string]func(*Hybrid){
		"num_key_value_heads": func(c *Hybrid) { c.KVHeads = 3 }, "linear_num_key_heads": func(c *Hybrid) { c.KeyHeads = 3 },
		"num_experts_per_tok": func(c *Hybrid) { c.PerToken = 5 }, "vocab_size": func(c *Hybrid) { c.Vocab = 0 },
		"partial_rotary_factor": func(c *Hybrid) { c.Partial = 2 }, "moe_intermediate_size": func(c *Hybrid) { c.ExpertInner = 0 },
		"shared_expert_intermediate_size": func(c *Hybrid) { c.SharedInner = 0 }, "intermediate_size": func(c *Hybrid) { c.Experts, c.Inner = 0, 0 },
	} {
		c := good()
		spoil(c)
		c.Complete(true)
		fe, ok := c.Validate("f").(*index.FieldError)
		if !ok || fe.Field != field {
			t.Errorf("spoilt %s: %v", field, c.Validate("f"))
		}
	}
}
