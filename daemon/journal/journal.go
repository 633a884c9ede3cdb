// Package journal keeps live turns and what they have delivered, in the
// daemon's memory.
//
// It owns the numbering of events (seq from 0, no gap), their retention for
// clients that come back, the record that lets a new runner go on where a
// dead one stopped, and the rule that a turn has exactly one final event.
// Any goroutine may call. It never does I/O, never waits for a client (one
// that does not read has its turn parked) and never holds more than Keep
// bytes of unread events of a turn, but for what its runner had under way
// when it was told to park.
package journal

import (
	"errors"
	"sync"
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Errors of Attach and Next.
var (
	ErrNotFound = errors.New("journal: no such turn")     // never was, or is forgotten
	ErrDropped  = errors.New("journal: events dropped")   // from_seq is older than what is kept
	ErrTaken    = errors.New("journal: reader replaced")  // a later Attach took the turn over
	ErrFuture   = errors.New("journal: seq not yet sent") // from_seq is beyond the next event
)

// Options are the rules of a journal. Zero fields take the defaults.
type Options struct {
	Linger time.Duration    // how long a turn is kept for a client that went away: 60 s
	Keep   int              // bytes of events kept for a turn: 4 MiB
	Total  int              // bytes of events kept for all finished turns: 64 MiB
	Quiet  time.Duration    // silence after which a turn says that it waits: 3.5 s
	Now    func() time.Time // time.Now

	// Flow parks a turn whose reader lags, or lets it go on. Gone tells that
	// the client of a live turn is gone for good. Both are called without
	// locks, maybe from within any call, and must not block.
	Flow func(id turn.ID, parked bool)
	Gone func(id turn.ID)

	// Ended hears of each turn's end, just before its client does.
	Ended func(*Summary)
}

func (o *Options) fill() {
	def(&o.Linger, 60*time.Second)
	def(&o.Keep, 4<<20)
	def(&o.Total, 64<<20)
	def(&o.Quiet, 3500*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Flow == nil {
		o.Flow = func(turn.ID, bool) {}
	}
	if o.Gone == nil {
		o.Gone = func(turn.ID) {}
	}
	if o.Ended == nil {
		o.Ended = func(*Summary) {}
	}
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Journal is a set of turns.
type Journal struct {
	opt Options

	mu    sync.Mutex
	turns map[turn.ID]*entry
}

// New returns an empty journal.
func New(opt Options) *Journal {
	opt.fill()
	return &Journal{opt: opt, turns: map[turn.ID]*entry{}}
}

// Spec is what a turn is opened with.
type Spec struct {
	Model  string
	Submit wire.Submit // as the first runner gets it; Submit.Turn names the turn
	Linger bool        // its client may come back
}

// Open starts a turn and returns its first reader. The id must be new.
func (j *Journal) Open(s Spec) *Reader {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.opt.Now()
	e := &entry{
		id: s.Submit.Turn, model: s.Model, submit: s.Submit, linger: s.Linger,
		born: now, spoke: now, phase: "queued", wake: make(chan struct{}),
	}
	if _, dup := j.turns[e.id]; dup {
		panic("journal: turn " + string(e.id) + " opened twice")
	}
	j.turns[e.id] = e
	return j.attachLocked(e, 0)
}

// Attach returns a reader of a turn's events from seq from on. It takes the
// turn over from the reader it had.
func (j *Journal) Attach(id turn.ID, from int64) (*Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.turns[id]
	switch {
	case e == nil || !e.linger:
		return nil, ErrNotFound
	case from < e.first:
		return nil, ErrDropped
	case from > e.next():
		return nil, ErrFuture
	}
	return j.attachLocked(e, from), nil
}

func (j *Journal) attachLocked(e *entry, from int64) *Reader {
	r := &Reader{j: j, e: e, pos: from}
	e.reader = r
	e.unread = 0
	for i := from; i < e.next(); i++ {
		e.unread += e.events[i-e.first].size
	}
	e.wakeLocked() // a reader that was replaced learns it
	return r
}

// change runs f on a turn that lives, then whatever f asked to be called.
func (j *Journal) change(id turn.ID, f func(e *entry)) bool {
	j.mu.Lock()
	e := j.turns[id]
	if e == nil || e.final || e.ending {
		j.mu.Unlock()
		return false
	}
	f(e)
	after := j.settleLocked(e)
	j.mu.Unlock()
	after()
	return true
}

// settleLocked parks or releases the turn by what its reader has not read,
// and returns the call that must be made once the lock is gone.
func (j *Journal) settleLocked(e *entry) func() {
	high, low := j.highLocked(e), j.highLocked(e)/2
	switch {
	case !e.final && !e.parked && e.unread > high:
		e.parked = true
	case e.parked && (e.final || e.unread <= low):
		e.parked = false
	default:
		return func() {}
	}
	id, parked := e.id, e.parked
	return func() { j.opt.Flow(id, parked) }
}

// highLocked is how many unread bytes park a turn: an eighth of what is kept
// while somebody reads, all of it for one that lingers.
func (j *Journal) highLocked(e *entry) int {
	if e.reader == nil {
		return j.opt.Keep
	}
	return j.opt.Keep / 8
}

// Live returns the ids of turns without a final event.
func (j *Journal) Live() []turn.ID {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ids []turn.ID
	for id, e := range j.turns {
		if !e.final {
			ids = append(ids, id)
		}
	}
	return ids
}

// Has reports whether a turn is held, finished or not.
func (j *Journal) Has(id turn.ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.turns[id] != nil
}

// Len returns how many turns are held, finished ones included.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.turns)
}

// Unread returns how many turns have a reader that has not read everything:
// a drain waits for them.
func (j *Journal) Unread() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, e := range j.turns {
		if e.reader != nil && (e.unread > 0 || !e.final) {
			n++
		}
	}
	return n
}
