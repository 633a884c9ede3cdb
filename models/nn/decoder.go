package nn

import (
	"ingot/models"
	"ingot/models/index"
	"ingot/models/weights"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// Mixer lets the rows of a sequence see each other: x [1, N, D] to the same
// shape.
type Mixer interface {
	Apply(s *mlx.Scope, p *Step, layer int, x *mlx.Array) (*mlx.Array, error)
	Spec(dt mlx.Dtype) kv.Spec
}

// Feeder maps each row by itself: x [1, N, D] to the same shape.
type Feeder interface {
	Apply(s *mlx.Scope, x *mlx.Array) *mlx.Array
}

// Block is x + mixer(norm x), then x + feeder(norm x).
type Block struct {
	Norm1  Norm
	Mixer  Mixer
	Norm2  Norm
	Feeder Feeder
}

var _ Layer = (*Block)(nil)

// Mix is the first half.
func (b *Block) Mix(s *mlx.Scope, p *Step, layer int, r Stream) (Stream, error) {
	r, h := r.Norm(s, b.Norm1)
	var err error
	r.Delta, err = b.Mixer.Apply(s, p, layer, h)
	return r, err
}

// Feed is the second half.
func (b *Block) Feed(s *mlx.Scope, r Stream) Stream {
	r, h := r.Norm(s, b.Norm2)
	r.Delta = b.Feeder.Apply(s, h)
	return r
}

// Decoder is a pre-norm decoder: embedding, blocks, norm, output map. A
// family declares its parts and hands it out as its models.Model.
type Decoder struct {
	Embed  Embedding
	Blocks []*Block
	Norm   Norm
	Head   Linear

	info  models.Info
	specs []kv.Spec
	set   *weights.Set
	free  []func()
}

var _ models.Model = (*Decoder)(nil)

// Names are the tensors outside the blocks, as a family calls them.
type Names struct{ Embed, Norm, Head string }

// Outer declares what is outside the blocks.
func (d *Decoder) Outer(l *weights.Loader, n Names, vocab, hidden int, eps float64, tied bool) {
	d.Embed = Embedding{Linear: Linear{l.Linear(hidden, weights.Part{Name: n.Embed, Out: vocab})}, Dtype: l.Dtype()}
	d.Norm = Norm{W: l.Vector(n.Norm+".weight", hidden), Eps: eps}
	d.Head = d.Embed.Linear
	if !tied {
		d.Head = Linear{l.Linear(hidden, weights.Part{Name: n.Head, Out: vocab})}
	}
	d.info.Hidden, d.info.Vocab = hidden, vocab
}

// OnClose has f called when the model is closed, or when it fails to load.
func (d *Decoder) OnClose(f func()) { d.free = append(d.free, f) }

// Load reads the weights that were declared and describes the model.
func (d *Decoder) Load(l *weights.Loader, m *index.Model, opt models.Options) (err error) {
	if d.set, err = l.Load(opt.Progress); err != nil {
		d.Close()
		return err
	}
	d.info.Family, d.info.Context, d.info.EOS = m.Type, m.Context, m.EOS
	d.info.Layers, d.info.Dtype = len(d.Blocks), l.Dtype()
	d.info.Weights, d.info.Tensors = d.set.Bytes, d.set.Tensors()
	for _, b := range d.Blocks {
		spec := b.Mixer.Spec(l.Dtype())
		d.specs = append(d.specs, spec)
		d.info.Kinds = append(d.info.Kinds, spec.Kind)
	}
	return nil
}

// Info tells what the model is.
func (d *Decoder) Info() models.Info { return d.info }

// NewSequence returns empty caches.
func (d *Decoder) NewSequence() *kv.Sequence { return kv.NewSequence(d.specs) }

// Forward builds one step.
func (d *Decoder) Forward(s *mlx.Scope, b *models.Batch) (*mlx.Array, error) {
	if err := b.Validate(d.info.Vocab); err != nil {
		return nil, err
	}
	x := d.Embed.Lookup(s, b.Tokens) // [1, N, D]
	h, err := Stack(s, b, x, d.Blocks, d.Norm)
	if err != nil || h == nil {
		return nil, err
	}
	y := d.Head.Apply(s, h)                                     // [1, want, V]
	y = s.AsType(s.Reshape(y, y.Dim(1), y.Dim(2)), mlx.Float32) // [want, V]
	return y, s.Err()
}

// Close frees the weights and what was worked out from them.
func (d *Decoder) Close() {
	for _, f := range d.free {
		f()
	}
	d.free = nil
	if d.set != nil {
		d.set.Close()
	}
}
