package lifecycle

import (
	"time"

	"ingot/runtime/turn"
)

// Level is how short of memory the system says it is.
type Level int

// Levels of memory pressure.
const (
	Calm Level = iota
	Short
	Critical
)

// calmFor is how long the system must be calm before what pressure took is
// given back.
const calmFor = 10 * time.Second

// Pressure takes the system's word on its memory. While it is short, every
// runner may hold less than it does now, down to what a turn alone needs;
// asked again and again, the runners shrink step by step. Once it has been
// calm for a while everything is given back: nothing latches. active tells
// what a model holds now.
func (m *Manager) Pressure(l Level, active func(name string) turn.Bytes, now time.Time) []Action {
	if l == Calm {
		return m.relieved(now)
	}
	m.pressed = now
	for _, s := range m.slots {
		if a := active(s.name); a > 0 && s.held() {
			most := a - a/10
			if l == Critical {
				most = a - a/4
			}
			if s.cap > 0 {
				most = min(most, s.cap)
			}
			s.cap = max(most, floor(s.size))
		}
	}
	return m.regrant()
}

func (m *Manager) relieved(now time.Time) []Action {
	if m.pressed.IsZero() || now.Sub(m.pressed) < calmFor {
		return nil
	}
	m.pressed = time.Time{}
	for _, s := range m.slots {
		s.cap = 0
	}
	return m.regrant()
}

// floor is what a turn alone gets along with: the weights and 15%, and some
// for small models.
func floor(size turn.Bytes) turn.Bytes { return size + size*15/100 + 64<<20 }
