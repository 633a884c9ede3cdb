package mlx

import (
	"unsafe"

	"ingot/runtime/mlx/internal/cabi"
)

// Making arrays from nothing and from Go's memory.

var (
	opScalar = newOp("scalar")
	opZeros  = newOp("zeros")
	opFull   = newOp("full")
	opArange = newOp("arange")
	opTri    = newOp("tri")
	opTril   = newOp("tril")
	opTriu   = newOp("triu")
	opAsType = newOp("astype")
	opView   = newOp("view")
	opNew    = &op{name: "new"}
)

// Scalar is an array without dimensions, float32.
func (s *Scope) Scalar(v float64) *Array { return s.ScalarOf(Float32, v) }

// ScalarOf is an array without dimensions of the given type.
func (s *Scope) ScalarOf(dt Dtype, v float64) *Array {
	return s.op(opScalar).ints(int(dt)).floats(v).one()
}

// Like is a scalar of a's type: a * Like(a, 2) has a's type still.
func (s *Scope) Like(a *Array, v float64) *Array { return s.ScalarOf(a.dtype, v) }

// Zeros has the given shape.
func (s *Scope) Zeros(dt Dtype, shape ...int) *Array {
	return s.op(opZeros).ints(int(dt)).ints(shape...).one()
}

// Full has the given shape and v everywhere.
func (s *Scope) Full(dt Dtype, v float64, shape ...int) *Array {
	return s.op(opFull).ints(int(dt)).ints(shape...).floats(v).one()
}

// Arange counts from start to before stop by step.
func (s *Scope) Arange(dt Dtype, start, stop, step int) *Array {
	return s.op(opArange).ints(int(dt), start, stop, step).one()
}

// Tri is [n, m] with ones at and below the k-th diagonal.
func (s *Scope) Tri(dt Dtype, n, m, k int) *Array { return s.op(opTri).ints(int(dt), n, m, k).one() }

// Tril keeps what is at or below the k-th diagonal of the last two axes.
func (s *Scope) Tril(a *Array, k int) *Array { return s.op(opTril, a).ints(k).one() }

// Triu keeps what is at or above the k-th diagonal of the last two axes.
func (s *Scope) Triu(a *Array, k int) *Array { return s.op(opTriu, a).ints(k).one() }

// AsType converts the elements; a itself where it has the type already.
func (s *Scope) AsType(a *Array, dt Dtype) *Array {
	if a.dtype == dt && a.h != 0 {
		return a
	}
	return s.op(opAsType, a).ints(int(dt)).one()
}

// View reads the same bytes as another type; the last axis is rescaled.
func (s *Scope) View(a *Array, dt Dtype) *Array { return s.op(opView, a).ints(int(dt)).one() }

// FromInt32 copies vals into an array; without a shape, [len(vals)].
func (s *Scope) FromInt32(vals []int32, shape ...int) *Array {
	return fromSlice(s, Int32, vals, shape)
}

// FromUint32 is like FromInt32.
func (s *Scope) FromUint32(vals []uint32, shape ...int) *Array {
	return fromSlice(s, Uint32, vals, shape)
}

// FromFloat32 is like FromInt32.
func (s *Scope) FromFloat32(vals []float32, shape ...int) *Array {
	return fromSlice(s, Float32, vals, shape)
}

// FromBytes copies the memory of an array of dt in row order.
func (s *Scope) FromBytes(dt Dtype, b []byte, shape ...int) *Array {
	return fromSlice(s, dt, b, shape)
}

func fromSlice[T number](s *Scope, dt Dtype, vals []T, shape []int) *Array {
	if shape == nil {
		shape = []int{len(vals) * int(unsafe.Sizeof(*new(T))) / dt.Size()}
	}
	b := s.op(opNew).ints(int(dt)).ints(shape...)
	if b == nil {
		return dead
	}
	var none T // an address for no values: nil would mean uninitialized memory
	p := unsafe.Pointer(&none)
	if len(vals) > 0 {
		p = unsafe.Pointer(&vals[0])
	}
	if st := s.run.call.New(p, len(vals)*int(unsafe.Sizeof(none))); st != cabi.OK {
		return s.Fail(failure("new", st, s.run.call.Text()))
	}
	return s.Adopt(fromCall(s.run.call, 0))
}

// NewBuffer allocates an array whose bytes the caller fills, from any goroutine,
// before its first use; they hold anything until then. The array is kept: Free
// it, and do not touch the bytes afterwards. Device thread.
func (d *Device) NewBuffer(dt Dtype, shape ...int) (*Array, []byte, error) {
	s := d.NewScope()
	defer s.Close()
	if b := s.op(opNew).ints(int(dt)).ints(shape...); b == nil {
		return nil, nil, s.Err()
	}
	if st := s.run.call.New(nil, 0); st != cabi.OK {
		return nil, nil, failure("new buffer", st, s.run.call.Text())
	}
	a := fromCall(s.run.call, 0)
	raw, err := a.Raw()
	if err != nil {
		return nil, nil, err
	}
	return a, raw, nil
}
