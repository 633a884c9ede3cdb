package kv

import (
	"errors"
	"slices"
	"testing"

	"ingot/runtime/mlx"
)

func stateSpec() Spec {
	return Spec{Kind: KindRecurrent, States: []StateSpec{{Shape: []int{3}, Dtype: mlx.Float32}, {Shape: []int{2, 2}, Dtype: mlx.Float32}}}
}

// step adds the given numbers to the states of the sequences, one each, and
// tells whether the stack was used whole.
func step(s *mlx.Scope, seqs []*Sequence, add ...float32) (whole bool, err error) {
	t := s.Child()
	defer t.Close()
	states, err := Gather(t, 0, seqs)
	if err != nil {
		return false, err
	}
	whole = seqs[0].layers[0].state.now.stack != nil && states[0] == seqs[0].layers[0].state.now.stack.arrays[0]
	next := make([]*mlx.Array, len(states))
	for i, st := range states {
		shape := make([]int, st.NDim())
		for j := range shape {
			shape[j] = 1
		}
		shape[0] = len(add)
		next[i] = t.Add(st, t.FromFloat32(add, shape...))
	}
	Scatter(t, 0, seqs, next)
	var pending []*mlx.Array
	for _, q := range seqs {
		pending = append(pending, q.States()...)
	}
	if err := t.Eval(pending...); err != nil {
		for _, q := range seqs {
			err = errors.Join(err, q.Rollback())
		}
		return whole, err
	}
	for _, q := range seqs {
		q.Commit(1)
	}
	return whole, nil
}

// sum reads a sequence's state: every element is the same number.
func sum(t *testing.T, s *mlx.Scope, q *Sequence) float32 {
	t.Helper()
	c := s.Child()
	defer c.Close()
	states, err := Gather(c, 0, []*Sequence{q})
	if err != nil {
		t.Fatal(err)
	}
	var first float32
	for i, st := range states {
		v := make([]float32, st.Size())
		if err := st.Float32s(v); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = v[0]
		}
		for _, x := range v {
			if x != first {
				t.Fatalf("state %v", v)
			}
		}
	}
	return first
}

func sequences(n int) []*Sequence {
	out := make([]*Sequence, n)
	for i := range out {
		out[i] = NewSequence([]Spec{stateSpec()})
	}
	return out
}

func freeAll(qs []*Sequence) {
	for _, q := range qs {
		q.Free()
	}
}

func TestStatesGoTogetherAndApart(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := sequences(3)
		defer freeAll(q)
		for i, c := range []struct {
			who   []int
			add   []float32
			whole bool
		}{
			{[]int{0, 1, 2}, []float32{1, 10, 100}, false}, // from nothing
			{[]int{0, 1, 2}, []float32{1, 10, 100}, true},  // together again: no copy
			{[]int{2, 0}, []float32{100, 1}, false},        // one leaves, the others turn round
			{[]int{2, 0}, []float32{100, 1}, true},         //
			{[]int{1}, []float32{10}, false},               // alone, out of the first stack
			{[]int{0, 1, 2}, []float32{1, 10, 100}, false}, // all again
		} {
			var who []*Sequence
			for _, w := range c.who {
				who = append(who, q[w])
			}
			whole, err := step(s, who, c.add...)
			if err != nil {
				return err
			}
			if whole != c.whole {
				t.Errorf("step %d: the stack was used whole: %v", i, whole)
			}
		}
		got := []float32{sum(t, s, q[0]), sum(t, s, q[1]), sum(t, s, q[2])}
		if !slices.Equal(got, []float32{5, 40, 500}) {
			t.Errorf("states %v", got)
		}
		return nil
	})
}

func TestStatesKeepLiveBuffersLevel(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := sequences(2)
		defer freeAll(q)
		if _, err := step(s, q, 1, 1); err != nil {
			return err
		}
		before := live(t)
		for range 50 {
			if _, err := step(s, q, 1, 1); err != nil {
				return err
			}
			if now := live(t); now != before {
				t.Fatalf("%d live buffers, %d before", now, before)
			}
		}
		return nil
	})
}

func TestStatesGoBack(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := sequences(2)
		defer freeAll(q)
		if _, err := step(s, q, 1, 2); err != nil {
			return err
		}
		for n := int64(1); n < 50; n++ {
			err := dev.Do(func() error {
				r := dev.NewScope()
				defer r.Close()
				dev.Ledger().FailAt(n)
				defer dev.Ledger().FailAt(0)
				_, err := step(r, q, 10, 20)
				return err
			})
			a, b := sum(t, s, q[0]), sum(t, s, q[1])
			if err == nil {
				if a != 11 || b != 22 {
					t.Errorf("states %v and %v", a, b)
				}
				return nil
			}
			if a != 1 || b != 2 || q[0].Len() != 1 {
				t.Fatalf("allocation %d failed: states %v and %v", n, a, b)
			}
		}
		return errors.New("never succeeded")
	})
}

func TestStatesForkDetachTrim(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := sequences(2)
		defer freeAll(q)
		if _, err := step(s, q, 1, 2); err != nil {
			return err
		}
		if q[0].Buffers() != 0 {
			t.Error("a shared stack belongs to nobody alone")
		}
		f, err := q[0].Fork(s)
		if err != nil {
			return err
		}
		defer f.Free()
		if err := q[1].Detach(s); err != nil {
			return err
		}
		if q[0].Buffers() != 2 || q[1].Buffers() != 2 || q[1].Bytes() != 3*4+4*4 {
			t.Errorf("after detaching: %d and %d buffers, %d bytes", q[0].Buffers(), q[1].Buffers(), q[1].Bytes())
		}
		if _, err := step(s, q[:1], 5); err != nil {
			return err
		}
		got := []float32{sum(t, s, q[0]), sum(t, s, q[1]), sum(t, s, f)}
		if !slices.Equal(got, []float32{6, 2, 1}) {
			t.Errorf("states %v", got)
		}
		if q[0].CanTrim(1) || !q[0].CanTrim(2) || q[0].Trim(1) == nil {
			t.Error("states went back")
		}
		if err := q[0].Trim(0); err != nil {
			return err
		}
		if got := sum(t, s, q[0]); got != 0 {
			t.Errorf("state %v after trimming to nothing", got)
		}
		return nil
	})
}
