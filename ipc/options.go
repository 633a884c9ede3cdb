package ipc

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"ingot/runtime/turn"
)

// Options are the parameters that chat.create and completion.create share.
// Nil means: config, else the model's generation_config.json, else 1.0 / off.
type Options struct {
	MaxTokens         *int                     `json:"max_tokens,omitempty"`
	N                 *int                     `json:"n,omitempty"`
	Temperature       *float64                 `json:"temperature,omitempty"`
	TopP              *float64                 `json:"top_p,omitempty"`
	TopK              *int                     `json:"top_k,omitempty"`
	MinP              *float64                 `json:"min_p,omitempty"`
	RepetitionPenalty *float64                 `json:"repetition_penalty,omitempty"`
	PresencePenalty   *float64                 `json:"presence_penalty,omitempty"`
	FrequencyPenalty  *float64                 `json:"frequency_penalty,omitempty"`
	LogitBias         map[turn.TokenID]float64 `json:"logit_bias,omitempty"`
	Seed              *uint64                  `json:"seed,omitempty"`
	Logprobs          *bool                    `json:"logprobs,omitempty"`
	TopLogprobs       *int                     `json:"top_logprobs,omitempty"`
	Stop              []string                 `json:"stop,omitempty"`
	StopTokens        []turn.TokenID           `json:"stop_token_ids,omitempty"`
	IgnoreEOS         *bool                    `json:"ignore_eos,omitempty"`

	Stream         bool       `json:"stream,omitempty"`
	ReturnTokenIDs bool       `json:"return_token_ids,omitempty"`
	Extension      *Extension `json:"ingot,omitempty"`

	// IncludeUsage is stream_options.include_usage; nil where it was not
	// said. Over JSON-RPC the done event always has usage.
	IncludeUsage *bool `json:"-"`

	maxCompletion *int // max_completion_tokens, another name of max_tokens
}

// Extension is Ingot's own part of a request.
type Extension struct {
	Deterministic *bool `json:"deterministic,omitempty"`
	PrefillStep   *int  `json:"prefill_step,omitempty"` // caps the prefill width, never widens it
}

func (o *Options) rules() []rule {
	return []rule{
		integerOrNil("max_tokens", &o.MaxTokens, 1, 1<<30),
		integerOrNil("n", &o.N, 1, turn.MaxChoices),
		numberOrNil("temperature", &o.Temperature, 0, 100),
		numberOrNil("top_p", &o.TopP, math.SmallestNonzeroFloat64, 1),
		integerOrNil("top_k", &o.TopK, 0, 1<<30),
		numberOrNil("min_p", &o.MinP, 0, 1),
		numberOrNil("repetition_penalty", &o.RepetitionPenalty, math.SmallestNonzeroFloat64, 100),
		numberOrNil("presence_penalty", &o.PresencePenalty, -2, 2),
		numberOrNil("frequency_penalty", &o.FrequencyPenalty, -2, 2),
		bias("logit_bias", &o.LogitBias),
		seed("seed", &o.Seed),
		integerOrNil("top_logprobs", &o.TopLogprobs, 0, turn.MaxTopLogprobs),
		stops("stop", &o.Stop),
		ids("stop_token_ids", &o.StopTokens),
		booleanOrNil("ignore_eos", &o.IgnoreEOS),
		boolean("stream", &o.Stream),
		streamOptions(&o.IncludeUsage),
		boolean("return_token_ids", &o.ReturnTokenIDs),
		extension("ingot", &o.Extension),
		neutral("user"), neutral("metadata"), neutral("prompt_cache_key"), neutral("safety_identifier"),
		accept("store", "false"), accept("service_tier", `"auto"`),
	}
}

func (o *Options) check() *Error {
	if o.maxCompletion != nil {
		if o.MaxTokens != nil && *o.MaxTokens != *o.maxCompletion {
			return Invalid("max_completion_tokens", "differs from max_tokens; give one of them")
		}
		o.MaxTokens = o.maxCompletion
	}
	if o.TopLogprobs != nil && *o.TopLogprobs > 0 && (o.Logprobs == nil || !*o.Logprobs) {
		return Invalid("top_logprobs", "needs logprobs: true")
	}
	if o.IncludeUsage != nil && !o.Stream {
		return Invalid("stream_options", "needs stream: true")
	}
	return nil
}

// fill resolves the options into t, over neutral parameters, and notes which
// of them the request set.
func (o *Options) fill(t *TurnRequest) error {
	p := turn.Neutral()
	g := &t.Given
	given(g, "max_tokens", &p.MaxTokens, o.MaxTokens)
	given(g, "n", &p.N, o.N)
	given(g, "temperature", &p.Temperature, o.Temperature)
	given(g, "top_p", &p.TopP, o.TopP)
	given(g, "top_k", &p.TopK, o.TopK)
	given(g, "min_p", &p.MinP, o.MinP)
	given(g, "repetition_penalty", &p.RepetitionPenalty, o.RepetitionPenalty)
	given(g, "presence_penalty", &p.PresencePenalty, o.PresencePenalty)
	given(g, "frequency_penalty", &p.FrequencyPenalty, o.FrequencyPenalty)
	given(g, "logit_bias", &p.LogitBias, orNil(o.LogitBias, o.LogitBias != nil))
	given(g, "seed", &p.Seed, o.Seed)
	given(g, "logprobs", &p.Logprobs, o.Logprobs)
	given(g, "top_logprobs", &p.TopLogprobs, o.TopLogprobs)
	given(g, "stop", &p.Stop, orNil(o.Stop, o.Stop != nil))
	given(g, "stop_tokens", &p.StopTokens, orNil(o.StopTokens, o.StopTokens != nil))
	given(g, "ignore_eos", &p.IgnoreEOS, o.IgnoreEOS)
	if x := o.Extension; x != nil {
		given(g, "deterministic", &p.Deterministic, x.Deterministic)
		given(g, "prefill_step", &p.PrefillStep, x.PrefillStep)
	}
	t.Params, t.IDs = p, o.ReturnTokenIDs
	return p.Validate()
}

// given stores *from and notes its name, when there is one.
func given[T any](names *[]string, name string, to *T, from *T) {
	if from != nil {
		*to = *from
		*names = append(*names, name)
	}
}

func orNil[T any](v T, there bool) *T {
	if !there {
		return nil
	}
	return &v
}

func extension(name string, to **Extension) rule {
	x := new(Extension)
	rules := []rule{
		booleanOrNil("deterministic", &x.Deterministic),
		integerOrNil("prefill_step", &x.PrefillStep, 1, 1<<20),
	}
	return rule{name: name, schema: describe(rules), set: func(path string, raw json.RawMessage) *Error {
		*to = x
		return object(path, raw, rules)
	}}
}

func streamOptions(to **bool) rule {
	rules := []rule{booleanOrNil("include_usage", to), accept("include_obfuscation", "false")}
	return rule{name: "stream_options", schema: describe(rules), set: func(path string, raw json.RawMessage) *Error {
		return object(path, raw, rules)
	}}
}

// seed takes any integer of 64 bits, signed or not.
func seed(name string, to **uint64) rule {
	return rule{name: name, schema: schema{"type": "integer"}, set: func(path string, raw json.RawMessage) *Error {
		if kindOf(raw) != "a number" {
			return mismatch(path, "an integer", raw)
		}
		if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
			*to = &n
			return nil
		}
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return Invalid(path, "must be an integer of 64 bits, not %s", clip(raw))
		}
		u := uint64(n)
		*to = &u
		return nil
	}}
}

// stops takes a string or an array of strings.
func stops(name string, to *[]string) rule {
	s := schema{"type": []string{"string", "array"}, "items": schema{"type": "string"}}
	return rule{name: name, schema: s, set: func(path string, raw json.RawMessage) *Error {
		one := func(path string, raw json.RawMessage) *Error {
			var s string
			err := text("", &s).set(path, raw)
			if err == nil {
				err = notEmpty(path, s)
			}
			*to = append(*to, s)
			return err
		}
		switch kindOf(raw) {
		case "a string":
			return one(path, raw)
		case "an array":
			return list(path, raw, turn.MaxStops, one)
		}
		return mismatch(path, "a string or an array of strings", raw)
	}}
}

// bias takes an object of token ids, as strings, to numbers.
func bias(name string, to *map[turn.TokenID]float64) rule {
	s := schema{"type": "object", "additionalProperties": schema{"type": "number", "minimum": -100, "maximum": 100}}
	return rule{name: name, schema: s, set: func(path string, raw json.RawMessage) *Error {
		var m map[string]json.RawMessage
		if kindOf(raw) != "an object" || json.Unmarshal(raw, &m) != nil {
			return mismatch(path, "an object of token ids to numbers", raw)
		}
		*to = make(map[turn.TokenID]float64, len(m))
		for k, v := range m {
			id, err := strconv.ParseInt(k, 10, 32)
			if err != nil || id < 0 {
				return Invalid(at(path, k), "is not a token id")
			}
			var f float64
			if err := number("", &f, -100, 100).set(at(path, k), v); err != nil {
				return err
			}
			(*to)[turn.TokenID(id)] = f
		}
		return nil
	}}
}

// describe returns the schema of an object that has these rules.
func describe(rules []rule) schema {
	props := schema{}
	required := []string{}
	for _, r := range rules {
		s := r.schema
		if s == nil {
			s = schema{}
		}
		props[r.name] = s
		if r.required {
			required = append(required, r.name)
		}
	}
	slices.Sort(required)
	return schema{"type": "object", "properties": props, "required": required, "additionalProperties": false}
}
