package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ingot/runtime/turn"
)

var inf = float32(math.Inf(1))

func params(set func(*turn.Params)) *turn.Params {
	p := turn.Neutral()
	set(&p)
	return &p
}

// Vectors of the paper's reference implementation (Random123, kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	const f = 0xffffffff
	for _, v := range []struct {
		key  [2]uint32
		ctr  [4]uint32
		want [4]uint32
	}{
		{[2]uint32{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[2]uint32{f, f}, [4]uint32{f, f, f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(v.key, v.ctr); got != v.want {
			t.Errorf("philox(%x, %x) = %x, want %x", v.key, v.ctr, got, v.want)
		}
	}
}

func TestExp(t *testing.T) {
	for x := float64(negligible); x <= 0; x += 1.0 / 1024 {
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-12*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if exp(0) != 1 {
		t.Errorf("exp(0) = %v", exp(0))
	}
}

// TestGolden holds the tokens of a few chains for ever and on every platform:
// a change here changes every seeded answer.
func TestGolden(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([][]float32, 12)
	for i := range rows {
		rows[i] = make([]float32, 1000)
		for j := range rows[i] {
			rows[i][j] = float32(r.IntN(4096))/256 - 8
		}
	}
	for name, c := range map[string]struct {
		p    *turn.Params
		want []turn.TokenID
	}{
		"plain": {params(func(p *turn.Params) { p.Seed = 42 }), goldenPlain},
		"all": {params(func(p *turn.Params) {
			p.Seed, p.Temperature, p.TopK, p.TopP, p.MinP, p.RepetitionPenalty, p.FrequencyPenalty = 1<<40, 1.3, 50, 0.9, 0.01, 1.2, 0.5
		}), goldenAll},
		"nucleus": {params(func(p *turn.Params) { p.Seed, p.TopP = 7, 0.8 }), goldenNucleus},
	} {
		s := New(c.p, []turn.TokenID{1, 2, 3}, 2)
		var got []turn.TokenID
		for _, row := range rows {
			tok := s.Pick(row).Token
			s.Accept(tok)
			got = append(got, tok)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestGreedyTakesTheLowestOfEquals(t *testing.T) {
	for _, v := range []int{1, 2, 33, 1000} {
		ls := make([]float32, v)
		ls[v-1] = 1
		ls[v/2] = 1
		if got := New(params(func(p *turn.Params) { p.Temperature = 0 }), nil, 0).Pick(ls).Token; int(got) != min(v/2, v-1) {
			t.Errorf("of %d: token %d", v, got)
		}
	}
}

func TestPlain(t *testing.T) {
	greedy := func(p *turn.Params) { p.Temperature = 0 }
	for name, c := range map[string]struct {
		set  func(*turn.Params)
		want bool
	}{
		"greedy":     {greedy, true},
		"filtered":   {func(p *turn.Params) { greedy(p); p.TopK, p.TopP, p.MinP = 5, 0.5, 0.1 }, true},
		"sampled":    {func(p *turn.Params) {}, false},
		"logprobs":   {func(p *turn.Params) { greedy(p); p.Logprobs = true }, false},
		"repetition": {func(p *turn.Params) { greedy(p); p.RepetitionPenalty = 1.1 }, false},
		"presence":   {func(p *turn.Params) { greedy(p); p.PresencePenalty = 1 }, false},
		"frequency":  {func(p *turn.Params) { greedy(p); p.FrequencyPenalty = 1 }, false},
		"bias":       {func(p *turn.Params) { greedy(p); p.LogitBias = map[turn.TokenID]float64{1: 1} }, false},
	} {
		s := New(params(c.set), nil, 0)
		if s.Plain() != c.want {
			t.Errorf("%s: plain is %v", name, s.Plain())
		}
		if s.SetMask([]uint32{1}); s.Plain() {
			t.Errorf("%s: plain in spite of a mask", name)
		}
	}
}

func TestBadLogits(t *testing.T) {
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		row   []float32
		index int
	}{
		"first":    {[]float32{nan, 1, 2}, 0},
		"behind":   {[]float32{5, 1, nan}, 2},
		"infinite": {[]float32{5, inf, 1}, 1},
		"nothing":  {[]float32{-inf, -inf}, -1},
		"empty":    {nil, -1},
	} {
		for _, temperature := range []float64{0, 1} {
			got := New(params(func(p *turn.Params) { p.Temperature = temperature }), nil, 0).Pick(c.row)
			var bad *LogitsError
			if !errors.As(got.Err, &bad) || bad.Index != c.index {
				t.Errorf("%s: %v, want index %d", name, got.Err, c.index)
			}
		}
	}
}

func TestMask(t *testing.T) {
	ls := make([]float32, 100)
	for i := range ls {
		ls[i] = float32(i)
	}
	s := New(params(func(p *turn.Params) { p.Temperature = 0 }), nil, 0)
	for _, c := range []struct {
		mask []uint32
		want turn.TokenID
	}{
		{nil, 99}, {[]uint32{1 << 7}, 7}, {[]uint32{0, 1<<31 | 1}, 63}, {[]uint32{math.MaxUint32, 0, 0, 1 << 2}, 98}, {[]uint32{0, 0, 0, 0, 1}, -1},
	} {
		s.SetMask(c.mask)
		got := s.Pick(ls)
		if c.want < 0 {
			if got.Err == nil {
				t.Errorf("mask %x: no error", c.mask)
			}
		} else if got.Token != c.want {
			t.Errorf("mask %x: token %d, want %d", c.mask, got.Token, c.want)
		}
	}
}

func TestBiasBeyondTheRowIsHarmless(t *testing.T) {
	s := New(params(func(p *turn.Params) {
		p.Temperature, p.LogitBias, p.RepetitionPenalty = 0, map[turn.TokenID]float64{5000: 100, -3: 100, 1: 100}, 2
	}), []turn.TokenID{-1, 1 << 20}, 0)
	if got := s.Pick([]float32{1, 0, 2}).Token; got != 1 {
		t.Errorf("token %d", got)
	}
}

func TestExtremes(t *testing.T) {
	huge := []float32{3e38, -3e38, 3e38, 0}
	for _, temperature := range []float64{5e-324, 1e-3, 1, 100} {
		for _, set := range []func(*turn.Params){
			func(p *turn.Params) {}, func(p *turn.Params) { p.TopP = 1e-300 }, func(p *turn.Params) { p.TopK = 2 },
			func(p *turn.Params) { p.MinP = 1 }, func(p *turn.Params) { p.RepetitionPenalty = 100 },
			func(p *turn.Params) { p.TopK = 300 }, func(p *turn.Params) { p.MinP = 5e-324 },
		} {
			p := params(set)
			p.Temperature = temperature
			got := New(p, []turn.TokenID{1}, 0).Pick(huge)
			if got.Err != nil || got.Token != 0 && got.Token != 2 {
				t.Errorf("temperature %v, %+v: %+v", temperature, p, got)
			}
		}
	}
}

// TestResume: a sampler that was told what an earlier one drew goes on as
// that one would have.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := chain(t)
		prompt := []turn.TokenID{1, 5, 9}
		one := New(&p, prompt, 3)
		r := rand.New(rand.NewPCG(p.Seed, 3))
		rows := make([][]float32, 20)
		var drawn []turn.TokenID
		for i := range rows {
			rows[i] = make([]float32, 64)
			for j := range rows[i] {
				rows[i][j] = float32(2 * r.NormFloat64())
			}
			got, again := one.Pick(rows[i]), one.Pick(rows[i])
			if got.Token != again.Token {
				t.Fatalf("position %d: %d, then %d", i, got.Token, again.Token)
			}
			drawn = append(drawn, got.Token)
			one.Accept(got.Token)
		}
		cut := rapid.IntRange(0, len(rows)-1).Draw(t, "cut")
		two := New(&p, prompt, 3)
		for _, tok := range drawn[:cut] {
			two.Accept(tok)
		}
		for i := cut; i < len(rows); i++ {
			if got := two.Pick(rows[i]).Token; got != drawn[i] {
				t.Fatalf("position %d: %d, was %d", i, got, drawn[i])
			}
			two.Accept(drawn[i])
		}
	})
}

func TestLogprobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, logits := chain(t), row(t)
		p.Logprobs, p.TopLogprobs = true, rapid.IntRange(0, turn.MaxTopLogprobs).Draw(t, "top")
		got := New(&p, nil, 0).Pick(logits)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		top, sum := float64(slices.Max(logits)), 0.0
		for _, l := range logits {
			sum += math.Exp(float64(l) - top)
		}
		want := float64(logits[got.Token]) - top - math.Log(sum)
		if math.Abs(got.Logprob-want) > 1e-9*(1+math.Abs(want)) {
			t.Fatalf("logprob %v, want %v", got.Logprob, want)
		}
		order := make([]int, len(logits))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			return int(math.Copysign(1, float64(logits[b]-logits[a]))) * btoi(logits[a] != logits[b])
		})
		if len(got.Top) != min(p.TopLogprobs, len(logits)) {
			t.Fatalf("%d alternatives", len(got.Top))
		}
		for i, a := range got.Top {
			if int(a.Token) != order[i] {
				t.Fatalf("alternative %d is %d, want %d", i, a.Token, order[i])
			}
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestChoicesDiffer: choices and seeds have streams of their own, and their
// numbers fill the unit interval.
func TestChoicesDiffer(t *testing.T) {
	seen := map[float64]bool{}
	sum, n := 0.0, 0
	for seed := range uint64(20) {
		for choice := range uint32(8) {
			for pos := range uint64(50) {
				u := uniform(seed, choice, pos)
				if u < 0 || u >= 1 || seen[u] {
					t.Fatalf("uniform(%d, %d, %d) = %v", seed, choice, pos, u)
				}
				seen[u] = true
				sum += u
				n++
			}
		}
	}
	if mean := sum / float64(n); math.Abs(mean-0.5) > 0.02 {
		t.Errorf("mean %v", mean)
	}
}

// TestSharedSumsAreTheSame: however many processors add up a row, the sums
// are the same to the last bit.
func TestSharedSumsAreTheSame(t *testing.T) {
	logits, sc := likely(100_001), scale{top: 13, by: 1.3}
	var one, many workspace
	n := (len(logits) + block - 1) / block
	one.sums = make([]float64, n)
	one.share(logits, sc, 0, n)
	for b := 1; b < n; b++ {
		one.sums[b] += one.sums[b-1]
	}
	if many.sum(logits, sc); !slices.Equal(one.sums, many.sums) {
		t.Error("sums differ")
	}
}
