package turn

import (
	"errors"
	"fmt"
	"math"
)

// Limits of the contract.
const (
	MaxChoices     = 8  // n
	MaxTopLogprobs = 20 // top_logprobs
	MaxStops       = 16 // stop strings
)

// Params are the fully resolved parameters of one turn: request, else
// config, else the model's generation_config.json, else neutral. Everything
// here has an effect.
type Params struct {
	MaxTokens int `json:"max_tokens"` // per choice; 0: to the end of the context
	N         int `json:"n"`          // choices; at least 1

	Temperature float64 `json:"temperature"` // 0: greedy
	TopP        float64 `json:"top_p"`       // (0,1]; 1: off
	TopK        int     `json:"top_k"`       // 0: off
	MinP        float64 `json:"min_p"`       // [0,1]; 0: off

	RepetitionPenalty float64             `json:"repetition_penalty"` // > 0; 1: off. Over prompt and answer (CTRL, Keskar et al. 2019)
	PresencePenalty   float64             `json:"presence_penalty"`   // [-2,2]; over the answer, as OpenAI defines it
	FrequencyPenalty  float64             `json:"frequency_penalty"`  // [-2,2]; over the answer
	LogitBias         map[TokenID]float64 `json:"logit_bias,omitempty"`

	Seed        uint64 `json:"seed"`         // always set: drawn by the daemon when the request has none
	Logprobs    bool   `json:"logprobs"`     // report each token's logprob
	TopLogprobs int    `json:"top_logprobs"` // and this many alternatives

	Stop       []string  `json:"stop,omitempty"`        // strings that end a choice, left out of its text
	StopTokens []TokenID `json:"stop_tokens,omitempty"` // ids that end a choice, besides the model's own
	IgnoreEOS  bool      `json:"ignore_eos,omitempty"`  // the model's own end tokens do not end it

	Deterministic bool `json:"deterministic,omitempty"` // see DESIGN: rows one by one, fixed prefill grid
	PrefillStep   int  `json:"prefill_step,omitempty"`  // cap on the prefill width; 0: none
}

// Neutral returns parameters with every filter off: temperature 1, one
// choice, no limit but the context.
func Neutral() Params {
	return Params{N: 1, Temperature: 1, TopP: 1, RepetitionPenalty: 1}
}

// Greedy reports whether sampling is argmax.
func (p *Params) Greedy() bool { return p.Temperature == 0 }

// FieldError names the parameter that is wrong and says why.
type FieldError struct {
	Field string // as the request spells it
	Why   string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Why }

func bad(field, format string, args ...any) error {
	return &FieldError{Field: field, Why: fmt.Sprintf(format, args...)}
}

// Validate reports every parameter that is out of range, as FieldErrors
// joined with errors.Join.
func (p *Params) Validate() error {
	var errs []error
	for _, c := range p.ranges() {
		if math.IsNaN(c.v) || c.v < c.lo || c.v > c.hi {
			errs = append(errs, bad(c.field, "%v is not between %v and %v", c.v, c.lo, c.hi))
		}
	}
	if p.TopP == 0 {
		errs = append(errs, bad("top_p", "0 leaves no token; use a value above 0, or temperature 0 for greedy"))
	}
	if p.RepetitionPenalty == 0 {
		errs = append(errs, bad("repetition_penalty", "must be above 0"))
	}
	if len(p.Stop) > MaxStops {
		errs = append(errs, bad("stop", "%d strings, at most %d", len(p.Stop), MaxStops))
	}
	for i, s := range p.Stop {
		if s == "" {
			errs = append(errs, bad(fmt.Sprintf("stop[%d]", i), "is empty"))
		}
	}
	for id, v := range p.LogitBias {
		if math.IsNaN(v) || v < -100 || v > 100 {
			errs = append(errs, bad(fmt.Sprintf("logit_bias[%d]", id), "%v is not between -100 and 100", v))
		}
	}
	return errors.Join(errs...)
}

type bound struct {
	field     string
	v, lo, hi float64
}

func (p *Params) ranges() []bound {
	return []bound{
		{"max_tokens", float64(p.MaxTokens), 0, 1 << 30},
		{"n", float64(p.N), 1, MaxChoices},
		{"temperature", p.Temperature, 0, 100},
		{"top_p", p.TopP, 0, 1},
		{"top_k", float64(p.TopK), 0, 1 << 30},
		{"min_p", p.MinP, 0, 1},
		{"repetition_penalty", p.RepetitionPenalty, 0, 100},
		{"presence_penalty", p.PresencePenalty, -2, 2},
		{"frequency_penalty", p.FrequencyPenalty, -2, 2},
		{"top_logprobs", float64(p.TopLogprobs), 0, MaxTopLogprobs},
		{"ingot.prefill_step", float64(p.PrefillStep), 0, 1 << 20},
	}
}
