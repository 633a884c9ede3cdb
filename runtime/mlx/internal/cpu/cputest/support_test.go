package cputest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// isas are the instruction sets that this machine can run.
func isas() []string {
	var out []string
	for _, name := range []string{"base", "avx2", "avx512", "amx"} {
		if UseISA(name) {
			out = append(out, name)
		}
	}
	return out
}

// eachISA runs f once for each instruction set.
func eachISA(t *testing.T, f func(t *testing.T)) {
	for _, name := range isas() {
		t.Run(name, func(t *testing.T) {
			UseISA(name)
			f(t)
		})
	}
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 17)) }

func normal(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// weights makes a random matrix and its values as a plain one [N, K].
func weights(r *rand.Rand, n, k, group, bits int, t Type) (*Quant, []float32) {
	q := &Quant{N: n, K: k, Group: group, Bits: bits, Type: t}
	q.W = make([]uint32, n*k*bits/32)
	for i := range q.W {
		q.W[i] = r.Uint32()
	}
	var scales, biases []float32
	q.Scales, scales = stored(r, n*k/group, t, 0.1)
	q.Biases, biases = stored(r, n*k/group, t, 0.5)
	plain := make([]float32, n*k)
	for i := range plain {
		g := i / group
		plain[i] = float32(packed(q.W, i, bits))*scales[g] + biases[g]
	}
	return q, plain
}

// random is a matrix of f16 scales without its plain values, for benchmarks.
func random(r *rand.Rand, n, k, group, bits int) *Quant {
	q := &Quant{N: n, K: k, Group: group, Bits: bits, Type: F16, W: make([]uint32, n*k*bits/32)}
	for i := range q.W {
		q.W[i] = r.Uint32()
	}
	q.Scales, _ = stored(r, n*k/group, F16, 0.1)
	q.Biases, _ = stored(r, n*k/group, F16, 0.5)
	return q
}

// packed is value i of the little-endian bit stream that MLX packs: a row is
// whole words, so the stream runs through the matrix.
func packed(w []uint32, i, bits int) uint32 {
	at := i * bits
	v := uint64(w[at/32])
	if at/32+1 < len(w) {
		v |= uint64(w[at/32+1]) << 32
	}
	return uint32(v>>(at%32)) & (1<<bits - 1)
}

// stored makes n values of type t about the given size, as bytes and as they read.
func stored(r *rand.Rand, n int, t Type, size float64) ([]byte, []float32) {
	var raw []byte
	is := make([]float32, n)
	for i := range is {
		v := float32(r.NormFloat64() * size)
		if t == F32 {
			is[i] = v
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			continue
		}
		var h uint16
		h, is[i] = narrow(v, t)
		raw = binary.LittleEndian.AppendUint16(raw, h)
	}
	return raw, is
}

// dotRef is x[M, K] * w[N, K]^T in f64, and the size that its rounding errors
// are measured by: the sum of the products' magnitudes.
func dotRef(x, w []float32, m, n, k int) (y, size []float64) {
	y, size = make([]float64, m*n), make([]float64, m*n)
	for i := range m {
		for j := range n {
			for c := range k {
				p := float64(x[i*k+c]) * float64(w[j*k+c])
				y[i*n+j] += p
				size[i*n+j] += math.Abs(p)
			}
		}
	}
	return y, size
}

// near fails unless got is within tol times its size of want, each.
func near(t *testing.T, what string, got []float32, want, size []float64, tol float64) {
	t.Helper()
	worst, at := 0.0, 0
	for i := range want {
		d := math.Abs(float64(got[i])-want[i]) / (size[i] + 1e-30)
		if d > worst || math.IsNaN(d) {
			worst, at = d, i
			if math.IsNaN(d) {
				break
			}
		}
	}
	if !(worst <= tol) {
		t.Errorf("%s: element %d is %g, want %g: off by %.2g of its size, allowed %.2g", what, at, got[at], want[at], worst, tol)
	}
}

// same fails unless a and b have the same bits.
func same(t *testing.T, what string, a, b []float32) {
	t.Helper()
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("%s: element %d differs: %g and %g", what, i, a[i], b[i])
		}
	}
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

func wide(v []float32) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// onThread locks the test to its thread, as MLX asks.
func onThread(t testing.TB) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

// bag frees what a test made and fails it on errors.
type bag struct {
	t    testing.TB
	held []Array
}

func newBag(t testing.TB) *bag {
	b := &bag{t: t}
	t.Cleanup(b.free)
	return b
}

func (b *bag) free() {
	for _, a := range b.held {
		a.Free()
	}
	b.held = nil
}

func (b *bag) hold(a Array) Array {
	b.held = append(b.held, a)
	return a
}

func (b *bag) must(a Array, err error) Array {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return b.hold(a)
}

func (b *bag) read(a Array) []float32 {
	b.t.Helper()
	v, err := a.Read()
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bag) floats(v []float32, shape ...int32) Array { return b.hold(Floats(v, F32, shape...)) }

// quant makes MLX's three arrays of a matrix, or of experts stacked in N.
func (b *bag) quant(q *Quant, scales, biases []float32, experts int) (w, s, z Array) {
	n, words, groups := int32(q.N/max(1, experts)), int32(q.K*q.Bits/32), int32(q.K/q.Group)
	lead := []int32{n}
	if experts > 0 {
		lead = []int32{int32(experts), n}
	}
	shape := func(last int32) []int32 { return append(append([]int32{}, lead...), last) }
	w = b.hold(Words(q.W, shape(words)...))
	s = b.hold(Floats(scales, q.Type, shape(groups)...))
	z = b.hold(Floats(biases, q.Type, shape(groups)...))
	return w, s, z
}

func (q *Quant) String() string {
	return fmt.Sprintf("N=%d K=%d group=%d bits=%d type=%d", q.N, q.K, q.Group, q.Bits, q.Type)
}

// values are scales or biases as they read.
func (q *Quant) values(raw []byte) []float32 {
	var out []float32
	for len(raw) > 0 {
		switch q.Type {
		case F32:
			out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			raw = raw[4:]
			continue
		case BF16:
			out = append(out, math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw))<<16))
		default:
			out = append(out, widen(binary.LittleEndian.Uint16(raw)))
		}
		raw = raw[2:]
	}
	return out
}

// widen reads an f16 that is normal or zero.
func widen(h uint16) float32 {
	if h&0x7fff == 0 {
		return 0
	}
	exp := uint32(h>>10&31) + 112
	return math.Float32frombits(uint32(h&0x8000)<<16 | exp<<23 | uint32(h&0x3ff)<<13)
}
