package journal

import (
	"context"
	"io"

	"ingot/runtime/turn"
)

// Reader reads one turn's events, for one client. One goroutine at a time
// may call Next; Close may be called from any.
type Reader struct {
	j *Journal
	e *entry

	pos int64 // next seq to read; guarded by j.mu
}

// Turn is the turn being read.
func (r *Reader) Turn() turn.ID { return r.e.id }

// Model is the turn's model, as the catalogue names it.
func (r *Reader) Model() string { return r.e.model }

// Next returns the next event, waiting for it. It returns io.EOF after the
// final one, ErrTaken when a later reader has the turn, and ctx's error.
func (r *Reader) Next(ctx context.Context) (turn.Event, error) {
	for {
		ev, wait, err := r.try()
		if wait == nil {
			return ev, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return turn.Event{}, ctx.Err()
		}
	}
}

// try returns an event, an error, or a channel that closes when there may be
// one.
func (r *Reader) try() (turn.Event, <-chan struct{}, error) {
	j, e := r.j, r.e
	j.mu.Lock()
	if e.reader != r {
		j.mu.Unlock()
		return turn.Event{}, nil, ErrTaken
	}
	if r.pos == e.next() {
		defer j.mu.Unlock()
		if e.final {
			return turn.Event{}, nil, io.EOF
		}
		return turn.Event{}, e.wake, nil
	}
	rec := e.events[r.pos-e.first]
	r.pos++
	e.unread -= rec.size
	e.trim(j.opt.Keep)
	after := j.settleLocked(e)
	j.mu.Unlock()
	after()
	return rec.ev, nil, nil
}

// Close tells that the client is gone. A turn that lingers waits for another
// reader; one that does not is given up.
func (r *Reader) Close() {
	j, e := r.j, r.e
	j.mu.Lock()
	if e.reader != r {
		j.mu.Unlock()
		return
	}
	e.reader = nil
	e.left = j.opt.Now()
	e.unread = e.kept
	if !e.linger && e.final {
		delete(j.turns, e.id)
	}
	gone := !e.linger && !e.final
	e.trim(j.opt.Keep)
	after := j.settleLocked(e)
	j.mu.Unlock()
	after()
	if gone {
		j.opt.Gone(e.id)
	}
}
