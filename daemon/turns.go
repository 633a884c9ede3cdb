package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"ingot/daemon/config"
	"ingot/daemon/journal"
	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// StartTurn admits a turn.
func (d *Daemon) StartTurn(_ context.Context, req *ipc.TurnRequest) (server.Turn, error) {
	e, err := d.find(req.Model)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.stopping {
		d.mu.Unlock()
		return nil, errStopping()
	}
	m := d.modelLocked(e)
	if n := m.open; n >= m.conf.MaxTurns+m.conf.MaxQueue {
		d.mu.Unlock()
		return nil, ipc.Errorf(ipc.QueueFull, "%d turns wait for %s already", n, m.name).With("retry_after_s", 1)
	}
	id := turn.ID(fmt.Sprintf("t%016x", rand.Uint64()))
	spec := journal.Spec{Model: m.name, Submit: submission(id, req, &m.conf), Linger: req.Linger}
	d.turns[id] = m
	m.open++
	actions := d.life.Want(m.folder, turn.Bytes(e.Size), m.conf.KeepAlive, m.open, time.Now())
	d.mu.Unlock()
	r := d.journal.Open(spec)
	m.sup.Submit(id)
	d.act(actions)
	return view{r}, nil
}

// submission resolves a request: what it does not set, the configuration may.
func submission(id turn.ID, req *ipc.TurnRequest, conf *config.Model) wire.Submit {
	s := wire.Submit{
		Turn: id, Tokens: req.Tokens, Text: req.Text, Chat: req.Chat,
		Params: req.Params, Given: slices.Clone(req.Given), IDs: req.IDs,
	}
	p := &s.Params
	merge(&s.Given, "max_tokens", &p.MaxTokens, conf.MaxTokens)
	merge(&s.Given, "temperature", &p.Temperature, conf.Temperature)
	merge(&s.Given, "top_p", &p.TopP, conf.TopP)
	merge(&s.Given, "top_k", &p.TopK, conf.TopK)
	merge(&s.Given, "min_p", &p.MinP, conf.MinP)
	merge(&s.Given, "repetition_penalty", &p.RepetitionPenalty, conf.RepetitionPenalty)
	if !slices.Contains(s.Given, "deterministic") {
		p.Deterministic = conf.Deterministic
	}
	if !slices.Contains(s.Given, "seed") {
		p.Seed = rand.Uint64N(1 << 53) // what every JSON reader keeps exactly
	}
	return s
}

func merge[T any](given *[]string, name string, into *T, from *T) {
	if from != nil && !slices.Contains(*given, name) {
		*into = *from
		*given = append(*given, name)
	}
}

// Cancel ends a turn.
func (d *Daemon) Cancel(_ context.Context, id turn.ID) error {
	if m := d.modelOf(id); m != nil {
		m.sup.Cancel(id)
		return nil
	}
	if d.journal.Has(id) || d.wasRecent(id) {
		return nil
	}
	return noTurn(id)
}

func noTurn(id turn.ID) error {
	return ipc.Errorf(ipc.TurnNotFound, "no turn %q here, or its events are gone", string(id)).With("turn", id)
}

func (d *Daemon) wasRecent(id turn.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.recent, func(t ipc.TurnReport) bool { return t.Turn == id })
}

// Attach opens a view of a turn, and takes it from the one there was.
func (d *Daemon) Attach(_ context.Context, id turn.ID, from int64) (server.Turn, error) {
	r, err := d.journal.Attach(id, from)
	switch {
	case err == nil:
		return view{r}, nil
	case errors.Is(err, journal.ErrFuture):
		return nil, ipc.Invalid("from_seq", "%d is beyond the turn's next event", from)
	}
	return nil, noTurn(id)
}

// view is a reader as the server wants it.
type view struct{ r *journal.Reader }

var _ server.Modelled = view{}

func (v view) ID() turn.ID   { return v.r.Turn() }
func (v view) Model() string { return v.r.Model() }
func (v view) Close()        { v.r.Close() }

// Next ends a view that was taken over without an event: its client has the
// turn elsewhere.
func (v view) Next(ctx context.Context) (turn.Event, error) {
	ev, err := v.r.Next(ctx)
	if errors.Is(err, journal.ErrTaken) {
		return ev, io.EOF
	}
	return ev, err
}

// turns is the daemon as a supervisor sees it.
type turns struct{ d *Daemon }

func (t turns) Submission(id turn.ID) (*wire.Submit, bool, bool) { return t.d.journal.Submission(id) }
func (t turns) Resumed(id turn.ID)                               { t.d.journal.Resumed(id) }
func (t turns) Tell(id turn.ID, ev turn.Event)                   { t.d.journal.Tell(id, ev) }
func (t turns) Phase(id turn.ID, phase string)                   { t.d.journal.Phase(id, phase) }
func (t turns) Prompted(p *wire.Prompt)                          { t.d.journal.Prompted(p) }
func (t turns) Stepped(s *wire.Step) bool                        { return t.d.journal.Stepped(s) }
func (t turns) Failed(id turn.ID, err *wire.Error)               { t.d.fail(id, fromWire(err)) }

func (t turns) Cancelled(id turn.ID) { t.d.journal.Cancelled(id) }

func (t turns) Ended(e *wire.End) {
	if e.Done == nil {
		err := e.Error
		if err == nil {
			err = &wire.Error{Name: string(ipc.EngineFailed), Message: "the runner ended the turn without a word"}
		}
		t.d.fail(e.Turn, fromWire(err))
		return
	}
	t.d.journal.Done(e.Turn, e.Done)
}

func (d *Daemon) fail(id turn.ID, err *ipc.Error) { d.journal.Failed(id, *err.Failure()) }

// finished records the end of a turn: once for each, before its client hears
// of it.
func (d *Daemon) finished(s *journal.Summary) {
	rep := report(s)
	d.logTurn(s, &rep)
	d.mu.Lock()
	m := d.turns[s.Turn]
	delete(d.turns, s.Turn)
	if len(d.recent) == recentTurns {
		d.recent = append(d.recent[:0], d.recent[1:]...)
	}
	d.recent = append(d.recent, rep)
	if rep.Error != nil {
		d.lastErr = rep.Error
	}
	m.open--
	m.used = time.Now()
	actions := d.life.Report(m.folder, m.status.State, m.open, m.status.Open, time.Now())
	d.mu.Unlock()
	d.bus.Turn(rep)
	d.act(actions)
}

// toWire and fromWire turn the errors of clients and of runners into each
// other; the names are the same.
func toWire(e *ipc.Error) *wire.Error {
	return &wire.Error{Name: string(e.Name), Message: e.Message, Data: e.Data}
}

func fromWire(e *wire.Error) *ipc.Error {
	return &ipc.Error{Name: ipc.Name(e.Name), Message: e.Message, Data: e.Data}
}
