package mlx

import (
	"fmt"
	"unsafe"

	"ingot/runtime/mlx/internal/cabi"
)

// Array is a handle to an MLX array, evaluated or yet to be. A dead array (the
// result of an operation after an error, or one that was freed) has no shape.
// Shape, Dim, Dtype and Bytes may be called anywhere, the rest on the device thread.
type Array struct {
	h     cabi.Handle
	owner *Scope // nil when kept
	at    int    // its place in the owner's list
	dtype Dtype
	ndim  uint8
	dims  [cabi.MaxDims]int32
}

// dead stands for every result that is not there.
var dead = &Array{}

func fromCall(c *cabi.Call, k int) *Array {
	h, dt, nd, dims := c.Out(k)
	return &Array{h: h, dtype: Dtype(dt), ndim: uint8(nd), dims: dims}
}

// Alive reports whether the array is there.
func (a *Array) Alive() bool { return a != nil && a.h != 0 }

// Shape is a copy of the array's dimensions.
func (a *Array) Shape() []int {
	s := make([]int, a.ndim)
	for i := range s {
		s[i] = int(a.dims[i])
	}
	return s
}

// NDim is the number of dimensions.
func (a *Array) NDim() int { return int(a.ndim) }

// Dim is one dimension; negative i counts from the last. 0 where there is none.
func (a *Array) Dim(i int) int {
	if i < 0 {
		i += int(a.ndim)
	}
	if i < 0 || i >= int(a.ndim) {
		return 0
	}
	return int(a.dims[i])
}

// Size is the number of elements.
func (a *Array) Size() int {
	if a.h == 0 {
		return 0
	}
	n := 1
	for _, d := range a.dims[:a.ndim] {
		n *= int(d)
	}
	return n
}

// Dtype is the element type.
func (a *Array) Dtype() Dtype { return a.dtype }

// Bytes is the size of the elements; the buffer behind may be larger or shared.
func (a *Array) Bytes() int { return a.Size() * a.dtype.Size() }

func (a *Array) String() string { return fmt.Sprintf("%s%v", a.dtype, a.Shape()) }

// Free gives a kept array back. Freeing a dead one does nothing; one that
// belongs to a Scope is taken out of it first.
func (a *Array) Free() error {
	if !a.Alive() {
		return nil
	}
	h := [1]cabi.Handle{a.h}
	if err := failure("free", cabi.Free(h[:]), ""); err != nil {
		return err
	}
	a.leave()
	a.bury()
	return nil
}

// FreeAll gives many arrays back in one call; nil and dead ones are passed over.
func FreeAll(arrs ...*Array) error {
	hs := make([]cabi.Handle, 0, len(arrs))
	for _, a := range arrs {
		if a.Alive() {
			hs = append(hs, a.h)
		}
	}
	if err := failure("free", cabi.Free(hs), ""); err != nil {
		return err
	}
	for _, a := range arrs {
		if a.Alive() {
			a.leave()
			a.bury()
		}
	}
	return nil
}

// leave takes the array out of its owner's list.
func (a *Array) leave() {
	s := a.owner
	if s == nil {
		return
	}
	last := len(s.owned) - 1
	s.owned[a.at] = s.owned[last]
	s.owned[a.at].at = a.at
	s.owned[last] = nil
	s.owned = s.owned[:last]
	a.owner = nil
}

// bury leaves nothing that a late user could mistake for an array.
func (a *Array) bury() { *a = Array{} }

// number is what Go reads an array as.
type number interface {
	~int32 | ~uint32 | ~float32 | ~uint8
}

func read[T number](a *Array, dt Dtype, dst []T) error {
	if len(dst) != a.Size() {
		return &Error{"read", fmt.Sprintf("%d values of %v", len(dst), a), ErrInvalid}
	}
	if len(dst) == 0 {
		return nil
	}
	s, why := cabi.Read(a.h, int(dt), unsafe.Pointer(&dst[0]), len(dst))
	return failure("read", s, why)
}

// Float32s evaluates the array if need be and copies it, row by row, widened or
// rounded to float32. len(dst) must be Size.
func (a *Array) Float32s(dst []float32) error { return read(a, Float32, dst) }

// Int32s is like Float32s.
func (a *Array) Int32s(dst []int32) error { return read(a, Int32, dst) }

// Uint32s is like Float32s.
func (a *Array) Uint32s(dst []uint32) error { return read(a, Uint32, dst) }

// ItemFloat32 is the value of an array of one element.
func (a *Array) ItemFloat32() (float32, error) {
	var v [1]float32
	err := a.Float32s(v[:])
	return v[0], err
}

// ItemInt32 is the value of an array of one element.
func (a *Array) ItemInt32() (int32, error) {
	var v [1]int32
	err := a.Int32s(v[:])
	return v[0], err
}

// Raw is the memory of an evaluated, row-contiguous array. It is valid until
// the last reference to the array goes, and must not be written while a
// computation that reads it is under way.
func (a *Array) Raw() ([]byte, error) {
	b, s, why := cabi.Bytes(a.h)
	return b, failure("raw", s, why)
}
