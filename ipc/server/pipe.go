package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"

	"ingot/ipc"
)

// settleMethod is a notification that never came from a peer: when jrpc2
// looks it up, all that was read before it has been looked up too, since
// look-ups happen in the order of reading.
const settleMethod = "ingot.settle"

var settleMessage = []byte(`{"jsonrpc":"2.0","method":"` + settleMethod + `"}`)

// pipe is the conn as jrpc2 sees it.
type pipe conn

var (
	_ channel.Channel = (*pipe)(nil)
	_ jrpc2.Assigner  = (*conn)(nil)
)

// Recv gives jrpc2 the next message. After the last it gives settleMessage,
// and the end once nothing is at work.
func (p *pipe) Recv() ([]byte, error) {
	if p.settleSent.Load() {
		return p.end()
	}
	select {
	case msg, ok := <-p.in:
		if ok {
			return msg, nil
		}
	case <-p.drained:
	case <-p.ctx.Done():
		return nil, io.EOF
	}
	p.settleSent.Store(true)
	return settleMessage, nil
}

func (p *pipe) end() ([]byte, error) {
	select {
	case <-p.idle:
	case <-p.ctx.Done():
	}
	return nil, io.EOF
}

// Send takes a response from jrpc2, which must not be kept waiting: it holds
// the lock that reading needs.
func (p *pipe) Send(msg []byte) error {
	c := (*conn)(p)
	msg = named(msg)
	err := c.out.reply(msg, c.release(msg))
	if err != nil {
		c.cancel()
	}
	return err
}

// Close is jrpc2's farewell after Recv's end. Responses may still follow.
func (p *pipe) Close() error { return nil }

// response is the envelope of a response.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *jrpc2.Error    `json:"error,omitempty"`
}

// responses parses one response or a batch of them.
func responses(msg []byte) (rs []response, batch bool) {
	if len(msg) > 0 && msg[0] == '[' {
		if json.Unmarshal(msg, &rs) != nil {
			return nil, true
		}
		return rs, true
	}
	var r response
	if json.Unmarshal(msg, &r) != nil {
		return nil, false
	}
	return []response{r}, false
}

// answered returns the ids of the successful responses in msg.
func answered(msg []byte) (ids []string) {
	rs, _ := responses(msg)
	for _, r := range rs {
		if r.Error == nil {
			ids = append(ids, string(r.ID))
		}
	}
	return ids
}

// named gives the errors that jrpc2 itself makes (no such JSON, no such
// request) their place in the contract's table; other messages pass as they
// are.
func named(msg []byte) []byte {
	if !bytes.Contains(msg, []byte(`"error":{"code":`)) {
		return msg
	}
	rs, batch := responses(msg)
	changed := false
	for i := range rs {
		if e := rs[i].Error; e != nil && !hasName(e.Data) {
			rs[i].Error, changed = wireError(adopt(e)), true
		}
	}
	if !changed {
		return msg
	}
	var out []byte
	var err error
	if batch {
		out, err = json.Marshal(rs)
	} else {
		out, err = json.Marshal(rs[0])
	}
	if err != nil {
		return msg
	}
	return out
}

func hasName(data json.RawMessage) bool {
	var d struct{ Name string }
	return json.Unmarshal(data, &d) == nil && d.Name != ""
}

// adopt finds the contract's error for one of jrpc2's.
func adopt(e *jrpc2.Error) *ipc.Error {
	msg := e.Message
	if len(e.Data) > 0 {
		msg += " " + string(e.Data)
	}
	switch e.Code {
	case jrpc2.ParseError, jrpc2.InvalidRequest:
		return ipc.Errorf(ipc.ParseError, "not a JSON-RPC 2.0 request: %s", msg)
	case jrpc2.Cancelled, jrpc2.DeadlineExceeded:
		return ipc.Errorf(ipc.ShuttingDown, "%s", msg)
	}
	return ipc.Errorf(ipc.NameOf(int(e.Code)), "%s", msg)
}

// wireError returns e as jrpc2 writes it.
func wireError(e *ipc.Error) *jrpc2.Error {
	return &jrpc2.Error{Code: jrpc2.Code(e.Code()), Message: e.Message, Data: e.RawData()}
}

// errorReply is a response to something that had no readable id.
func errorReply(e *ipc.Error) []byte {
	msg, err := json.Marshal(response{Version: jrpc2.Version, ID: json.RawMessage("null"), Error: wireError(e)})
	if err != nil { // strings and numbers only
		return nil
	}
	return msg
}

// notification encodes a notification.
func notification(method ipc.Method, params any) ([]byte, error) {
	return json.Marshal(struct {
		Version string     `json:"jsonrpc"`
		Method  ipc.Method `json:"method"`
		Params  any        `json:"params"`
	}{jrpc2.Version, method, params})
}

// notify queues a notification and waits for room.
func (c *conn) notify(ctx context.Context, method ipc.Method, params any) error {
	msg, err := notification(method, params)
	if err != nil {
		return err
	}
	return c.out.event(ctx, msg)
}
