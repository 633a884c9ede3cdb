package modeltest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// Tolerance is how far a logit may lie from the reference's, as a part of
// the largest logit of the prompt: f32 summed in another order.
const Tolerance = 2e-4

// Case is a checkpoint to put through the suite.
type Case struct {
	Name   string
	Family string
	Args   []string // of mktiny.py
}

// Families runs the suite over tiny checkpoints.
func Families(t *testing.T, cases ...Case) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { Run(t, Tiny(t, c.Family, c.Args...)) })
	}
}

// Run is the suite: every model must pass it.
func Run(t *testing.T, folder string) {
	b := Load(t, folder)
	vocab := b.Model.Info().Vocab
	ref := Ask(t, folder, 64, Tokens(1, 1, vocab), Tokens(2, 9, vocab), Tokens(3, 70, vocab), Tokens(4, 150, vocab))
	for _, c := range []struct {
		name string
		test func(*testing.T, *Bench, *Reference)
	}{
		{"parity", Parity}, {"chunks", Chunks}, {"wanted rows", Wanted}, {"depth", Depth}, {"ragged batch", Ragged},
		{"throws", Throws}, {"fork and trim", ForkTrim}, {"steady", Steady},
	} {
		t.Run(c.name, func(t *testing.T) {
			bb := *b
			bb.tb = t
			c.test(t, &bb, ref)
		})
	}
}

// Tokens returns n random tokens of a vocabulary.
func Tokens(seed uint64, n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(seed, uint64(vocab)))
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(r.IntN(vocab))
	}
	return out
}

// Near fails the test where a differs from b by more than Tolerance.
func Near(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	var worst, largest float64
	at := 0
	for i := range want {
		for j := range want[i] {
			d := math.Abs(float64(got[i][j]) - float64(want[i][j]))
			if !(d <= worst) { // also where it is not a number
				worst, at = d, i
			}
			largest = max(largest, math.Abs(float64(want[i][j])))
		}
	}
	if !(worst <= Tolerance*largest) {
		t.Errorf("%s: a logit of row %d is off by %g, the largest is %g", what, at, worst, largest)
	}
}

// Parity compares every prompt row's logits and 64 greedy tokens with
// mlx-lm.
func Parity(t *testing.T, b *Bench, ref *Reference) {
	for i, p := range ref.Prompts {
		q := b.Sequence()
		rows := b.Step(0, Part{q, p, All(len(p))})
		Near(t, fmt.Sprintf("prompt of %d", len(p)), rows, ref.Logits[i])
		got := b.Greedy(q, rows[len(rows)-1], len(ref.Greedy[i]))
		for j := range got {
			if got[j] != ref.Greedy[i][j] {
				t.Errorf("prompt of %d: token %d of %d differs (the reference's margin there: %g)", len(p), j, len(got), ref.Margin[i][j])
				break
			}
		}
	}
}

// Chunks compares a prompt in one step with the same in many.
func Chunks(t *testing.T, b *Bench, ref *Reference) {
	p := ref.Prompts[len(ref.Prompts)-1]
	want := b.Step(0, Part{b.Sequence(), p, All(len(p))})
	n := len(p)
	for _, cuts := range [][]int{ones(n), {n - 1, 1}, {1, n - 1}, {64, n - 64}, {63, 1, 1, n - 65}, {7, 64, n - 71}, halves(n)} {
		q := b.Sequence()
		var got [][]float32
		at := 0
		for _, c := range cuts {
			got = append(got, b.Step(0, Part{q, p[at : at+c], All(c)})...)
			at += c
		}
		Near(t, fmt.Sprintf("in %d chunks", len(cuts)), got, want)
		if q.Len() != n {
			t.Errorf("length %d after %d tokens", q.Len(), n)
		}
	}
}

func ones(n int) []int { return slices.Repeat([]int{1}, n) }

func halves(n int) (out []int) {
	for n > 1 {
		out, n = append(out, n/2), n-n/2
	}
	return append(out, n)
}

// Wanted asks for some rows, and for none.
func Wanted(t *testing.T, b *Bench, ref *Reference) {
	p := ref.Prompts[2]
	all := b.Step(0, Part{b.Sequence(), p, All(len(p))})
	for _, want := range [][]int{{0}, {len(p) - 1}, {3, 4, 5}, {0, 7, len(p) - 2}} {
		got := b.Step(0, Part{b.Sequence(), p, want})
		var rows [][]float32
		for _, w := range want {
			rows = append(rows, all[w])
		}
		Near(t, fmt.Sprintf("rows %v", want), got, rows)
	}
	q := b.Sequence()
	if got := b.Step(0, Part{Seq: q, Tokens: p[:len(p)-1]}); len(got) != 0 {
		t.Errorf("%d rows of logits, none wanted", len(got))
	}
	Near(t, "after a step without logits", b.Step(0, Part{q, p[len(p)-1:], []int{0}}), all[len(p)-1:])
}

// Depth evaluates within the step: the same bits.
func Depth(t *testing.T, b *Bench, ref *Reference) {
	p := ref.Prompts[2]
	want := b.Step(0, Part{b.Sequence(), p, All(len(p))})
	for _, d := range []int{1, 2, 3, 1000} {
		got := b.Step(d, Part{b.Sequence(), p, All(len(p))})
		same(t, fmt.Sprintf("depth %d", d), got, want)
	}
}

func same(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("%s: row %d has other bits", what, i)
			return
		}
	}
}

// Ragged steps several sequences at once, prefill beside decode, and
// compares each with itself alone.
func Ragged(t *testing.T, b *Bench, ref *Reference) {
	prompts := ref.Prompts
	alone := make([][][]float32, len(prompts))
	for i, p := range prompts {
		q := b.Sequence()
		alone[i] = append(b.Step(0, Part{q, p, All(len(p))}), b.Step(0, Part{q, ref.Greedy[i][:1], []int{0}})...)
	}
	seqs := make([]*kv.Sequence, len(prompts))
	for i := range seqs {
		seqs[i] = b.Sequence()
	}
	// Sequences 0 and 1 begin; then they decode beside the prefill of 2 and 3; then all decode.
	last := func(i int) []int { return []int{len(prompts[i]) - 1} }
	first := b.Step(0, Part{seqs[0], prompts[0], last(0)}, Part{seqs[1], prompts[1], last(1)})
	mixed := b.Step(0, Part{seqs[0], ref.Greedy[0][:1], []int{0}}, Part{seqs[2], prompts[2], last(2)},
		Part{seqs[1], ref.Greedy[1][:1], []int{0}}, Part{seqs[3], prompts[3], last(3)})
	decode := b.Step(0, Part{seqs[3], ref.Greedy[3][:1], []int{0}}, Part{seqs[2], ref.Greedy[2][:1], []int{0}})
	for _, c := range []struct {
		what      string
		got       []float32
		seq, back int // of alone, from its end
	}{
		{"prefill 0", first[0], 0, 2}, {"prefill 1", first[1], 1, 2}, {"decode 0", mixed[0], 0, 1}, {"prefill 2", mixed[1], 2, 2},
		{"decode 1", mixed[2], 1, 1}, {"prefill 3", mixed[3], 3, 2}, {"decode 3", decode[0], 3, 1}, {"decode 2", decode[1], 2, 1},
	} {
		rows := alone[c.seq]
		Near(t, c.what, [][]float32{c.got}, rows[len(rows)-c.back:len(rows)-c.back+1])
	}
}

// Throws fails allocations within steps: nothing stays behind, and the
// repeated step has the same bits.
func Throws(t *testing.T, b *Bench, ref *Reference) {
	p := ref.Prompts[1]
	q, calm := b.Sequence(), b.Sequence()
	b.Step(0, Part{Seq: q, Tokens: p})
	b.Step(0, Part{Seq: calm, Tokens: p})
	next := ref.Greedy[1][:5]
	want := b.Step(0, Part{calm, next, All(5)})
	l := b.Dev.Ledger()
	for n := int64(1); n < 400; n += 1 + n/6 {
		live := b.live()
		fired := l.Fired()
		l.FailAt(n)
		got, err := b.TryStep(int(n)%3, Part{q, next, All(5)})
		l.FailAt(0)
		if l.Fired() == fired { // the step needs fewer allocations
			same(t, "undisturbed", got, want)
			return
		}
		if !errors.Is(err, mlx.ErrResourceLimit) {
			t.Fatalf("malloc %d failed, the step said %v", n, err)
		}
		if now := b.live(); now != live {
			t.Fatalf("malloc %d failed: %d live buffers, %d before", n, now, live)
		}
		if q.Len() != len(p) {
			t.Fatalf("malloc %d failed: length %d", n, q.Len())
		}
	}
	same(t, "after the throws", b.Step(0, Part{q, next, All(5)}), want)
}

// ForkTrim goes on from copies and from before.
func ForkTrim(t *testing.T, b *Bench, ref *Reference) {
	p := ref.Prompts[2]
	q := b.Sequence()
	b.Step(0, Part{Seq: q, Tokens: p})
	var f *kv.Sequence
	b.do(func() (err error) {
		s := b.Dev.NewScope()
		defer s.Close()
		f, err = q.Fork(s)
		return err
	})
	defer b.do(func() error { f.Free(); return nil })
	next := ref.Greedy[2][:4]
	want := b.Step(0, Part{q, next, All(4)})
	same(t, "fork", b.Step(0, Part{f, next, All(4)}), want)
	if err := q.Trim(q.Len() + 1); !errors.Is(err, kv.ErrTrim) {
		t.Errorf("trimmed to more than there is: %v", err)
	}
	if !q.CanTrim(len(p)) {
		return // its states cannot go back
	}
	if err := q.Trim(len(p)); err != nil {
		t.Fatal(err)
	}
	same(t, "trim", b.Step(0, Part{q, next, All(4)}), want)
}

// Steady decodes: live buffers do not grow, and the bytes that a step
// allocates do not depend on the context. A copy of any one cache would show.
func Steady(t *testing.T, b *Bench, ref *Reference) {
	short, long := b.Sequence(), b.Sequence()
	vocab := b.Model.Info().Vocab
	b.Step(0, Part{Seq: short, Tokens: Tokens(9, 40, vocab)})
	b.Step(0, Part{Seq: long, Tokens: Tokens(9, 1030, vocab)})
	l := b.Dev.Ledger()
	spend := func(q *kv.Sequence) int64 {
		_, before := l.Total()
		b.Step(0, Part{q, []int32{1}, []int{0}})
		_, after := l.Total()
		return int64(after - before)
	}
	early := spend(short)
	live := b.live()
	for range 60 {
		spend(short)
		if now := b.live(); now != live {
			t.Fatalf("%d live buffers at %d tokens, %d before", now, short.Len(), live)
		}
	}
	// MLX's threads decide now and then whether a small temporary is reused.
	slack := max(long.Bytes()/int64(8*b.Model.Info().Layers), early/50)
	if late := spend(long); late > early+slack {
		t.Errorf("a decode step allocated %d bytes at %d tokens, %d at %d", early, short.Len(), late, long.Len())
	}
}
