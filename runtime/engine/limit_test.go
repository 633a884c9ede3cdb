package engine

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"ingot/models/modeltest"
	"ingot/runtime/governor"
	"ingot/runtime/sched"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// report is the failing report's family and depth, tiny.
var report = []string{"qwen3_5_moe", "--layers", "40", "--experts", "16", "--hidden", "128", "--vocab", "512"}

// served is what a turn brought.
type served struct {
	tokens []turn.TokenID
	end    *sched.End
}

// serve runs turns through a scheduler and a governor of their own.
func (b *bed) serve(g *governor.Governor, prompts ...[]turn.TokenID) []served {
	b.t.Helper()
	s := sched.New(b.Engine, g, sched.Config{})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var handles []*sched.Handle
	for _, p := range prompts {
		params := turn.Neutral()
		params.Temperature, params.MaxTokens, params.IgnoreEOS = 0, 8, true
		h, err := s.Submit(sched.Request{ID: "t", Prompt: p, Params: params})
		if err != nil {
			b.t.Fatal(err)
		}
		handles = append(handles, h)
	}
	out := make([]served, len(prompts))
	for i, h := range handles {
		for u, ok := h.Next(); ok; u, ok = h.Next() {
			for _, g := range u.Gains {
				for _, p := range g.Picked {
					out[i].tokens = append(out[i].tokens, p.Token)
				}
			}
			if u.End != nil {
				out[i].end = u.End
			}
		}
	}
	stop()
	if err := <-done; err != nil {
		b.t.Fatal(err)
	}
	return out
}

// TestPromptUnderAnyLimit: between what a turn holds at rest plus 15% and the
// peak of an unlimited step, a prompt completes, says the same and never
// exceeds the limit.
func TestPromptUnderAnyLimit(t *testing.T) {
	b := open(t, Options{CacheEntries: -1}, modeltest.Tiny(t, report[0], report[1:]...))
	n, limits := 700, 3
	if os.Getenv("INGOT_SOAK") != "" {
		n, limits = 16384, 12
	}
	prompt := b.words(1, n)
	cfg := governor.Config{Layers: b.Info().Layers, Width: governor.StartWidth, MaxStep: time.Minute}
	free := b.serve(governor.New(cfg), prompt)[0]
	natural, least := free.end.Report.Buffers.Peak, b.atRest(prompt[:20])*115/100
	if free.end.Err != nil || natural <= least {
		t.Fatalf("unlimited: %v, peak %d; at rest and 15%% more: %d", free.end.Err, natural, least)
	}
	for i := range limits {
		limit := least + (natural-least)*turn.Buffers(i)/turn.Buffers(limits)
		b.SetGrant(limit, 0)
		got := b.serve(governor.New(cfg), prompt)[0]
		b.SetGrant(0, 0)
		if got.end.Err != nil || got.end.Report.Buffers.Peak > limit {
			t.Errorf("limit %d: %v, peak %d", limit, got.end.Err, got.end.Report.Buffers.Peak)
		}
		if !slices.Equal(got.tokens, free.tokens) {
			t.Errorf("limit %d: %v, unlimited %v", limit, got.tokens, free.tokens)
		}
	}
}

// atRest is what is live between the steps of a turn alone.
func (b *bed) atRest(prompt []turn.TokenID) turn.Buffers {
	k := b.talk(prompt, greedy(), 0)
	defer b.Close(k.id, false)
	return b.step(step.Step{}, len(prompt), k).Live
}

// TestSoakSpeedUnderALimit compares, by medians of interleaved runs, the speed at
// 60% of the natural extra with the unlimited one. Soak only: it takes a
// machine of its own.
func TestSoakSpeedUnderALimit(t *testing.T) {
	if os.Getenv("INGOT_SOAK") == "" {
		return
	}
	b := open(t, Options{CacheEntries: -1}, modeltest.Tiny(t, report[0], report[1:]...))
	prompt := b.words(1, 16384)
	cfg := governor.Config{Layers: b.Info().Layers, Width: governor.StartWidth, MaxStep: time.Minute}
	free, tight := governor.New(cfg), governor.New(cfg)
	rest := b.atRest(prompt[:20])
	natural := b.serve(free, prompt)[0].end.Report.Buffers.Peak
	limit := rest + (natural-rest)*6/10
	var with, without []float64
	for range 8 {
		b.SetGrant(limit, 0)
		with = append(with, b.serve(tight, prompt)[0].end.Report.Prefill.TokS)
		b.SetGrant(0, 0)
		without = append(without, b.serve(free, prompt)[0].end.Report.Prefill.TokS)
	}
	with, without = with[1:], without[1:] // the first pair learns
	slices.Sort(with)
	slices.Sort(without)
	t.Logf("at rest %d, natural %d, limit %d: %.0f tok/s, unlimited %.0f", rest, natural, limit, with[3], without[3])
	if with[3] < 0.95*without[3] {
		t.Errorf("%.0f tok/s under the limit, %.0f without", with[3], without[3])
	}
}

// TestManyTurnsUnderALimit: eight at a time where there is room for two or
// three; all are answered as if alone, and what is live returns to what it
// was.
func TestManyTurnsUnderALimit(t *testing.T) {
	b := load(t, Options{CacheEntries: -1})
	live := b.live()
	var prompts [][]turn.TokenID
	var want [][]turn.TokenID
	for i := range 24 {
		prompts = append(prompts, b.words(uint64(i), 20+13*i))
		want = append(want, b.alone(prompts[i], greedy(), 8).all)
	}
	rest := b.atRest(prompts[0])
	b.SetGrant(rest+3*(rest-live)+40, 0)
	got := b.serve(governor.New(governor.Config{Layers: b.Info().Layers}), prompts...)
	for i, g := range got {
		if g.end.Err != nil || !slices.Equal(g.tokens, want[i]) {
			t.Errorf("turn %d: %v %v, alone %v", i, g.end.Err, g.tokens, want[i])
		}
	}
	if now := b.live(); now != live {
		t.Errorf("live %d, was %d", now, live)
	}
}
