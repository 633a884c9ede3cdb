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

// Model is a loaded decoder.
type Model struct {
	config *Config
	info   models.Info
	specs  []kv.Spec
	set    *weights.Set
	rope   *nn.Rope

	embed  nn.Embedding
	layers []*block
	norm   nn.Norm
	head   nn.Linear
}

var _ models.Model = (*Model)(nil)

func open(dev *mlx.Device, m *index.Model, opt models.Options) (models.Model, error) {
	c, err := readConfig(m)
	if err != nil {
		return nil, err
	}
	l := weights.NewLoader(dev, m, c.rules())
	model := &Model{config: c}
	if model.rope, err = nn.NewRope(dev, c.rope(), c.HeadDim, l.Dtype()); err != nil {
		return nil, err
	}
	model.declare(l)
	if model.set, err = l.Load(opt.Progress); err != nil {
		model.rope.Free()
		return nil, err
	}
	model.describe(m, l.Dtype())
	return model, nil
}

func (m *Model) describe(im *index.Model, dt mlx.Dtype) {
	c := m.config
	m.info = models.Info{
		Family: c.Type, Layers: c.Layers, Hidden: c.Hidden, Vocab: c.Vocab, Context: c.Context, EOS: im.EOS,
		Dtype: dt, Weights: m.set.Bytes, Tensors: m.set.Tensors(),
	}
	for i := range c.Layers {
		spec := kv.Spec{Kind: kv.KindAppend, Heads: c.KVHeads, KeyDim: c.HeadDim, ValueDim: c.HeadDim, Dtype: dt}
		if w := c.window(i); w > 0 {
			spec.Kind, spec.Window = kv.KindWindowed, w
		}
		m.specs = append(m.specs, spec)
		m.info.Kinds = append(m.info.Kinds, spec.Kind)
	}
}

// Info tells what the model is.
func (m *Model) Info() models.Info { return m.info }

// NewSequence returns empty caches.
func (m *Model) NewSequence() *kv.Sequence { return kv.NewSequence(m.specs) }

// Close frees the weights.
func (m *Model) Close() {
	m.set.Close()
	m.rope.Free()
}

// Forward builds one step.
func (m *Model) Forward(s *mlx.Scope, b *models.Batch) (*mlx.Array, error) {
	if err := b.Validate(m.config.Vocab); err != nil {
		return nil, err
	}
	x := m.embed.Lookup(s, b.Tokens) // [1, N, D]
	h, err := nn.Stack(s, b, x, m.layers, m.norm)
	if err != nil || h == nil {
		return nil, err
	}
	return nn.Logits(s, m.head.Apply(s, h)), s.Err() // [want, V]
}

type block struct {
	attention    attention
	mlp          nn.MLP
	norm1, norm2 nn.Norm
}

// Forward is x + attention(norm x), then x + mlp(norm x).
func (l *block) Forward(s *mlx.Scope, p *nn.Step, layer int, r nn.Stream) (nn.Stream, error) {
	r, h := r.Norm(s, l.norm1)
	var err error
	if r.Delta, err = l.attention.forward(s, p, layer, h); err != nil {
		return r, err
	}
	r, h = r.Norm(s, l.norm2)
	r.Delta = l.mlp.Apply(s, h)
	return r, s.Err()
}

type attention struct {
	config *Config
	rope   *nn.Rope
	window int
	qkv    nn.Joined
	out    nn.Linear
}

func (a *attention) forward(s *mlx.Scope, p *nn.Step, layer int, x *mlx.Array) (*mlx.Array, error) {
	c := a.config
	h, kv := c.Heads, c.KVHeads
	y := s.Reshape(a.qkv.Whole(s, x), 1, p.Rows, h+2*kv, c.HeadDim) // [1, N, H+2KV, D]
	qk := a.rope.Apply(s, p, s.SliceAxis(y, 2, 0, h+kv))            // [1, N, H+KV, D]
	q, k := s.SliceAxis(qk, 2, 0, h), s.SliceAxis(qk, 2, h, h+kv)
	v := s.SliceAxis(y, 2, h+kv, h+2*kv)
	o, err := nn.Attend(s, p, layer, q, k, v, nn.Attention{Scale: 1 / math.Sqrt(float64(c.HeadDim)), Window: a.window})
	if err != nil {
		return nil, err
	}
	return a.out.Apply(s, o), nil // [1, N, hidden]
}
