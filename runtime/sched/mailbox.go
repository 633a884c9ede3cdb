package sched

import "sync/atomic"

// mailbox carries one turn's updates to its one reader. Only the scheduler
// (or Submit, before the scheduler knows the turn) puts; put never waits.
//
// A turn takes part in a step only while its mailbox is not full, and a step
// brings it at most one update; the two places beyond the bound are for the
// update of an end.
type mailbox struct {
	ch     chan Update
	bound  int
	full   atomic.Bool // the scheduler passed the turn over and must be woken
	onRoom func()
}

func newMailbox(bound int, onRoom func()) *mailbox {
	return &mailbox{ch: make(chan Update, bound+2), bound: bound, onRoom: onRoom}
}

// hasRoom reports whether the turn may step; if not, the reader's next take
// wakes the scheduler.
func (m *mailbox) hasRoom() bool {
	if len(m.ch) < m.bound {
		return true
	}
	m.full.Store(true)
	return len(m.ch) < m.bound // the reader may have made room before it could see the mark
}

// put delivers what must arrive. Its caller has asked hasRoom, or delivers
// the end.
func (m *mailbox) put(u Update) { m.ch <- u }

// tryPut delivers news that may be lost: the place in the queue.
func (m *mailbox) tryPut(u Update) {
	if len(m.ch) < m.bound {
		m.ch <- u
	}
}

// close tells the reader that the last update is in.
func (m *mailbox) close() { close(m.ch) }

func (m *mailbox) take() (Update, bool) {
	u, ok := <-m.ch
	if len(m.ch) < m.bound && m.full.Swap(false) {
		m.onRoom()
	}
	return u, ok
}
