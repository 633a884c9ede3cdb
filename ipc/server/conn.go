package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/creachadair/jrpc2"

	"ingot/ipc"
	"ingot/ipc/frame"
)

// Bounds of one connection.
const (
	concurrency = 1024 // requests at work; most of them wait for a model
	detached    = 64   // notifications at work
)

// hangUpCheck is how often a peer that sends no more is asked whether it
// still reads.
const hangUpCheck = time.Second

// link is what a conn knows of the transport below.
type link struct {
	gone    func() bool // peer reads no more; nil: that is so once it sends no more
	streams bool        // notifications can be sent
}

// conn is one JSON-RPC conversation.
//
//	run
//	  read          frames -> Recv                     goroutine
//	  jrpc2.Server  Recv -> Assign -> handler -> Send  its own goroutines
//	  pumps         turn or state -> outbox            one goroutine a stream
//	  outbox.run    outbox -> frames                   goroutine
//
// It ends in one of two ways. When the peer sends no more, or the server
// drains, every request already read and every stream goes on to its end
// (settle). When the peer is gone, or the server is closed, ctx ends and all
// of it with that.
type conn struct {
	backend Backend
	link    link
	ch      frame.Channel
	out     *outbox
	notes   chan struct{} // tokens of notifications at work

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	in      chan []byte   // frames read; closed when no more come
	drained chan struct{} // closed by drain
	idle    chan struct{} // closed when settling and nothing is at work
	pumps   sync.WaitGroup
	drainer sync.Once

	settleSent atomic.Bool // Recv gave its last message

	mu       sync.Mutex
	busy     int              // handlers and streams
	settling bool             // no request will be added
	waiting  map[string]*gate // gates whose response is still to come, by request id
	closed   map[*gate]bool   // gates not open yet, waiting or with their response in the outbox
	watching *watching        // the stream of state, if there is one
}

// gate holds back a stream until the response that names it was written.
type gate struct{ open, abort func() }

func newConn(ctx context.Context, b Backend, ch frame.Channel, l link) *conn {
	ctx, cancel := context.WithCancel(ctx)
	return &conn{
		backend: b, link: l, ch: ch, out: newOutbox(ch), notes: make(chan struct{}, detached),
		ctx: ctx, cancel: cancel,
		in: make(chan []byte), drained: make(chan struct{}), idle: make(chan struct{}),
		waiting: map[string]*gate{}, closed: map[*gate]bool{},
	}
}

// run serves the conversation to its end and closes the channel.
func (c *conn) run() {
	var reader, writer sync.WaitGroup
	reader.Go(c.read)
	writer.Go(func() {
		if c.out.run() != nil {
			c.cancel() // the peer is gone
		}
	})
	stop := context.AfterFunc(c.ctx, func() { c.ch.Close() }) // ends a blocked Send or Recv
	rpc := jrpc2.NewServer(c, &jrpc2.ServerOptions{
		DisableBuiltin: true,
		Concurrency:    concurrency,
		NewContext:     func() context.Context { return c.ctx },
	})
	_ = rpc.Start((*pipe)(c)).Wait() // its error is what our own Recv gave it
	c.out.close()
	writer.Wait()
	c.cancel()
	if stop() {
		c.ch.Close()
	}
	c.abortGates()
	c.pumps.Wait()
	reader.Wait()
}

// drain lets what is at work finish and takes no more.
func (c *conn) drain() { c.drainer.Do(func() { close(c.drained) }) }

// read passes frames on until the peer sends no more, and then watches
// whether it still reads.
func (c *conn) read() {
	err := c.frames()
	close(c.in)
	if c.link.gone == nil || !errors.Is(err, io.EOF) {
		c.cancel()
		return
	}
	tick := time.NewTicker(hangUpCheck)
	defer tick.Stop()
	for !c.link.gone() {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
	}
	c.cancel()
}

func (c *conn) frames() error {
	for {
		msg, err := c.ch.Recv()
		if errors.Is(err, frame.ErrTooLarge) {
			c.refuse(ipc.Errorf(ipc.TooLarge, "%s", err).With("limit", ipc.MaxMessage))
			continue
		}
		if err != nil {
			return err
		}
		if crowd(msg) {
			c.refuse(ipc.Errorf(ipc.TooLarge, "batch of more than %d calls", ipc.MaxBatch).With("limit", ipc.MaxBatch))
			continue
		}
		select {
		case c.in <- msg:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

// refuse answers a message that could not be read, so has no id.
func (c *conn) refuse(e *ipc.Error) {
	if c.out.reply(errorReply(e), nil) != nil {
		c.cancel()
	}
}

// crowd reports whether msg is a batch of more than MaxBatch calls.
func crowd(msg []byte) bool {
	if len(msg) == 0 || msg[0] != '[' {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(msg))
	if _, err := dec.Token(); err != nil {
		return false // jrpc2 will say so
	}
	var skip json.RawMessage
	for n := 0; dec.More(); n++ {
		if n == ipc.MaxBatch {
			return true
		}
		if dec.Decode(&skip) != nil {
			return false
		}
	}
	return false
}

// add and done count what is at work.
func (c *conn) add() {
	c.mu.Lock()
	c.busy++
	c.mu.Unlock()
}

func (c *conn) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	c.settledLocked()
}

// settle is called when every request that will be has been assigned.
func (c *conn) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settling = true
	c.settledLocked()
}

func (c *conn) settledLocked() {
	if c.settling && c.busy == 0 {
		c.settling = false // close once
		close(c.idle)
	}
}

// hold makes a gate for the stream that answers req; it is open at once for
// a notification, which gets no response.
func (c *conn) hold(req *jrpc2.Request, g gate) {
	if req.IsNotification() {
		g.open()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[req.ID()] = &g
	c.closed[&g] = true
}

// release finds the gates whose responses are in msg and returns what opens
// them, to be called when msg was written.
func (c *conn) release(msg []byte) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return nil
	}
	var found []*gate
	for _, id := range answered(msg) {
		if g, ok := c.waiting[id]; ok {
			found = append(found, g)
			delete(c.waiting, id)
		}
	}
	return func() {
		for _, g := range found {
			if c.take(g) {
				g.open()
			}
		}
	}
}

// take reports whether g was still closed, and counts it as open.
func (c *conn) take(g *gate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.closed[g]
	delete(c.closed, g)
	return was
}

// abortGates ends the streams whose response was never written.
func (c *conn) abortGates() {
	c.mu.Lock()
	left := c.closed
	c.closed = map[*gate]bool{}
	c.mu.Unlock()
	for g := range left {
		g.abort()
	}
}
