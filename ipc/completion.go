package ipc

import (
	"encoding/json"

	"ingot/runtime/turn"
)

// CompletionRequest is the params of completion.create: an OpenAI completion
// request. Prompt is a string or an array of token ids.
type CompletionRequest struct {
	Model  string `json:"model,omitempty"`
	Prompt Prompt `json:"prompt"`
	Options

	// LogprobsCount is this method's own form of logprobs: how many
	// alternatives to report.
	LogprobsCount *int `json:"logprobs,omitempty"`
}

// Prompt is text, or token ids when Tokens is not nil.
type Prompt struct {
	Text   string
	Tokens []turn.TokenID
}

// MarshalJSON writes a string or an array.
func (p Prompt) MarshalJSON() ([]byte, error) {
	if p.Tokens != nil {
		return json.Marshal(p.Tokens)
	}
	return json.Marshal(p.Text)
}

func (r *CompletionRequest) rules() []rule {
	return append(r.Options.rules(),
		text("model", &r.Model),
		need(prompt("prompt", &r.Prompt)),
		integerOrNil("logprobs", &r.LogprobsCount, 0, turn.MaxTopLogprobs),
		accept("best_of", "1"), accept("echo", "false"), accept("suffix", `""`),
	)
}

func (r *CompletionRequest) check() *Error {
	if r.LogprobsCount != nil {
		if r.TopLogprobs != nil {
			return Invalid("top_logprobs", "logprobs says how many already")
		}
		yes := true
		r.Logprobs, r.TopLogprobs = &yes, r.LogprobsCount
	}
	return r.Options.check()
}

// Turn returns the request in the backend's words.
func (r *CompletionRequest) Turn() (*TurnRequest, error) {
	t := &TurnRequest{Model: r.Model, Tokens: r.Prompt.Tokens}
	if t.Tokens == nil {
		t.Text = &r.Prompt.Text
	}
	if err := r.fill(t); err != nil {
		return nil, err
	}
	return t, nil
}

func prompt(name string, to *Prompt) rule {
	s := schema{"type": []string{"string", "array"}, "items": schema{"type": "integer", "minimum": 0}}
	return rule{name: name, schema: s, set: func(path string, raw json.RawMessage) *Error {
		switch kindOf(raw) {
		case "a string":
			if err := text("", &to.Text).set(path, raw); err != nil {
				return err
			}
			return notEmpty(path, to.Text)
		case "an array":
			if err := ids("", &to.Tokens).set(path, raw); err != nil {
				return err
			}
			if len(to.Tokens) == 0 {
				return Invalid(path, "is empty")
			}
			return nil
		}
		return mismatch(path, "a string or an array of token ids", raw)
	}}
}
