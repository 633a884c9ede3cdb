// Package qwen3next computes Qwen3-Next: three gated delta layers for one of
// gated attention, sparse experts beside a shared one.
//
// Source: Qwen Team 2025, Qwen3-Next; Yang et al. 2024, Gated Delta Networks.
// A model belongs to the device thread.
package qwen3next

import (
	"path/filepath"

	"ingot/models"
	"ingot/models/index"
	"ingot/models/nn"
	"ingot/models/weights"
	"ingot/runtime/mlx"
)

func init() {
	models.Register(models.Family{Types: []string{"qwen3_next"}, Open: open})
}

// rules: the heads for multi-token prediction are of no use here.
var rules = []weights.Rule{{Prefix: "mtp.", Skip: true}, {Prefix: "model.mtp.", Skip: true}}

func open(dev *mlx.Device, m *index.Model, opt models.Options) (models.Model, error) {
	c := &nn.Hybrid{}
	if err := m.Decode(c); err != nil {
		return nil, err
	}
	c.Complete(false)
	if err := c.Validate(filepath.Join(m.Folder, "config.json")); err != nil {
		return nil, err
	}
	drop := rules
	if c.Tied {
		drop = append([]weights.Rule{{Prefix: "lm_head.", Skip: true}}, rules...)
	}
	return nn.OpenHybrid(dev, m, opt, c, drop, "model", func(l *weights.Loader, path string) nn.Joined { return input(l, c.Delta(), path) })
}

// input takes the two projections apart: their rows go by key head, [q, k, v,
// z] and [b, a] of each in turn; wanted are all q, all k and so on.
func input(l *weights.Loader, d nn.DeltaShape, path string) nn.Joined {
	per := d.ValueHeads / d.KeyHeads // value heads of a key head
	qkvz, ba := path+".in_proj_qkvz", path+".in_proj_ba"
	wide := 2*d.KeyDim + 2*per*d.ValueDim
	part := func(name string, width, at, rows int) weights.Part {
		return weights.Part{Name: name, Out: rows * d.KeyHeads, Groups: d.KeyHeads, Width: width, At: at}
	}
	return nn.Join(l, d.Hidden,
		part(qkvz, wide, 0, d.KeyDim),
		part(qkvz, wide, d.KeyDim, d.KeyDim),
		part(qkvz, wide, 2*d.KeyDim, per*d.ValueDim),
		part(qkvz, wide, 2*d.KeyDim+per*d.ValueDim, per*d.ValueDim),
		part(ba, 2*per, 0, per),
		part(ba, 2*per, per, per))
}
