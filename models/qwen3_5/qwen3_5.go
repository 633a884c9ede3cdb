// Package qwen35 computes the text part of Qwen3.5, dense and with experts:
// three gated delta layers for one of gated attention.
//
// Source: Qwen Team 2026, Qwen3.5; Yang et al. 2024, Gated Delta Networks. The
// weights that see and those that predict several tokens are skipped by name.
// A model belongs to the device thread.
package qwen35

import (
	"encoding/json"
	"path/filepath"

	"ingot/models"
	"ingot/models/index"
	"ingot/models/nn"
	"ingot/models/weights"
	"ingot/runtime/mlx"
)

func init() {
	models.Register(models.Family{
		Types: []string{"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"},
		Open:  open,
	})
}

// prefix is where the text part's tensors are brought to.
const prefix = "language_model.model"

// rules: MLX's own files say language_model.model, the publisher's
// model.language_model; text-only files say model.
var rules = []weights.Rule{
	{Prefix: "vision_tower.", Skip: true},
	{Prefix: "model.visual.", Skip: true},
	{Prefix: "mtp.", Skip: true},
	{Prefix: "language_model.mtp.", Skip: true},
	{Prefix: "model.language_model.", To: prefix + "."},
	{Prefix: "model.", To: prefix + "."},
	{Prefix: "lm_head.", To: "language_model.lm_head."},
	{Suffix: ".experts.gate_up_proj", To: ".switch_mlp.gate_up_proj.weight"},
	{Suffix: ".experts.down_proj", To: ".switch_mlp.down_proj.weight"},
}

// config reads the text part, which may be the whole.
func config(m *index.Model) (*nn.Hybrid, error) {
	var outer struct {
		Text json.RawMessage `json:"text_config"`
		Tied bool            `json:"tie_word_embeddings"`
	}
	if err := m.Decode(&outer); err != nil {
		return nil, err
	}
	text := *m
	if len(outer.Text) > 0 {
		text.Config = outer.Text
	}
	c := &nn.Hybrid{}
	if err := text.Decode(c); err != nil {
		return nil, err
	}
	c.Complete(true)
	return c, c.Validate(filepath.Join(m.Folder, "config.json"))
}

func open(dev *mlx.Device, m *index.Model, opt models.Options) (models.Model, error) {
	c, err := config(m)
	if err != nil {
		return nil, err
	}
	drop := rules
	if c.Tied {
		drop = append([]weights.Rule{{Prefix: "lm_head.", Skip: true}, {Prefix: "language_model.lm_head.", Skip: true}}, rules...)
	}
	return nn.OpenHybrid(dev, m, opt, c, drop, prefix, func(l *weights.Loader, path string) nn.Joined { return input(l, c.Delta(), path) })
}

func input(l *weights.Loader, d nn.DeltaShape, path string) nn.Joined {
	return nn.Join(l, d.Hidden,
		weights.Part{Name: path + ".in_proj_qkv", Out: 2*d.KeyHeads*d.KeyDim + d.ValueHeads*d.ValueDim},
		weights.Part{Name: path + ".in_proj_z", Out: d.ValueHeads * d.ValueDim},
		weights.Part{Name: path + ".in_proj_b", Out: d.ValueHeads},
		weights.Part{Name: path + ".in_proj_a", Out: d.ValueHeads})
}
