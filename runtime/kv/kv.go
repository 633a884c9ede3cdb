// Package kv holds what a sequence remembers: append caches, windowed
// caches and recurrent states, one per layer.
//
// It owns the device arrays of the caches. A step goes: Reserve makes room
// (an evaluated step of its own), the layers Push or Gather and Scatter, the
// caller evaluates States, then Commit; after a failure Rollback. Only the
// device thread may call it. It never evaluates within a step, and never
// decides what to keep or to evict.
//
// Ownership. MLX updates a buffer in place only where the graph holds the
// sole reference, so an append cache gives its only handle to the graph and
// takes the result; after a failure the result's first input, or the result
// itself if it was evaluated, is the cache again. Rows past the committed
// length are scratch. Recurrent states are replaced: the old ones are held
// until Commit.
package kv

import (
	"errors"
	"fmt"

	"ingot/runtime/mlx"
)

// Kind is a way of remembering.
type Kind uint8

// Kinds of caches.
const (
	KindAppend    Kind = iota // keys and values of every position
	KindWindowed              // keys and values of the last positions
	KindRecurrent             // states of fixed size
)

func (k Kind) String() string {
	return [...]string{"append", "windowed", "recurrent"}[k]
}

// Spec describes the cache of one layer.
type Spec struct {
	Kind     Kind
	Heads    int // of keys and values
	KeyDim   int
	ValueDim int // 0: no value array, the keys serve for both
	Window   int // positions a row sees, itself included; KindWindowed
	Dtype    mlx.Dtype
	States   []StateSpec // KindRecurrent
}

// StateSpec describes one recurrent state array of a sequence.
type StateSpec struct {
	Shape []int // of one sequence
	Dtype mlx.Dtype
}

// Errors of this package, to be compared with errors.Is.
var (
	ErrMisuse = errors.New("kv: misuse")
	ErrTrim   = errors.New("kv: cannot trim")
)

// Sequence is the memory of one sequence over all layers.
type Sequence struct {
	layers []layer
	n      int // committed tokens
}

// layer is one layer's memory: exactly one of the two is set.
type layer struct {
	cache *cache
	state *state
}

// NewSequence returns an empty sequence. It allocates nothing on the device.
func NewSequence(specs []Spec) *Sequence {
	q := &Sequence{layers: make([]layer, len(specs))}
	for i := range specs {
		if specs[i].Kind == KindRecurrent {
			q.layers[i].state = &state{spec: &specs[i]}
		} else {
			q.layers[i].cache = &cache{spec: &specs[i]}
		}
	}
	return q
}

// Len is the number of committed tokens.
func (q *Sequence) Len() int { return q.n }

// Reserve makes room for n more tokens in every layer. It allocates,
// evaluates and frees; on an error nothing that was committed has changed.
func (q *Sequence) Reserve(s *mlx.Scope, n int) error {
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil {
			if err := c.reserve(s, q.n, n); err != nil {
				return fmt.Errorf("reserve %d positions in layer %d: %w", n, i, err)
			}
		}
	}
	return nil
}

// Push appends the keys k [1, Heads, T, KeyDim] and values v [1, Heads, T,
// ValueDim] of one step to a layer's cache. Room must have been reserved. The
// arrays of the view are the cache's: they are good until the next Reserve,
// Push, Rollback or Free.
func (q *Sequence) Push(s *mlx.Scope, layer int, k, v *mlx.Array) (View, error) {
	c := q.layers[layer].cache
	if c == nil {
		return View{}, fmt.Errorf("%w: push into layer %d, which is recurrent", ErrMisuse, layer)
	}
	return c.push(s, q.n, k, v)
}

// States returns the arrays that the step under way has made and that must
// be evaluated before Commit.
func (q *Sequence) States() []*mlx.Array {
	var out []*mlx.Array
	for i := range q.layers {
		out = q.appendStates(out, i)
	}
	return out
}

// LayerStates is States of one layer.
func (q *Sequence) LayerStates(layer int) []*mlx.Array { return q.appendStates(nil, layer) }

func (q *Sequence) appendStates(out []*mlx.Array, i int) []*mlx.Array {
	if c := q.layers[i].cache; c != nil {
		return c.pending(out)
	}
	return q.layers[i].state.pending(out)
}

// Commit ends a step of n tokens that has been evaluated.
func (q *Sequence) Commit(n int) {
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil {
			c.touched = false
		} else {
			q.layers[i].state.commit()
		}
	}
	q.n += n
}

// Rollback undoes the step under way, whatever part of it was built or
// evaluated. An error means that the sequence is lost: Free it.
func (q *Sequence) Rollback() error {
	var errs []error
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil {
			errs = append(errs, c.rollback())
		} else {
			q.layers[i].state.rollback()
		}
	}
	return errors.Join(errs...)
}

// CanTrim reports whether Trim(n) would work.
func (q *Sequence) CanTrim(n int) bool {
	if n < 0 || n > q.n {
		return false
	}
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil && !c.canTrim(n) {
			return false
		}
		if q.layers[i].state != nil && n != q.n && n != 0 {
			return false
		}
	}
	return true
}

// Trim forgets all but the first n tokens. Recurrent states cannot go back
// (but to nothing), windowed caches only as far as their rows reach.
func (q *Sequence) Trim(n int) error {
	if !q.CanTrim(n) {
		return fmt.Errorf("%w: to %d of %d tokens", ErrTrim, n, q.n)
	}
	if n == 0 {
		q.Free()
	}
	q.n = n
	return nil
}

// Fork returns a copy of the committed tokens, evaluated, that shares
// nothing with q.
func (q *Sequence) Fork(s *mlx.Scope) (*Sequence, error) { return q.ForkAt(s, q.n) }

// ForkAt is Fork of the first n tokens only. CanTrim(n) must hold.
func (q *Sequence) ForkAt(s *mlx.Scope, n int) (*Sequence, error) {
	if !q.CanTrim(n) {
		return nil, fmt.Errorf("%w: to fork %d of %d tokens", ErrTrim, n, q.n)
	}
	f := &Sequence{layers: make([]layer, len(q.layers)), n: n}
	var err error
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil {
			f.layers[i].cache, err = c.fork(s, n)
		} else {
			f.layers[i].state, err = q.layers[i].state.fork(s)
		}
		if err != nil {
			f.layers = f.layers[:i]
			f.Free()
			return nil, fmt.Errorf("fork %d tokens, layer %d: %w", n, i, err)
		}
	}
	return f, nil
}

// Detach copies the rows that q has in stacks shared with other sequences,
// so that a sequence that rests pins nobody's memory.
func (q *Sequence) Detach(s *mlx.Scope) error {
	for i := range q.layers {
		if st := q.layers[i].state; st != nil {
			if err := st.detach(s); err != nil {
				return fmt.Errorf("detach layer %d: %w", i, err)
			}
		}
	}
	return nil
}

// Buffers is the number of device buffers that Free would release.
func (q *Sequence) Buffers() int {
	n := 0
	q.owned(func(*mlx.Array) { n++ })
	return n
}

// Bytes is the memory that Free would release.
func (q *Sequence) Bytes() int64 {
	var n int64
	q.owned(func(a *mlx.Array) { n += int64(a.Bytes()) })
	return n
}

func (q *Sequence) owned(f func(*mlx.Array)) {
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil {
			c.each(f)
		} else {
			q.layers[i].state.each(f)
		}
	}
}

// Free releases every array. The sequence is empty afterwards and may be
// used again.
func (q *Sequence) Free() {
	for i := range q.layers {
		if c := q.layers[i].cache; c != nil {
			c.free()
		} else {
			q.layers[i].state.free()
		}
	}
	q.n = 0
}
