package journal

import (
	"slices"
	"time"

	"ingot/runtime/turn"
)

// Sweep does what time asks for: signs of life for silent turns, the end of
// lingering ones, forgetting of finished ones. The daemon calls it about
// once a second.
func (j *Journal) Sweep() {
	now := j.opt.Now()
	var gone []turn.ID
	j.mu.Lock()
	for id, e := range j.turns {
		switch {
		case e.final && e.overdue(now, j.opt.Linger):
			delete(j.turns, id)
		case !e.final && e.reader == nil && e.linger && now.Sub(e.left) >= j.opt.Linger:
			e.linger = false // nobody may come back any more
			gone = append(gone, id)
		case !e.final && !e.ending && e.reader != nil && e.unread == 0 && now.Sub(e.spoke) >= j.opt.Quiet:
			e.add(turn.Event{Type: turn.EventWaiting, Waiting: &turn.Waiting{Phase: e.phase}}, now, j.opt.Keep)
		}
	}
	j.mu.Unlock()
	for _, id := range gone {
		j.opt.Gone(id)
	}
}

// overdue reports whether a finished turn has been kept long enough. One
// whose reader still has events to read is never forgotten.
func (e *entry) overdue(now time.Time, linger time.Duration) bool {
	if e.reader != nil {
		return e.unread == 0 && now.Sub(e.ended) >= linger
	}
	return now.Sub(later(e.ended, e.left)) >= linger
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// squeeze forgets the longest finished turns until those left fit in Total.
// One whose reader has events to read stays.
func (j *Journal) squeeze() {
	j.mu.Lock()
	defer j.mu.Unlock()
	total := 0
	var done []*entry
	for _, e := range j.turns {
		if e.final {
			total += e.kept
			done = append(done, e)
		}
	}
	if total <= j.opt.Total {
		return
	}
	slices.SortFunc(done, func(a, b *entry) int { return a.ended.Compare(b.ended) })
	for _, e := range done {
		if total <= j.opt.Total {
			return
		}
		if e.reader == nil || e.unread == 0 {
			total -= e.kept
			delete(j.turns, e.id)
		}
	}
}
