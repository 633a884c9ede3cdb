// Package sample turns logits into tokens.
//
// A Sampler holds what one choice of one turn needs: its parameters, what it
// has seen, and nothing random. Randomness is counter-based, a function of
// (seed, choice, position) alone, so that an answer can be taken up at any
// token by another process and go on as it would have. A Sampler is used by
// one goroutine at a time; different ones at once. It never touches the
// device and never decides that an answer ends.
//
// Order of the chain: repetition penalty, presence and frequency penalties,
// logit_bias, mask, temperature, top_k, top_p, min_p, draw. Each filter sees
// what the one before it left, renormalized; each leaves at least one token.
// Temperature 0 is argmax after the penalties, the lowest index of equals.
//
// The drawn token is the same on every platform: it depends on the logits by
// IEEE operations in a fixed order only. An explicit conversion around every
// product that is added to keeps compilers from fusing the two, and exp is
// this package's own. Logprobs may differ in the last bit between platforms.
package sample

import (
	"fmt"
	"math"

	"ingot/runtime/turn"
)

// Picked is one drawn token.
type Picked struct {
	Token   turn.TokenID
	Logprob float64 // natural logarithm, under the model, before penalties and filters; only with Params.Logprobs
	Top     []Alt   // Params.TopLogprobs likeliest tokens, most likely first
	Err     error   // *LogitsError: nothing could be drawn, Token means nothing
}

// Alt is one alternative with its logprob.
type Alt struct {
	Token   turn.TokenID
	Logprob float64
}

// LogitsError reports logits that nothing can be drawn from.
type LogitsError struct {
	Index int     // of the first bad logit; -1: none is allowed
	Value float32 // NaN or +Inf
}

func (e *LogitsError) Error() string {
	if e.Index < 0 {
		return "sample: no token is possible: every logit is -Inf"
	}
	return fmt.Sprintf("sample: logit %d is %v", e.Index, e.Value)
}

// Sampler draws the tokens of one choice of one turn.
type Sampler struct {
	p      *turn.Params
	choice int
	pos    int // tokens accepted

	answered map[turn.TokenID]int // counts over the answer, in use for presence and frequency
	seen     tokenSet             // prompt and answer, in use for repetition
	mask     []uint32
}

// New returns the sampler of a choice (from 0). It keeps p, which must not
// change.
func New(p *turn.Params, prompt []turn.TokenID, choice int) *Sampler {
	s := &Sampler{p: p, choice: choice}
	if s.repeats() {
		for _, t := range prompt {
			s.seen.add(t)
		}
	}
	if s.counts() {
		s.answered = make(map[turn.TokenID]int)
	}
	return s
}

func (s *Sampler) repeats() bool { return s.p.RepetitionPenalty != 1 && s.p.RepetitionPenalty > 0 }

func (s *Sampler) counts() bool { return s.p.PresencePenalty != 0 || s.p.FrequencyPenalty != 0 }

func (s *Sampler) edits() bool {
	return s.repeats() || s.counts() || len(s.p.LogitBias) > 0 || s.mask != nil
}

// Plain reports that the draw is argmax and nothing else is wanted, so that
// the device may do it. Pick may still be called.
func (s *Sampler) Plain() bool { return s.p.Greedy() && !s.p.Logprobs && !s.edits() }

// SetMask allows only tokens whose bit is set (token t is bit t%32 of word
// t/32; tokens beyond the words are not allowed), for every Pick until the
// next SetMask; nil allows all. The slice is kept, not copied.
func (s *Sampler) SetMask(allowed []uint32) { s.mask = allowed }

// Accept appends a drawn (or resumed) token to the answer.
func (s *Sampler) Accept(t turn.TokenID) {
	s.pos++
	if s.repeats() {
		s.seen.add(t)
	}
	if s.counts() {
		s.answered[t]++
	}
}

// Pick draws the next token from one row of logits [V], which it only reads.
// It changes nothing: asked again with the same logits, it draws the same.
func (s *Sampler) Pick(logits []float32) Picked {
	top, err := peak(logits)
	if err != nil {
		return Picked{Err: err}
	}
	w := borrow()
	defer w.giveBack()
	edited, best := logits, top
	if s.edits() {
		edited = w.copyOf(logits)
		s.edit(edited)
		if best, err = peak(edited); err != nil {
			return Picked{Err: err}
		}
	}
	var p Picked
	if s.p.Greedy() {
		p.Token = turn.TokenID(best)
	} else {
		u := uniform(s.p.Seed, uint32(s.choice), uint64(s.pos))
		p.Token = s.draw(w, edited, edited[best], u)
	}
	if s.p.Logprobs {
		s.report(&p, w, logits, logits[top])
	}
	return p
}

// peak returns the index of the largest logit, the lowest of equals.
func peak(logits []float32) (int, error) {
	best, most := -1, float32(math.Inf(-1))
	for i, v := range logits {
		if v <= most {
			continue
		}
		if v != v || v > math.MaxFloat32 {
			return 0, &LogitsError{Index: i, Value: v}
		}
		best, most = i, v
	}
	if best < 0 {
		return 0, &LogitsError{Index: -1}
	}
	return best, nil
}
