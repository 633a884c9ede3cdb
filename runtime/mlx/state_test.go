package mlx

import (
	"errors"
	"fmt"
	"testing"
)

// kept is a kept, evaluated array of zeros.
func keptZeros(s *Scope, shape ...int) (*Array, error) {
	a := s.Keep(s.Zeros(Float32, shape...))
	return a, s.Eval(a)
}

func TestTakeWritesInPlace(t *testing.T) {
	on(t, func(s *Scope) error {
		state, err := keptZeros(s, 1, 256, 1024)
		if err != nil {
			return err
		}
		where, err := state.Raw()
		if err != nil {
			return err
		}
		for i := range 5 {
			_, before := dev.Ledger().Total()
			next := s.TakeSliceUpdate(state, s.Full(Float32, float64(i+1), 1, 1, 1024), []int{0, i, 0}, []int{1, i + 1, 1024})
			if state.Alive() {
				return errors.New("the old handle is alive")
			}
			state = next
			if err := s.Eval(state); err != nil {
				return err
			}
			if _, after := dev.Ledger().Total(); after-before > 16<<10 {
				return fmt.Errorf("writing 4 KiB allocated %d bytes", after-before)
			}
		}
		now, err := state.Raw()
		if err != nil {
			return err
		}
		if &now[0] != &where[0] {
			return errors.New("the state moved")
		}
		got, err := floats(s.Sum(s.Reshape(state, -1), 0))
		if err != nil {
			return err
		}
		return errors.Join(near(got, []float32{1024 * 15}, 0), state.Free())
	})
}

func TestTakeRefused(t *testing.T) {
	on(t, func(s *Scope) error {
		state, err := keptZeros(s, 2, 2)
		if err != nil {
			return err
		}
		defer state.Free()
		for _, why := range []string{"a wrong shape", "a failed scope"} {
			if got := s.TakeSliceUpdate(state, s.Zeros(Float32, 3, 3), []int{0, 0}, []int{1, 1}); got != state || !got.Alive() {
				return fmt.Errorf("%s: the state is %v", why, got)
			}
			if s.Err() == nil {
				return fmt.Errorf("%s: no error", why)
			}
		}
		return nil
	})
}

func TestRecover(t *testing.T) {
	on(t, func(s *Scope) error {
		state, err := keptZeros(s, 4)
		if err != nil {
			return err
		}
		// Two unevaluated updates lie on top of it: both are undone.
		for i := range 2 {
			state = s.TakeSliceUpdate(state, s.Scalar(9), []int{i}, []int{i + 1})
		}
		if state, err = Recover(state); err != nil {
			return err
		}
		got, err := floats(state)
		if err != nil {
			return err
		}
		if err := near(got, make([]float32, 4), 0); err != nil {
			return err
		}
		// What was evaluated is itself.
		if state, err = Recover(state); err != nil || !state.Alive() {
			return fmt.Errorf("%v, error %v", state, err)
		}
		if err := state.Free(); err != nil {
			return err
		}
		_, err = Recover(state)
		if !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("recovering nothing: error %v", err)
		}
		return nil
	})
}

// TestRecoverWhole: MLX answers an update of a whole array with the update
// alone, which would leave nothing to recover.
func TestRecoverWhole(t *testing.T) {
	on(t, func(s *Scope) error {
		for _, shape := range [][]int{{1, 3}, {4}, {1, 2, 5, 4}} {
			state, err := keptZeros(s, shape...)
			if err != nil {
				return err
			}
			start := make([]int, len(shape))
			u := s.Neg(s.Full(Float32, 3, shape...))
			state = s.TakeSliceUpdate(state, u, start, shape)
			if state, err = Recover(state); err != nil {
				return err
			}
			if err := same(state, s.Zeros(Float32, shape...), 0); err != nil {
				return fmt.Errorf("recovered: %w", err)
			}
			state = s.TakeSliceUpdate(state, u, start, shape)
			if err := errors.Join(same(state, u, 0), state.Free()); err != nil {
				return err
			}
		}
		other := s.Neg(s.Sum(s.Neg(s.Full(Float32, 1, 2, 2)), 0)) // made from an array of other shape
		if _, err := Recover(other); !errors.Is(err, ErrInvalid) || !other.Alive() {
			return fmt.Errorf("recovering what was no state: error %v", err)
		}
		return nil
	})
}

func TestSettleAndCache(t *testing.T) {
	on(t, func(s *Scope) error {
		if err := s.Eval(s.Full(Float32, 1, 16)); err != nil {
			return err
		}
		before := liveNow()
		c := s.Child()
		if err := c.EvalAsync(c.MatMul(c.Full(Float32, 1, 300, 300), c.Full(Float32, 1, 300, 300))); err != nil {
			return err
		}
		c.Close()
		if now := liveNow(); now != before {
			return fmt.Errorf("%d live buffers, want %d", now, before)
		}
		if err := dev.Ledger().ClearCache(); err != nil {
			return err
		}
		if n := dev.Ledger().CachedUpper(); n != 0 {
			return fmt.Errorf("%d cached buffers on a backend without a cache", n)
		}
		if CacheMemory() != 0 || ActiveMemory() == 0 || PeakMemory() < ActiveMemory() {
			return fmt.Errorf("memory: cache %d, active %d, peak %d", CacheMemory(), ActiveMemory(), PeakMemory())
		}
		return nil
	})
}
