// Package cabi is the only door to MLX: a C ABI over its C++ library (bridge.h)
// and the Go calls of it. It owns the handles' meaning, the error texts and the
// allocator's ledger; package mlx owns everything a person would call an API.
//
// The link flags below name .deps in the source tree, so that plain go build and
// go test work there; a bundle carries the libraries in ../lib beside its programs
// (../Frameworks on macOS, whose flag the bundle's build adds: cgo refuses an "@").
//
// All calls belong to the device thread, save the ledger's and the memory
// figures; the bridge checks. It never keeps Go memory, never panics on what
// the device does, and never frees what it was not told to free.
package cabi

/*
#cgo CXXFLAGS: -std=c++20 -O2 -Wall -Wextra -isystem ${SRCDIR}/../../../../.deps/mlx/include -I${SRCDIR}/../cpu
#cgo LDFLAGS: -L${SRCDIR}/../../../../.deps/mlx/lib -lmlx
#cgo linux LDFLAGS: -Wl,-rpath,$ORIGIN/../lib -L${SRCDIR}/../../../../.deps/openblas/lib -lscipy_openblas
#cgo darwin CXXFLAGS: -isystem ${SRCDIR}/../../../../.deps/mlx/include/metal_cpp
#cgo noescape ig_run
#cgo nocallback ig_run
#cgo noescape ig_new
#cgo nocallback ig_new
#cgo noescape ig_eval
#cgo nocallback ig_eval
#cgo noescape ig_free
#cgo nocallback ig_free
#cgo noescape ig_recover
#cgo nocallback ig_recover
#cgo noescape ig_read
#cgo nocallback ig_read
#cgo noescape ig_bytes
#cgo nocallback ig_bytes
#cgo noescape ig_ledger_read
#cgo nocallback ig_ledger_read
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	_ "ingot/runtime/mlx/internal/cpu" // the kernels that the bridge calls
	"unsafe"
)

// Handle is an owned reference to an MLX array; 0 is none.
type Handle uintptr

// Status is what every entry of the bridge answers.
type Status int

const (
	OK          Status = C.IG_OK
	Invalid     Status = C.IG_INVALID
	Resource    Status = C.IG_RESOURCE
	Memory      Status = C.IG_MEMORY
	Launch      Status = C.IG_LAUNCH
	DeviceFault Status = C.IG_DEVICE
	WrongThread Status = C.IG_THREAD
)

// Kinds of device for Open.
const (
	Auto = int(C.IG_AUTO)
	CPU  = int(C.IG_CPU)
	GPU  = int(C.IG_GPU)
)

// Limits of one call.
const (
	MaxIn   = C.IG_MAX_IN
	MaxOut  = C.IG_MAX_OUT
	MaxInts = C.IG_MAX_INTS
	MaxDims = C.IG_MAX_DIMS
)

// Op is an operation's place in the bridge's table.
type Op int32

// MustOp finds an operation by name. Both tables are ours and are built
// together: a name without a row is a mistake of the build.
func MustOp(name string) Op {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	op := C.ig_op(c)
	if op < 0 {
		panic("mlx: the bridge has no operation " + name)
	}
	return Op(op)
}

// text is an error's text as C wrote it.
func text(b *[C.IG_MAX_TEXT]C.char) string { return C.GoString(&b[0]) }

// Call is one operation being prepared and its answer. The zero value is ready;
// it is large and meant to be used again and again, by one thread.
type Call struct {
	c C.ig_call
}

// Begin empties the call for op.
func (c *Call) Begin(op Op) {
	c.c.op, c.c.nin, c.c.nints, c.c.nfloats, c.c.nout = C.int32_t(op), 0, 0, 0, 0
}

// In appends an input, 0 for an absent one; false when the call is full.
func (c *Call) In(h Handle) bool {
	if c.c.nin == C.IG_MAX_IN {
		return false
	}
	c.c.in[c.c.nin] = C.ig_array(h)
	c.c.nin++
	return true
}

// Int appends an integer; false when the call is full or v has no 32-bit form.
func (c *Call) Int(v int) bool {
	if c.c.nints == C.IG_MAX_INTS || int(int32(v)) != v {
		return false
	}
	c.c.ints[c.c.nints] = C.int32_t(v)
	c.c.nints++
	return true
}

// Float appends a number; false when the call is full.
func (c *Call) Float(v float64) bool {
	if c.c.nfloats == C.IG_MAX_FLOATS {
		return false
	}
	c.c.floats[c.c.nfloats] = C.double(v)
	c.c.nfloats++
	return true
}

// Run builds the operation's node.
func (c *Call) Run() Status { return Status(C.ig_run(&c.c)) }

// New makes an array of the integers dtype, dims..., with n bytes copied from
// data, or with whatever its memory holds where data is nil.
func (c *Call) New(data unsafe.Pointer, n int) Status {
	return Status(C.ig_new(&c.c, data, C.size_t(n)))
}

// Recover consumes the first input; see ig_recover.
func (c *Call) Recover() Status { return Status(C.ig_recover(&c.c)) }

// Outs is how many results there are.
func (c *Call) Outs() int { return int(c.c.nout) }

// Out is the k-th result: its handle, dtype code and shape.
func (c *Call) Out(k int) (h Handle, dtype int, ndim int, dims [MaxDims]int32) {
	o := &c.c.out[k]
	for i := range dims {
		dims[i] = int32(o.dims[i])
	}
	return Handle(o.array), int(o.dtype), int(o.ndim), dims
}

// Text is why the last run failed.
func (c *Call) Text() string { return text(&c.c.text) }

// Eval computes the arrays; without wait it only starts.
func Eval(in []Handle, wait bool) (Status, string) {
	if len(in) == 0 {
		return OK, ""
	}
	var t [C.IG_MAX_TEXT]C.char
	w := C.int(0)
	if wait {
		w = 1
	}
	s := Status(C.ig_eval((*C.ig_array)(unsafe.Pointer(&in[0])), C.size_t(len(in)), w, &t[0]))
	return s, errText(s, &t)
}

// Synchronize waits for the device's queue.
func Synchronize() (Status, string) {
	var t [C.IG_MAX_TEXT]C.char
	s := Status(C.ig_synchronize(&t[0]))
	return s, errText(s, &t)
}

// Free gives the references back.
func Free(in []Handle) Status {
	if len(in) == 0 {
		return OK
	}
	return Status(C.ig_free((*C.ig_array)(unsafe.Pointer(&in[0])), C.size_t(len(in))))
}

// Bytes is the memory of an evaluated, row-contiguous array, valid until the
// last reference to it goes.
func Bytes(h Handle) ([]byte, Status, string) {
	var t [C.IG_MAX_TEXT]C.char
	var data C.uintptr_t
	var n C.size_t
	s := Status(C.ig_bytes(C.ig_array(h), &data, &n, &t[0]))
	if s != OK || n == 0 {
		return nil, s, errText(s, &t)
	}
	// The address is C memory that travelled as an integer, which vet cannot know.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&data))
	return unsafe.Slice((*byte)(p), int(n)), s, ""
}

// Read evaluates the array and copies its n values, converted to dtype, to dst.
func Read(h Handle, dtype int, dst unsafe.Pointer, n int) (Status, string) {
	var t [C.IG_MAX_TEXT]C.char
	s := Status(C.ig_read(C.ig_array(h), C.int(dtype), dst, C.size_t(n), &t[0]))
	return s, errText(s, &t)
}

// Classify is the status of an exception's text, thrown while a graph was built
// or while it ran. Any thread.
func Classify(what string, running bool) Status {
	c := C.CString(what)
	defer C.free(unsafe.Pointer(c))
	r := C.int(0)
	if running {
		r = 1
	}
	return Status(C.ig_classify(c, r))
}

// Handles counts the references that were not given back yet.
func Handles() int64 { return int64(C.ig_handles()) }

func errText(s Status, t *[C.IG_MAX_TEXT]C.char) string {
	if s == OK {
		return ""
	}
	return text(t)
}
