// Package llama computes the dense decoder that Llama made common: Llama 2
// to 3.2, Mistral, SmolLM2 and what else is published under their types.
//
// Sources: Touvron et al. 2023 (Llama 2), Dubey et al. 2024 (Llama 3), Jiang
// et al. 2023 (Mistral). A Model belongs to the device thread.
package llama

import (
	"fmt"

	"ingot/models/index"
	"ingot/models/nn"
)

// Config is config.json.
type Config struct {
	Type        string          `json:"model_type"`
	Hidden      int             `json:"hidden_size"`
	Inner       int             `json:"intermediate_size"`
	Layers      int             `json:"num_hidden_layers"`
	Heads       int             `json:"num_attention_heads"`
	KVHeads     int             `json:"num_key_value_heads"`
	HeadDim     int             `json:"head_dim"`
	Vocab       int             `json:"vocab_size"`
	Context     int             `json:"max_position_embeddings"`
	Eps         float64         `json:"rms_norm_eps"`
	Theta       float64         `json:"rope_theta"`
	Traditional bool            `json:"rope_traditional"`
	Scaling     *nn.RopeScaling `json:"rope_scaling"`
	Parameters  *nn.RopeScaling `json:"rope_parameters"` // newer files keep theta and scaling here
	Tied        *bool           `json:"tie_word_embeddings"`
	Window      int             `json:"sliding_window"`
	LayerTypes  []string        `json:"layer_types"`
}

// Kinds of attention in layer_types.
const (
	full    = "full_attention"
	sliding = "sliding_attention"
)

func readConfig(m *index.Model) (*Config, error) {
	c := &Config{Eps: 1e-5}
	if err := m.Decode(c); err != nil {
		return nil, err
	}
	c.defaults()
	return c, c.validate(m)
}

func (c *Config) defaults() {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if p := c.Parameters; p != nil {
		if c.Theta == 0 {
			c.Theta = p.Theta
		}
		if c.Scaling == nil {
			c.Scaling = p
		}
	}
	if c.Theta == 0 {
		c.Theta = 10000
	}
	if c.Tied == nil { // Mistral's files leave it out and mean no
		tied := c.Type != "mistral"
		c.Tied = &tied
	}
	if c.LayerTypes == nil {
		c.LayerTypes = make([]string, c.Layers)
		for i := range c.LayerTypes {
			c.LayerTypes[i] = full
			if c.Type == "mistral" && c.Window > 0 { // every layer of the first Mistral slides
				c.LayerTypes[i] = sliding
			}
		}
	}
}

func (c *Config) validate(m *index.Model) error {
	bad := func(field, format string, args ...any) error {
		return &index.FieldError{File: m.Folder + "/config.json", Field: field, Why: fmt.Sprintf(format, args...)}
	}
	for _, f := range []struct {
		name string
		v    int
	}{
		{"hidden_size", c.Hidden}, {"intermediate_size", c.Inner}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"vocab_size", c.Vocab},
	} {
		if f.v < 1 || f.v > 1<<24 {
			return bad(f.name, "%d", f.v)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return bad("num_key_value_heads", "%d does not divide %d heads", c.KVHeads, c.Heads)
	}
	if len(c.LayerTypes) != c.Layers {
		return bad("layer_types", "%d entries for %d layers", len(c.LayerTypes), c.Layers)
	}
	for i, t := range c.LayerTypes {
		if t != full && t != sliding {
			return bad(fmt.Sprintf("layer_types[%d]", i), "%q is not known", t)
		}
		if t == sliding && c.Window < 1 {
			return bad("sliding_window", "%d, and layer %d slides", c.Window, i)
		}
	}
	return nil
}

// window is what a layer sees; 0: everything.
func (c *Config) window(layer int) int {
	if c.LayerTypes[layer] == sliding {
		return c.Window
	}
	return 0
}

func (c *Config) rope() nn.RopeConfig {
	return nn.RopeConfig{Dims: c.HeadDim, Base: c.Theta, Traditional: c.Traditional, Context: c.Context, Scaling: c.Scaling}
}
