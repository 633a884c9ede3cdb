package cputest

import (
	"fmt"
	"math"
	"testing"
)

// Sums of a few thousand products in f32, by fused chains of K/8 or fewer: each
// error is far below 1e-5 of the sum of magnitudes.
const dotTol = 2e-6

var allBits = []int{2, 3, 4, 5, 6, 8}

// A product is the plain one's, for every packing, on both paths and across the
// border between them, with sizes that leave tails everywhere.
func TestQmmAgainstPlain(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(1)
		for _, bits := range allBits {
			for _, group := range []int{32, 64, 128} {
				for _, typ := range []Type{F32, F16, BF16} {
					for range 4 {
						m, n, k := 1+r.IntN(20), 1+r.IntN(120), group*(1+r.IntN(6))
						q, plain := weights(r, n, k, group, bits, typ)
						x := normal(r, m*k)
						y := make([]float32, m*n)
						RawQmm(q, x, m, y)
						want, size := dotRef(x, plain, m, n, k)
						near(t, fmt.Sprintf("M=%d %s", m, q), y, want, size, dotTol)
					}
				}
			}
		}
	})
}

// Many rows span several blocks of rows, columns and depth.
func TestQmmManyRows(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(2)
		for _, c := range [][3]int{{203, 70, 640}, {9, 33, 4096}, {600, 17, 64}} {
			q, plain := weights(r, c[1], c[2], 32, 4, F16)
			x := normal(r, c[0]*c[2])
			y := make([]float32, c[0]*c[1])
			RawQmm(q, x, c[0], y)
			want, size := dotRef(x, plain, c[0], c[1], c[2])
			near(t, fmt.Sprintf("M=%d %s", c[0], q), y, want, size, dotTol)
		}
	})
}

// Rows of very unlike sizes keep the accuracy of f32: none of x is cut off.
func TestQmmOfUnlikeSizes(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(6)
		for _, m := range []int{3, 40} {
			q, plain := weights(r, 33, 256, 64, 8, F32)
			x := normal(r, m*q.K)
			for i := range x {
				x[i] = float32(math.Ldexp(float64(x[i]), r.IntN(120)-60))
			}
			y := make([]float32, m*q.N)
			RawQmm(q, x, m, y)
			want, size := dotRef(x, plain, m, q.N, q.K)
			near(t, fmt.Sprint(m, " rows"), y, want, size, dotTol)
		}
	})
}

// A row has the same bits alone as among few; and among many, whichever many.
func TestQmmRowsAreIndependent(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(3)
		for _, bits := range allBits {
			q, _ := weights(r, 75, 192, 32, bits, F16)
			x := normal(r, 40*q.K)
			alone := make([]float32, 40*q.N)
			for m := range 40 {
				RawQmm(q, x[m*q.K:], 1, alone[m*q.N:])
			}
			for m := 1; m <= 8; m++ {
				y := make([]float32, m*q.N)
				RawQmm(q, x, m, y)
				same(t, fmt.Sprintf("bits %d, %d rows", bits, m), y, alone)
			}
			all := make([]float32, 40*q.N)
			RawQmm(q, x, 40, all)
			for _, m := range []int{9, 10, 15, 16, 17, 39} {
				y := make([]float32, m*q.N)
				RawQmm(q, x, m, y)
				same(t, fmt.Sprintf("bits %d, %d rows of many", bits, m), y, all)
			}
		}
	})
}

// The number of threads changes nothing.
func TestThreadsDoNotShow(t *testing.T) {
	t.Cleanup(func() { SetThreads(0) })
	r := rng(4)
	q, _ := weights(r, 500, 256, 64, 4, F16)
	x := normal(r, 70*q.K)
	h := Heads{H: 6, KVH: 2, D: 64, Dv: 64, Causal: true, Scale: 0.125}
	k, v := normal(r, 2*900*64), normal(r, 2*900*64)
	qs := normal(r, 33*6*64)
	seqs := []Seq{{Rows: 1, Length: 900}, {Rows: 32, Length: 700}}
	var products, attended [][]float32
	for _, n := range []int{1, 2, 3, 7} {
		SetThreads(n)
		for _, m := range []int{1, 5, 70} {
			y := make([]float32, m*q.N)
			RawQmm(q, x, m, y)
			products = append(products, y)
		}
		o := make([]float32, len(qs))
		RawAttention(h, qs, k, v, 900, seqs, o)
		attended = append(attended, o)
	}
	for i := range products {
		same(t, "product", products[i], products[i%3])
	}
	for _, o := range attended {
		same(t, "attention", o, attended[0])
	}
}

// A dequantized row is scale * value + bias, rounded once.
func TestRow(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(5)
		for _, bits := range allBits {
			for _, typ := range []Type{F32, F16, BF16} {
				q, plain := weights(r, 9, 256, 64, bits, typ)
				y := make([]float32, q.K)
				RawRow(q, 8, y)
				want := wide(plain[8*q.K:])
				near(t, q.String(), y, want, ones(q.K), 1e-5)
			}
		}
	})
}

// Every task runs exactly once, run after run, with more and fewer threads than
// cores.
func TestPoolRunsEachTaskOnce(t *testing.T) {
	t.Cleanup(func() { SetThreads(0) })
	for _, n := range []int{1, 2, 5} {
		SetThreads(n)
		if Threads() != n {
			t.Fatalf("%d threads, want %d", Threads(), n)
		}
		for run := range 2000 {
			hits := make([]int32, run%37)
			RunPool(hits)
			for i, h := range hits {
				if h != 1 {
					t.Fatalf("threads %d run %d: task %d ran %d times", n, run, i, h)
				}
			}
		}
	}
}
