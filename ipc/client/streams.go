package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// Chat runs a chat turn and yields its events to the final one, which is the
// last. An error event comes as an event and then, typed, as the error.
//
// When ctx ends, the turn is cancelled and its events go on to their end: a
// done with finish reason cancelled. A lost connection is taken up again once.
// A caller that stops early cancels the turn.
func (c *Client) Chat(ctx context.Context, req *ipc.ChatRequest) iter.Seq2[turn.Event, error] {
	r := *req
	r.Stream = true
	return c.generate(ctx, ipc.ChatCreate, &r)
}

// Complete is Chat for a completion.
func (c *Client) Complete(ctx context.Context, req *ipc.CompletionRequest) iter.Seq2[turn.Event, error] {
	r := *req
	r.Stream = true
	return c.generate(ctx, ipc.CompletionCreate, &r)
}

// farewell bounds what is done about a turn after its caller has gone.
const farewell = 5 * time.Second

func (c *Client) generate(ctx context.Context, method ipc.Method, params any) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		life, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		g := &generation{client: c, ctx: life}
		if err := g.start(ctx, method, params); err != nil {
			yield(turn.Event{}, err)
			return
		}
		defer func() { g.wire.Close() }()
		stop := context.AfterFunc(ctx, func() { g.cancel(life) })
		defer stop()
		if !g.each(yield) {
			g.cancel(life)
		}
	}
}

// generation is one turn under way.
type generation struct {
	client *Client
	ctx    context.Context // ends when the iterator returns
	wire   *wire
	turn   turn.ID
	next   int64 // seq expected next
}

// start sends the request and learns the turn's name. When ctx ends before the
// daemon, which answers at once, has said it, start waits a little longer: a
// turn without a name could not be cancelled.
func (g *generation) start(ctx context.Context, method ipc.Method, params any) error {
	w, err := g.client.dial(ctx)
	if err != nil {
		return err
	}
	w.stop() // from here on ctx cancels the turn, not the connection
	w.stop = context.AfterFunc(g.ctx, func() { w.Channel.Close() })
	answered := make(chan struct{})
	defer close(answered)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(farewell):
			w.Channel.Close()
		case <-answered:
		}
	})()
	var ref ipc.TurnRef
	if err := w.call(method, params, &ref); err != nil {
		w.Close()
		return orDone(ctx, err)
	}
	g.wire, g.turn = w, ref.Turn
	return nil
}

// each yields events to the final one, and reports whether it got there.
func (g *generation) each(yield func(turn.Event, error) bool) bool {
	for {
		e, err := g.event()
		if errors.Is(err, ErrLost) {
			if err = g.reattach(err); err == nil {
				continue
			}
		}
		if err != nil {
			yield(turn.Event{}, err)
			return true
		}
		if !yield(e, nil) {
			return e.Final()
		}
		if e.Type == turn.EventError && e.Failure != nil {
			yield(turn.Event{}, ipc.FromWire(e.Failure.Code, e.Failure.Message, e.Failure.Data))
		}
		if e.Final() {
			return true
		}
	}
}

// event reads the turn's next event.
func (g *generation) event() (turn.Event, error) {
	for {
		m, err := g.wire.recv()
		if err != nil {
			return turn.Event{}, err
		}
		if m.Method != ipc.NoteTurn {
			continue
		}
		var e turn.Event
		if err := json.Unmarshal(m.Params, &e); err != nil {
			return e, err
		}
		if e.Turn == g.turn && e.Seq >= g.next {
			g.next = e.Seq + 1
			return e, nil
		}
	}
}

// reattach takes a turn up again after its connection broke, or returns what
// broke it.
func (g *generation) reattach(lost error) error {
	w, err := g.client.dial(g.ctx)
	if err != nil {
		return lost
	}
	if err := w.call(ipc.TurnAttach, ipc.AttachParams{Turn: g.turn, FromSeq: g.next}, &ipc.TurnRef{}); err != nil {
		w.Close()
		return errors.Join(lost, err)
	}
	g.wire.Close()
	g.wire = w
	return nil
}

// cancel ends the turn by a connection of its own: the stream's may be full.
func (g *generation) cancel(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, farewell)
	defer stop()
	_ = g.client.Cancel(ctx, ipc.TurnRef{Turn: g.turn}) // it may have ended
}

// Watch yields the daemon's state: first the whole, then deltas. When the
// connection is lost it yields the error; a caller that goes on then gets the
// whole again as soon as a daemon answers. It ends with ctx.
func (c *Client) Watch(ctx context.Context) iter.Seq2[*ipc.Event, error] {
	return func(yield func(*ipc.Event, error) bool) {
		for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, lastRetry) {
			seen, err := c.watchOnce(ctx, yield)
			if err == nil || ctx.Err() != nil || !yield(nil, err) {
				return
			}
			if seen {
				wait = firstRetry
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	}
}

// Waits between two tries of Watch.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// watchOnce watches over one connection: seen says whether it got as far as
// an event, and a nil error that the caller has enough.
func (c *Client) watchOnce(ctx context.Context, yield func(*ipc.Event, error) bool) (seen bool, err error) {
	w, err := c.dial(ctx)
	if err != nil {
		return false, err
	}
	defer w.Close()
	if err := w.call(ipc.DaemonWatch, ipc.Empty{}, &ipc.Empty{}); err != nil {
		return false, err
	}
	for {
		m, err := w.recv()
		if err != nil {
			return seen, err
		}
		if m.Method != ipc.NoteDaemon {
			continue
		}
		e := new(ipc.Event)
		if err := json.Unmarshal(m.Params, e); err != nil {
			return seen, err
		}
		if seen = true; !yield(e, nil) {
			return seen, nil
		}
	}
}

// Pull fetches a model. progress may be nil.
func (c *Client) Pull(ctx context.Context, p ipc.PullParams, progress func(ipc.PullProgress)) (*ipc.PullResult, error) {
	w, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p.Stream = true
	var ref ipc.PullRef
	if err := w.call(ipc.ModelsPull, p, &ref); err != nil {
		return nil, orDone(ctx, err)
	}
	for {
		m, err := w.recv()
		if err != nil {
			return nil, orDone(ctx, err)
		}
		var e ipc.PullEvent
		if m.Method != ipc.NotePull || json.Unmarshal(m.Params, &e) != nil || e.Pull != ref.Pull {
			continue
		}
		switch {
		case e.Failure != nil:
			return nil, ipc.FromWire(e.Failure.Code, e.Failure.Message, e.Failure.Data)
		case e.PullResult != nil:
			return e.PullResult, nil
		case e.PullProgress != nil && progress != nil:
			progress(*e.PullProgress)
		}
	}
}
