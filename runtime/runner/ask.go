package runner

import (
	"encoding/json"
	"fmt"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// answer answers a question of the tokenizer.
func answer(w Words, a *wire.Ask) *wire.Answer {
	body, err := reply(w, a)
	out := &wire.Answer{ID: a.ID}
	if err == nil {
		out.Body, err = json.Marshal(body)
	}
	if err != nil {
		out.Error = named(err)
	}
	return out
}

func reply(w Words, a *wire.Ask) (any, error) {
	switch a.Op {
	case wire.OpEncode:
		var q wire.EncodeAsk
		if err := json.Unmarshal(a.Body, &q); err != nil {
			return nil, fmt.Errorf("encode: %w", err)
		}
		ids, err := w.Encode(q.Text, q.AddSpecial, q.ParseSpecial)
		if ids == nil {
			ids = []turn.TokenID{}
		}
		return wire.Tokens{Tokens: ids}, err
	case wire.OpDecode:
		var q wire.DecodeAsk
		if err := json.Unmarshal(a.Body, &q); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
		s, err := w.Decode(q.Tokens, q.SkipSpecial)
		return wire.Text{Text: s}, err
	case wire.OpCount:
		var q wire.CountAsk
		if err := json.Unmarshal(a.Body, &q); err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
		ids, err := prompt(w, &wire.Submit{Text: q.Text, Chat: q.Chat})
		return wire.Count{Tokens: len(ids)}, err
	}
	return nil, fmt.Errorf("unknown question %q", a.Op)
}
