package nn

import (
	"math"

	"ingot/models/weights"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// GatedAttention is attention with normed queries and keys whose result is
// gated by the sigmoid of a projection (Qwen3-Next).
type GatedAttention struct {
	Heads, KVHeads, Dim int
	Rope                *Rope
	QKV                 Joined // hidden -> per head [q, gate], then k, v
	QNorm, KNorm        Norm
	Out                 Linear
}

// NewGatedAttention declares the layer.
func NewGatedAttention(l *weights.Loader, path string, hidden, heads, kvHeads, dim int, eps float64, rope *Rope) *GatedAttention {
	return &GatedAttention{
		Heads: heads, KVHeads: kvHeads, Dim: dim, Rope: rope,
		QKV: Join(l, hidden,
			weights.Part{Name: path + ".q_proj", Out: 2 * heads * dim},
			weights.Part{Name: path + ".k_proj", Out: kvHeads * dim},
			weights.Part{Name: path + ".v_proj", Out: kvHeads * dim}),
		QNorm: Norm{W: l.Vector(path+".q_norm.weight", dim), Eps: eps},
		KNorm: Norm{W: l.Vector(path+".k_norm.weight", dim), Eps: eps},
		Out:   Linear{l.Linear(heads*dim, weights.Part{Name: path + ".o_proj", Out: hidden})},
	}
}

// Spec is the memory of the layer.
func (a *GatedAttention) Spec(dt mlx.Dtype) kv.Spec {
	return kv.Spec{Kind: kv.KindAppend, Heads: a.KVHeads, KeyDim: a.Dim, ValueDim: a.Dim, Dtype: dt}
}

// Apply maps x [1, N, D] to the same shape.
func (a *GatedAttention) Apply(s *mlx.Scope, p *Step, layer int, x *mlx.Array) (*mlx.Array, error) {
	h, g, d, n := a.Heads, a.KVHeads, a.Dim, p.Rows
	y := a.QKV.Cut(s, x, 2*h*d, g*d, g*d)
	qg := Cut(s, s.Reshape(y[0], 1, n, h, 2*d), d, d)                      // [1, N, H, D] each
	q := a.Rope.Apply(s, p, a.QNorm.Apply(s, qg[0]))                       // [1, N, H, D]
	k := a.Rope.Apply(s, p, a.KNorm.Apply(s, s.Reshape(y[1], 1, n, g, d))) // [1, N, KV, D]
	o, err := Attend(s, p, layer, q, k, s.Reshape(y[2], 1, n, g, d), Attention{Scale: 1 / math.Sqrt(float64(d))})
	if err != nil {
		return nil, err
	}
	gate := s.Sigmoid(s.Reshape(qg[1], 1, n, h*d))
	return a.Out.Apply(s, s.Mul(o, gate)), nil
}
