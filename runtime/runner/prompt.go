package runner

import (
	"fmt"
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// prompt is the ids of a submission's prompt. A completion's text is the
// caller's own in full: control tokens spelled in it are those tokens, as
// other servers have it; a chat's are kept plain by its Prompter.
func prompt(w Words, m *wire.Submit) ([]turn.TokenID, error) {
	switch {
	case m.Chat != nil:
		p, err := w.Chat(m.Chat, time.Now())
		return p.Tokens, err
	case m.Text != nil:
		return w.Encode(*m.Text, true, true)
	}
	return m.Tokens, nil
}

// checkIDs refuses ids that the model does not have.
func checkIDs(prompt []turn.TokenID, p *turn.Params, vocab int) error {
	for i, id := range prompt {
		if err := inside(fmt.Sprintf("prompt[%d]", i), id, vocab); err != nil {
			return err
		}
	}
	for i, id := range p.StopTokens {
		if err := inside(fmt.Sprintf("stop_tokens[%d]", i), id, vocab); err != nil {
			return err
		}
	}
	for id := range p.LogitBias {
		if err := inside(fmt.Sprintf("logit_bias[%d]", id), id, vocab); err != nil {
			return err
		}
	}
	return nil
}

func inside(field string, id turn.TokenID, vocab int) error {
	if id < 0 || int(id) >= vocab {
		return &turn.FieldError{Field: field, Why: fmt.Sprintf("%d is not in the vocabulary of %d tokens", id, vocab)}
	}
	return nil
}
