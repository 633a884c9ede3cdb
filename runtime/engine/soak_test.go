package engine

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"ingot/models/modeltest"
	"ingot/runtime/governor"
	"ingot/runtime/sched"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// many is n, or the full number in a soak.
func many(n, soak int) int {
	if os.Getenv("INGOT_SOAK") != "" {
		return soak
	}
	return n
}

// TestSoakManyRequests: short requests, eight at a time, a third of them
// cancelled on their way, some of them going on where others stopped; what is
// live returns to what it was after the first few.
func TestSoakManyRequests(t *testing.T) {
	for name, args := range families {
		t.Run(name, func(t *testing.T) {
			b := open(t, Options{}, modeltest.Tiny(t, args[0], args[1:]...))
			s := sched.New(b.Engine, governor.New(governor.Config{Layers: b.Info().Layers}), sched.Config{})
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			var live []turn.Buffers
			for _, n := range []int{40, many(60, 3000)} {
				b.requests(s, n)
				live = append(live, b.settledLive())
			}
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if live[0] != live[1] {
				t.Errorf("live %d after the first requests, %d after the rest", live[0], live[1])
			}
			b.ClearPrefixes()
			if weights, _ := b.Weights(); b.settledLive() != weights {
				t.Errorf("live %d without prefixes, weights have %d", b.settledLive(), weights)
			}
		})
	}
}

// requests runs n turns, eight at a time.
func (b *bed) requests(s *sched.Scheduler, n int) {
	var all sync.WaitGroup
	next := make(chan int)
	for range 8 {
		all.Go(func() {
			for i := range next {
				b.request(s, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

func (b *bed) request(s *sched.Scheduler, i int) {
	r := rand.New(rand.NewPCG(uint64(i), 3))
	params := turn.Neutral()
	params.MaxTokens, params.Seed, params.IgnoreEOS = 1+r.IntN(12), uint64(i), true
	prompt := slices.Concat(b.words(uint64(i%5), 40), b.words(uint64(i), 1+r.IntN(60)))
	h, err := s.Submit(sched.Request{ID: "t", Prompt: prompt, Params: params})
	if err != nil {
		b.t.Error(err)
		return
	}
	cancel := -1
	if i%3 == 0 {
		cancel = r.IntN(6)
	}
	for n := 0; ; n++ {
		if n == cancel {
			h.Cancel()
		}
		u, ok := h.Next()
		if !ok {
			return
		}
		if u.End != nil && u.End.Err != nil {
			b.t.Errorf("turn %d: %v", i, u.End.Err)
		}
	}
}

// settledLive is what is live when nothing is on its way out.
func (b *bed) settledLive() turn.Buffers {
	quiet(b.t)
	return b.live()
}

// TestSoakLongAnswer: an answer's length costs no buffers but those of the
// caches that grow, whose number is fixed.
func TestSoakLongAnswer(t *testing.T) {
	b := open(t, Options{CacheEntries: -1}, modeltest.Tiny(t, report[0], report[1:]...))
	k := b.talk(b.words(1, 20), greedy(), 0)
	b.step(step.Step{}, 64, k)
	b.step(step.Step{}, 64, k)
	live := b.settledLive()
	for i := range many(150, 10000) {
		if res := b.step(step.Step{}, 1, k); res.Live > live+2 { // a stream's last task may hold some for a moment
			t.Fatalf("token %d: live %d, was %d", i, res.Live, live)
		}
	}
	if now := b.settledLive(); now != live {
		t.Errorf("live %d, was %d", now, live)
	}
	b.Close(k.id, false)
}
