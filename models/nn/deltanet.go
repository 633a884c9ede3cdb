package nn

import (
	"math"

	"ingot/models/weights"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

var negInf = math.Inf(-1)

// normEps keeps the norms of q and k from dividing by zero.
const normEps = 1e-6

// DeltaShape is the geometry of a gated delta layer.
type DeltaShape struct {
	Hidden, KeyHeads, ValueHeads, KeyDim, ValueDim, Kernel int
}

func (d DeltaShape) keys() int   { return d.KeyHeads * d.KeyDim }
func (d DeltaShape) values() int { return d.ValueHeads * d.ValueDim }

// conv is the channels of the convolution: q, k and v.
func (d DeltaShape) conv() int { return 2*d.keys() + d.values() }

// Spec is the memory of such a layer: the convolution's last inputs and S.
func (d DeltaShape) Spec(dt mlx.Dtype) kv.Spec {
	return kv.Spec{Kind: kv.KindRecurrent, Dtype: dt, States: []kv.StateSpec{
		{Shape: []int{d.Kernel - 1, d.conv()}, Dtype: dt},
		{Shape: []int{d.ValueHeads, d.ValueDim, d.KeyDim}, Dtype: mlx.Float32},
	}}
}

// DeltaNet is a gated delta layer: projections, a short causal convolution,
// the rule, a gated norm (Yang et al. 2024; Qwen3-Next).
type DeltaNet struct {
	DeltaShape
	In   Joined     // hidden -> q, k, v, z, b, a
	Conv *mlx.Array // [C, Kernel]
	ALog *mlx.Array // [Hv], f32
	DT   *mlx.Array // [Hv]
	Norm Norm
	Out  Linear

	taps   []*mlx.Array // [C] each, oldest first
	rate   *mlx.Array   // -exp(ALog)
	qw, kw *mlx.Array   // [Dk]: what q and k are scaled by after their norms
}

// NewDeltaNet declares the layer, but for In.
func NewDeltaNet(l *weights.Loader, path string, d DeltaShape, eps float64) *DeltaNet {
	conv := path + ".conv1d.weight"
	for range d.Kernel {
		l.Beside(l.Dtype(), d.conv()) // taps
	}
	for _, n := range []int{d.ValueHeads, d.KeyDim, d.KeyDim} { // rate, qw, kw
		l.Beside(mlx.Float32, n)
	}
	return &DeltaNet{
		DeltaShape: d,
		Conv:       l.Flat(conv, l.Dtype(), []int{d.conv(), d.Kernel}, []int{d.conv(), d.Kernel, 1}, []int{d.conv(), 1, d.Kernel}),
		ALog:       l.Typed(path+".A_log", mlx.Float32, d.ValueHeads),
		DT:         l.Typed(path+".dt_bias", mlx.Float32, d.ValueHeads),
		Norm:       Norm{W: l.Vector(path+".norm.weight", d.ValueDim), Eps: eps},
		Out:        Linear{l.Linear(d.values(), weights.Part{Name: path + ".out_proj", Out: d.Hidden})},
	}
}

// Prepare works out constants once the weights are there. Free them.
func (n *DeltaNet) Prepare(s *mlx.Scope) error {
	for j := range n.Kernel {
		n.taps = append(n.taps, s.Contiguous(s.Squeeze(s.SliceAxis(n.Conv, 1, j, j+1), 1)))
	}
	inv := 1 / math.Sqrt(float64(n.KeyDim))
	n.rate = s.Neg(s.Exp(n.ALog))
	n.qw, n.kw = s.Full(mlx.Float32, inv*inv, n.KeyDim), s.Full(mlx.Float32, inv, n.KeyDim)
	if err := s.Eval(n.own()...); err != nil {
		return err
	}
	for _, a := range n.own() {
		s.Keep(a)
	}
	return nil
}

func (n *DeltaNet) own() []*mlx.Array { return append([]*mlx.Array{n.rate, n.qw, n.kw}, n.taps...) }

// Free gives the constants back.
func (n *DeltaNet) Free() { _ = mlx.FreeAll(n.own()...) }

// Apply maps x [1, N, D] to the same shape.
func (n *DeltaNet) Apply(s *mlx.Scope, p *Step, layer int, x *mlx.Array) (*mlx.Array, error) {
	in := n.In.Cut(s, x, n.conv(), n.values(), n.ValueHeads, n.ValueHeads)
	qkv, z, b, a := in[0], in[1], in[2], in[3]
	beta := s.Sigmoid(s.AsType(b, mlx.Float32))                           // [1, N, Hv]
	g := s.Mul(n.rate, s.Softplus(s.Add(s.AsType(a, mlx.Float32), n.DT))) // [1, N, Hv]
	y, err := Recur(s, p, layer, []*mlx.Array{qkv, g, beta}, n.cell)      // [1, N, Hv, Dv]
	if err != nil {
		return nil, err
	}
	z = s.Reshape(z, 1, p.Rows, n.ValueHeads, n.ValueDim)
	y = s.SwiGLU(z, n.Norm.Apply(s, s.AsType(y, x.Dtype())))
	return n.Out.Apply(s, s.Reshape(y, 1, p.Rows, n.values())), nil
}

// cell is the convolution and the rule. x: qkv [B, T, C], g and beta [B, T,
// Hv]; states: the last inputs [B, K-1, C] and S.
func (n *DeltaNet) cell(s *mlx.Scope, x, states []*mlx.Array) (*mlx.Array, []*mlx.Array) {
	qkv, g, beta := x[0], x[1], x[2]
	b, t := qkv.Dim(0), qkv.Dim(1)
	window := s.Concat(1, states[0], qkv) // [B, K-1+T, C]
	tail := s.Contiguous(s.SliceAxis(window, 1, t, t+n.Kernel-1))
	c := Cut(s, s.AsType(n.convolve(s, window, t), mlx.Float32), n.keys(), n.keys(), n.values())
	q := s.RMSNorm(s.Reshape(c[0], b, t, n.KeyHeads, n.KeyDim), n.qw, normEps/float64(n.KeyDim))
	k := s.RMSNorm(s.Reshape(c[1], b, t, n.KeyHeads, n.KeyDim), n.kw, normEps/float64(n.KeyDim))
	y, next := Delta(s, q, k, s.Reshape(c[2], b, t, n.ValueHeads, n.ValueDim), g, beta, states[1])
	return y, []*mlx.Array{tail, next}
}

// convolve is the causal convolution of each channel by itself, then SiLU:
// [B, K-1+T, C] -> [B, T, C].
func (n *DeltaNet) convolve(s *mlx.Scope, window *mlx.Array, t int) *mlx.Array {
	var sum *mlx.Array
	for j, w := range n.taps {
		y := s.Mul(s.SliceAxis(window, 1, j, j+t), w)
		if sum != nil {
			y = s.Add(sum, y)
		}
		sum = y
	}
	return s.SiLU(sum)
}
