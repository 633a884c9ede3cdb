// Package lifecycle decides which models are in memory: who is loaded next,
// who must leave for it, who has been idle for too long, and what each runner
// may hold.
//
// It is a pure state machine: events and the time go in, actions come out. It
// has no goroutine, no lock (its caller has one) and no I/O. It never acts on
// its own answers: an action takes effect when the supervisor reports a new
// state.
package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Forever is a keep-alive without an end.
const Forever time.Duration = -1

// Action is something that must be done to one model.
type Action struct {
	Model string
	Do    Verb
	Grant wire.Grant // of Start and Regrant

	Need, Have turn.Bytes // of Refuse
}

// Verb of an action.
type Verb string

// Verbs.
const (
	Start   Verb = "start"
	Stop    Verb = "stop"
	Regrant Verb = "regrant"
	Refuse  Verb = "refuse" // it can't be loaded: pinned models hold the room
)

// Manager holds every model that was asked for.
type Manager struct {
	budget  turn.Bytes
	buffers turn.Buffers
	slots   map[string]*slot
	count   uint64
	pressed time.Time // when memory was last short; zero: caps are off
}

type slot struct {
	name   string
	size   turn.Bytes
	keep   time.Duration
	pinned bool
	state  State
	open   int       // turns that need it
	wanted uint64    // place in the line of those to be loaded; 0: not wanted
	idle   time.Time // since when nothing needs it
	told   Verb      // Start or Stop, until the state shows it
	grant  wire.Grant
	cap    turn.Bytes // under memory pressure; 0: none
}

// New returns a manager with room for budget bytes. buffers is the limit of
// each runner's buffer count; 0 leaves it to the device.
func New(budget turn.Bytes, buffers turn.Buffers) *Manager {
	return &Manager{budget: budget, buffers: buffers, slots: map[string]*slot{}}
}

// Budget is the memory for all runners together.
func (m *Manager) Budget() turn.Bytes { return m.budget }

// Need is the memory a model of that size on disk is counted with: its
// weights, and a fifth for caches and work.
func Need(size turn.Bytes) turn.Bytes { return size + size/5 + 64<<20 }

func (m *Manager) slot(name string) *slot {
	s := m.slots[name]
	if s == nil {
		s = &slot{name: name, state: Cold}
		m.slots[name] = s
	}
	return s
}

// Want asks for a model to be loaded, for so many open turns.
func (m *Manager) Want(name string, size turn.Bytes, keep time.Duration, open int, now time.Time) []Action {
	s := m.slot(name)
	s.size, s.keep, s.open, s.idle = size, keep, open, now
	if s.wanted == 0 && s.told != Start && (!s.state.Resident() || s.state == Unloading) {
		m.count++
		s.wanted = m.count
	}
	return m.plan()
}

// Keep changes how long a model stays when nothing needs it.
func (m *Manager) Keep(name string, keep time.Duration) {
	if s := m.slots[name]; s != nil {
		s.keep = keep
	}
}

// Pin keeps a model in memory, or no longer.
func (m *Manager) Pin(name string, pinned bool, now time.Time) {
	s := m.slot(name)
	s.pinned, s.idle = pinned, now
}

// Pinned reports whether a model is pinned.
func (m *Manager) Pinned(name string) bool { s := m.slots[name]; return s != nil && s.pinned }

// Drop asks for a model to be unloaded.
func (m *Manager) Drop(name string) []Action {
	s := m.slots[name]
	if s == nil {
		return nil
	}
	s.wanted = 0
	if !s.state.Resident() {
		return nil
	}
	return []Action{m.stop(s)}
}

// Report takes the supervisor's word on a model: its state, how many turns
// need the model, and how many of them the supervisor holds by now.
func (m *Manager) Report(name string, st State, open, held int, now time.Time) []Action {
	s := m.slot(name)
	if open == 0 && s.open > 0 || st != s.state {
		s.idle = now
	}
	changed := st != s.state
	s.state, s.open = st, open
	if changed {
		s.arrived()
	}
	if !st.Resident() && held > 0 && s.wanted == 0 && s.told != Start {
		// Turns came while it was leaving, or while its load was failing; those
		// that the failure was for are not held any more.
		m.count++
		s.wanted = m.count
	}
	return m.plan()
}

// arrived notes that what was asked of a model has come about, or can't.
func (s *slot) arrived() {
	s.told = ""
	if s.state == Failed || s.state.Resident() && s.state != Unloading {
		s.wanted = 0
	}
}

// Tick unloads what has been idle for too long.
func (m *Manager) Tick(now time.Time) []Action {
	var out []Action
	for _, s := range m.slots {
		if at, ok := m.expires(s); ok && !now.Before(at) && s.told == "" {
			out = append(out, m.stop(s))
		}
	}
	return append(out, m.plan()...)
}

// Expires returns when a model will be unloaded if nothing needs it before.
func (m *Manager) Expires(name string) (time.Time, bool) {
	if s := m.slots[name]; s != nil {
		return m.expires(s)
	}
	return time.Time{}, false
}

func (m *Manager) expires(s *slot) (time.Time, bool) {
	if s.state != Ready || s.open > 0 || s.pinned || s.keep == Forever {
		return time.Time{}, false
	}
	return s.idle.Add(s.keep), true
}

func (m *Manager) stop(s *slot) Action {
	s.told = Stop
	return Action{Model: s.name, Do: Stop}
}

// plan starts what is wanted and fits, in the order it was asked for, and
// makes room for what does not fit.
func (m *Manager) plan() []Action {
	var out []Action
	for _, s := range m.line() {
		if s.told != "" || s.state == Unloading {
			break // it is on its way; those behind it wait
		}
		if m.used()+Need(s.size) <= m.budget || m.alone() {
			s.wanted, s.told = 0, Start
			s.grant = m.share(s)
			out = append(out, Action{Model: s.name, Do: Start, Grant: s.grant})
			continue
		}
		victim, hope := m.victim()
		if victim != nil {
			out = append(out, m.stop(victim))
		} else if !hope {
			s.wanted = 0
			out = append(out, Action{Model: s.name, Do: Refuse, Need: Need(s.size), Have: max(0, m.budget-m.used())})
			continue
		}
		break
	}
	return append(out, m.regrant()...)
}

func (m *Manager) line() []*slot {
	var out []*slot
	for _, s := range m.slots {
		if s.wanted > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *slot) int { return cmp.Compare(a.wanted, b.wanted) })
	return out
}

func (s *slot) held() bool { return s.state.Resident() || s.told == Start }

func (m *Manager) used() turn.Bytes {
	var n turn.Bytes
	for _, s := range m.slots {
		if s.held() {
			n += Need(s.size)
		}
	}
	return n
}

func (m *Manager) alone() bool {
	for _, s := range m.slots {
		if s.held() {
			return false
		}
	}
	return true
}

// victim returns the model that leaves next: idle, not pinned, least lately
// used. Without one, hope tells whether waiting may help.
func (m *Manager) victim() (v *slot, hope bool) {
	for _, s := range m.slots {
		if !s.held() || s.pinned {
			continue
		}
		hope = true
		if s.told == Stop || s.state == Unloading {
			return nil, true // one is leaving already
		}
		if s.state == Ready && s.open == 0 && (v == nil || s.idle.Before(v.idle)) {
			v = s
		}
	}
	return v, hope
}

// share is what a runner may hold: its need, and of what nobody needs a part
// by its size.
func (m *Manager) share(s *slot) wire.Grant {
	total, spare := Need(s.size), m.budget
	for _, o := range m.slots {
		if o != s && o.held() {
			total += Need(o.size)
		}
	}
	spare -= total
	g := Need(s.size)
	if spare > 0 {
		g += turn.Bytes(float64(spare) * float64(Need(s.size)) / float64(total))
	}
	if total == Need(s.size) {
		g = m.budget // alone: everything, and no more even where it needs more: the runner says what it lacks
	}
	if s.cap > 0 {
		g = min(g, s.cap)
	}
	return wire.Grant{Bytes: g, Buffers: m.buffers, Wired: min(s.size+s.size/10, g)}
}

// regrant tells runners whose share has changed.
func (m *Manager) regrant() []Action {
	var out []Action
	for _, s := range m.slots {
		if !s.held() || s.state == Stalled {
			continue
		}
		if g := m.share(s); g != s.grant {
			s.grant = g
			out = append(out, Action{Model: s.name, Do: Regrant, Grant: g})
		}
	}
	slices.SortFunc(out, func(a, b Action) int { return cmp.Compare(a.Model, b.Model) })
	return out
}
