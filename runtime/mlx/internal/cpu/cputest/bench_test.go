package cputest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// Each benchmark runs this package's operation and MLX's own one after the
// other, as primitives: graph, task, result. GFLOP/s counts two operations a
// product, GB/s the packed weights or the cache read once.

type side struct {
	name string
	is   Side
}

var sides = []side{{"ingot", Ours}, {"mlx", Theirs}}

// device runs functions on one locked thread: sub-benchmarks have goroutines of
// their own, MLX's arrays don't leave the thread that made them.
var device = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onDevice(f func()) {
	done := make(chan struct{})
	device() <- func() { defer close(done); f() }
	<-done
}

// timed evaluates what build makes, again and again.
func timed(b *testing.B, flops, bytes float64, build func() (Array, error)) {
	b.Helper()
	var err error
	onDevice(func() {
		for b.Loop() {
			var y Array
			if y, err = build(); err == nil {
				err = y.Eval()
				y.Free()
			}
			if err != nil {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	if flops > 0 {
		b.ReportMetric(flops/seconds/1e9, "GFLOP/s")
	}
	if bytes > 0 {
		b.ReportMetric(bytes/seconds/1e9, "GB/s")
	}
}

// BenchmarkQmm: the layers of a 135M model, its head, and those of a 1B one.
func BenchmarkQmm(b *testing.B) {
	r := rng(50)
	for _, c := range []struct{ n, k, bits int }{{576, 576, 4}, {1536, 576, 4}, {576, 1536, 4}, {49152, 576, 8}, {5632, 2048, 4}} {
		q := random(r, c.n, c.k, 32, c.bits)
		for _, rows := range []int{1, 8, 128, 1024} {
			flops := 2 * float64(rows) * float64(c.n) * float64(c.k)
			if flops > 3e10 {
				continue
			}
			hold := &bag{t: b}
			var w, s, z, x Array
			onDevice(func() {
				w, s, z = hold.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
				x = hold.floats(normal(r, rows*c.k), int32(rows), int32(c.k))
			})
			for _, on := range sides {
				if on.is == Theirs && flops > 1e9 {
					continue // seconds for each
				}
				b.Run(fmt.Sprintf("%dx%d/bits=%d/rows=%d/%s", c.n, c.k, c.bits, rows, on.name), func(b *testing.B) {
					bytes := float64(len(q.W)*4 + len(q.Scales)*2)
					timed(b, flops, bytes, func() (Array, error) { return Qmm(on.is, x, w, s, z, 32, c.bits) })
				})
			}
			onDevice(hold.free)
		}
	}
}

// BenchmarkGatherQmm: 16 experts of a small model, 4 a token.
func BenchmarkGatherQmm(b *testing.B) {
	r := rng(51)
	const experts, k, n, width = 16, 4, 256, 128
	q := random(r, experts*n, width, 32, 4)
	for _, tokens := range []int{1, 8, 512} {
		hold := &bag{t: b}
		idx := make([]int32, tokens*k)
		for i := range idx {
			idx[i] = int32(r.IntN(experts))
		}
		var w, s, z, choice, x Array
		onDevice(func() {
			w, s, z = hold.quant(q, q.values(q.Scales), q.values(q.Biases), experts)
			choice = hold.hold(Ints(idx, int32(tokens), k))
			x = hold.floats(normal(r, tokens*width), int32(tokens), width)
		})
		for _, on := range sides {
			b.Run(fmt.Sprintf("tokens=%d/%s", tokens, on.name), func(b *testing.B) {
				flops := 2 * float64(tokens*k*n*width)
				timed(b, flops, 0, func() (Array, error) { return GatherQmm(on.is, x, w, s, z, choice, 32, 4) })
			})
		}
		onDevice(hold.free)
	}
}

// BenchmarkAttention: decode over growing caches, and a prompt at once.
func BenchmarkAttention(b *testing.B) {
	r := rng(52)
	h := Heads{H: 9, KVH: 3, D: 64, Dv: 64, Causal: true, Scale: 0.125}
	for _, c := range [][2]int{{1, 128}, {1, 1024}, {1, 8192}, {128, 128}, {256, 1024}, {1024, 1024}} {
		rows, length := c[0], c[1]
		hold := &bag{t: b}
		var q, k, v Array
		onDevice(func() {
			k = hold.floats(normal(r, 3*length*64), 1, 3, int32(length), 64)
			v = hold.floats(normal(r, 3*length*64), 1, 3, int32(length), 64)
			q = hold.floats(normal(r, rows*9*64), 1, 9, int32(rows), 64)
		})
		seen := float64(rows) * (float64(length) - float64(rows-1)/2)
		for _, on := range sides {
			b.Run(fmt.Sprintf("rows=%d/length=%d/%s", rows, length, on.name), func(b *testing.B) {
				timed(b, seen*4*9*64, float64(2*3*length*64*4), func() (Array, error) { return SDPA(on.is, q, k, v, length, h, Array{}) })
			})
		}
		onDevice(hold.free)
	}
}

// BenchmarkRows: the small operations, at one row and at 512.
func BenchmarkRows(b *testing.B) {
	r := rng(53)
	for _, rows := range []int{1, 512} {
		hold := &bag{t: b}
		var x, w, g, q Array
		onDevice(func() {
			x = hold.floats(normal(r, rows*576), int32(rows), 576)
			w = hold.floats(normal(r, 576), 576)
			g = hold.floats(normal(r, rows*1536), int32(rows), 1536)
			q = hold.floats(normal(r, rows*576), 1, 9, int32(rows), 64)
		})
		for _, on := range sides {
			name := func(op string) string { return fmt.Sprintf("%s/rows=%d/%s", op, rows, on.name) }
			b.Run(name("rms"), func(b *testing.B) {
				timed(b, 0, float64(rows*576*8), func() (Array, error) { return RMS(on.is, x, w, 1e-5) })
			})
			b.Run(name("swiglu"), func(b *testing.B) {
				timed(b, 0, float64(rows*1536*12), func() (Array, error) { return SwiGLU(on.is, g, g) })
			})
			b.Run(name("rope"), func(b *testing.B) {
				timed(b, 0, float64(rows*576*8), func() (Array, error) { return Rope(on.is, q, 64, false, 1e5, 1, 100, Array{}) })
			})
		}
		onDevice(hold.free)
	}
}
