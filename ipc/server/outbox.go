package server

import (
	"context"
	"errors"
	"sync"

	"ingot/ipc/frame"
)

// Bounds of what waits for a peer that does not read, in bytes.
const (
	maxEvents  = 256 << 10 // then streams wait, and their turns are parked
	maxReplies = 64 << 20  // then the peer is cut off
)

var (
	errClosed = errors.New("connection closed")
	errDeaf   = errors.New("peer reads no replies")
)

// outbox is the one writer of a connection: what is put in goes out in that
// order. Replies never wait, so that a peer that leaves its events unread can
// still cancel a turn; events wait for room.
type outbox struct {
	ch   frame.Channel
	wake chan struct{} // holds a token when there is something to do

	mu      sync.Mutex
	queue   []letter
	events  int           // bytes of queued events
	replies int           // bytes of queued replies
	room    chan struct{} // closed when events were written, then renewed
	closed  bool          // take no more; end when empty
}

type letter struct {
	msg   []byte
	event bool
	sent  func() // called when msg was written; may be nil
}

func newOutbox(ch frame.Channel) *outbox {
	return &outbox{ch: ch, wake: make(chan struct{}, 1), room: make(chan struct{})}
}

// run writes until the outbox is closed and empty, or writing fails.
func (o *outbox) run() error {
	for range o.wake {
		batch, last := o.take()
		for _, l := range batch {
			if err := o.ch.Send(l.msg); err != nil {
				return err
			}
			o.wrote(l)
		}
		if last {
			return nil
		}
	}
	return nil
}

func (o *outbox) take() (batch []letter, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch, o.queue = o.queue, nil
	return batch, o.closed
}

func (o *outbox) wrote(l letter) {
	o.mu.Lock()
	if l.event {
		o.events -= len(l.msg)
		close(o.room)
		o.room = make(chan struct{})
	} else {
		o.replies -= len(l.msg)
	}
	o.mu.Unlock()
	if l.sent != nil {
		l.sent()
	}
}

func (o *outbox) putLocked(l letter) {
	o.queue = append(o.queue, l)
	o.nudge()
}

func (o *outbox) nudge() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// reply queues a response; sent is called once it was written.
func (o *outbox) reply(msg []byte, sent func()) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errClosed
	}
	if o.replies > maxReplies {
		return errDeaf
	}
	o.replies += len(msg)
	o.putLocked(letter{msg: msg, sent: sent})
	return nil
}

// event queues a notification, waiting for room.
func (o *outbox) event(ctx context.Context, msg []byte) error {
	for {
		full, err := o.tryEvent(msg)
		if full == nil {
			return err
		}
		select {
		case <-full:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryEvent queues a notification, or returns what is closed when there may be
// room again.
func (o *outbox) tryEvent(msg []byte) (full <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, errClosed
	}
	if o.events >= maxEvents {
		return o.room, nil
	}
	o.events += len(msg)
	o.putLocked(letter{msg: msg, event: true})
	return nil, nil
}

// close takes no more; run ends once what is queued has been written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.nudge()
}
