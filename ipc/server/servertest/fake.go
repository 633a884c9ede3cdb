// Package servertest is a Backend without models, for the tests of those who
// speak to one.
//
// Its turns echo the prompt, word by word. Tests steer it by the model's
// name and by its exported fields, which are set before use; methods may be
// called from any goroutine.
package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"ingot/ipc"
	"ingot/ipc/server"
	"ingot/runtime/turn"
)

// Models that behave in a special way; any other echoes.
const (
	Missing = "missing" // model_not_found
	Broken  = "broken"  // the turn ends with model_failed
	Slow    = "slow"    // the turn grows by Grow only
	Endless = "endless" // text for ever
)

// Fake is a server.Backend.
type Fake struct {
	// Stopped is called by Stop.
	Stopped func()
	// State, when set, is what Status returns.
	State *ipc.Status
	// Catalogue, when set, is what List returns.
	Catalogue *ipc.ModelList
	// PullSteps is how many times Pull reports progress.
	PullSteps int

	mu        sync.Mutex
	n         int
	turns     map[turn.ID]*log
	watchers  map[*watch]bool
	requests  []*ipc.TurnRequest
	cancelled chan turn.ID
	loaded    map[string]bool
}

var _ server.Backend = (*Fake)(nil)

// New returns a Fake with nothing loaded.
func New() *Fake {
	return &Fake{turns: map[turn.ID]*log{}, watchers: map[*watch]bool{}, loaded: map[string]bool{},
		cancelled: make(chan turn.ID, 100_000)}
}

// Requests returns the turns asked for so far.
func (f *Fake) Requests() []*ipc.TurnRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*ipc.TurnRequest(nil), f.requests...)
}

// Cancelled yields the ids of cancelled turns, as they are cancelled.
func (f *Fake) Cancelled() <-chan turn.ID { return f.cancelled }

// Grow adds a piece of text to every turn of model Slow that has no end.
func (f *Fake) Grow(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.turns {
		if l.req.Model == Slow {
			l.text(text)
		}
	}
}

// Finish ends every turn that has no end, as a dying daemon would: with err,
// or with done when err is nil.
func (f *Fake) Finish(err *ipc.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.turns {
		if err != nil {
			l.add(turn.Event{Type: turn.EventError, Failure: err.Failure()})
		} else {
			l.end(turn.FinishStop)
		}
	}
}

// StartTurn implements server.Turns.
func (f *Fake) StartTurn(_ context.Context, req *ipc.TurnRequest) (server.Turn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, req)
	if req.Model == Missing {
		return nil, ipc.Errorf(ipc.ModelNotFound, "no model %q", req.Model).With("model", req.Model)
	}
	f.n++
	l := newLog(turn.ID(fmt.Sprintf("t%d", f.n)), req)
	f.turns[l.id] = l
	l.add(turn.Event{Type: turn.EventQueued, Queued: &turn.Queued{}})
	switch req.Model {
	case Slow:
	case Broken:
		l.add(turn.Event{Type: turn.EventError, Failure: ipc.Errorf(ipc.ModelFailed, "no weights").Failure()})
	default:
		for _, w := range strings.SplitAfter(prompt(req), " ") {
			l.text(w)
		}
		if req.Model != Endless {
			l.end(turn.FinishStop)
		}
	}
	return f.view(l, 0), nil
}

// prompt is the last message or the prompt.
func prompt(req *ipc.TurnRequest) string {
	if req.Text != nil {
		return *req.Text
	}
	var chat struct{ Messages []ipc.Message }
	if json.Unmarshal(req.Chat, &chat) == nil && len(chat.Messages) > 0 {
		return chat.Messages[len(chat.Messages)-1].Content
	}
	return fmt.Sprint(req.Tokens)
}

// Cancel implements server.Turns.
func (f *Fake) Cancel(_ context.Context, id turn.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.turns[id]
	if !ok {
		return ipc.Errorf(ipc.TurnNotFound, "no turn %q", id).With("turn", id)
	}
	f.cancelLocked(l)
	return nil
}

func (f *Fake) cancelLocked(l *log) {
	if l.end(turn.FinishCancelled) {
		f.cancelled <- l.id
	}
}

// Attach implements server.Turns.
func (f *Fake) Attach(_ context.Context, id turn.ID, from int64) (server.Turn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.turns[id]
	if !ok {
		return nil, ipc.Errorf(ipc.TurnNotFound, "no turn %q", id).With("turn", id)
	}
	return f.view(l, from), nil
}

func (f *Fake) view(l *log, from int64) *view {
	l.views++
	return &view{f: f, l: l, next: from}
}

// Views returns how many views of turns are open.
func (f *Fake) Views() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, l := range f.turns {
		n += l.views
	}
	return n
}

// view is one reader of a log.
type view struct {
	f      *Fake
	l      *log
	next   int64
	closed bool
}

func (v *view) ID() turn.ID   { return v.l.id }
func (v *view) Model() string { return v.l.req.Model }

func (v *view) Next(ctx context.Context) (turn.Event, error) {
	for {
		e, changed, err := v.try()
		if changed == nil {
			return e, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e, ctx.Err()
		}
	}
}

func (v *view) try() (e turn.Event, changed <-chan struct{}, err error) {
	v.f.mu.Lock()
	defer v.f.mu.Unlock()
	l := v.l
	if v.next == int64(len(l.events)) && l.req.Model == Endless {
		l.text("more ")
	}
	switch {
	case v.next < int64(len(l.events)):
		v.next++
		return l.events[v.next-1], nil, nil
	case l.ended:
		return e, nil, io.EOF
	}
	return e, l.changed, nil
}

func (v *view) Close() {
	v.f.mu.Lock()
	defer v.f.mu.Unlock()
	if v.closed {
		return
	}
	v.closed = true
	v.l.views--
	if v.l.views == 0 && !v.l.req.Linger {
		v.f.cancelLocked(v.l)
	}
}

// log is a turn: its events so far. The Fake's lock guards it.
type log struct {
	id      turn.ID
	req     *ipc.TurnRequest
	events  []turn.Event
	ended   bool
	views   int
	tokens  int
	changed chan struct{}
}

func newLog(id turn.ID, req *ipc.TurnRequest) *log {
	return &log{id: id, req: req, changed: make(chan struct{})}
}

func (l *log) add(e turn.Event) bool {
	if l.ended {
		return false
	}
	e.Turn, e.Seq = l.id, int64(len(l.events))
	l.events = append(l.events, e)
	l.ended = e.Final()
	close(l.changed)
	l.changed = make(chan struct{})
	return true
}

func (l *log) text(s string) {
	zero := 0
	t := &turn.Text{Delta: s}
	if l.req.IDs {
		t.TokenIDs = []turn.TokenID{turn.TokenID(l.tokens)}
	}
	l.tokens++
	l.add(turn.Event{Type: turn.EventText, Choice: &zero, Text: t})
}

func (l *log) end(why turn.Finish) bool {
	return l.add(turn.Event{Type: turn.EventDone, Done: &turn.Done{FinishReason: why,
		Usage: turn.Usage{CompletionTokens: l.tokens, TotalTokens: l.tokens}, Report: turn.Report{Seed: l.req.Params.Seed}}})
}
