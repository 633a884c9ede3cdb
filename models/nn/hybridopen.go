package nn

import (
	"ingot/models"
	"ingot/models/index"
	"ingot/models/weights"
	"ingot/runtime/mlx"
)

// OpenHybrid loads a decoder of gated delta and gated attention layers.
func OpenHybrid(dev *mlx.Device, m *index.Model, opt models.Options, c *Hybrid, rules []weights.Rule, prefix string,
	input func(l *weights.Loader, path string) Joined) (models.Model, error) {
	l := weights.NewLoader(dev, m, rules)
	if c.Unconverted(l, prefix) {
		l.Shift(1, HybridNorms...)
	}
	rope, err := NewRope(dev, c.Rope(), c.HeadDim, l.Dtype())
	if err != nil {
		return nil, err
	}
	d, nets := c.Declare(l, prefix, rope, func(path string) Joined { return input(l, path) })
	d.OnClose(rope.Free)
	if err := d.Load(l, m, opt); err != nil {
		return nil, err
	}
	s := dev.NewScope()
	defer s.Close()
	for _, n := range nets {
		d.OnClose(n.Free)
		if err := n.Prepare(s); err != nil {
			d.Close()
			return nil, l.Room(err)
		}
	}
	return d, nil
}
