package sample

import (
	"math"

	"ingot/runtime/turn"
)

// report adds the logprobs that were asked for, from the model's own logits.
func (s *Sampler) report(p *Picked, w *workspace, logits []float32, top float32) {
	norm := float64(top) + math.Log(w.sum(logits, scale{top: float64(top), by: 1}))
	p.Logprob = float64(logits[p.Token]) - norm
	n := min(s.p.TopLogprobs, len(logits))
	if n == 0 {
		return
	}
	w.best(logits, n)
	p.Top = make([]Alt, n)
	for i, c := range w.cs {
		p.Top[i] = Alt{turn.TokenID(c.token), float64(c.logit) - norm}
	}
}
