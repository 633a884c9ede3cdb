// Package sample turns logits into tokens.
package sample

import (
	"ingot/runtime/turn"
)

// Picked is one drawn token.
type Picked struct {
	Token   turn.TokenID
	Logprob float64 // natural logarithm, under the model, before temperature and filters; only with Params.Logprobs
	Top     []Alt   // Params.TopLogprobs likeliest tokens, most likely first
	Err     error   // the logits were no numbers; Token means nothing
}

// Alt is one alternative with its logprob.
type Alt struct {
	Token   turn.TokenID
	Logprob float64
}

// Sampler draws the tokens of one choice of one turn.
type Sampler struct {
	p      *turn.Params
	choice int
	answer []turn.TokenID
}

// New returns the sampler of a choice (from 0).
func New(p *turn.Params, prompt []turn.TokenID, choice int) *Sampler {
	return &Sampler{p: p, choice: choice}
}

// Plain reports that the draw is argmax and nothing else is wanted, so that
// the device may do it. Pick may still be called.
func (s *Sampler) Plain() bool { return s.p.Greedy() && !s.p.Logprobs }

// Pick draws the next token from one row of logits [V]. It changes nothing:
// asked again with the same logits, it draws the same.
func (s *Sampler) Pick(logits []float32) Picked {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return Picked{Token: turn.TokenID(best)}
}

// Accept appends a drawn (or resumed) token to the answer.
func (s *Sampler) Accept(t turn.TokenID) { s.answer = append(s.answer, t) }
