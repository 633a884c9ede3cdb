package nn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ingot/models"
	"ingot/models/weights"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// adder is a layer whose halves add numbers: the first 1, the second 10. It
// counts the rows that its second half saw.
type adder struct {
	fail error
	fed  int
}

func (a *adder) Mix(s *mlx.Scope, p *Step, layer int, r Stream) (Stream, error) {
	if r.Delta != nil {
		r.X = s.Add(r.X, r.Delta)
	}
	r.Delta = s.Full(mlx.Float32, 1, 1, r.X.Dim(1), r.X.Dim(2))
	return r, a.fail
}

func (a *adder) Feed(s *mlx.Scope, r Stream) Stream {
	a.fed = r.X.Dim(1)
	x := s.Add(r.X, r.Delta)
	return Stream{X: x, Delta: s.Full(mlx.Float32, 10, 1, x.Dim(1), x.Dim(2))}
}

func stackOf(n int) []*adder {
	out := make([]*adder, n)
	for i := range out {
		out[i] = &adder{}
	}
	return out
}

// run is a stack over rows [0, 1, 2, 3], unnormed: a norm over one feature
// leaves the sign, so that the sum is read before it.
func run(t *testing.T, s *mlx.Scope, layers []*adder, want []int, depth int) ([]float32, error) {
	q := kv.NewSequence(slices.Repeat([]kv.Spec{{Kind: kv.KindRecurrent}}, len(layers)))
	b := &models.Batch{Tokens: make([]int32, 4), Segments: []models.Segment{{Seq: q, Len: 4}}, Want: want, Depth: depth}
	x := s.FromFloat32([]float32{3, 4, 6, 8, -3, -4, 0, 5}, 1, 4, 2)
	h, err := Stack(s, b, x, layers, Norm{W: s.FromFloat32([]float32{1, 2}), Eps: 0})
	if err != nil || h == nil {
		return nil, err
	}
	return floats(t, h), nil
}

func TestStackFeedsWantedRowsLast(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		for _, depth := range []int{0, 1, 2, 7} {
			layers := stackOf(3)
			all, err := run(t, s, layers, []int{0, 1, 2, 3}, depth)
			if err != nil {
				return err
			}
			some, err := run(t, s, layers, []int{1, 3}, depth)
			if err != nil {
				return err
			}
			close32(t, "rows 1 and 3", some, append(append([]float32(nil), all[2:4]...), all[6:8]...), 1e-6)
			if layers[1].fed != 4 || layers[2].fed != 2 {
				t.Errorf("fed %d rows, then %d", layers[1].fed, layers[2].fed)
			}
			layers = stackOf(3)
			if none, err := run(t, s, layers, nil, depth); err != nil || none != nil || layers[2].fed != 0 {
				t.Errorf("nothing wanted: %v, %v, fed %d", none, err, layers[2].fed)
			}
		}
		return nil
	})
}

func TestStackNamesTheLayerThatFails(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		layers := stackOf(4)
		layers[2].fail = errors.New("broken")
		if _, err := run(t, s, layers, []int{0}, 1); err == nil || !strings.Contains(err.Error(), "layer 2: broken") {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

func TestStackStopsAtAThrow(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		l := s.Device().Ledger()
		l.FailAt(3)
		defer l.FailAt(0)
		t1 := s.Device().NewScope()
		defer t1.Close()
		if _, err := run(t, t1, stackOf(3), []int{0}, 1); !errors.Is(err, mlx.ErrResourceLimit) {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

// moeOracle is the block in float64 for one row.
func moeOracle(x []float32, router, shared, gateUp, down []float32, experts, k, inner int) []float32 {
	hidden := len(x)
	probs := softmax(mat(router, x, experts))
	y := make([]float64, hidden)
	var total float64
	best := top(probs, k)
	for _, e := range best {
		total += probs[e]
	}
	for _, e := range best {
		gu := mat(gateUp[e*2*inner*hidden:], x, 2*inner)
		for i, v := range mat(down[e*hidden*inner:], swiglu(gu), hidden) {
			y[i] += probs[e] / total * v
		}
	}
	gu := mat(shared, x, 2*inner)
	gate := 1 / (1 + exp(-mat(router[experts*hidden:], x, 1)[0]))
	out := make([]float32, hidden)
	for i, v := range mat(shared[2*inner*hidden:], swiglu(gu), hidden) {
		out[i] = float32(y[i] + gate*v)
	}
	return out
}

func TestMoEAgreesWithTheOracle(t *testing.T) {
	const experts, k, hidden, inner, rows = 6, 2, 8, 4, 5
	router, shared := random(1, (experts+1)*hidden), random(2, 3*inner*hidden)
	gateUp, down := random(3, experts*2*inner*hidden), random(4, experts*hidden*inner)
	x := random(5, rows*hidden)
	on(t, func(s *mlx.Scope) error {
		m := &MoE{Experts: experts, K: k, Normalize: true,
			Router: Joined{[]Linear{plainLinear(s, router, experts+1, hidden)}},
			Switch: SwitchMLP{
				GateUp: Experts{&weights.Matrix{W: s.FromFloat32(gateUp, experts, 2*inner, hidden), Out: 2 * inner}},
				Down:   Experts{&weights.Matrix{W: s.FromFloat32(down, experts, hidden, inner), Out: hidden}},
			},
			Shared: MLP{GateUp: Joined{[]Linear{plainLinear(s, shared[:2*inner*hidden], 2*inner, hidden)}}, Down: plainLinear(s, shared[2*inner*hidden:], hidden, inner)},
		}
		m.Shared.GateUp.maps[0].Split = []int{inner, inner}
		got := floats(t, m.Apply(s, s.FromFloat32(x, 1, rows, hidden)))
		for r := range rows {
			close32(t, "row", got[r*hidden:(r+1)*hidden], moeOracle(x[r*hidden:(r+1)*hidden], router, shared, gateUp, down, experts, k, inner), 1e-5)
		}
		return s.Err()
	})
}
