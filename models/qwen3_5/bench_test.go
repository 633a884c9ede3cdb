package qwen35_test

import (
	"fmt"
	"testing"

	"ingot/models/modeltest"
)

// deep is the shape of the model that made MLX's servers run out of buffers.
func deep(tb testing.TB) *modeltest.Bench {
	return modeltest.Load(tb, modeltest.Tiny(tb, "qwen3_5_moe", "--layers", "40", "--experts", "16", "--hidden", "128", "--vocab", "49152"))
}

// BenchmarkPrefill reports tokens per second of one step.
func BenchmarkPrefill(b *testing.B) {
	m := deep(b)
	for _, n := range []int{128, 1024} {
		p := modeltest.Tokens(1, n, 40000)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				m.Step(0, modeltest.Part{Seq: m.Sequence(), Tokens: p, Want: []int{n - 1}})
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}

// BenchmarkDecode reports steps per second of sequences that go together.
func BenchmarkDecode(b *testing.B) {
	m := deep(b)
	for _, n := range []int{1, 8} {
		parts := make([]modeltest.Part, n)
		for i := range parts {
			parts[i] = modeltest.Part{Seq: m.Sequence(), Tokens: []int32{1}, Want: []int{0}}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				m.Step(0, parts...)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}
