package sample

import (
	"math"

	"ingot/runtime/turn"
)

// edit applies penalties, bias and mask to a copy of the logits. Tokens
// outside the row are passed over.
func (s *Sampler) edit(logits []float32) {
	if s.repeats() {
		repetition(logits, s.seen.list, s.p.RepetitionPenalty)
	}
	for t, n := range s.answered {
		change(logits, t, func(v float64) float64 {
			return v - s.p.PresencePenalty - float64(s.p.FrequencyPenalty*float64(n))
		})
	}
	for t, b := range s.p.LogitBias {
		change(logits, t, func(v float64) float64 { return v + b })
	}
	if s.mask != nil {
		maskOut(logits, s.mask)
	}
}

// repetition makes seen tokens less likely (CTRL, Keskar et al. 2019).
func repetition(logits []float32, seen []turn.TokenID, penalty float64) {
	for _, t := range seen {
		change(logits, t, func(v float64) float64 {
			if v > 0 {
				return v / penalty
			}
			return v * penalty
		})
	}
}

// change is one token's logit, in double precision, through f.
func change(logits []float32, t turn.TokenID, f func(float64) float64) {
	if t >= 0 && int(t) < len(logits) {
		v := f(float64(logits[t]))
		logits[t] = float32(max(-math.MaxFloat32, min(math.MaxFloat32, v)))
	}
}

var never = float32(math.Inf(-1))

// maskOut takes away what the mask does not allow.
func maskOut(logits []float32, allowed []uint32) {
	for at := 0; at < len(logits); at += 32 {
		var word uint32
		if at/32 < len(allowed) {
			word = allowed[at/32]
		}
		if word == math.MaxUint32 {
			continue
		}
		for i := at; i < min(at+32, len(logits)); i++ {
			if word&(1<<(i-at)) == 0 {
				logits[i] = never
			}
		}
	}
}

// tokenSet is a set of tokens that can be gone through quickly.
type tokenSet struct {
	bits []uint64
	list []turn.TokenID
}

func (s *tokenSet) add(t turn.TokenID) {
	if t < 0 {
		return
	}
	for int(t)/64 >= len(s.bits) {
		s.bits = append(s.bits, make([]uint64, max(1024, len(s.bits)))...)
	}
	if bit := uint64(1) << (t % 64); s.bits[t/64]&bit == 0 {
		s.bits[t/64] |= bit
		s.list = append(s.list, t)
	}
}
