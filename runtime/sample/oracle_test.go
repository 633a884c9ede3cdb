package sample

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

// odds is one token with its probability.
type odds struct {
	token int
	p     float64
}

// oracle is the distribution that a chain leaves, done the slow way: every
// filter over a full sort, every probability normalized.
func oracle(p *turn.Params, prompt, answer []turn.TokenID, mask []uint32, logits []float32) []odds {
	ls := make([]float64, len(logits))
	for i, v := range logits {
		ls[i] = oracleEdit(p, prompt, answer, turn.TokenID(i), float64(v))
		if mask != nil && (i/32 >= len(mask) || mask[i/32]>>(i%32)&1 == 0) {
			ls[i] = math.Inf(-1)
		}
		ls[i] = float64(float32(ls[i]))
	}
	os := make([]odds, len(ls))
	top := slices.Max(ls)
	for i, l := range ls {
		os[i] = odds{i, math.Exp((l - top) / p.Temperature)}
	}
	slices.SortStableFunc(os, func(a, b odds) int { return cmp.Compare(ls[b.token], ls[a.token]) })
	if p.TopK > 0 {
		os = os[:min(p.TopK, len(os))]
	}
	normalize(os)
	if p.TopP < 1 {
		sum := 0.0
		n := slices.IndexFunc(os, func(o odds) bool { sum += o.p; return sum >= p.TopP })
		if n >= 0 {
			os = os[:n+1]
		}
	}
	normalize(os)
	least := p.MinP * os[0].p
	os = slices.DeleteFunc(os, func(o odds) bool { return o.p < least || o.p == 0 })
	normalize(os)
	return os
}

func oracleEdit(p *turn.Params, prompt, answer []turn.TokenID, t turn.TokenID, v float64) float64 {
	n := 0
	for _, a := range answer {
		if a == t {
			n++
		}
	}
	if n > 0 || slices.Contains(prompt, t) {
		v = float64(float32(map[bool]float64{true: v / p.RepetitionPenalty, false: v * p.RepetitionPenalty}[v > 0]))
	}
	if n > 0 {
		v = float64(float32(v - p.PresencePenalty - float64(p.FrequencyPenalty*float64(n))))
	}
	return v + p.LogitBias[t]
}

func normalize(os []odds) {
	sum := 0.0
	for _, o := range os {
		sum += o.p
	}
	for i := range os {
		os[i].p /= sum
	}
}

// chain draws parameters of every kind.
func chain(t *rapid.T) turn.Params {
	p := turn.Neutral()
	p.Temperature = rapid.SampledFrom([]float64{0.01, 0.3, 0.7, 1, 1.7, 20}).Draw(t, "temperature")
	p.TopK = rapid.SampledFrom([]int{0, 1, 2, 7, 40, 300, 5000}).Draw(t, "top_k")
	p.TopP = rapid.SampledFrom([]float64{1e-9, 0.1, 0.5, 0.9, 0.99, 1}).Draw(t, "top_p")
	p.MinP = rapid.SampledFrom([]float64{0, 0.02, 0.5, 1}).Draw(t, "min_p")
	p.RepetitionPenalty = rapid.SampledFrom([]float64{0.7, 1, 1.3}).Draw(t, "repetition")
	p.PresencePenalty = rapid.SampledFrom([]float64{-1, 0, 1.5}).Draw(t, "presence")
	p.FrequencyPenalty = rapid.SampledFrom([]float64{-0.5, 0, 0.25}).Draw(t, "frequency")
	if rapid.Bool().Draw(t, "bias") {
		p.LogitBias = map[turn.TokenID]float64{3: 2.5, 5: -100, 1 << 20: 3}
	}
	p.Seed = rapid.Uint64().Draw(t, "seed")
	return p
}

func row(t *rapid.T) []float32 {
	v := rapid.SampledFrom([]int{1, 8, 31, 400, 1500}).Draw(t, "vocabulary")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "logits"), 1))
	spread := rapid.SampledFrom([]float64{0, 0.1, 3, 30, 300}).Draw(t, "spread")
	step := rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "step") // for ties
	ls := make([]float32, v)
	for i := range ls {
		x := spread * r.NormFloat64()
		if step > 0 {
			x = math.Round(x/step) * step
		}
		ls[i] = float32(x)
	}
	return ls
}

// TestDrawFollowsOracle walks the unit interval: the token under each point
// must have, around that point, the probability that the oracle gives it.
func TestDrawFollowsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, logits := chain(t), row(t)
		prompt, answer := []turn.TokenID{1, 2, 2, 3}, []turn.TokenID{3, 4, 4, 4}
		s := New(&p, prompt, 0)
		for _, a := range answer {
			s.Accept(a)
		}
		var mask []uint32
		if rapid.Bool().Draw(t, "masked") {
			mask = []uint32{0xA5A5A5A7, 0xFFFFFFFF}
			s.SetMask(mask)
		}
		w := borrow()
		defer w.giveBack()
		edited := w.copyOf(logits)
		s.edit(edited)
		top, err := peak(edited)
		if err != nil {
			t.Fatal(err)
		}
		got := map[turn.TokenID]float64{}
		for i := range points {
			got[s.draw(w, edited, edited[top], (float64(i)+0.5)/points)] += 1.0 / points
		}
		// Where so many equals hold top_p exactly, rounding decides on the last.
		var off string
		for _, slack := range []float64{0, -1e-9, 1e-9} {
			q := p
			q.TopP = min(1, q.TopP*(1+slack))
			if off = differs(got, oracle(&q, prompt, answer, mask, logits)); off == "" {
				return
			}
		}
		t.Fatal(off)
	})
}

// points walked of the unit interval.
const points = 4000

// differs tells of a token that does not have what the oracle gives it.
func differs(got map[turn.TokenID]float64, oracle []odds) string {
	want := map[turn.TokenID]float64{}
	for _, o := range oracle {
		want[turn.TokenID(o.token)] = o.p
	}
	for tok := range got {
		want[tok] += 0
	}
	for tok, o := range want {
		if math.Abs(got[tok]-o) > 1.01/points {
			return fmt.Sprintf("token %d has %.5f, oracle gives it %.5f", tok, got[tok], o)
		}
	}
	return ""
}

// TestChiSquare draws with the sampler's own randomness.
func TestChiSquare(t *testing.T) {
	logits := []float32{1, 0.5, 0, -0.5, -1, 2, 1.5, -3}
	for name, set := range map[string]func(*turn.Params){
		"plain": func(p *turn.Params) {},
		"cold":  func(p *turn.Params) { p.Temperature = 0.5 },
		"topk":  func(p *turn.Params) { p.TopK = 4 },
		"topp":  func(p *turn.Params) { p.TopP = 0.9 },
		"minp":  func(p *turn.Params) { p.MinP = 0.1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := turn.Neutral()
			p.Seed = 20261201
			set(&p)
			const n = 50000
			got := map[turn.TokenID]float64{}
			s := New(&p, nil, 1)
			for range n {
				tok := s.Pick(logits).Token
				got[tok]++
				s.Accept(tok)
			}
			want := oracle(&p, nil, nil, nil, logits)
			chi := 0.0
			for _, o := range want {
				if n*o.p < 5 {
					continue // too rare for the statistic
				}
				d := got[turn.TokenID(o.token)] - n*o.p
				chi += d * d / (n * o.p)
			}
			if len(got) > len(want) {
				t.Fatalf("%d tokens drawn, oracle leaves %d", len(got), len(want))
			}
			if df := float64(len(want) - 1); chi > df+5*math.Sqrt(2*df)+5 {
				t.Errorf("chi-square %.1f with %v degrees of freedom", chi, df)
			}
		})
	}
}
