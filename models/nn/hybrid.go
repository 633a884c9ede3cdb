package nn

import (
	"fmt"

	"ingot/models/index"
	"ingot/models/weights"
)

// Hybrid is the configuration of decoders that mix gated delta layers with
// gated attention, every Interval-th layer: the names are config.json's.
type Hybrid struct {
	Hidden      int          `json:"hidden_size"`
	Inner       int          `json:"intermediate_size"`
	Layers      int          `json:"num_hidden_layers"`
	Heads       int          `json:"num_attention_heads"`
	KVHeads     int          `json:"num_key_value_heads"`
	HeadDim     int          `json:"head_dim"`
	Vocab       int          `json:"vocab_size"`
	Context     int          `json:"max_position_embeddings"`
	Eps         float64      `json:"rms_norm_eps"`
	Theta       float64      `json:"rope_theta"`
	Partial     float64      `json:"partial_rotary_factor"`
	Scaling     *RopeScaling `json:"rope_scaling"`
	Parameters  *RopeScaling `json:"rope_parameters"`
	Tied        bool         `json:"tie_word_embeddings"`
	Interval    int          `json:"full_attention_interval"`
	ValueHeads  int          `json:"linear_num_value_heads"`
	KeyHeads    int          `json:"linear_num_key_heads"`
	KeyDim      int          `json:"linear_key_head_dim"`
	ValueDim    int          `json:"linear_value_head_dim"`
	Kernel      int          `json:"linear_conv_kernel_dim"`
	Experts     int          `json:"num_experts"`
	PerToken    int          `json:"num_experts_per_tok"`
	ExpertInner int          `json:"moe_intermediate_size"`
	SharedInner int          `json:"shared_expert_intermediate_size"`
	SparseStep  int          `json:"decoder_sparse_step"`
	MLPOnly     []int        `json:"mlp_only_layers"`
	Normalize   *bool        `json:"norm_topk_prob"`
}

// Complete fills in what newer files keep in rope_parameters, and defaults.
func (c *Hybrid) Complete(normalize bool) {
	if p := c.Parameters; p != nil {
		c.Scaling = p
		if p.Theta > 0 {
			c.Theta = p.Theta
		}
		if p.Partial > 0 {
			c.Partial = p.Partial
		}
	}
	for _, d := range []struct {
		v *float64
		d float64
	}{{&c.Eps, 1e-6}, {&c.Theta, 1e5}, {&c.Partial, 0.25}} {
		setDefault(d.v, d.d)
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.Interval == 0 {
		c.Interval = 4
	}
	if c.SparseStep == 0 {
		c.SparseStep = 1
	}
	if c.Normalize == nil {
		c.Normalize = &normalize
	}
}

// Validate names the first field that cannot be.
func (c *Hybrid) Validate(file string) error {
	bad := func(field, format string, args ...any) error {
		return &index.FieldError{File: file, Field: field, Why: fmt.Sprintf(format, args...)}
	}
	for _, f := range c.sizes() {
		if f.v < 1 || f.v > 1<<24 {
			return bad(f.name, "%d", f.v)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return bad("num_key_value_heads", "%d does not divide %d heads", c.KVHeads, c.Heads)
	case c.ValueHeads%c.KeyHeads != 0:
		return bad("linear_num_key_heads", "%d does not divide %d value heads", c.KeyHeads, c.ValueHeads)
	case c.Partial > 1:
		return bad("partial_rotary_factor", "%v", c.Partial)
	case c.Experts < 0 || c.Experts > 0 && (c.PerToken < 1 || c.PerToken > c.Experts):
		return bad("num_experts_per_tok", "%d of %d experts", c.PerToken, c.Experts)
	case c.Experts > 0 && c.ExpertInner < 1:
		return bad("moe_intermediate_size", "%d", c.ExpertInner)
	case c.Experts > 0 && c.SharedInner < 1:
		return bad("shared_expert_intermediate_size", "%d", c.SharedInner)
	}
	return nil
}

type size struct {
	name string
	v    int
}

func (c *Hybrid) sizes() []size {
	s := []size{
		{"hidden_size", c.Hidden}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads},
		{"head_dim", c.HeadDim}, {"vocab_size", c.Vocab}, {"full_attention_interval", c.Interval}, {"decoder_sparse_step", c.SparseStep},
		{"linear_num_value_heads", c.ValueHeads}, {"linear_num_key_heads", c.KeyHeads}, {"linear_key_head_dim", c.KeyDim},
		{"linear_value_head_dim", c.ValueDim}, {"linear_conv_kernel_dim", c.Kernel},
	}
	if c.Experts == 0 {
		s = append(s, size{"intermediate_size", c.Inner})
	}
	return s
}

// Linear reports whether a layer is a gated delta layer.
func (c *Hybrid) Linear(layer int) bool { return (layer+1)%c.Interval != 0 }

// Sparse reports whether a layer has experts.
func (c *Hybrid) Sparse(layer int) bool {
	for _, l := range c.MLPOnly {
		if l == layer {
			return false
		}
	}
	return c.Experts > 0 && (layer+1)%c.SparseStep == 0
}

// Delta is the geometry of the gated delta layers.
func (c *Hybrid) Delta() DeltaShape {
	return DeltaShape{Hidden: c.Hidden, KeyHeads: c.KeyHeads, ValueHeads: c.ValueHeads, KeyDim: c.KeyDim, ValueDim: c.ValueDim, Kernel: c.Kernel}
}

// Rope is the rotary part of the attention layers.
func (c *Hybrid) Rope() RopeConfig {
	return RopeConfig{Dims: int(float64(c.HeadDim) * c.Partial), Base: c.Theta, Context: c.Context, Scaling: c.Scaling}
}

// HybridNorms are the names of the norms whose weights publishers keep less
// one before MLX's conversion, which also turns the convolutions' axes.
var HybridNorms = []string{
	".input_layernorm.weight", ".post_attention_layernorm.weight", "model.norm.weight", ".q_norm.weight", ".k_norm.weight",
}

// Unconverted reports whether the checkpoint under prefix is as its
// publisher wrote it.
func (c *Hybrid) Unconverted(l *weights.Loader, prefix string) bool {
	for i := range c.Layers {
		if s := l.Shape(fmt.Sprintf("%s.layers.%d.linear_attn.conv1d.weight", prefix, i)); len(s) == 3 {
			return s[2] != 1
		}
	}
	return false
}

// Declare names every tensor under prefix. input declares the projections of
// a gated delta layer, the one thing that the families do differently.
func (c *Hybrid) Declare(l *weights.Loader, prefix string, rope *Rope, input func(path string) Joined) (*Decoder, []*DeltaNet) {
	d := &Decoder{}
	head := "lm_head"
	if n := len(prefix) - len("model"); n > 0 {
		head = prefix[:n] + head
	}
	d.Outer(l, Names{Embed: prefix + ".embed_tokens", Norm: prefix + ".norm", Head: head}, c.Vocab, c.Hidden, c.Eps, c.Tied)
	var nets []*DeltaNet
	for i := range c.Layers {
		path := fmt.Sprintf("%s.layers.%d", prefix, i)
		b := &Block{
			Norm1: Norm{W: l.Vector(path+".input_layernorm.weight", c.Hidden), Eps: c.Eps},
			Norm2: Norm{W: l.Vector(path+".post_attention_layernorm.weight", c.Hidden), Eps: c.Eps},
		}
		if c.Linear(i) {
			net := NewDeltaNet(l, path+".linear_attn", c.Delta(), c.Eps)
			net.In = input(path + ".linear_attn")
			nets, b.Mixer = append(nets, net), net
		} else {
			b.Mixer = NewGatedAttention(l, path+".self_attn", c.Hidden, c.Heads, c.KVHeads, c.HeadDim, c.Eps, rope)
		}
		b.Feeder = c.feeder(l, path+".mlp", i)
		d.Blocks = append(d.Blocks, b)
	}
	return d, nets
}

func (c *Hybrid) feeder(l *weights.Loader, path string, layer int) Feeder {
	if c.Sparse(layer) {
		return NewMoE(l, path, c.Hidden, c.ExpertInner, c.SharedInner, c.Experts, c.PerToken, *c.Normalize)
	}
	return NewMLP(l, path, c.Hidden, c.Inner)
}
