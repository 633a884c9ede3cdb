// Package client speaks to the daemon over its socket: typed calls, and
// streams as iterators.
//
// It owns one connection a call or stream, opened for it and closed with it,
// so a slow reader of one stream holds nobody else up. A Client may be used
// by many goroutines; an iterator by one. Errors that the daemon answered are
// *ipc.Error, also those that end a stream; it never starts a daemon.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"ingot/ipc"
	"ingot/ipc/frame"
	"ingot/ipc/socket"
)

// Client reaches one daemon. The zero Client is of use: it finds the socket
// as the daemon does.
type Client struct {
	// Socket is the path; empty: socket.Path.
	Socket string
	// Patience is how long to go on trying while nobody listens.
	Patience time.Duration
}

// ErrLost reports a connection that ended before its answer.
var ErrLost = errors.New("connection to the daemon lost")

// wire is one connection.
type wire struct {
	frame.Channel
	stop func() bool // stops watching ctx
	n    int         // last request id
}

// dial connects. When ctx ends, the connection is closed.
func (c *Client) dial(ctx context.Context) (*wire, error) {
	path := c.Socket
	if path == "" {
		var err error
		if path, err = socket.Path(); err != nil {
			return nil, err
		}
	}
	conn, err := socket.Dial(ctx, path, c.Patience)
	if err != nil {
		return nil, err
	}
	return newWire(ctx, conn), nil
}

func newWire(ctx context.Context, conn net.Conn) *wire {
	return &wire{
		Channel: frame.Lines(conn, ipc.MaxMessage),
		stop:    context.AfterFunc(ctx, func() { conn.Close() }),
	}
}

func (w *wire) Close() error {
	w.stop()
	return w.Channel.Close()
}

// message is anything the daemon sends.
type message struct {
	ID     *int            `json:"id"`
	Method ipc.Method      `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// send writes a request and returns its id.
func (w *wire) send(method ipc.Method, params any) (int, error) {
	w.n++
	msg, err := json.Marshal(struct {
		Version string     `json:"jsonrpc"`
		ID      int        `json:"id"`
		Method  ipc.Method `json:"method"`
		Params  any        `json:"params"`
	}{"2.0", w.n, method, params})
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w", method, err)
	}
	// A failed write is not the last word: the daemon may have said why it
	// closed, and recv reads that.
	_ = w.Channel.Send(msg)
	return w.n, nil
}

// recv reads the next message; an error response to no request is returned
// as an error.
func (w *wire) recv() (*message, error) {
	raw, err := w.Recv()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	var m message
	if err := json.Unmarshal(raw, &m); err != nil { // cut off within a message
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if m.ID == nil && m.Error != nil {
		return nil, ipc.FromWire(m.Error.Code, m.Error.Message, m.Error.Data)
	}
	return &m, nil
}

// call sends a request and decodes its result; notifications before it are
// dropped.
func (w *wire) call(method ipc.Method, params, result any) error {
	id, err := w.send(method, params)
	if err != nil {
		return err
	}
	for {
		m, err := w.recv()
		if err != nil {
			return err
		}
		if m.ID == nil || *m.ID != id {
			continue
		}
		return m.decode(method, result)
	}
}

func (m *message) decode(method ipc.Method, result any) error {
	if e := m.Error; e != nil {
		return ipc.FromWire(e.Code, e.Message, e.Data)
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("result of %s: %w", method, err)
	}
	return nil
}

// Call makes one call, for methods that have no typed one here.
func (c *Client) Call(ctx context.Context, method ipc.Method, params, result any) error {
	w, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	return orDone(ctx, w.call(method, params, result))
}

// orDone prefers the context's end to what that did to a connection.
func orDone(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, ErrLost) {
		return ctx.Err()
	}
	return err
}

func get[R any](ctx context.Context, c *Client, method ipc.Method, params any) (*R, error) {
	r := new(R)
	if err := c.Call(ctx, method, params, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Status returns the daemon's state.
func (c *Client) Status(ctx context.Context) (*ipc.Status, error) {
	return get[ipc.Status](ctx, c, ipc.DaemonStatus, ipc.Empty{})
}

// Stop asks the daemon to end.
func (c *Client) Stop(ctx context.Context) error {
	return c.Call(ctx, ipc.DaemonStop, ipc.Empty{}, &ipc.Empty{})
}

// Models lists the catalogue.
func (c *Client) Models(ctx context.Context) (*ipc.ModelList, error) {
	return get[ipc.ModelList](ctx, c, ipc.ModelsList, ipc.Empty{})
}

// Show describes one model.
func (c *Client) Show(ctx context.Context, model string) (*ipc.ModelDetail, error) {
	return get[ipc.ModelDetail](ctx, c, ipc.ModelsShow, ipc.ModelParams{Model: model})
}

// Remove deletes a model from disk.
func (c *Client) Remove(ctx context.Context, model string) error {
	return c.Call(ctx, ipc.ModelsRemove, ipc.ModelParams{Model: model}, &ipc.Empty{})
}

// Load loads a model and returns when it is ready.
func (c *Client) Load(ctx context.Context, p ipc.LoadParams) (*ipc.ModelStatus, error) {
	return get[ipc.ModelStatus](ctx, c, ipc.ModelsLoad, p)
}

// Unload ends a model's process.
func (c *Client) Unload(ctx context.Context, model string) error {
	return c.Call(ctx, ipc.ModelsUnload, ipc.ModelParams{Model: model}, &ipc.Empty{})
}

// Pin keeps a model loaded, or no longer does.
func (c *Client) Pin(ctx context.Context, p ipc.PinParams) error {
	return c.Call(ctx, ipc.ModelsPin, p, &ipc.Empty{})
}

// Alias gives a model another name, or takes it away.
func (c *Client) Alias(ctx context.Context, p ipc.AliasParams) error {
	return c.Call(ctx, ipc.ModelsAlias, p, &ipc.Empty{})
}

// Encode turns text into token ids.
func (c *Client) Encode(ctx context.Context, p ipc.EncodeParams) (*ipc.EncodeResult, error) {
	return get[ipc.EncodeResult](ctx, c, ipc.TokensEncode, p)
}

// Decode turns token ids into text.
func (c *Client) Decode(ctx context.Context, p ipc.DecodeParams) (*ipc.DecodeResult, error) {
	return get[ipc.DecodeResult](ctx, c, ipc.TokensDecode, p)
}

// Count counts the tokens of a text or a conversation.
func (c *Client) Count(ctx context.Context, p ipc.CountParams) (*ipc.CountResult, error) {
	return get[ipc.CountResult](ctx, c, ipc.TokensCount, p)
}

// Logs returns the last lines of the daemon's log.
func (c *Client) Logs(ctx context.Context, p ipc.LogsParams) (*ipc.LogsResult, error) {
	return get[ipc.LogsResult](ctx, c, ipc.LogsTail, p)
}

// Cancel ends a turn.
func (c *Client) Cancel(ctx context.Context, ref ipc.TurnRef) error {
	return c.Call(ctx, ipc.TurnCancel, ref, &ipc.Empty{})
}
