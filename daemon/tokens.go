package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ingot/daemon/lifecycle"
	"ingot/daemon/supervise"
	"ingot/ipc"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Encode turns text into token ids.
func (d *Daemon) Encode(ctx context.Context, p ipc.EncodeParams) (*ipc.EncodeResult, error) {
	special := p.AddSpecial == nil || *p.AddSpecial
	var got wire.Tokens
	err := d.ask(ctx, p.Model, wire.OpEncode, &wire.EncodeAsk{Text: p.Text, AddSpecial: special, ParseSpecial: p.ParseSpecial}, &got)
	if err != nil {
		return nil, err
	}
	if got.Tokens == nil {
		got.Tokens = []turn.TokenID{}
	}
	return &ipc.EncodeResult{Tokens: got.Tokens}, nil
}

// Decode turns token ids into text.
func (d *Daemon) Decode(ctx context.Context, p ipc.DecodeParams) (*ipc.DecodeResult, error) {
	var got wire.Text
	if err := d.ask(ctx, p.Model, wire.OpDecode, &wire.DecodeAsk{Tokens: p.Tokens, SkipSpecial: p.SkipSpecial}, &got); err != nil {
		return nil, err
	}
	return &ipc.DecodeResult{Text: got.Text}, nil
}

// Count counts the tokens of a text or a chat.
func (d *Daemon) Count(ctx context.Context, p ipc.CountRequest) (*ipc.CountResult, error) {
	var got wire.Count
	if err := d.ask(ctx, p.Model, wire.OpCount, &wire.CountAsk{Text: p.Text, Chat: p.Chat}, &got); err != nil {
		return nil, err
	}
	return &ipc.CountResult{Tokens: got.Tokens}, nil
}

// ask puts a question to the runner that has the model, else to a text-only
// one: weights are not loaded for a question about text.
func (d *Daemon) ask(ctx context.Context, name string, op wire.Op, body, into any) error {
	e, err := d.find(name)
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.stopping {
		d.mu.Unlock()
		return errStopping()
	}
	m := d.modelLocked(e)
	st := m.status.State
	d.mu.Unlock()
	if st == lifecycle.Ready || st == lifecycle.Busy {
		raw, err := m.sup.Ask(ctx, op, body)
		if !errors.Is(err, supervise.ErrGone) {
			return answer(raw, err, into)
		}
	}
	raw, err := d.askText(ctx, m, op, body)
	return answer(raw, err, into)
}

func (d *Daemon) askText(ctx context.Context, m *model, op wire.Op, body any) (json.RawMessage, error) {
	d.mu.Lock()
	text := d.textLocked(m)
	m.textBusy++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		m.textBusy--
		d.mu.Unlock()
	}()
	for range 2 { // it may end, idle, just as it is asked
		text.Start(wire.Grant{})
		raw, err := text.Ask(ctx, op, body)
		if !errors.Is(err, supervise.ErrGone) {
			return raw, err
		}
	}
	return nil, ipc.Errorf(ipc.EngineFailed, "the text runner of %s ends before it answers", m.name)
}

func answer(raw json.RawMessage, err error, into any) error {
	if err != nil {
		return anyError(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the runner's answer: %w", err)
	}
	return nil
}
