package sched

import "sync/atomic"

// mailbox carries one turn's updates to its one reader. Only the scheduler
// (or Submit, before the scheduler knows the turn) puts; put never waits.
//
// A turn takes part in a step only while its mailbox is open to it, and a
// step brings it at most one update; the two places beyond the bound are for
// the update of an end. A mailbox that was full opens again when it is half
// empty, so that a slow reader's turn works in runs and not by the token.
type mailbox struct {
	ch     chan Update
	bound  int
	full   atomic.Bool // since it was full; the reader wakes the scheduler
	onRoom func()
}

func newMailbox(bound int, onRoom func()) *mailbox {
	return &mailbox{ch: make(chan Update, bound+2), bound: bound, onRoom: onRoom}
}

// hasRoom reports whether the turn may step; if not, the reader wakes the
// scheduler once it may.
func (m *mailbox) hasRoom() bool {
	if len(m.ch) >= m.bound {
		m.full.Store(true)
	}
	m.reopen() // the reader may have made room before it could see the mark
	return !m.full.Load()
}

// reopen takes the mark off a mailbox that is half empty, and reports whether
// there was one.
func (m *mailbox) reopen() bool {
	return len(m.ch) <= m.bound/2 && m.full.Swap(false)
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
	if m.reopen() {
		m.onRoom()
	}
	return u, ok
}
