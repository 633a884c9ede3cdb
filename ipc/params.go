package ipc

import (
	"bytes"
	"encoding/json"
	"slices"

	"ingot/runtime/turn"
)

// NoParams are the params of methods that take none.
type NoParams struct{}

func (p *NoParams) rules() []rule { return nil }
func (p *NoParams) check() *Error { return nil }

func (p *ModelParams) rules() []rule { return []rule{need(text("model", &p.Model))} }
func (p *ModelParams) check() *Error { return notEmpty("model", p.Model) }

func (p *LoadParams) rules() []rule {
	return []rule{need(text("model", &p.Model)), text("keep_alive", &p.KeepAlive)}
}
func (p *LoadParams) check() *Error { return notEmpty("model", p.Model) }

func (p *PinParams) rules() []rule {
	return []rule{need(text("model", &p.Model)), need(boolean("pinned", &p.Pinned))}
}
func (p *PinParams) check() *Error { return notEmpty("model", p.Model) }

func (p *AliasParams) rules() []rule {
	return []rule{need(text("alias", &p.Alias)), textOrNil("model", &p.Model)}
}

func (p *AliasParams) check() *Error {
	if p.Model != nil && *p.Model == "" {
		return Invalid("model", "is empty; null removes the alias")
	}
	return notEmpty("alias", p.Alias)
}

func (p *PullParams) rules() []rule {
	return []rule{need(text("model", &p.Model)), text("revision", &p.Revision),
		text("as", &p.As), boolean("stream", &p.Stream)}
}
func (p *PullParams) check() *Error { return notEmpty("model", p.Model) }

func (p *LogsParams) rules() []rule {
	return []rule{integer("lines", &p.Lines, 1, 10_000), text("model", &p.Model)}
}
func (p *LogsParams) check() *Error { return nil }

func (p *TurnRef) rules() []rule { return []rule{need(text("turn", (*string)(&p.Turn)))} }
func (p *TurnRef) check() *Error { return notEmpty("turn", string(p.Turn)) }

func (p *AttachParams) rules() []rule {
	return []rule{need(text("turn", (*string)(&p.Turn))), integer("from_seq", &p.FromSeq, 0, 1<<53)}
}
func (p *AttachParams) check() *Error { return notEmpty("turn", string(p.Turn)) }

func (p *EncodeParams) rules() []rule {
	return []rule{text("model", &p.Model), need(text("text", &p.Text)),
		booleanOrNil("add_special", &p.AddSpecial), boolean("parse_special", &p.ParseSpecial)}
}
func (p *EncodeParams) check() *Error { return nil }

func (p *DecodeParams) rules() []rule {
	return []rule{text("model", &p.Model), need(ids("tokens", &p.Tokens)), boolean("skip_special", &p.SkipSpecial)}
}
func (p *DecodeParams) check() *Error { return nil }

func (p *CountParams) rules() []rule {
	return []rule{text("model", &p.Model), textOrNil("text", &p.Text),
		conversation("messages", &p.Messages), accept("tools", "[]")}
}

func (p *CountParams) check() *Error {
	if (p.Text == nil) == (len(p.Messages) == 0) {
		return Invalid("text", "give either text or messages")
	}
	return nil
}

// Request returns the question the backend answers.
func (p *CountParams) Request() CountRequest {
	r := CountRequest{Model: p.Model, Text: p.Text}
	if p.Text == nil {
		r.Chat = chatBody(p.Messages, nil)
	}
	return r
}

func notEmpty(name, value string) *Error {
	if value == "" {
		return Invalid(name, "is empty")
	}
	return nil
}

// maxTokens bounds arrays of token ids; a message of 32 MiB holds no more.
const maxTokens = 16 << 20

// quick decodes the usual array of ids at once; on false the slow way names
// the element that is wrong.
func quick(raw json.RawMessage, to *[]turn.TokenID) bool {
	if bytes.IndexByte(raw, 'n') >= 0 || json.Unmarshal(raw, to) != nil { // null would pass as 0
		return false
	}
	return len(*to) <= maxTokens && !slices.ContainsFunc(*to, func(id turn.TokenID) bool { return id < 0 })
}

func ids(name string, to *[]turn.TokenID) rule {
	s := schema{"type": "array", "items": schema{"type": "integer", "minimum": 0}}
	return rule{name: name, schema: s, set: func(path string, raw json.RawMessage) *Error {
		if kindOf(raw) != "an array" {
			return mismatch(path, "an array of token ids", raw)
		}
		*to = []turn.TokenID{}
		if quick(raw, to) {
			return nil
		}
		*to = []turn.TokenID{}
		return list(path, raw, maxTokens, func(path string, raw json.RawMessage) *Error {
			var id turn.TokenID
			err := integer("", &id, 0, 1<<31-1).set(path, raw)
			*to = append(*to, id)
			return err
		})
	}}
}
