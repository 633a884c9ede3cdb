package llama

import (
	"math"

	"ingot/models"
	"ingot/models/index"
	"ingot/models/nn"
	"ingot/models/weights"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

func init() {
	models.Register(models.Family{Types: []string{"llama", "mistral"}, Open: open})
}

func open(dev *mlx.Device, m *index.Model, opt models.Options) (models.Model, error) {
	c, err := readConfig(m)
	if err != nil {
		return nil, err
	}
	l := weights.NewLoader(dev, m, c.rules())
	rope, err := nn.NewRope(dev, c.rope(), c.HeadDim, l.Dtype())
	if err != nil {
		return nil, err
	}
	d := c.declare(l, rope)
	d.OnClose(rope.Free)
	if err := d.Load(l, m, opt); err != nil {
		return nil, err
	}
	return d, nil
}

// attention is grouped-query attention with rotary positions.
type attention struct {
	heads, kvHeads, dim, window int
	rope                        *nn.Rope
	qkv                         nn.Joined
	out                         nn.Linear
}

// Spec is the memory of the layer.
func (a *attention) Spec(dt mlx.Dtype) kv.Spec {
	spec := kv.Spec{Kind: kv.KindAppend, Heads: a.kvHeads, KeyDim: a.dim, ValueDim: a.dim, Dtype: dt}
	if a.window > 0 {
		spec.Kind, spec.Window = kv.KindWindowed, a.window
	}
	return spec
}

// Apply maps x [1, N, D] to the same shape.
func (a *attention) Apply(s *mlx.Scope, p *nn.Step, layer int, x *mlx.Array) (*mlx.Array, error) {
	h, g := a.heads, a.kvHeads
	y := s.Reshape(a.qkv.Whole(s, x), 1, p.Rows, h+2*g, a.dim) // [1, N, H+2G, Dh]
	qk := a.rope.Apply(s, p, s.SliceAxis(y, 2, 0, h+g))        // [1, N, H+G, Dh]
	q, k := s.SliceAxis(qk, 2, 0, h), s.SliceAxis(qk, 2, h, h+g)
	v := s.SliceAxis(y, 2, h+g, h+2*g)
	o, err := nn.Attend(s, p, layer, q, k, v, nn.Attention{Scale: 1 / math.Sqrt(float64(a.dim)), Window: a.window})
	if err != nil {
		return nil, err
	}
	return a.out.Apply(s, o), nil
}
