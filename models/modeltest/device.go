package modeltest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"ingot/models"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

var device *mlx.Device

// Main opens the one device, on the CPU, runs the tests and closes it.
func Main(m *testing.M) {
	var err error
	if device, err = mlx.Open(mlx.Options{Kind: mlx.CPU}); err != nil {
		fmt.Fprintln(os.Stderr, "modeltest:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := device.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "modeltest:", err)
		code = 1
	}
	os.Exit(code)
}

// Device is the one that Main opened.
func Device() *mlx.Device { return device }

// Bench is a loaded model with short ways to step it. Its methods may be
// called anywhere and fail the test on errors, but for TryStep.
type Bench struct {
	tb    testing.TB
	Dev   *mlx.Device
	Model models.Model
}

// Load opens the model in a folder until the test ends, and checks then that
// nothing is left on the device.
func Load(tb testing.TB, folder string) *Bench {
	tb.Helper()
	b := &Bench{tb: tb, Dev: device}
	before := device.Handles()
	b.do(func() (err error) {
		b.Model, err = models.Open(device, folder, models.Options{})
		return err
	})
	tb.Cleanup(func() {
		b.do(func() error { b.Model.Close(); return nil })
		if after := device.Handles(); after != before {
			tb.Errorf("%d handles left on the device", after-before)
		}
	})
	return b
}

func (b *Bench) do(f func() error) {
	b.tb.Helper()
	if err := b.Dev.Do(f); err != nil {
		b.tb.Fatal(err)
	}
}

// live is the buffers in use once MLX has let go of what its last task held.
func (b *Bench) live() int64 {
	b.tb.Helper()
	Quiet(b.tb, b.Dev)
	n, _ := b.Dev.Ledger().Live()
	return int64(n)
}

// Quiet waits until the device holds no temporary of what was computed
// before: a thread of MLX keeps those of its last task until it has another.
func Quiet(tb testing.TB, dev *mlx.Device) {
	tb.Helper()
	err := dev.Do(func() error {
		s := dev.NewScope()
		defer s.Close()
		return s.Eval(s.Neg(s.Scalar(1)))
	})
	if err := errors.Join(err, dev.Ledger().Settle()); err != nil {
		tb.Fatal(err)
	}
}

// Sequence returns an empty sequence that is freed when the test ends.
func (b *Bench) Sequence() *kv.Sequence {
	q := b.Model.NewSequence()
	b.tb.Cleanup(func() { b.do(func() error { q.Free(); return nil }) })
	return q
}

// Part is one segment of a step: tokens for a sequence, and which of its
// rows are wanted (counted from its own first).
type Part struct {
	Seq    *kv.Sequence
	Tokens []int32
	Want   []int
}

// All wants every row.
func All(n int) []int {
	w := make([]int, n)
	for i := range w {
		w[i] = i
	}
	return w
}

// Step runs one step and commits it: the logits of the wanted rows of all
// parts, in order.
func (b *Bench) Step(depth int, parts ...Part) [][]float32 {
	b.tb.Helper()
	rows, err := b.TryStep(depth, parts...)
	if err != nil {
		b.tb.Fatal(err)
	}
	return rows
}

// TryStep is Step that gives an error back, after rolling back.
func (b *Bench) TryStep(depth int, parts ...Part) ([][]float32, error) {
	batch := &models.Batch{Depth: depth}
	for _, p := range parts {
		for _, w := range p.Want {
			batch.Want = append(batch.Want, len(batch.Tokens)+w)
		}
		batch.Tokens = append(batch.Tokens, p.Tokens...)
		batch.Segments = append(batch.Segments, models.Segment{Seq: p.Seq, Len: len(p.Tokens)})
	}
	var rows [][]float32
	err := b.Dev.Do(func() (err error) {
		rows, err = b.run(batch)
		return err
	})
	return rows, err
}

func (b *Bench) run(batch *models.Batch) ([][]float32, error) {
	s := b.Dev.NewScope()
	logits, err := b.Model.Forward(s, batch)
	var arrays []*mlx.Array
	if err == nil {
		if logits != nil {
			arrays = append(arrays, logits)
		}
		for _, g := range batch.Segments {
			arrays = append(arrays, g.Seq.States()...)
		}
		err = s.Eval(arrays...)
	}
	if err != nil {
		s.Close()
		for _, g := range batch.Segments {
			if lost := g.Seq.Rollback(); lost != nil {
				return nil, lost
			}
		}
		return nil, err
	}
	var flat []float32
	if logits != nil {
		flat = make([]float32, logits.Size())
		err = logits.Float32s(flat)
	}
	s.Close()
	for _, g := range batch.Segments {
		g.Seq.Commit(g.Len)
	}
	return slices.Collect(slices.Chunk(flat, b.Model.Info().Vocab)), err
}

// Greedy continues a sequence whose last logits are given by n tokens.
func (b *Bench) Greedy(q *kv.Sequence, logits []float32, n int) []int32 {
	b.tb.Helper()
	var out []int32
	for range n {
		out = append(out, ArgMax(logits))
		logits = b.Step(0, Part{q, out[len(out)-1:], []int{0}})[0]
	}
	return out
}

// ArgMax is the first of the largest.
func ArgMax(v []float32) int32 {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return int32(best)
}
