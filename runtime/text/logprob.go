package text

import (
	"strings"

	"ingot/runtime/turn"
)

// Vocabulary tells what single tokens stand for: textkit.Tokenizer.
type Vocabulary interface {
	// TokenBytes are the bytes of an id in text; they need not be UTF-8.
	TokenBytes(turn.TokenID) ([]byte, error)
	// IsControl tells special tokens, which have no text.
	IsControl(turn.TokenID) bool
}

// logprob puts a sampled token into OpenAI's shape.
func logprob(v Vocabulary, t Sampled) turn.Logprob {
	l := turn.Logprob{TopLogprob: shown(v, t.ID, t.Logprob), Top: []turn.TopLogprob{}}
	for _, alt := range t.Top {
		l.Top = append(l.Top, shown(v, alt.ID, alt.Logprob))
	}
	return l
}

// shown spells a token; an id that the vocabulary lacks (a padded row of the
// logits) has neither text nor bytes.
func shown(v Vocabulary, id turn.TokenID, logprob float64) turn.TopLogprob {
	out := turn.TopLogprob{Logprob: logprob}
	raw, err := v.TokenBytes(id)
	if err != nil {
		return out
	}
	out.Token = strings.ToValidUTF8(string(raw), "\uFFFD")
	if v.IsControl(id) {
		return out
	}
	out.Bytes = make([]int, len(raw))
	for i, b := range raw {
		out.Bytes[i] = int(b)
	}
	return out
}
