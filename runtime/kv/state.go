package kv

import (
	"fmt"

	"ingot/runtime/mlx"
)

// stack holds the recurrent states of one layer for the sequences that were
// stepped together, one row each. While the same sequences go on together
// the stack is used and replaced whole, without a copy.
type stack struct {
	arrays []*mlx.Array // [rows, state's shape...]
	rows   int
	refs   int // sequences that have a row here, or held one until Commit
}

func (k *stack) release() {
	if k.refs--; k.refs > 0 {
		return
	}
	for _, a := range k.arrays {
		a.Free()
	}
	k.arrays = nil
}

// place is one row of a stack; the zero place is a sequence's start, all
// zeros.
type place struct {
	stack *stack
	row   int
}

func (p place) release() {
	if p.stack != nil {
		p.stack.release()
	}
}

// state is the recurrent memory of one layer.
type state struct {
	spec    *Spec
	now     place
	old     place // what to go back to; only while touched
	touched bool
}

// Gather returns the states of a layer, stacked in the order of seqs: one
// array [len(seqs), shape...] per StateSpec, owned by s or by the sequences.
func Gather(s *mlx.Scope, layer int, seqs []*Sequence) ([]*mlx.Array, error) {
	places := make([]place, len(seqs))
	for i, q := range seqs {
		st := q.layers[layer].state
		if st == nil || st.touched {
			return nil, fmt.Errorf("%w: gather of layer %d, touched or not recurrent", ErrMisuse, layer)
		}
		places[i] = st.now
	}
	if whole(places) {
		return places[0].stack.arrays, s.Err()
	}
	spec := seqs[0].layers[layer].state.spec
	out := make([]*mlx.Array, len(spec.States))
	for j := range out {
		out[j] = gatherOne(s, &spec.States[j], j, places)
	}
	return out, s.Err()
}

// whole reports whether the places are all rows of one stack, in order.
func whole(places []place) bool {
	k := places[0].stack
	if k == nil || k.rows != len(places) {
		return false
	}
	for i, p := range places {
		if p.stack != k || p.row != i {
			return false
		}
	}
	return true
}

func gatherOne(s *mlx.Scope, spec *StateSpec, j int, places []place) *mlx.Array {
	rows := make([]*mlx.Array, len(places))
	var zero *mlx.Array
	for i, p := range places {
		if p.stack != nil {
			rows[i] = sliceRow(s, p.stack.arrays[j], p.row)
			continue
		}
		if zero == nil {
			zero = s.Zeros(spec.Dtype, append([]int{1}, spec.Shape...)...)
		}
		rows[i] = zero
	}
	if len(rows) == 1 {
		return rows[0]
	}
	return s.Concat(0, rows...)
}

// sliceRow is row r of a, as [1, ...].
func sliceRow(s *mlx.Scope, a *mlx.Array, r int) *mlx.Array {
	stop := append([]int(nil), a.Shape()...)
	start := make([]int, len(stop))
	start[0], stop[0] = r, r+1
	return s.Slice(a, start, stop)
}

// Scatter replaces the states that Gather returned. The arrays of next,
// stacked in the same order, are moved out of s; the old states are held
// until Commit.
func Scatter(s *mlx.Scope, layer int, seqs []*Sequence, next []*mlx.Array) {
	k := &stack{arrays: make([]*mlx.Array, len(next)), rows: len(seqs), refs: len(seqs)}
	for j, a := range next {
		k.arrays[j] = s.Keep(a)
	}
	for i, q := range seqs {
		st := q.layers[layer].state
		st.old, st.now, st.touched = st.now, place{k, i}, true
	}
}

func (t *state) pending(out []*mlx.Array) []*mlx.Array {
	if !t.touched || t.now.row != 0 { // one of the sequences answers for the stack
		return out
	}
	return append(out, t.now.stack.arrays...)
}

func (t *state) commit() {
	if t.touched {
		t.old.release()
		t.old, t.touched = place{}, false
	}
}

func (t *state) rollback() {
	if t.touched {
		t.now.release()
		t.now, t.old, t.touched = t.old, place{}, false
	}
}

// copyRow returns an evaluated stack of one row.
func (t *state) copyRow(s *mlx.Scope) (*stack, error) {
	c := s.Child()
	defer c.Close()
	k := &stack{rows: 1, refs: 1}
	for _, a := range t.now.stack.arrays {
		k.arrays = append(k.arrays, copied(c, sliceRow(c, a, t.now.row)))
	}
	if err := c.Eval(k.arrays...); err != nil {
		k.release()
		return nil, err
	}
	return k, nil
}

// copied is a kept copy of a in a buffer of its own (MLX's copy may share).
func copied(s *mlx.Scope, a *mlx.Array) *mlx.Array {
	shape := a.Shape()
	fresh := s.Keep(s.Zeros(a.Dtype(), shape...))
	return s.TakeSliceUpdate(fresh, a, make([]int, len(shape)), shape)
}

func (t *state) fork(s *mlx.Scope) (*state, error) {
	f := &state{spec: t.spec}
	if t.now.stack == nil {
		return f, nil
	}
	k, err := t.copyRow(s)
	if err != nil {
		return nil, err
	}
	f.now = place{k, 0}
	return f, nil
}

func (t *state) detach(s *mlx.Scope) error {
	if t.now.stack == nil || t.now.stack.refs == 1 && t.now.stack.rows == 1 {
		return nil
	}
	k, err := t.copyRow(s)
	if err != nil {
		return err
	}
	t.now.release()
	t.now = place{k, 0}
	return nil
}

func (t *state) each(f func(*mlx.Array)) {
	if t.now.stack == nil || t.now.stack.refs > 1 {
		return
	}
	for _, a := range t.now.stack.arrays {
		f(a)
	}
}

func (t *state) free() {
	t.now.release()
	t.old.release()
	t.now, t.old, t.touched = place{}, place{}, false
}
