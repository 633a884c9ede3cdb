// Package nn is the furniture that families share: linear maps, norms,
// rotary positions, attention and recurrence over all segments of a batch,
// the stack of layers with its barriers.
//
// It owns no arrays: weights belong to the family's set, results to the
// scope, states to the sequences. Device thread only. Rows of all sequences
// lie on one axis, [1, N, D]; the only loops over segments stand here. It
// never evaluates but at a barrier of Stack.
package nn

import (
	"ingot/models/weights"
	"ingot/runtime/mlx"
)

// Linear is y = x W' + b over the last axis.
type Linear struct{ *weights.Matrix }

// Apply maps x [..., In] to [..., Out].
func (l Linear) Apply(s *mlx.Scope, x *mlx.Array) *mlx.Array {
	var y *mlx.Array
	if l.Packed() {
		y = s.QuantizedMatMul(x, l.W, l.Scales, l.Biases, l.Quant.Group, l.Quant.Bits, mlx.QuantMode(l.Quant.Mode))
	} else {
		y = s.MatMul(x, s.Transpose(l.W, 1, 0))
	}
	if l.Bias != nil {
		y = s.Add(y, l.Bias)
	}
	return y
}

// Joined is several linear maps of the same input, in one product where
// their weights are packed alike.
type Joined struct{ maps []Linear }

// Join declares parts that read the same in features.
func Join(l *weights.Loader, in int, parts ...weights.Part) Joined {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Name
	}
	if l.Alike(names...) {
		return Joined{[]Linear{{l.Linear(in, parts...)}}}
	}
	var j Joined
	for _, p := range parts {
		j.maps = append(j.maps, Linear{l.Linear(in, p)})
	}
	return j
}

// Whole returns all parts side by side: [..., In] -> [..., sum of Out].
func (j Joined) Whole(s *mlx.Scope, x *mlx.Array) *mlx.Array {
	if len(j.maps) == 1 {
		return j.maps[0].Apply(s, x)
	}
	ys := make([]*mlx.Array, len(j.maps))
	for i, m := range j.maps {
		ys[i] = m.Apply(s, x)
	}
	return s.Concat(-1, ys...)
}

// Parts returns each part as it was joined.
func (j Joined) Parts(s *mlx.Scope, x *mlx.Array) []*mlx.Array {
	var sizes []int
	for _, m := range j.maps {
		sizes = append(sizes, m.Split...)
	}
	return j.Cut(s, x, sizes...)
}

// Cut returns the result in parts of the given sizes, whatever the parts it
// was joined of: views where they lie in one product.
func (j Joined) Cut(s *mlx.Scope, x *mlx.Array, sizes ...int) []*mlx.Array {
	if len(j.maps) == 1 {
		return Cut(s, j.maps[0].Apply(s, x), sizes...)
	}
	var pieces []*mlx.Array
	for _, m := range j.maps {
		pieces = append(pieces, m.Apply(s, x))
	}
	out := make([]*mlx.Array, len(sizes))
	for i, n := range sizes {
		out[i], pieces = first(s, pieces, n)
	}
	return out
}

// first takes n features from the front of the pieces.
func first(s *mlx.Scope, pieces []*mlx.Array, n int) (*mlx.Array, []*mlx.Array) {
	var got []*mlx.Array
	for n > 0 && len(pieces) > 0 {
		p := pieces[0]
		if d := p.Dim(-1); d <= n {
			got, n, pieces = append(got, p), n-d, pieces[1:]
			continue
		}
		rest := Cut(s, p, n, p.Dim(-1)-n)
		got, n = append(got, rest[0]), 0
		pieces = append([]*mlx.Array{rest[1]}, pieces[1:]...)
	}
	if len(got) == 1 {
		return got[0], pieces
	}
	return s.Concat(-1, got...), pieces
}

// Cut views the last axis of y as parts of the given sizes.
func Cut(s *mlx.Scope, y *mlx.Array, sizes ...int) []*mlx.Array {
	out := make([]*mlx.Array, len(sizes))
	at := 0
	for i, n := range sizes {
		out[i] = s.SliceAxis(y, -1, at, at+n)
		at += n
	}
	return out
}

// Embedding maps tokens to rows.
type Embedding struct {
	Linear           // used as a linear map where input and output embeddings are one
	Dtype  mlx.Dtype // of the rows
}

// Lookup returns the rows of ids: [N] -> [1, N, D].
func (e Embedding) Lookup(s *mlx.Scope, ids []int32) *mlx.Array {
	at := s.FromInt32(ids, 1, len(ids))
	if e.Packed() {
		return s.QuantizedEmbedding(at, e.W, e.Scales, e.Biases, e.Quant.Group, e.Quant.Bits, mlx.QuantMode(e.Quant.Mode), e.Dtype)
	}
	return s.Take(e.W, at, 0)
}

// Norm is RMSNorm: x / sqrt(mean(x*x) + Eps) * W (Zhang and Sennrich 2019).
type Norm struct {
	W   *mlx.Array // [D]; nil: no weight
	Eps float64
}

// Apply norms the last axis.
func (n Norm) Apply(s *mlx.Scope, x *mlx.Array) *mlx.Array { return s.RMSNorm(x, n.W, n.Eps) }

// MLP is the gated feed-forward block: Down(SiLU(gate x) * up x) (Shazeer
// 2020).
type MLP struct {
	GateUp Joined
	Down   Linear
}

// NewMLP declares the block under its usual names.
func NewMLP(l *weights.Loader, path string, hidden, inner int) MLP {
	return MLP{
		GateUp: Join(l, hidden, weights.Part{Name: path + ".gate_proj", Out: inner}, weights.Part{Name: path + ".up_proj", Out: inner}),
		Down:   Linear{l.Linear(inner, weights.Part{Name: path + ".down_proj", Out: hidden})},
	}
}

// Apply maps x [1, N, D] to the same shape.
func (m MLP) Apply(s *mlx.Scope, x *mlx.Array) *mlx.Array {
	gu := m.GateUp.Parts(s, x)
	return m.Down.Apply(s, s.SwiGLU(gu[0], gu[1]))
}
