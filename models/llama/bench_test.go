package llama_test

import (
	"fmt"
	"testing"

	"ingot/models/modeltest"
)

// BenchmarkPrefill reports tokens per second of one step on the starter
// model.
func BenchmarkPrefill(b *testing.B) {
	m := modeltest.Load(b, modeltest.Starter(b))
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

// BenchmarkDecode reports tokens per second one by one.
func BenchmarkDecode(b *testing.B) {
	m := modeltest.Load(b, modeltest.Starter(b))
	for _, n := range []int{64, 1024} {
		q := m.Sequence()
		m.Step(0, modeltest.Part{Seq: q, Tokens: modeltest.Tokens(1, n, 40000)})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				m.Step(0, modeltest.Part{Seq: q, Tokens: []int32{1}, Want: []int{0}})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}
