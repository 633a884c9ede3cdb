package runner

import (
	"sync"

	"ingot/runtime/sched"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// turns are the open turns by name, for the frames that concern one.
type turns struct {
	mu   sync.Mutex
	open map[turn.ID]*entry
}

// entry is what a Cancel or Flow frame finds. A turn that is still being
// tokenized has no handle yet; what came for it is applied when it has.
type entry struct {
	handle    *sched.Handle
	cancelled bool
	parked    bool
}

// add reports false for a name that is open already.
func (ts *turns) add(id turn.ID) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.open[id] != nil {
		return false
	}
	if ts.open == nil {
		ts.open = make(map[turn.ID]*entry)
	}
	ts.open[id] = &entry{}
	return true
}

func (ts *turns) remove(id turn.ID) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.open, id)
}

// started gives the turn its handle.
func (ts *turns) started(id turn.ID, h *sched.Handle) {
	ts.with(id, func(e *entry) {
		e.handle = h
		e.apply()
	})
}

func (ts *turns) cancel(id turn.ID) {
	ts.with(id, func(e *entry) {
		e.cancelled = true
		e.apply()
	})
}

func (ts *turns) flow(m *wire.Flow) {
	ts.with(m.Turn, func(e *entry) {
		e.parked = m.Parked
		e.apply()
	})
}

// with runs f on a turn, if it is still open.
func (ts *turns) with(id turn.ID, f func(*entry)) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if e := ts.open[id]; e != nil {
		f(e)
	}
}

func (e *entry) apply() {
	if e.handle == nil {
		return
	}
	e.handle.Park(e.parked)
	if e.cancelled {
		e.handle.Cancel()
	}
}
