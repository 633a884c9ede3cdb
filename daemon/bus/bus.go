// Package bus carries the daemon's state to those who watch it: first the
// whole, then what changes.
//
// It owns the watchers and their revisions. Any goroutine may publish or
// watch; publishing never waits for a watcher. A slow watcher gets merged
// changes, never stale ones: it always ends with the state as it is. It does
// not look into what it carries.
package bus

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"ingot/ipc"
)

// Pause is how long dull changes are gathered before a watcher hears them.
const Pause = 250 * time.Millisecond

// kept bounds the turns and notices that wait for one watcher; the oldest go.
const kept = 64

// Bus is a set of watchers.
type Bus struct {
	snapshot func() *ipc.Status

	mu     sync.Mutex
	rev    int64
	closed bool
	all    map[*Watcher]struct{}
}

// New returns a bus. snapshot makes the whole state for a new watcher; it is
// called without locks held.
func New(snapshot func() *ipc.Status) *Bus {
	return &Bus{snapshot: snapshot, all: map[*Watcher]struct{}{}}
}

// Watch returns a new watcher, whose first event is the whole state.
func (b *Bus) Watch() *Watcher {
	w := &Watcher{b: b, wake: make(chan struct{}, 1), models: map[string]ipc.Event{}, first: true}
	b.mu.Lock()
	w.closed = b.closed
	if !b.closed {
		b.all[w] = struct{}{}
	}
	b.mu.Unlock()
	w.signal()
	return w
}

// Model publishes one model's state. A notable change is told at once, others
// are gathered.
func (b *Bus) Model(m ipc.ModelStatus, notable bool) {
	b.publish(notable, func(w *Watcher, rev int64) {
		w.set(m.Name, ipc.Event{Rev: rev, Type: ipc.EventModel, Model: &m})
	})
}

// Removed publishes that a model has left the list.
func (b *Bus) Removed(name string) {
	b.publish(true, func(w *Watcher, rev int64) {
		w.set(name, ipc.Event{Rev: rev, Type: ipc.EventRemoved, Name: name})
	})
}

// Turn publishes that a turn has ended.
func (b *Bus) Turn(t ipc.TurnReport) {
	b.publish(true, func(w *Watcher, rev int64) {
		w.log(ipc.Event{Rev: rev, Type: ipc.EventTurn, Turn: &t})
	})
}

// Notice publishes something a person may want to know.
func (b *Bus) Notice(n ipc.Trouble) {
	b.publish(true, func(w *Watcher, rev int64) {
		w.log(ipc.Event{Rev: rev, Type: ipc.EventNotice, Notice: &n})
	})
}

func (b *Bus) publish(notable bool, f func(*Watcher, int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rev++
	for w := range b.all {
		f(w, b.rev)
		w.urgent = w.urgent || notable
		w.signal()
	}
}

// Watching reports how many watchers there are.
func (b *Bus) Watching() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// Close ends every watcher once it has read what is there.
func (b *Bus) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for w := range b.all {
		w.closed = true
		w.signal()
	}
}

// Watcher is one view. One goroutine calls Next; Close may come from any.
type Watcher struct {
	b    *Bus
	wake chan struct{} // holds a token while there may be something

	// Guarded by b.mu.
	first  bool
	closed bool
	urgent bool
	models map[string]ipc.Event // the latest of each
	logs   []ipc.Event
	told   time.Time // the last time something was told
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) set(name string, ev ipc.Event) {
	w.models[name] = ev
}

func (w *Watcher) log(ev ipc.Event) {
	w.logs = append(w.logs, ev)
	if len(w.logs) > kept {
		w.logs = slices.Delete(w.logs, 0, len(w.logs)-kept)
	}
}

// Next returns the next event, or io.EOF once the watcher or the bus is
// closed.
func (w *Watcher) Next(ctx context.Context) (*ipc.Event, error) {
	for {
		ev, pause, err := w.try()
		if ev != nil || err != nil {
			return ev, err
		}
		if err := w.sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// sleep waits for news, or for the end of a pause.
func (w *Watcher) sleep(ctx context.Context, pause time.Duration) error {
	var over <-chan time.Time
	if pause > 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-w.wake:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// try returns an event, or how long to wait for more of them: 0 is until
// there is one.
func (w *Watcher) try() (*ipc.Event, time.Duration, error) {
	b := w.b
	b.mu.Lock()
	if w.first && !w.closed {
		w.first = false
		w.told = time.Now()
		rev := b.rev
		b.mu.Unlock()
		return &ipc.Event{Rev: rev, Type: ipc.EventState, State: b.snapshot()}, 0, nil
	}
	defer b.mu.Unlock()
	ev, name := w.oldest()
	if ev == nil {
		w.urgent = false
		if w.closed {
			delete(b.all, w)
			return nil, 0, io.EOF
		}
		return nil, 0, nil
	}
	if wait := Pause - time.Since(w.told); !w.urgent && !w.closed && wait > 0 {
		return nil, wait, nil
	}
	if name == "" {
		w.logs = w.logs[1:]
	} else {
		delete(w.models, name)
	}
	if len(w.models)+len(w.logs) == 0 {
		w.urgent, w.told = false, time.Now()
	}
	return ev, 0, nil
}

// oldest returns the pending event with the lowest revision, and the model's
// name where it is one of a model.
func (w *Watcher) oldest() (*ipc.Event, string) {
	var best *ipc.Event
	name := ""
	if len(w.logs) > 0 {
		best = &w.logs[0]
	}
	for n, ev := range w.models {
		if best == nil || ev.Rev < best.Rev {
			best, name = &ev, n
		}
	}
	if best == nil {
		return nil, ""
	}
	out := *best
	return &out, name
}

// Close ends the watcher.
func (w *Watcher) Close() {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	delete(w.b.all, w)
	w.closed = true
	w.logs, w.models = nil, map[string]ipc.Event{}
	w.signal()
}
