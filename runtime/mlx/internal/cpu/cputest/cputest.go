// Package cputest is the test bench of package cpu: its kernels and primitives
// as Go calls on slices, their tests and their benchmarks. Nothing of the
// product imports it, so none of it is linked into the runner.
//
// The raw calls may come from any one goroutine at a time; those on arrays only
// from a goroutine locked to its thread. It never keeps a slice or an array.
package cputest

/*
#cgo CXXFLAGS: -std=c++20 -O2 -Wall -Wextra -I${SRCDIR}/.. -isystem ${SRCDIR}/../../../../../.deps/mlx/include
#cgo LDFLAGS: -L${SRCDIR}/../../../../../.deps/mlx/lib -lmlx -Wl,-rpath,${SRCDIR}/../../../../../.deps/mlx/lib
#cgo CFLAGS: -I${SRCDIR}/..
#include <stdlib.h>
#include "cputest.h"
*/
import "C"

import (
	"errors"
	"math"
	"unsafe"

	_ "ingot/runtime/mlx/internal/cpu" // the kernels
)

// Type is how scales and weights are stored.
type Type int

// The types that the kernels read.
const (
	F32 Type = iota
	F16
	BF16
	u32
	i32
)

func ptr[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
func floats(s []float32) *C.float     { return (*C.float)(ptr(s)) }
func ints(s []int32) *C.int           { return (*C.int)(ptr(s)) }

// UseISA chooses the instruction set of the raw calls; false where it can't run.
func UseISA(name string) bool {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.ct_isa(s) != 0
}

// SetThreads fixes the number of threads; 0 is the default.
func SetThreads(n int) { C.ct_threads(C.int(n)) }

// Threads says how many threads the kernels use.
func Threads() int { return int(C.ct_thread_count()) }

// Quant is a matrix [N, K] of packed weights. Scales and Biases hold [N, K/Group]
// values of Type, two bytes each for F16 and BF16.
type Quant struct {
	N, K, Group, Bits int
	Type              Type
	W                 []uint32
	Scales, Biases    []byte
}

func (q *Quant) c() C.ct_quant {
	return C.ct_quant{N: C.int(q.N), K: C.int(q.K), group: C.int(q.Group), bits: C.int(q.Bits), _type: C.int(q.Type)}
}

// RawQmm computes y[M, N] = x[M, K] * q^T with the kernels alone.
func RawQmm(q *Quant, x []float32, m int, y []float32) {
	C.ct_raw_qmm(q.c(), (*C.uint32_t)(ptr(q.W)), ptr(q.Scales), ptr(q.Biases), floats(x), C.int(m), floats(y))
}

// RawRow dequantizes row n.
func RawRow(q *Quant, n int, y []float32) {
	C.ct_raw_row(q.c(), (*C.uint32_t)(ptr(q.W)), ptr(q.Scales), ptr(q.Biases), C.int(n), floats(y))
}

// Heads is what one attention call is about.
type Heads struct {
	H, KVH, D, Dv, Window int
	Causal                bool
	Scale, Softcap        float32
	Sinks                 []float32
}

func (h Heads) c() C.ct_heads {
	a := C.ct_heads{H: C.int(h.H), KVH: C.int(h.KVH), D: C.int(h.D), Dv: C.int(h.Dv), window: C.int(h.Window), scale: C.float(h.Scale), softcap: C.float(h.Softcap)}
	if h.Causal {
		a.causal = 1
	}
	if h.Sinks != nil {
		a.sinks = 1
	}
	return a
}

// Seq is one sequence of an attention call: Rows rows at Length positions; its
// cache begins AtK and AtV floats into the caches' memory.
type Seq struct {
	Rows, Length int
	AtK, AtV     int64
}

// RawAttention attends q [R, H, D] to caches of [KVH, capacity, D] floats.
func RawAttention(h Heads, q, k, v []float32, capacity int, seqs []Seq, o []float32) {
	var rows, lengths []int32
	var atK, atV []int64
	for _, s := range seqs {
		rows, lengths = append(rows, int32(s.Rows)), append(lengths, int32(s.Length))
		atK, atV = append(atK, s.AtK), append(atV, s.AtV)
	}
	C.ct_raw_attention(h.c(), floats(q), floats(k), floats(v), floats(h.Sinks), C.int(capacity), C.int(len(seqs)),
		ints(rows), ints(lengths), (*C.int64_t)(ptr(atK)), (*C.int64_t)(ptr(atV)), floats(o))
}

// RawRMS, RawGate and RawRope run the row kernels.
func RawRMS(x, w []float32, eps float32, y []float32) {
	C.ct_raw_rms(floats(x), floats(w), C.float(eps), floats(y), C.int(len(x)))
}

// RawGate computes silu(g)*u, or gelu(g)*u.
func RawGate(gelu bool, g, u, y []float32) {
	C.ct_raw_gate(flag(gelu), floats(g), floats(u), floats(y), C.int(len(g)))
}

// RawRope turns the first dims features of x by the angles of cos and sin.
func RawRope(x, cos, sin, y []float32, dims int, traditional bool) {
	C.ct_raw_rope(floats(x), floats(cos), floats(sin), floats(y), C.int(dims), C.int(len(x)), flag(traditional))
}

// RunPool adds one to each of hits, a task each.
func RunPool(hits []int32) { C.ct_pool(C.int(len(hits)), (*C.int32_t)(ptr(hits))) }

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Array is an MLX array; Free it.
type Array struct{ a C.ct_array }

func made(a C.ct_array) (Array, error) {
	if a == nil {
		return Array{}, errors.New(C.GoString(C.ct_error()))
	}
	return Array{a}, nil
}

// Free lets the array go.
func (a Array) Free() { C.ct_free(a.a) }

func newArray(p unsafe.Pointer, t Type, shape []int32) Array {
	a, err := made(C.ct_from(p, C.int(t), ints(shape), C.int(len(shape))))
	if err != nil {
		panic(err) // memory and shapes are the test's own
	}
	return a
}

// Floats makes an array of type t from f32 values.
func Floats(v []float32, t Type, shape ...int32) Array { return newArray(ptr(v), t, shape) }

// Words makes a u32 array.
func Words(v []uint32, shape ...int32) Array { return newArray(ptr(v), u32, shape) }

// Ints makes an i32 array.
func Ints(v []int32, shape ...int32) Array { return newArray(ptr(v), i32, shape) }

// Transpose is a view with the axes in another order.
func (a Array) Transpose(axes ...int32) (Array, error) {
	return made(C.ct_transpose(a.a, ints(axes), C.int(len(axes))))
}

// Slice is a view of a part.
func (a Array) Slice(start, stop, step []int32) (Array, error) {
	return made(C.ct_slice(a.a, ints(start), ints(stop), ints(step), C.int(len(start))))
}

// Shape is the array's shape.
func (a Array) Shape() []int {
	var d [16]int32
	n := C.ct_dims(a.a, ints(d[:]))
	out := make([]int, n)
	for i := range out {
		out[i] = int(d[i])
	}
	return out
}

// Eval computes the array.
func (a Array) Eval() error {
	if C.ct_eval(a.a) != 0 {
		return errors.New(C.GoString(C.ct_error()))
	}
	return nil
}

// Read computes the array and copies it out, row by row, as f32.
func (a Array) Read() ([]float32, error) {
	n := 1
	for _, d := range a.Shape() {
		n *= d
	}
	out := make([]float32, n)
	if C.ct_read(a.a, floats(out), C.size_t(n)) != 0 {
		return nil, errors.New(C.GoString(C.ct_error()))
	}
	return out, nil
}

// Active is the bytes of MLX's live arrays.
func Active() int { return int(C.ct_active()) }

// Side says whose operation a call builds.
type Side bool

// Ours is package cpu's primitive, Theirs MLX's own operation.
const (
	Ours   Side = true
	Theirs Side = false
)

// Qmm is x * dequantized(w)^T.
func Qmm(side Side, x, w, s, b Array, group, bits int) (Array, error) {
	return made(C.ct_qmm(flag(bool(side)), x.a, w.a, s.a, b.a, C.int(group), C.int(bits)))
}

// QmmMany is Qmm of x and each matrix, in one primitive.
func QmmMany(x Array, w, s, b []Array, group, bits int) ([]Array, error) {
	out := make([]Array, len(w))
	if C.ct_qmm_many(x.a, handles(w), handles(s), handles(b), C.int(len(w)), C.int(group), C.int(bits), handles(out)) != 0 {
		return nil, errors.New(C.GoString(C.ct_error()))
	}
	return out, nil
}

// QmmSwiGLU is silu of the first product times the second.
func QmmSwiGLU(x Array, w, s, b [2]Array, group, bits int) (Array, error) {
	return made(C.ct_qmm_swiglu(x.a, handles(w[:]), handles(s[:]), handles(b[:]), C.int(group), C.int(bits)))
}

func handles(a []Array) *C.ct_array { return (*C.ct_array)(ptr(a)) }

// GatherQmm is the experts' product.
func GatherQmm(side Side, x, w, s, b, idx Array, group, bits int) (Array, error) {
	return made(C.ct_gather_qmm(flag(bool(side)), x.a, w.a, s.a, b.a, idx.a, C.int(group), C.int(bits)))
}

// Qembed is rows of a quantized table.
func Qembed(side Side, ids, w, s, b Array, group, bits int) (Array, error) {
	return made(C.ct_qembed(flag(bool(side)), ids.a, w.a, s.a, b.a, C.int(group), C.int(bits)))
}

// SDPA is attention in MLX's layout; sinks may be the zero Array.
func SDPA(side Side, q, k, v Array, length int, h Heads, sinks Array) (Array, error) {
	return made(C.ct_sdpa(flag(bool(side)), q.a, k.a, v.a, C.int(length), h.c(), sinks.a))
}

// Ragged is attention of many sequences' rows.
func Ragged(q Array, k, v []Array, rows, lengths []int32, h Heads) (Array, error) {
	return made(C.ct_ragged(q.a, handles(k), handles(v), ints(rows), ints(lengths), C.int(len(k)), h.c()))
}

// RMS is a norm; w may be the zero Array.
func RMS(side Side, x, w Array, eps float32) (Array, error) {
	return made(C.ct_rms(flag(bool(side)), x.a, w.a, C.float(eps)))
}

// AddRMS is x + y and its norm.
func AddRMS(x, y, w Array, eps float32) (sum, normed Array, err error) {
	var out [2]C.ct_array
	if C.ct_add_rms(x.a, y.a, w.a, C.float(eps), &out[0]) != 0 {
		return sum, normed, errors.New(C.GoString(C.ct_error()))
	}
	return Array{out[0]}, Array{out[1]}, nil
}

// SwiGLU is silu(g) * u.
func SwiGLU(side Side, g, u Array) (Array, error) {
	return made(C.ct_swiglu(flag(bool(side)), g.a, u.a))
}

// SwiGLUPacked is the same over the halves of gu.
func SwiGLUPacked(gu Array) (Array, error) { return made(C.ct_swiglu_packed(gu.a)) }

// GeGLU is gelu(g) * u.
func GeGLU(g, u Array) (Array, error) { return made(C.ct_geglu(g.a, u.a)) }

// Rope turns x [1, H, T, D]; freqs may be the zero Array.
func Rope(side Side, x Array, dims int, traditional bool, base, scale float32, offset int, freqs Array) (Array, error) {
	return made(C.ct_rope(flag(bool(side)), x.a, C.int(dims), flag(traditional), C.float(base), C.float(scale), C.int(offset), freqs.a))
}

// RopeRows turns x [R, H, D], a position for each row.
func RopeRows(x Array, positions []int32, dims int, traditional bool, base, scale float32) (Array, error) {
	return made(C.ct_rope_rows(x.a, ints(positions), C.int(len(positions)), C.int(dims), flag(traditional), C.float(base), C.float(scale)))
}

// narrow stores v as t and says what it then is.
func narrow(v float32, t Type) (bits uint16, is float32) {
	if t == BF16 {
		b := uint16((math.Float32bits(v) + 0x8000) >> 16)
		return b, math.Float32frombits(uint32(b) << 16)
	}
	return half(v)
}

// half is v as f16, cut off below; v is normal in f16 or zero.
func half(v float32) (uint16, float32) {
	w := math.Float32bits(v)
	exp := int(w>>23&255) - 127
	if exp < -14 {
		return 0, 0
	}
	h := uint16(w>>16&0x8000) | uint16((exp+15)<<10) | uint16(w>>13&0x3ff)
	return h, math.Float32frombits(w &^ 0x1fff)
}
