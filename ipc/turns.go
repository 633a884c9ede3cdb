package ipc

import (
	"encoding/json"

	"ingot/runtime/turn"
)

// TurnRequest is a checked request for generation, whatever tongue it came
// in. Exactly one of Chat, Text and Tokens is set.
type TurnRequest struct {
	Model  string          // as the client spelled it; empty: the default model
	Chat   json.RawMessage // {"messages": [...], "template_kwargs"?: {...}}, normalized: content is a string
	Text   *string         // prompt of a completion
	Tokens []turn.TokenID  // the same, as ids

	Params turn.Params // the request's over neutral ones, in range
	Given  []string    // which of them the request set, by their JSON name in turn.Params
	IDs    bool        // events carry token ids
	Linger bool        // streamed JSON-RPC: on disconnect the turn is detached, not cancelled
}

// TurnRef names a turn: the answer of a streamed chat.create, and the params
// of turn.cancel.
type TurnRef struct {
	Turn turn.ID `json:"turn"`
}

// AttachParams of turn.attach.
type AttachParams struct {
	Turn    turn.ID `json:"turn"`
	FromSeq int64   `json:"from_seq"`
}

// Params and results of the tokens.* methods.
type (
	// EncodeParams of tokens.encode. AddSpecial is true unless said.
	EncodeParams struct {
		Model        string `json:"model,omitempty"`
		Text         string `json:"text"`
		AddSpecial   *bool  `json:"add_special,omitempty"`
		ParseSpecial bool   `json:"parse_special,omitempty"`
	}

	// EncodeResult answers tokens.encode.
	EncodeResult struct {
		Tokens []turn.TokenID `json:"tokens"`
	}

	// DecodeParams of tokens.decode.
	DecodeParams struct {
		Model       string         `json:"model,omitempty"`
		Tokens      []turn.TokenID `json:"tokens"`
		SkipSpecial bool           `json:"skip_special,omitempty"`
	}

	// DecodeResult answers tokens.decode.
	DecodeResult struct {
		Text string `json:"text"`
	}

	// CountParams of tokens.count: one of Text and Messages.
	CountParams struct {
		Model    string          `json:"model,omitempty"`
		Text     *string         `json:"text,omitempty"`
		Messages json.RawMessage `json:"messages,omitempty"`
	}

	// CountRequest is a checked CountParams: Chat as in TurnRequest.
	CountRequest struct {
		Model string
		Text  *string
		Chat  json.RawMessage
	}

	// CountResult answers tokens.count.
	CountResult struct {
		Tokens int `json:"tokens"`
	}
)
