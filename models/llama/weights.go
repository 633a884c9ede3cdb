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

func (c *Config) rules() []weights.Rule {
	if *c.Tied {
		return tiedRules
	}
	return rules
}

// declare names every tensor of the model.
func (m *Model) declare(l *weights.Loader) {
	c := m.config
	m.embed = nn.Embedding{Linear: nn.Linear{Matrix: l.Linear(c.Hidden, weights.Part{Name: "model.embed_tokens", Out: c.Vocab})}, Dtype: l.Dtype()}
	m.norm = nn.Norm{W: l.Vector("model.norm.weight", c.Hidden), Eps: c.Eps}
	m.head = m.embed.Linear
	if !*c.Tied {
		m.head = nn.Linear{Matrix: l.Linear(c.Hidden, weights.Part{Name: "lm_head", Out: c.Vocab})}
	}
	for i := range c.Layers {
		path := fmt.Sprintf("model.layers.%d", i)
		m.layers = append(m.layers, &block{
			attention: m.declareAttention(l, path+".self_attn", c.window(i)),
			mlp:       nn.NewMLP(l, path+".mlp", c.Hidden, c.Inner),
			norm1:     nn.Norm{W: l.Vector(path+".input_layernorm.weight", c.Hidden), Eps: c.Eps},
			norm2:     nn.Norm{W: l.Vector(path+".post_attention_layernorm.weight", c.Hidden), Eps: c.Eps},
		})
	}
}

func (m *Model) declareAttention(l *weights.Loader, path string, window int) attention {
	c := m.config
	return attention{
		config: c,
		rope:   m.rope,
		window: window,
		qkv: nn.Join(l, c.Hidden,
			weights.Part{Name: path + ".q_proj", Out: c.Heads * c.HeadDim},
			weights.Part{Name: path + ".k_proj", Out: c.KVHeads * c.HeadDim},
			weights.Part{Name: path + ".v_proj", Out: c.KVHeads * c.HeadDim}),
		out: nn.Linear{Matrix: l.Linear(c.Heads*c.HeadDim, weights.Part{Name: path + ".o_proj", Out: c.Hidden})},
	}
}
