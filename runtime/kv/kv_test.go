package kv

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"ingot/runtime/mlx"
)

var dev *mlx.Device

func TestMain(m *testing.M) {
	var err error
	if dev, err = mlx.Open(mlx.Options{Kind: mlx.CPU}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := dev.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// on runs f on the device thread with a scope, and checks that nothing is
// left when it is done.
func on(t *testing.T, f func(s *mlx.Scope) error) {
	t.Helper()
	handles := dev.Handles()
	before := live(t)
	err := dev.Do(func() error {
		s := dev.NewScope()
		defer s.Close()
		return f(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	now := live(t)
	if dev.Handles() != handles || now != before {
		t.Errorf("left %d handles and %d buffers", dev.Handles()-handles, now-before)
	}
}

// live is the buffers in use once MLX has let go of what its last task held.
func live(t *testing.T) int64 {
	t.Helper()
	if err := dev.Ledger().Settle(); err != nil {
		t.Fatal(err)
	}
	n, _ := dev.Ledger().Live()
	return int64(n)
}

const (
	heads = 2
	dim   = 4
)

func appendSpec() Spec {
	return Spec{Kind: KindAppend, Heads: heads, KeyDim: dim, ValueDim: dim, Dtype: mlx.Float32}
}

// rows makes keys [1, heads, n, dim] whose every element tells its position.
func rows(s *mlx.Scope, at, n int) *mlx.Array {
	v := make([]float32, heads*n*dim)
	for h := range heads {
		for i := range n {
			for d := range dim {
				v[(h*n+i)*dim+d] = float32(1000*h + at + i)
			}
		}
	}
	return s.FromFloat32(v, 1, heads, n, dim)
}

// push runs a whole step of n tokens.
func push(s *mlx.Scope, q *Sequence, n int) (View, error) {
	t := s.Child()
	defer t.Close()
	if err := q.Reserve(t, n); err != nil {
		return View{}, err
	}
	var v View
	for i := range q.layers {
		var err error
		if v, err = q.Push(t, i, rows(t, q.Len(), n), rows(t, q.Len(), n)); err != nil {
			return v, errors.Join(err, q.Rollback())
		}
	}
	if err := t.Eval(q.States()...); err != nil {
		return v, errors.Join(err, q.Rollback())
	}
	q.Commit(n)
	return v, nil
}

// positions reads what head 1 of the first layer's cache holds.
func positions(q *Sequence) ([]int, error) {
	c := q.layers[0].cache
	flat := make([]float32, c.k.Size())
	if err := c.k.Float32s(flat); err != nil {
		return nil, err
	}
	capacity := c.capacity()
	var out []int
	for r := range q.Len() - c.base {
		out = append(out, int(flat[(capacity+r)*dim])-1000)
	}
	return out, nil
}

func count(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func TestAppendGrowsAndKeepsEverything(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := NewSequence([]Spec{appendSpec(), appendSpec()})
		defer q.Free()
		if q.Buffers() != 0 || q.Bytes() != 0 {
			t.Error("an empty sequence owns something")
		}
		total := 0
		for _, n := range []int{1, 3, 252, 1, 600, 1} {
			v, err := push(s, q, n)
			if err != nil {
				return err
			}
			if total += n; v.Len != total || v.Base != 0 || v.K.Dim(2)%chunk != 0 {
				t.Errorf("view %d from %d of %d, want %d", v.Len, v.Base, v.K.Dim(2), total)
			}
		}
		got, err := positions(q)
		if err != nil {
			return err
		}
		if !slices.Equal(got, count(0, total)) {
			t.Errorf("positions %v", got)
		}
		if q.Buffers() != 4 || q.Bytes() != int64(4*heads*dim*4*q.layers[0].cache.capacity()) {
			t.Errorf("%d buffers, %d bytes", q.Buffers(), q.Bytes())
		}
		return nil
	})
}

func TestWindowKeepsTheWindow(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		spec := appendSpec()
		spec.Kind, spec.Window = KindWindowed, 10
		q := NewSequence([]Spec{spec})
		defer q.Free()
		most := 0
		for range 900 {
			v, err := push(s, q, 1+q.Len()%3)
			if err != nil {
				return err
			}
			most = max(most, v.K.Dim(2))
			if v.Base > max(0, q.Len()-spec.Window) {
				t.Fatalf("at %d tokens the cache begins at %d", q.Len(), v.Base)
			}
		}
		got, err := positions(q)
		if err != nil {
			return err
		}
		if !slices.Equal(got, count(q.layers[0].cache.base, q.Len())) {
			t.Errorf("positions %v", got)
		}
		if most > 2*chunk {
			t.Errorf("capacity %d for a window of %d", most, spec.Window)
		}
		if q.CanTrim(q.layers[0].cache.base + 3) {
			t.Error("trimmed to where the window is gone")
		}
		if n := q.Len() - 1; q.layers[0].cache.base <= n-9 && q.Trim(n) != nil {
			t.Error("the last token could not be trimmed")
		}
		return nil
	})
}

func TestTrimAndFork(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := NewSequence([]Spec{appendSpec()})
		defer q.Free()
		if _, err := push(s, q, 20); err != nil {
			return err
		}
		f, err := q.Fork(s)
		if err != nil {
			return err
		}
		defer f.Free()
		for _, n := range []int{21, -1} {
			if err := q.Trim(n); !errors.Is(err, ErrTrim) {
				t.Errorf("trim to %d: %v", n, err)
			}
		}
		if err := q.Trim(5); err != nil {
			return err
		}
		if _, err := push(s, q, 3); err != nil {
			return err
		}
		a, errA := positions(q)
		b, errB := positions(f)
		if !slices.Equal(a, count(0, 8)) || !slices.Equal(b, count(0, 20)) {
			t.Errorf("trimmed %v, forked %v", a, b)
		}
		return errors.Join(errA, errB, q.Trim(0))
	})
}

// Every allocation of a step fails in turn, growth included; the rows that
// were committed stay.
func TestThrows(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := NewSequence([]Spec{appendSpec(), appendSpec(), appendSpec()})
		defer q.Free()
		if _, err := push(s, q, 250); err != nil {
			return err
		}
		before := live(t)
		for n := int64(1); n < 200; n++ {
			err := dev.Do(func() error { return failAt(q, n) })
			if err == nil {
				if n < 4 {
					t.Errorf("only %d allocations in a step that grows", n)
				}
				got, err := positions(q)
				if !slices.Equal(got, count(0, 260)) {
					t.Errorf("positions %v", got)
				}
				return err
			}
			if !errors.Is(err, mlx.ErrResourceLimit) {
				return err
			}
			if now := live(t); now != before || q.Len() != 250 {
				t.Fatalf("allocation %d failed: %d live buffers, %d before; length %d", n, now, before, q.Len())
			}
		}
		return errors.New("never succeeded")
	})
}

func failAt(q *Sequence, n int64) error {
	s := dev.NewScope()
	defer s.Close()
	dev.Ledger().FailAt(n)
	defer dev.Ledger().FailAt(0)
	_, err := push(s, q, 10)
	return err
}

func TestMisuse(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		q := NewSequence([]Spec{appendSpec(), stateSpec()})
		defer q.Free()
		if _, err := q.Push(s, 0, rows(s, 0, 1), rows(s, 0, 1)); !errors.Is(err, ErrMisuse) {
			t.Errorf("push without room: %v", err)
		}
		if _, err := q.Push(s, 1, nil, nil); !errors.Is(err, ErrMisuse) {
			t.Errorf("push into states: %v", err)
		}
		if _, err := Gather(s, 0, []*Sequence{q}); !errors.Is(err, ErrMisuse) {
			t.Errorf("gather of a cache: %v", err)
		}
		if err := q.Reserve(s, 4); err != nil {
			return err
		}
		if _, err := q.Push(s, 0, rows(s, 0, 1), rows(s, 0, 1)); err != nil {
			return err
		}
		if _, err := q.Push(s, 0, rows(s, 0, 1), rows(s, 0, 1)); !errors.Is(err, ErrMisuse) {
			t.Errorf("second push: %v", err)
		}
		if err := q.Reserve(s, 400); !errors.Is(err, ErrMisuse) {
			t.Errorf("reserve within a step: %v", err)
		}
		return q.Rollback()
	})
}

func TestKeysServeAsValues(t *testing.T) {
	on(t, func(s *mlx.Scope) error {
		spec := appendSpec()
		spec.ValueDim = 0
		q := NewSequence([]Spec{spec})
		defer q.Free()
		v, err := push(s, q, 2)
		if err != nil {
			return err
		}
		if v.V != v.K || q.Buffers() != 1 {
			t.Errorf("%d buffers", q.Buffers())
		}
		f, err := q.Fork(s)
		if err == nil {
			f.Free()
		}
		return err
	})
}
