package turn

import "encoding/json"

// EventType tells the events of a turn apart. The values leave the process
// and are frozen.
type EventType string

// Event types. Exactly one of EventDone and EventError ends a turn.
const (
	EventQueued    EventType = "queued"
	EventLoading   EventType = "loading"
	EventPrefill   EventType = "prefill"
	EventText      EventType = "text"
	EventReasoning EventType = "reasoning"
	EventToolCall  EventType = "tool_call"
	EventWaiting   EventType = "waiting"
	EventResumed   EventType = "resumed"
	EventDone      EventType = "done"
	EventError     EventType = "error"
)

// Event is one thing that happened to a turn, as every tongue hears it. Its
// JSON is the body of a turn.event notification: the fields of the one
// non-nil part stand beside turn, seq and type. An event is immutable once
// sent.
type Event struct {
	Turn   ID        `json:"turn"`
	Seq    int64     `json:"seq"` // from 0, without a gap
	Type   EventType `json:"type"`
	Choice *int      `json:"choice,omitempty"` // text, reasoning, tool_call

	*Queued
	*Loading
	*Prefill
	*Text
	*ToolCall
	*Waiting
	*Resumed
	*Done
	*Failure
}

// Final reports whether the event ends its turn.
func (e *Event) Final() bool { return e.Type == EventDone || e.Type == EventError }

// Queued tells the place in the queue, from 0.
type Queued struct {
	Position int `json:"position"`
}

// Loading tells how far the model's load is, 0 to 1.
type Loading struct {
	Progress float64 `json:"progress"`
}

// Prefill tells how far the prompt is and what the governor chose.
type Prefill struct {
	Done  int `json:"done"`  // tokens, cached ones included
	Total int `json:"total"` // tokens of the prompt
	Plan
	Live  Buffers `json:"live"`
	Limit Buffers `json:"limit"`
}

// Plan is the shape the governor gave a step.
type Plan struct {
	Width  int    `json:"width"` // tokens
	Depth  int    `json:"depth"` // layers between evaluations; 0: all at once
	Reason Reason `json:"reason"`
}

// Text is a piece of answer (EventText) or thinking (EventReasoning):
// whole characters, never part of a stop string. TokenIDs and Logprobs are
// there when asked for, and cover the tokens sampled since the last event of
// the choice (a piece may be empty when only they are news).
type Text struct {
	Delta    string    `json:"delta"`
	TokenIDs []TokenID `json:"token_ids,omitempty"`
	Logprobs []Logprob `json:"logprobs,omitempty"`
}

// ToolCall is a piece of a call: id and name on the first one of an index,
// then arguments as they come.
type ToolCall struct {
	Index     int    `json:"index"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// Waiting is a sign of life during silence.
type Waiting struct {
	Phase string `json:"phase"` // queued, loading, prefill, decode, restarting
}

// Resumed tells that a new runner took the turn over after Tokens delivered
// tokens.
type Resumed struct {
	Tokens int `json:"tokens"`
}

// Done ends a turn that was answered.
type Done struct {
	FinishReason  Finish   `json:"finish_reason"`            // of choice 0
	FinishReasons []Finish `json:"finish_reasons,omitempty"` // of every choice, when n > 1
	Usage         Usage    `json:"usage"`
	Report        Report   `json:"ingot"`
}

// Failure ends a turn that could not be answered. Code is the JSON-RPC code
// and Data at least {"name": ...}, both from the frozen table in package ipc.
type Failure struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}
