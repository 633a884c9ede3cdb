package e2e

import (
	"math/rand/v2"
	"sync"
	"testing"

	"ingot/runtime/turn"
)

// sample is what was live after so many generated tokens.
type sample struct {
	tokens int
	live   turn.Buffers
}

// slope of live buffers by tokens, by least squares.
func slope(samples []sample) float64 {
	var x, y float64
	for _, s := range samples {
		x += float64(s.tokens) / float64(len(samples))
		y += float64(s.live) / float64(len(samples))
	}
	var xy, xx float64
	for _, s := range samples {
		xy += (float64(s.tokens) - x) * (float64(s.live) - y)
		xx += (float64(s.tokens) - x) * (float64(s.tokens) - x)
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}

// TestSoakDecodeHoldsNothing: one turn generates thousands of tokens; what is
// live between its steps does not change by a single buffer.
func TestSoakDecodeHoldsNothing(t *testing.T) {
	e := soak()
	n := newNote(t, "decode", "Live buffers over one long answer")
	h, weights := loaded(t, 0)
	var samples []sample
	heard := 0
	s, err := h.streamWith("completion.create", greedy(words(5, 40), e.tokens), func() {
		if heard++; heard%(e.tokens/40+1) != 0 || heard < e.tokens/10 {
			return
		}
		// The gauge is up to 250 ms old: at first it still tells of no turn.
		if m := h.modelNamed(tinyName); m.Turns == 1 && m.Buffers.Live != weights {
			samples = append(samples, sample{heard, m.Buffers.Live})
		}
	})
	if err != nil || s.fail != nil || len(s.ids) != e.tokens {
		t.Fatalf("%d tokens: %v %+v", len(s.ids), err, s.fail)
	}
	if len(samples) < 5 {
		t.Fatalf("%d samples of %d tokens", len(samples), heard)
	}
	d := s.done.Report
	n.say("%d tokens by one turn: %.1f tok/s, most live %d; the weights hold %d.\n", e.tokens, d.Decode.TokS, d.Buffers.Peak, weights)
	n.say("| tokens | live |\n| --- | --- |")
	for _, x := range samples {
		n.say("| %d | %d |", x.tokens, x.live)
	}
	n.say("\nSlope: %g buffers a token.", slope(samples))
	for _, x := range samples {
		if x.live != samples[0].live {
			t.Errorf("%d live after %d tokens, %d after %d", x.live, x.tokens, samples[0].live, samples[0].tokens)
		}
	}
}

// TestSoakRequestsLeaveNothing: thousands of short requests, eight at a time:
// afterwards as much is live as after the warm-up.
func TestSoakRequestsLeaveNothing(t *testing.T) {
	const abreast, warm = 8, 16
	e := soak()
	n := newNote(t, "requests", "Live buffers over many requests")
	h, weights := loaded(t, 0)
	h.many(t, 0, warm, abreast)
	before, restarts := h.quiet(), h.modelNamed(tinyName).Restarts
	n.say("The weights hold %d buffers; after %d requests, with the prefixes that are kept, %d are live.\n", weights, warm, before)
	n.say("| requests | live |\n| --- | --- |")
	for done := 0; done < e.requests; {
		some := min(max(e.requests/10, abreast), e.requests-done)
		h.many(t, warm+done, some, abreast)
		done += some
		live := h.quiet()
		n.say("| %d | %d |", done, live)
		if live != before {
			t.Errorf("%d live after %d requests, %d after the warm-up", live, done, before)
		}
	}
	if now := h.modelNamed(tinyName); now.Restarts != restarts {
		t.Errorf("%d restarts", now.Restarts)
	}
}

// many sends short requests numbered from first, some abreast.
func (h *house) many(t *testing.T, first, count, abreast int) {
	next := make(chan int, count)
	for i := range count {
		next <- first + i
	}
	close(next)
	var all sync.WaitGroup
	for range abreast {
		all.Go(func() {
			for i := range next {
				rng := rand.New(rand.NewPCG(9, uint64(i)))
				most := 1 + rng.IntN(8)
				s, err := h.stream("completion.create", greedy(words(uint64(1000+i), 20+rng.IntN(60)), most))
				if err != nil || s.fail != nil || len(s.ids) != most {
					t.Errorf("request %d: %d of %d tokens, %v %+v", i, len(s.ids), most, err, s.fail)
				}
			}
		})
	}
	all.Wait()
}

// quiet is what is live while nobody asks: told by a turn that is too short
// to be kept.
func (h *house) quiet() turn.Buffers {
	return h.say(words(7, 2), 1).done.Report.Buffers.Live
}

func TestSlope(t *testing.T) {
	for want, live := range map[float64][]turn.Buffers{0: {5, 5, 5}, 29: {0, 290, 580}} {
		var s []sample
		for i, l := range live {
			s = append(s, sample{10 * i, l})
		}
		if got := slope(s); got != want {
			t.Errorf("%v: %v", s, got)
		}
	}
}
