package kv

import (
	"fmt"

	"ingot/runtime/mlx"
)

// Mark is a place that a sequence can return to: its recurrent states as they
// were there, which no trimming would bring back. What else it needs is the
// sequence's own rows. It shares the states with the sequence until that goes
// on, so that making one costs nothing.
type Mark struct {
	n  int
	at []place // by layer; zero where a layer is not recurrent or has no state yet
}

// Recurrent reports whether some layer has recurrent states.
func (q *Sequence) Recurrent() bool {
	for i := range q.layers {
		if q.layers[i].state != nil {
			return true
		}
	}
	return false
}

// Windowed reports whether some layer forgets old positions.
func (q *Sequence) Windowed() bool {
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil && c.spec.Kind == KindWindowed {
			return true
		}
	}
	return false
}

// Mark marks the committed length. Free it.
func (q *Sequence) Mark(s *mlx.Scope) (*Mark, error) {
	m := &Mark{n: q.n, at: make([]place, len(q.layers))}
	for i := range q.layers {
		st := q.layers[i].state
		if st == nil || st.now.stack == nil {
			continue
		}
		if st.touched {
			m.Free()
			return nil, fmt.Errorf("%w: mark within a step", ErrMisuse)
		}
		p, err := st.share(s)
		if err != nil {
			m.Free()
			return nil, fmt.Errorf("mark %d tokens, layer %d: %w", q.n, i, err)
		}
		m.at[i] = p
	}
	return m, nil
}

// share returns the present place with a reference of its own; a copy where
// it would pin other sequences' states.
func (t *state) share(s *mlx.Scope) (place, error) {
	if t.now.stack.rows == 1 {
		t.now.stack.refs++
		return t.now, nil
	}
	k, err := t.copyRow(s)
	return place{k, 0}, err
}

// Len is how many tokens the mark stands behind.
func (m *Mark) Len() int { return m.n }

// Free gives the states back. A nil mark has none.
func (m *Mark) Free() {
	if m == nil {
		return
	}
	for i := range m.at {
		m.at[i].release()
		m.at[i] = place{}
	}
}

// Cost is the device buffers and bytes that only the mark holds.
func (m *Mark) Cost() (buffers int, bytes int64) {
	if m == nil {
		return 0, 0
	}
	for _, p := range m.at {
		if p.stack == nil || p.stack.refs > 1 {
			continue
		}
		for _, a := range p.stack.arrays {
			buffers++
			bytes += int64(a.Bytes())
		}
	}
	return buffers, bytes
}

// CanReturn reports whether Return would work.
func (q *Sequence) CanReturn(m *Mark) bool {
	if m == nil || m.n > q.n {
		return false
	}
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil && !c.canTrim(m.n) {
			return false
		}
	}
	return true
}

// Return forgets all tokens behind the mark, which stays good. Nothing of a
// step may be under way.
func (q *Sequence) Return(m *Mark) error {
	if !q.CanReturn(m) {
		return fmt.Errorf("%w: to a mark", ErrTrim)
	}
	for i := range q.layers {
		if st := q.layers[i].state; st != nil {
			st.now.release()
			st.now = m.at[i]
			st.now.hold()
		}
	}
	q.n = m.n
	return nil
}

func (p place) hold() {
	if p.stack != nil {
		p.stack.refs++
	}
}

// ForkMark is ForkAt of the mark's length.
func (q *Sequence) ForkMark(s *mlx.Scope, m *Mark) (*Sequence, error) {
	if !q.CanReturn(m) {
		return nil, fmt.Errorf("%w: to fork at a mark", ErrTrim)
	}
	f := &Sequence{layers: make([]layer, len(q.layers)), n: m.n}
	var err error
	for i := range q.layers {
		if st := q.layers[i].state; st != nil {
			f.layers[i].state, err = (&state{spec: st.spec, now: m.at[i]}).fork(s)
		} else {
			f.layers[i].cache, err = q.layers[i].cache.fork(s, m.n)
		}
		if err != nil {
			f.layers = f.layers[:i]
			f.Free()
			return nil, fmt.Errorf("fork %d tokens, layer %d: %w", m.n, i, err)
		}
	}
	return f, nil
}

// Copy is a mark for a fork, at the same place, that shares nothing with m.
func (m *Mark) Copy(s *mlx.Scope) (*Mark, error) {
	c := &Mark{n: m.n, at: make([]place, len(m.at))}
	for i, p := range m.at {
		if p.stack == nil {
			continue
		}
		k, err := (&state{now: p}).copyRow(s)
		if err != nil {
			c.Free()
			return nil, fmt.Errorf("copy mark, layer %d: %w", i, err)
		}
		c.at[i] = place{k, 0}
	}
	return c, nil
}
