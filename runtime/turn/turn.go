// Package turn holds the words of generation: what a turn asks for, what
// it yields and how it ends.
//
// It owns nouns only: no machinery, no I/O, no clock, nothing of ours
// imported. Values are plain data; any goroutine may read them once built.
package turn

// ID names one turn (one request for generation) for its whole life, over
// runner deaths too. It is opaque to clients.
type ID string

// TokenID is an index into a model's vocabulary.
type TokenID int32

// Buffers counts Metal buffer objects (not bytes): the quantity that
// iogpu.rsrc_limit bounds.
type Buffers int64

// Bytes is a size or an amount of memory, in bytes.
type Bytes int64

// Finish says why a choice ended. The values leave the process and are
// frozen.
type Finish string

// The finish reasons of the contract.
const (
	FinishStop      Finish = "stop"       // end-of-turn token, stop token or stop string
	FinishLength    Finish = "length"     // max_tokens or the end of the context
	FinishToolCalls Finish = "tool_calls" // the model called tools
	FinishCancelled Finish = "cancelled"  // the client asked for it or went away
)

// Usage counts the tokens of one turn, over all its choices, in OpenAI's
// shape (the one shape of every tongue but Anthropic's).
type Usage struct {
	PromptTokens     int               `json:"prompt_tokens"`
	CompletionTokens int               `json:"completion_tokens"` // tokens sampled, the one that ended it included
	TotalTokens      int               `json:"total_tokens"`
	Prompt           PromptDetails     `json:"prompt_tokens_details"`
	Completion       CompletionDetails `json:"completion_tokens_details"`
}

// PromptDetails splits the tokens of the prompt.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"` // taken from a kept prefix
}

// CompletionDetails splits the tokens of the answer.
type CompletionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"` // inside thinking
}

// TopLogprob is one token as text with the natural logarithm of its
// probability under the model, before temperature and filters.
type TopLogprob struct {
	Token   string  `json:"token"` // U+FFFD for bytes that are no whole character
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // the token's bytes, null for a control token
}

// Logprob is the record of one sampled token and of the likeliest
// alternatives, most likely first (OpenAI's shape).
type Logprob struct {
	TopLogprob
	Top []TopLogprob `json:"top_logprobs"`
}
