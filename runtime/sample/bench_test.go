package sample

import (
	"math/rand/v2"
	"testing"

	"ingot/runtime/turn"
)

// likely returns logits like a model's: a bell of 150k and a few that stand
// out.
func likely(v int) []float32 {
	r := rand.New(rand.NewPCG(7, 9))
	ls := make([]float32, v)
	for i := range ls {
		ls[i] = float32(2.2 * r.NormFloat64())
	}
	for range 40 {
		ls[r.IntN(v)] = float32(8 + 5*r.Float64())
	}
	return ls
}

func BenchmarkPick(b *testing.B) {
	logits := likely(151936)
	for name, set := range map[string]func(*turn.Params){
		"greedy":      func(p *turn.Params) { p.Temperature = 0 },
		"temperature": func(p *turn.Params) { p.Temperature = 0.8 },
		"topk20":      func(p *turn.Params) { p.TopK = 20 },
		"topk20topp":  func(p *turn.Params) { p.Temperature, p.TopK, p.TopP = 0.6, 20, 0.95 },
		"topk2000":    func(p *turn.Params) { p.TopK = 2000 },
		"topp":        func(p *turn.Params) { p.Temperature, p.TopP = 0.7, 0.9 },
		"minp":        func(p *turn.Params) { p.MinP = 0.05 },
		"penalties":   func(p *turn.Params) { p.TopK, p.RepetitionPenalty, p.PresencePenalty = 20, 1.1, 1 },
		"logprobs":    func(p *turn.Params) { p.TopK, p.Logprobs, p.TopLogprobs = 20, true, 5 },
	} {
		b.Run(name, func(b *testing.B) {
			p := turn.Neutral()
			set(&p)
			s := New(&p, make([]turn.TokenID, 1000), 0)
			b.ReportAllocs()
			for b.Loop() {
				s.Pick(logits)
			}
		})
	}
}
