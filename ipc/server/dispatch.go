package server

import (
	"context"
	"encoding/json"

	"github.com/creachadair/jrpc2"

	"ingot/ipc"
)

// handler does one method. Its result is marshalled; its error is made one
// of the contract by fail.
type handler func(ctx context.Context, c *conn, req *jrpc2.Request) (any, error)

// with decodes the params of a method before it is called.
func with[P any, PP interface {
	*P
	ipc.Params
}](f func(ctx context.Context, c *conn, p P) (any, error)) handler {
	return withRequest[P, PP](func(ctx context.Context, c *conn, p P, _ *jrpc2.Request) (any, error) { return f(ctx, c, p) })
}

// withRequest is with, for methods that open a stream.
func withRequest[P any, PP interface {
	*P
	ipc.Params
}](f func(ctx context.Context, c *conn, p P, req *jrpc2.Request) (any, error)) handler {
	return func(ctx context.Context, c *conn, req *jrpc2.Request) (any, error) {
		var p P
		if err := ipc.Decode(params(req), PP(&p)); err != nil {
			return nil, err
		}
		return f(ctx, c, p, req)
	}
}

func params(req *jrpc2.Request) json.RawMessage { return json.RawMessage(req.ParamString()) }

// empty turns a bare error into a result.
func empty(err error) (any, error) { return ipc.Empty{}, err }

type none = ipc.NoParams

// methods is every method of the protocol.
var methods = map[ipc.Method]handler{
	ipc.DaemonStatus:  with(func(ctx context.Context, c *conn, _ none) (any, error) { return c.backend.Status(ctx) }),
	ipc.DaemonWatch:   withRequest(watch),
	ipc.DaemonUnwatch: with(func(ctx context.Context, c *conn, _ none) (any, error) { return empty(c.unwatch(ctx)) }),
	ipc.DaemonStop:    with(func(ctx context.Context, c *conn, _ none) (any, error) { return empty(c.backend.Stop(ctx)) }),

	ipc.ModelsList: with(func(ctx context.Context, c *conn, _ none) (any, error) { return c.backend.List(ctx) }),
	ipc.ModelsShow: with(func(ctx context.Context, c *conn, p ipc.ModelParams) (any, error) {
		return c.backend.Show(ctx, p.Model)
	}),
	ipc.ModelsPull: withRequest(pull),
	ipc.ModelsRemove: with(func(ctx context.Context, c *conn, p ipc.ModelParams) (any, error) {
		return empty(c.backend.Remove(ctx, p.Model))
	}),
	ipc.ModelsLoad: with(func(ctx context.Context, c *conn, p ipc.LoadParams) (any, error) { return c.backend.Load(ctx, p) }),
	ipc.ModelsUnload: with(func(ctx context.Context, c *conn, p ipc.ModelParams) (any, error) {
		return empty(c.backend.Unload(ctx, p.Model))
	}),
	ipc.ModelsPin: with(func(ctx context.Context, c *conn, p ipc.PinParams) (any, error) { return empty(c.backend.Pin(ctx, p)) }),
	ipc.ModelsAlias: with(func(ctx context.Context, c *conn, p ipc.AliasParams) (any, error) {
		return empty(c.backend.Alias(ctx, p))
	}),

	ipc.ChatCreate:       withRequest(chat),
	ipc.CompletionCreate: withRequest(completion),
	ipc.TurnCancel: with(func(ctx context.Context, c *conn, p ipc.TurnRef) (any, error) {
		return empty(c.backend.Cancel(ctx, p.Turn))
	}),
	ipc.TurnAttach: withRequest(attach),

	ipc.TokensEncode: with(func(ctx context.Context, c *conn, p ipc.EncodeParams) (any, error) { return c.backend.Encode(ctx, p) }),
	ipc.TokensDecode: with(func(ctx context.Context, c *conn, p ipc.DecodeParams) (any, error) { return c.backend.Decode(ctx, p) }),
	ipc.TokensCount: with(func(ctx context.Context, c *conn, p ipc.CountParams) (any, error) {
		return c.backend.Count(ctx, p.Request())
	}),

	ipc.LogsTail:    with(func(ctx context.Context, c *conn, p ipc.LogsParams) (any, error) { return c.backend.Logs(ctx, p) }),
	ipc.RPCDiscover: with(func(context.Context, *conn, none) (any, error) { return ipc.Discover(), nil }),
}

// Assign finds a method for jrpc2, in the order of reading. From here to the
// end of the handler the request counts as at work.
func (c *conn) Assign(_ context.Context, method string) jrpc2.Handler {
	if method == settleMethod && c.settleSent.Load() {
		c.settle()
		return nil
	}
	h, ok := methods[method]
	if !ok {
		h = func(context.Context, *conn, *jrpc2.Request) (any, error) {
			return nil, ipc.Errorf(ipc.MethodNotFound, "there is no method %q; rpc.discover lists them", clip(method))
		}
	}
	c.add()
	return func(ctx context.Context, req *jrpc2.Request) (any, error) {
		if req.IsNotification() {
			return nil, c.detach(h, req)
		}
		defer c.done()
		return reply(h(ctx, c, req))
	}
}

// reply makes the error one of the contract.
func reply(v any, err error) (any, error) {
	if err != nil {
		return nil, wireError(ipc.AsError(err))
	}
	return v, nil
}

// detach runs a notification beside the connection's requests, which jrpc2
// would otherwise keep waiting for it. Nobody hears of its error.
func (c *conn) detach(h handler, req *jrpc2.Request) error {
	select {
	case c.notes <- struct{}{}:
	case <-c.ctx.Done():
		c.done()
		return c.ctx.Err()
	}
	c.pumps.Go(func() {
		defer c.done()
		defer func() { <-c.notes }()
		_, _ = h(c.ctx, c, req)
	})
	return nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
