package nn

import (
	"fmt"

	"ingot/models/weights"
	"ingot/runtime/mlx"
)

// sortFrom is the number of rows and experts from which rows are sorted by
// expert before a product on the GPU: each expert's weights are then read
// once.
const sortFrom = 64

// Experts is a linear map per expert, of which each row uses a few.
type Experts struct{ *weights.Matrix }

// Apply sends x [T, 1, In] (one row for all of its experts) or [T, k, In] to
// the experts idx [T, k] -> [T, k, Out]. sorted promises that idx, read in
// order, never falls.
func (e Experts) Apply(s *mlx.Scope, x, idx *mlx.Array, sorted bool) *mlx.Array {
	if e.Packed() {
		return s.ExpertsQMM(x, e.W, e.Scales, e.Biases, idx, e.Quant.Group, e.Quant.Bits, mlx.QuantMode(e.Quant.Mode), sorted)
	}
	rows := s.ExpandDims(x, 2)                                                     // [T, 1 or k, 1, In]
	return s.Squeeze(s.GatherMM(rows, s.SwapAxes(e.W, 1, 2), nil, idx, sorted), 2) // [T, k, Out]
}

// SwitchMLP is a gated feed-forward block per expert.
type SwitchMLP struct {
	GateUp Experts // hidden -> gate, up
	Down   Experts
}

// NewSwitchMLP declares the experts at path + ".switch_mlp" as MLX lays them,
// or at path + ".experts" as publishers do: gate and up in one tensor of all
// experts, or every expert's by itself.
func NewSwitchMLP(l *weights.Loader, path string, experts, hidden, inner int) SwitchMLP {
	single := func(e int, name string) string { return fmt.Sprintf("%s.experts.%d.%s_proj", path, e, name) }
	if l.Has(single(0, "gate") + ".weight") {
		return SwitchMLP{
			GateUp: Experts{l.Stacked(experts, hidden, func(e int) []weights.Part {
				return []weights.Part{{Name: single(e, "gate"), Out: inner}, {Name: single(e, "up"), Out: inner}}
			})},
			Down: Experts{l.Stacked(experts, inner, func(e int) []weights.Part {
				return []weights.Part{{Name: single(e, "down"), Out: hidden}}
			})},
		}
	}
	path += ".switch_mlp"
	m := SwitchMLP{Down: Experts{l.Experts(experts, inner, weights.Part{Name: path + ".down_proj", Out: hidden})}}
	if joined := path + ".gate_up_proj"; l.Has(joined + ".weight") {
		m.GateUp = Experts{l.Experts(experts, hidden, weights.Part{Name: joined, Out: 2 * inner})}
		return m
	}
	m.GateUp = Experts{l.Experts(experts, hidden,
		weights.Part{Name: path + ".gate_proj", Out: inner}, weights.Part{Name: path + ".up_proj", Out: inner})}
	return m
}

// Apply maps rows x [T, D] by the experts idx [T, k] -> [T, k, D].
func (m SwitchMLP) Apply(s *mlx.Scope, x, idx *mlx.Array) *mlx.Array {
	if s.Device().Kind() == mlx.GPU && idx.Size() >= sortFrom {
		return m.sorted(s, x, idx)
	}
	return m.mlp(s, s.ExpandDims(x, 1), idx, false)
}

func (m SwitchMLP) mlp(s *mlx.Scope, x, idx *mlx.Array, sorted bool) *mlx.Array {
	inner := m.GateUp.Out / 2
	gu := Cut(s, m.GateUp.Apply(s, x, idx, sorted), inner, inner)
	return m.Down.Apply(s, s.SwiGLU(gu[0], gu[1]), idx, sorted)
}

// sorted is mlp over rows in the order of their experts.
func (m SwitchMLP) sorted(s *mlx.Scope, x, idx *mlx.Array) *mlx.Array {
	t, k := idx.Dim(0), idx.Dim(1)
	flat := s.Reshape(idx, t*k)
	order := s.ArgSort(flat, 0)
	rows := s.Take(x, s.FloorDiv(order, s.Like(order, float64(k))), 0) // [T*k, D]
	y := m.mlp(s, s.ExpandDims(rows, 1), s.ExpandDims(s.Take(flat, order, 0), 1), true)
	y = s.Take(y, s.ArgSort(order, 0), 0) // [T*k, 1, D]
	return s.Reshape(y, t, k, y.Dim(2))
}

// MoE is a sparse feed-forward block: the best K experts by a softmax over
// all, and one shared expert behind a gate of its own.
type MoE struct {
	Experts, K int
	Normalize  bool   // the chosen weights sum to one
	Router     Joined // hidden -> experts, then the shared expert's gate
	Switch     SwitchMLP
	Shared     MLP
}

// NewMoE declares the block.
func NewMoE(l *weights.Loader, path string, hidden, inner, shared, experts, k int, normalize bool) *MoE {
	return &MoE{
		Experts: experts, K: k, Normalize: normalize,
		Router: Join(l, hidden, weights.Part{Name: path + ".gate", Out: experts}, weights.Part{Name: path + ".shared_expert_gate", Out: 1}),
		Switch: NewSwitchMLP(l, path, experts, hidden, inner),
		Shared: NewMLP(l, path+".shared_expert", hidden, shared),
	}
}

// Apply maps x [1, N, D] to the same shape.
func (m *MoE) Apply(s *mlx.Scope, x *mlx.Array) *mlx.Array {
	n, d := x.Dim(1), x.Dim(2)
	r := m.Router.Cut(s, x, m.Experts, 1)
	probs := s.Reshape(s.Softmax(r[0], -1, true), n, m.Experts)
	idx := s.SliceAxis(s.ArgPartition(probs, m.Experts-m.K, -1), 1, m.Experts-m.K, m.Experts) // [N, k]
	w := s.TakeAlongAxis(probs, idx, -1)
	if m.Normalize {
		w = s.Div(w, s.SumKeep(w, -1))
	}
	y := m.Switch.Apply(s, s.Reshape(x, n, d), idx)         // [N, k, D]
	y = s.Reshape(s.MatMul(s.ExpandDims(w, 1), y), 1, n, d) // weighted sum
	return s.Add(y, s.Mul(s.Sigmoid(r[1]), m.Shared.Apply(s, x)))
}
