package cputest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ours and theirs agree to rounding: both are f32 throughout.
const primTol = 2e-5

func compare(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	near(t, what, got, wide(want), sizes(wide(want)), tol)
}

func TestQmmAgainstMLX(t *testing.T) {
	onThread(t)
	r := rng(30)
	for _, bits := range allBits {
		for _, rows := range []int{1, 3, 30} {
			b := newBag(t)
			q, _ := weights(r, 48, 256, 64, bits, F32)
			w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
			x := b.floats(normal(r, rows*q.K), 1, int32(rows), int32(q.K))
			got := b.must(Qmm(Ours, x, w, s, z, 64, bits))
			want := b.must(Qmm(Theirs, x, w, s, z, 64, bits))
			if !slices.Equal(got.Shape(), want.Shape()) {
				t.Fatalf("shape %v, want %v", got.Shape(), want.Shape())
			}
			compare(t, fmt.Sprintf("bits %d rows %d", bits, rows), b.read(got), b.read(want), 2e-4)
		}
	}
}

// x may be any view: rows apart, columns apart, axes in another order.
func TestQmmOfViews(t *testing.T) {
	onThread(t)
	b := newBag(t)
	r := rng(31)
	q, _ := weights(r, 20, 64, 32, 4, F16)
	w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
	base := b.floats(normal(r, 10*130), 10, 130)
	turned := b.must(b.floats(normal(r, 64*5), 64, 5).Transpose(1, 0))
	views := map[string]Array{
		"rows apart":    b.must(base.Slice([]int32{1, 3}, []int32{9, 67}, []int32{2, 1})),
		"columns apart": b.must(base.Slice([]int32{0, 1}, []int32{10, 129}, []int32{1, 2})),
		"transposed":    turned,
	}
	for name, x := range views {
		flat := b.read(x)
		shape := x.Shape()
		dense := b.floats(flat, int32(shape[0]), int32(shape[1]))
		got := b.read(b.must(Qmm(Ours, x, w, s, z, 32, 4)))
		same(t, name, got, b.read(b.must(Qmm(Ours, dense, w, s, z, 32, 4))))
	}
}

// Products in one primitive have the bits of those one by one.
func TestFusedProducts(t *testing.T) {
	onThread(t)
	r := rng(42)
	for _, rows := range []int{1, 8, 40} {
		b := newBag(t)
		x := b.floats(normal(r, rows*96), int32(rows), 96)
		var w, s, z, one []Array
		for _, n := range []int{70, 70, 9} {
			q, _ := weights(r, n, 96, 32, 4, F16)
			a, c, d := b.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
			w, s, z = append(w, a), append(s, c), append(z, d)
			one = append(one, b.must(Qmm(Ours, x, a, c, d, 32, 4)))
		}
		many, err := QmmMany(x, w, s, z, 32, 4)
		if err != nil {
			t.Fatal(err)
		}
		for i := range many {
			same(t, fmt.Sprint("product ", i), b.read(b.hold(many[i])), b.read(one[i]))
		}
		gated := b.must(QmmSwiGLU(x, [2]Array(w), [2]Array(s), [2]Array(z), 32, 4))
		compare(t, "gated", b.read(gated), b.read(b.must(SwiGLU(Ours, one[0], one[1]))), 1e-7)
	}
}

func TestGatherQmmAgainstMLX(t *testing.T) {
	onThread(t)
	r := rng(32)
	const experts, k = 6, 3
	for _, tokens := range []int{1, 4, 70} {
		for _, each := range []bool{false, true} {
			b := newBag(t)
			q, _ := weights(r, experts*40, 128, 64, 4, F32)
			w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), experts)
			idx := make([]int32, tokens*k)
			for i := range idx {
				idx[i] = int32(r.IntN(experts))
			}
			choice := b.hold(Ints(idx, int32(tokens), k))
			per := 1
			if each {
				per = k
			}
			x := b.floats(normal(r, tokens*per*q.K), int32(tokens), int32(per), int32(q.K))
			got := b.must(GatherQmm(Ours, x, w, s, z, choice, 64, 4))
			want := b.must(GatherQmm(Theirs, x, w, s, z, choice, 64, 4))
			compare(t, fmt.Sprintf("%d tokens, each %v", tokens, each), b.read(got), b.read(want), 2e-4)
		}
	}
}

// A choice of no expert gives zeros, and touches nothing else.
func TestGatherQmmOutside(t *testing.T) {
	onThread(t)
	b := newBag(t)
	r := rng(33)
	q, _ := weights(r, 2*8, 32, 32, 8, F32)
	w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), 2)
	x := b.floats(normal(r, 2*32), 2, 32)
	y := b.read(b.must(GatherQmm(Ours, x, w, s, z, b.hold(Ints([]int32{5, 0, -1, 1}, 2, 2)), 32, 8)))
	same(t, "outside", y[:8], make([]float32, 8))
	same(t, "below", y[16:24], make([]float32, 8))
	inside := b.read(b.must(GatherQmm(Ours, x, w, s, z, b.hold(Ints([]int32{0, 0, 1, 1}, 2, 2)), 32, 8)))
	same(t, "first", y[8:16], inside[8:16])
	same(t, "last", y[24:], inside[24:])
}

func TestQembedAgainstMLX(t *testing.T) {
	onThread(t)
	b := newBag(t)
	r := rng(34)
	q, _ := weights(r, 50, 96, 32, 6, F32)
	w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
	ids := b.hold(Ints([]int32{3, 49, 0, 3, 17, 20}, 2, 3))
	got := b.must(Qembed(Ours, ids, w, s, z, 32, 6))
	if !slices.Equal(got.Shape(), []int{2, 3, 96}) {
		t.Fatalf("shape %v", got.Shape())
	}
	compare(t, "rows", b.read(got), b.read(b.must(Qembed(Theirs, ids, w, s, z, 32, 6))), primTol)
}

func TestSDPAAgainstMLX(t *testing.T) {
	onThread(t)
	r := rng(35)
	for _, rows := range []int{1, 2, 50} {
		for _, causal := range []bool{true, false} {
			b := newBag(t)
			h := Heads{H: 9, KVH: 3, D: 64, Dv: 64, Causal: causal, Scale: 0.125}
			const capacity, length = 256, 200
			k := b.floats(normal(r, 3*capacity*64), 1, 3, capacity, 64)
			v := b.floats(normal(r, 3*capacity*64), 1, 3, capacity, 64)
			q := b.floats(normal(r, rows*9*64), 1, 9, int32(rows), 64)
			got, want := b.must(SDPA(Ours, q, k, v, length, h, Array{})), b.must(SDPA(Theirs, q, k, v, length, h, Array{}))
			if !slices.Equal(got.Shape(), want.Shape()) {
				t.Fatalf("shape %v, want %v", got.Shape(), want.Shape())
			}
			compare(t, fmt.Sprintf("%d rows, causal %v", rows, causal), b.read(got), b.read(want), primTol)
		}
	}
}

// A cache that lies in memory as [positions, heads, D] is read as it lies, and
// sequences in one primitive agree with one by one.
func TestRaggedOverViews(t *testing.T) {
	onThread(t)
	b := newBag(t)
	r := rng(36)
	h := Heads{H: 4, KVH: 2, D: 32, Dv: 32, Causal: true, Scale: 0.2}
	var ks, vs []Array
	rows, lengths := []int32{1, 9, 1}, []int32{40, 64, 3}
	for range rows {
		ks = append(ks, b.must(b.floats(normal(r, 64*2*32), 1, 64, 2, 32).Transpose(0, 2, 1, 3)))
		vs = append(vs, b.floats(normal(r, 2*64*32), 1, 2, 64, 32))
	}
	qs := normal(r, 11*4*32)
	together := b.read(b.must(Ragged(b.floats(qs, 11, 4, 32), ks, vs, rows, lengths, h)))
	at := 0
	for i, n := range rows {
		part := qs[at : at+int(n)*128]
		q := b.must(b.floats(part, 1, n, 4, 32).Transpose(0, 2, 1, 3))
		y := b.must(b.must(SDPA(Ours, q, ks[i], vs[i], int(lengths[i]), h, Array{})).Transpose(0, 2, 1, 3))
		same(t, fmt.Sprint("sequence ", i), b.read(y), together[at:at+len(part)])
		at += len(part)
	}
}

func TestNormsAndGatesAgainstMLX(t *testing.T) {
	onThread(t)
	b := newBag(t)
	r := rng(37)
	xs, ys := normal(r, 7*100), normal(r, 7*100)
	x, y := b.floats(xs, 1, 7, 100), b.floats(ys, 1, 7, 100)
	for _, typ := range []Type{F32, F16, BF16} {
		w := b.hold(Floats(normal(r, 100), typ, 100))
		got, want := b.must(RMS(Ours, x, w, 1e-5)), b.must(RMS(Theirs, x, w, 1e-5))
		compare(t, "rms", b.read(got), b.read(want), primTol)
		sum, normed, err := AddRMS(x, y, w, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		b.hold(sum)
		b.hold(normed)
		added := make([]float32, len(xs))
		for i := range added {
			added[i] = xs[i] + ys[i]
		}
		same(t, "sum", b.read(sum), added)
		same(t, "norm of the sum", b.read(normed), b.read(b.must(RMS(Ours, sum, w, 1e-5))))
	}
	compare(t, "plain rms", b.read(b.must(RMS(Ours, x, Array{}, 1e-5))), b.read(b.must(RMS(Theirs, x, Array{}, 1e-5))), primTol)
	gated := b.read(b.must(SwiGLU(Ours, x, y)))
	compare(t, "swiglu", gated, b.read(b.must(SwiGLU(Theirs, x, y))), primTol)
	var both []float32
	for i := 0; i < len(xs); i += 100 {
		both = append(append(both, xs[i:i+100]...), ys[i:i+100]...)
	}
	same(t, "packed", b.read(b.must(SwiGLUPacked(b.floats(both, 1, 7, 200)))), gated)
}

func TestRopeAgainstMLX(t *testing.T) {
	onThread(t)
	r := rng(38)
	for _, traditional := range []bool{false, true} {
		for _, own := range []bool{false, true} {
			b := newBag(t)
			var freqs Array
			if own {
				f := make([]float32, 24)
				for i := range f {
					f[i] = 1 + float32(i*i)
				}
				freqs = b.floats(f, 24)
			}
			xs := normal(r, 3*5*64)
			x := b.floats(xs, 1, 3, 5, 64)
			got := b.must(Rope(Ours, x, 48, traditional, 10000, 0.5, 1000, freqs))
			want := b.must(Rope(Theirs, x, 48, traditional, 10000, 0.5, 1000, freqs))
			// Angles near 500 differ by a unit in their last place, 3e-5.
			compare(t, fmt.Sprint(traditional, own), b.read(got), b.read(want), 2e-4)
			if own {
				continue
			}
			rows := b.must(x.Transpose(0, 2, 1, 3))
			turned := b.must(RopeRows(rows, []int32{1000, 1001, 1002, 1003, 1004}, 48, traditional, 10000, 0.5))
			same(t, "rows first", b.read(b.must(turned.Transpose(0, 2, 1, 3))), b.read(got))
		}
	}
}

// Nothing to do is done: no rows, no tokens.
func TestEmpty(t *testing.T) {
	onThread(t)
	b := newBag(t)
	r := rng(39)
	q, _ := weights(r, 8, 32, 32, 4, F32)
	w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
	none := b.floats(nil, 0, 32)
	k := b.floats(normal(r, 2*4*32), 1, 2, 4, 32)
	h := Heads{H: 2, KVH: 2, D: 32, Dv: 32, Causal: true, Scale: 1}
	empty := []Array{
		b.must(Qmm(Ours, none, w, s, z, 32, 4)),
		b.must(RMS(Ours, none, Array{}, 1e-5)),
		b.must(SwiGLU(Ours, none, none)),
		b.must(Ragged(b.floats(nil, 0, 2, 32), []Array{k}, []Array{k}, []int32{0}, []int32{4}, h)),
	}
	for _, a := range empty {
		if v := b.read(a); len(v) != 0 {
			t.Errorf("%d values, want none", len(v))
		}
	}
}

// What doesn't fit is refused when the graph is built, by name.
func TestRefusals(t *testing.T) {
	onThread(t)
	b := newBag(t)
	r := rng(40)
	q, _ := weights(r, 8, 64, 32, 4, F32)
	w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
	x, short := b.floats(normal(r, 64), 1, 64), b.floats(normal(r, 32), 1, 32)
	k := b.floats(normal(r, 2*4*32), 1, 2, 4, 32)
	qq := b.floats(normal(r, 3*3*32), 3, 3, 32)
	h := Heads{H: 3, KVH: 2, D: 32, Dv: 32, Scale: 1}
	two := b.floats(normal(r, 3*2*32), 3, 2, 32)
	refuse := func(want string, _ Array, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	call := func(want string) func(Array, error) {
		return func(a Array, err error) { t.Helper(); refuse(want, a, err) }
	}
	call("bits 7")(Qmm(Ours, x, w, s, z, 32, 7))
	call("group 16")(Qmm(Ours, x, w, s, z, 16, 4))
	call("do not fit")(Qmm(Ours, x, w, s, z, 64, 4))
	call("columns")(Qmm(Ours, short, w, s, z, 32, 4))
	call("3 heads over 2")(Ragged(qq, []Array{k}, []Array{k}, []int32{3}, []int32{4}, h))
	call("3 rows at length 9")(Ragged(two, []Array{k}, []Array{k}, []int32{3}, []int32{9}, h))
	call("2 rows in all")(Ragged(two, []Array{k}, []Array{k}, []int32{2}, []int32{4}, h))
	call("differ")(SwiGLU(Ours, x, short))
	call("dims 7")(Rope(Ours, k, 7, false, 10000, 1, 0, Array{}))
	call("does not fit")(RMS(Ours, x, b.floats(normal(r, 3), 3), 1e-5))
}

// A step's arrays are gone with their handles: nothing is kept by a task.
func TestNothingIsKept(t *testing.T) {
	onThread(t)
	r := rng(41)
	q, _ := weights(r, 64, 64, 32, 4, F16)
	step := func() {
		b := &bag{t: t}
		defer b.free()
		w, s, z := b.quant(q, q.values(q.Scales), q.values(q.Biases), 0)
		x := b.floats(normal(r, 10*64), 10, 64)
		y := b.must(Qmm(Ours, b.must(RMS(Ours, x, Array{}, 1e-5)), w, s, z, 32, 4))
		k := b.floats(normal(r, 64*64), 1, 1, 64, 64)
		h := Heads{H: 1, KVH: 1, D: 64, Dv: 64, Causal: true, Scale: 1}
		q4 := b.must(SwiGLU(Ours, y, y))
		rows := b.must(RopeRows(b.floats(b.read(q4), 10, 1, 64), make([]int32, 10), 64, false, 10000, 1))
		b.read(b.must(Ragged(rows, []Array{k}, []Array{k}, []int32{10}, []int32{64}, h)))
	}
	step()
	before := Active()
	for range 20 {
		step()
	}
	if after := Active(); after != before {
		t.Errorf("%d bytes live, before %d", after, before)
	}
}
