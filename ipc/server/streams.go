package server

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/creachadair/jrpc2"

	"ingot/ipc"
	"ingot/runtime/turn"
)

func chat(ctx context.Context, c *conn, p ipc.ChatRequest, req *jrpc2.Request) (any, error) {
	t, err := p.Turn()
	if err != nil {
		return nil, err
	}
	return c.generate(ctx, t, &p.Options, req, func(a *ipc.Answer, model string) any {
		return a.Chat(model, time.Now().Unix())
	})
}

func completion(ctx context.Context, c *conn, p ipc.CompletionRequest, req *jrpc2.Request) (any, error) {
	t, err := p.Turn()
	if err != nil {
		return nil, err
	}
	return c.generate(ctx, t, &p.Options, req, func(a *ipc.Answer, model string) any {
		return a.Completion(model, time.Now().Unix())
	})
}

// generate starts the turn and either streams it or answers with the whole,
// in the shape that object gives it.
func (c *conn) generate(ctx context.Context, r *ipc.TurnRequest, o *ipc.Options, req *jrpc2.Request,
	object func(a *ipc.Answer, model string) any) (any, error) {
	if err := c.options(o); err != nil {
		return nil, err
	}
	r.Linger = o.Stream
	t, err := c.backend.StartTurn(ctx, r)
	if err != nil {
		return nil, err
	}
	if o.Stream {
		c.stream(t, 0, req, func() { _ = c.backend.Cancel(context.WithoutCancel(ctx), t.ID()) })
		return ipc.TurnRef{Turn: t.ID()}, nil
	}
	defer t.Close() // when ctx ended first, that cancels the turn
	a, err := gather(ctx, t)
	if err != nil {
		return nil, err
	}
	model := r.Model
	if m, ok := t.(Modelled); ok {
		model = m.Model()
	}
	return object(a, model), nil
}

// options refuses what this connection can't do.
func (c *conn) options(o *ipc.Options) error {
	if o.Stream && !c.link.streams {
		return ipc.NotSupported("stream", "POST /rpc can't stream; use the socket or /ws")
	}
	if o.IncludeUsage != nil && !*o.IncludeUsage {
		return ipc.NotSupported("stream_options.include_usage", "false is not supported: the done event always has usage")
	}
	return nil
}

func (c *conn) mustStream(method ipc.Method) error {
	if c.link.streams {
		return nil
	}
	return ipc.NotSupported("method", "POST /rpc can't carry %s; use the socket or /ws", method)
}

func attach(ctx context.Context, c *conn, p ipc.AttachParams, req *jrpc2.Request) (any, error) {
	if err := c.mustStream(ipc.TurnAttach); err != nil {
		return nil, err
	}
	t, err := c.backend.Attach(ctx, p.Turn, p.FromSeq)
	if err != nil {
		return nil, err
	}
	c.stream(t, p.FromSeq, req, func() {})
	return ipc.TurnRef{Turn: t.ID()}, nil
}

// stream sends t's events once the response to req was written. unheard is
// called if that never happens: nobody has learnt the turn's name.
func (c *conn) stream(t Turn, seq int64, req *jrpc2.Request, unheard func()) {
	c.add()
	end := func() { t.Close(); c.done() }
	c.hold(req, gate{
		open:  func() { c.pumps.Go(func() { defer end(); c.pump(t, seq) }) },
		abort: func() { unheard(); end() },
	})
}

// pump carries events from the backend to the outbox until the last of them.
func (c *conn) pump(t Turn, seq int64) {
	for {
		e, err := t.Next(c.ctx)
		if errors.Is(err, io.EOF) || c.ctx.Err() != nil {
			return
		}
		if err != nil { // every stream has an end, also this one
			e = turn.Event{Turn: t.ID(), Seq: seq, Type: turn.EventError, Failure: ipc.AsError(err).Failure()}
		}
		if c.notify(c.ctx, ipc.NoteTurn, &e) != nil || err != nil {
			return
		}
		seq = e.Seq + 1
	}
}

// gather runs a turn to its end.
func gather(ctx context.Context, t Turn) (*ipc.Answer, error) {
	var a ipc.Answer
	for {
		e, err := t.Next(ctx)
		if errors.Is(err, io.EOF) {
			return &a, a.Err()
		}
		if err != nil {
			return nil, err
		}
		a.Add(e)
	}
}

// watch begins the stream of the daemon's state; one a connection.
func watch(ctx context.Context, c *conn, _ none, req *jrpc2.Request) (any, error) {
	if err := c.mustStream(ipc.DaemonWatch); err != nil {
		return nil, err
	}
	if err := c.unwatch(ctx); err != nil {
		return nil, err
	}
	wctx, cancel := context.WithCancel(c.ctx)
	w, err := c.backend.Watch(wctx)
	if err != nil {
		cancel()
		return nil, err
	}
	this := &watching{cancel: cancel, ended: make(chan struct{})}
	c.mu.Lock()
	c.watching = this
	c.mu.Unlock()
	end := func() { cancel(); w.Close(); close(this.ended) }
	c.hold(req, gate{
		open:  func() { c.pumps.Go(func() { defer end(); c.pumpState(wctx, w) }) },
		abort: end,
	})
	return ipc.Empty{}, nil
}

// pumpState does not count as work: a watcher keeps nothing from ending.
func (c *conn) pumpState(ctx context.Context, w Watch) {
	for {
		e, err := w.Next(ctx)
		if err != nil || c.notify(ctx, ipc.NoteDaemon, e) != nil {
			return
		}
	}
}

// watching is a stream of state under way.
type watching struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// unwatch ends the stream of state, if there is one: when it returns, no more
// of it is sent.
func (c *conn) unwatch(ctx context.Context) error {
	c.mu.Lock()
	w := c.watching
	c.watching = nil
	c.mu.Unlock()
	if w == nil {
		return nil
	}
	w.cancel()
	select {
	case <-w.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pulls numbers the pulls of this process.
var pulls atomic.Int64

func pull(ctx context.Context, c *conn, p ipc.PullParams, req *jrpc2.Request) (any, error) {
	if !p.Stream {
		return c.backend.Pull(ctx, p, func(ipc.PullProgress) {})
	}
	if !c.link.streams {
		return nil, ipc.NotSupported("stream", "POST /rpc can't stream; use the socket or /ws")
	}
	id := "pull-" + strconv.FormatInt(pulls.Add(1), 10)
	c.add()
	c.hold(req, gate{
		open:  func() { c.pumps.Go(func() { defer c.done(); c.pumpPull(id, p) }) },
		abort: c.done,
	})
	return ipc.PullRef{Pull: id}, nil
}

// pumpPull pulls and tells of it. Progress that finds no room is left out.
func (c *conn) pumpPull(id string, p ipc.PullParams) {
	e := ipc.PullEvent{Pull: id}
	r, err := c.backend.Pull(c.ctx, p, func(pp ipc.PullProgress) {
		e.Type, e.PullProgress = "progress", &pp
		msg, err := notification(ipc.NotePull, &e)
		if err != nil {
			return
		}
		if full, err := c.out.tryEvent(msg); full == nil && err == nil {
			e.Seq++
		}
	})
	last := ipc.PullEvent{Pull: id, Seq: e.Seq, Type: "done", PullResult: r}
	if err != nil {
		last.Type, last.PullResult, last.Failure = "error", nil, ipc.AsError(err).Failure()
	}
	_ = c.notify(c.ctx, ipc.NotePull, &last) // the peer may be gone
}
