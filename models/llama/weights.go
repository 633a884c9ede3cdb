package llama

import (
	"fmt"

	"ingot/models/nn"
	"ingot/models/weights"
)

// rules: precomputed rotary tables are computed here instead.
var rules = []weights.Rule{{Suffix: ".rotary_emb.inv_freq", Skip: true}}

// tiedRules also drop an output matrix that repeats the embedding.
var tiedRules = append([]weights.Rule{{Prefix: "lm_head.", Skip: true}}, rules...)

var names = nn.Names{Embed: "model.embed_tokens", Norm: "model.norm", Head: "lm_head"}

func (c *Config) rules() []weights.Rule {
	if *c.Tied {
		return tiedRules
	}
	return rules
}

// declare names every tensor of the model.
func (c *Config) declare(l *weights.Loader, rope *nn.Rope) *nn.Decoder {
	d := &nn.Decoder{}
	d.Outer(l, names, c.Vocab, c.Hidden, c.Eps, *c.Tied)
	for i := range c.Layers {
		path := fmt.Sprintf("model.layers.%d", i)
		d.Blocks = append(d.Blocks, &nn.Block{
			Norm1:  nn.Norm{W: l.Vector(path+".input_layernorm.weight", c.Hidden), Eps: c.Eps},
			Mixer:  c.attention(l, path+".self_attn", c.window(i), rope),
			Norm2:  nn.Norm{W: l.Vector(path+".post_attention_layernorm.weight", c.Hidden), Eps: c.Eps},
			Feeder: nn.NewMLP(l, path+".mlp", c.Hidden, c.Inner),
		})
	}
	return d
}

func (c *Config) attention(l *weights.Loader, path string, window int, rope *nn.Rope) *attention {
	return &attention{
		heads: c.Heads, kvHeads: c.KVHeads, dim: c.HeadDim, window: window, rope: rope,
		qkv: nn.Join(l, c.Hidden,
			weights.Part{Name: path + ".q_proj", Out: c.Heads * c.HeadDim},
			weights.Part{Name: path + ".k_proj", Out: c.KVHeads * c.HeadDim},
			weights.Part{Name: path + ".v_proj", Out: c.KVHeads * c.HeadDim}),
		out: nn.Linear{Matrix: l.Linear(c.Heads*c.HeadDim, weights.Part{Name: path + ".o_proj", Out: c.Hidden})},
	}
}
