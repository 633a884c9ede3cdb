package mlx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestScopeFreesWhatItOwns(t *testing.T) {
	before, live := dev.Handles(), liveNow()
	var kept *Array
	on(t, func(s *Scope) error {
		x := s.Full(Float32, 1, 8)
		for range 100 {
			c := s.Child()
			x = s.Keep(c.Add(x, c.Scalar(1)))
			s.Adopt(x)
			c.Close()
			c.Close() // closing twice is closing once
		}
		kept = s.Keep(x)
		return s.Eval(kept)
	})
	if n := dev.Handles() - before; n != 1 {
		t.Errorf("%d arrays are left, want the kept one", n)
	}
	on(t, func(s *Scope) error {
		s.Adopt(kept)
		s.Adopt(kept) // it has an owner: nothing happens
		got, err := floats(kept)
		if err != nil {
			return err
		}
		return near(got[:1], []float32{101}, 0)
	})
	if kept.Alive() || dev.Handles() != before || liveNow() != live {
		t.Errorf("kept %v, %d handles, %d buffers; want none, %d, %d", kept, dev.Handles(), liveNow(), before, live)
	}
}

func TestErrorSticks(t *testing.T) {
	before := dev.Handles()
	on(t, func(s *Scope) error {
		c := s.Child()
		defer c.Close()
		good := s.Full(Float32, 1, 2, 3)
		bad := c.MatMul(good, good)
		if bad.Alive() || bad.NDim() != 0 || bad.Dim(0) != 0 || bad.Bytes() != 0 {
			return fmt.Errorf("a failed product gives %v", bad)
		}
		first := s.Err()
		var e *Error
		if !errors.As(first, &e) || e.Op != "matmul" || !errors.Is(first, ErrInvalid) {
			return fmt.Errorf("error %v, want an invalid matmul", first)
		}
		n := dev.Handles()
		// Everything after it does nothing, in every relative.
		s.Add(bad, good)
		c.Split(good, 0, 1)
		c.RaggedAttention(good, AttentionOptions{}, Attended{})
		s.FromInt32([]int32{1})
		s.SliceAxis(good, 9, 0, 1)
		s.Fail(errors.New("too late"))
		if dev.Handles() != n {
			return errors.New("an operation ran after the error")
		}
		for _, err := range []error{s.Err(), c.Err(), s.Eval(good), s.EvalAsync(good)} {
			if err != first {
				return fmt.Errorf("error %v, want the first one, %v", err, first)
			}
		}
		return nil
	})
	if dev.Handles() != before {
		t.Errorf("%d handles, want %d", dev.Handles(), before)
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]func(s *Scope) *Array{
		"shapes that do not broadcast": func(s *Scope) *Array { return s.Add(s.Zeros(Float32, 2), s.Zeros(Float32, 3)) },
		"a reshape of other size":      func(s *Scope) *Array { return s.Reshape(s.Zeros(Float32, 4), 3) },
		"an axis too many":             func(s *Scope) *Array { return s.Sum(s.Zeros(Float32, 4), 1) },
		"an axis to slice":             func(s *Scope) *Array { return s.SliceAxis(s.Zeros(Float32, 4), 1, 0, 1) },
		"a missing input":              func(s *Scope) *Array { return s.Add(s.Scalar(1), nil) },
		"a dead input":                 func(s *Scope) *Array { return s.Neg(dead) },
		"a negative dimension":         func(s *Scope) *Array { return s.Zeros(Float32, -1) },
		"values for another shape":     func(s *Scope) *Array { return s.FromFloat32([]float32{1, 2, 3}, 2) },
		"an integer of 33 bits":        func(s *Scope) *Array { return s.Zeros(Float32, 1<<33) },
		"too many integers":            func(s *Scope) *Array { return s.Zeros(Float32, make([]int, 2000)...) },
		"too many inputs":              func(s *Scope) *Array { return s.Concat(0, slices.Repeat([]*Array{s.Scalar(1)}, 600)...) },
		"nine dimensions":              func(s *Scope) *Array { return s.Zeros(Float32, 1, 1, 1, 1, 1, 1, 1, 1, 1) },
		"an unknown mode": func(s *Scope) *Array {
			x := s.Zeros(Float32, 32, 32)
			return s.QuantizedMatMul(x, x, x, x, 32, 4, "gguf")
		},
		"positions for other rows": func(s *Scope) *Array {
			return s.RoPERows(s.Zeros(Float32, 1, 3, 1, 8), Rotary{Dims: 8, Base: 100}, Run{0, 2})
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			on(t, func(s *Scope) error {
				a := build(s)
				if a.Alive() || !errors.Is(s.Err(), ErrInvalid) {
					return fmt.Errorf("%v with error %v, want a refusal", a, s.Err())
				}
				return nil
			})
		})
	}
}

func TestErrorText(t *testing.T) {
	err := error(&Error{"eval", "[metal::malloc] Resource limit (3) exceeded.", ErrResourceLimit})
	for _, part := range []string{"eval", "resource limit", "(3)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if got := (&Error{Op: "free", Err: ErrWrongThread}).Error(); got != "free: not on the device thread" {
		t.Errorf("%q", got)
	}
}

func TestClosedScope(t *testing.T) {
	on(t, func(*Scope) error {
		s := dev.NewScope()
		s.Close()
		if a := s.Scalar(1); a.Alive() || !errors.Is(s.Err(), ErrClosed) {
			return fmt.Errorf("a closed scope makes %v, error %v", a, s.Err())
		}
		return nil
	})
}

func TestReading(t *testing.T) {
	on(t, func(s *Scope) error {
		x := s.AsType(s.FromFloat32([]float32{1.5, -2}), BFloat16)
		i, u := make([]int32, 2), make([]uint32, 1)
		if err := x.Int32s(i); err != nil || i[0] != 1 || i[1] != -2 {
			return fmt.Errorf("int32 %v, error %v", i, err)
		}
		if err := s.Scalar(7).Uint32s(u); err != nil || u[0] != 7 {
			return fmt.Errorf("uint32 %v, error %v", u, err)
		}
		if v, err := s.Scalar(2.5).ItemFloat32(); err != nil || v != 2.5 {
			return fmt.Errorf("item %v, error %v", v, err)
		}
		if v, err := s.ArgMax(x, 0).ItemInt32(); err != nil || v != 0 {
			return fmt.Errorf("item %v, error %v", v, err)
		}
		if _, err := x.ItemFloat32(); !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("an item of two: error %v", err)
		}
		if _, err := s.Neg(x).Raw(); !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("bytes before evaluation: error %v", err)
		}
		return s.Zeros(Float32, 0).Float32s(nil)
	})
}

func TestNewBuffer(t *testing.T) {
	on(t, func(s *Scope) error {
		a, b, err := dev.NewBuffer(Uint16, 2, 3)
		if err != nil {
			return err
		}
		defer a.Free()
		if len(b) != 12 || a.Bytes() != 12 || a.String() != "uint16[2 3]" {
			return fmt.Errorf("%d bytes for %v", len(b), a)
		}
		filled := make(chan bool)
		go func() { // as a reader of weights does
			for i := range b {
				b[i] = byte(1 - i%2)
			}
			close(filled)
		}()
		<-filled
		if got, err := floats(s.Sum(s.Reshape(a, 6), 0)); err != nil || got[0] != 6 {
			return fmt.Errorf("sum %v, error %v", got, err)
		}
		if _, _, err := dev.NewBuffer(Float32, -1); !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("a negative dimension: error %v", err)
		}
		_, _, err = dev.NewBuffer(Float32, 1<<33)
		if !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("2^33: error %v", err)
		}
		return nil
	})
}

func TestDtypes(t *testing.T) {
	for dt := Bool; dt <= Uint64; dt++ {
		on(t, func(s *Scope) error {
			a := s.Zeros(dt, 2)
			if a.Dtype() != dt || a.Bytes() != 2*dt.Size() || strings.HasPrefix(dt.String(), "dtype") {
				return fmt.Errorf("%v gives %v of %d bytes", dt, a, a.Bytes())
			}
			return s.Eval(a)
		})
	}
	if none := Dtype(99); none.Size() != 0 || none.String() != "dtype(99)" {
		t.Errorf("%v of %d bytes", none, none.Size())
	}
}
