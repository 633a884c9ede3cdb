package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// rest is what a turn alone holds between steps: the weights and its states.
type rest struct{ weights, states turn.Buffers }

func (r rest) all() turn.Buffers { return r.weights + r.states }

// atRest asks with a prompt too short for its end to be marked, which would
// take buffers more while there is room.
func atRest(t *testing.T) rest {
	h, weights := loaded(t, 0)
	return rest{weights, h.say(words(3, 20), 1).live - weights}
}

// unlimited answers the prompt without a limit: what a step of 2048 wants at
// most.
func unlimited(t *testing.T, prompt []turn.TokenID) *said {
	h, _ := loaded(t, 0)
	return h.say(prompt, 16)
}

// TestSoakLimits: wherever the limit is, from rest plus 15% to the natural
// peak, the prompt completes with the same tokens, within the limit.
func TestSoakLimits(t *testing.T) {
	e := soak()
	n := newNote(t, "limits", "A prompt under every limit")
	prompt := words(1, e.prompt)
	r, free := atRest(t), unlimited(t, prompt)
	least, natural := r.all()+(r.all()*15+99)/100, free.done.Report.Buffers.Peak
	if natural <= least {
		t.Fatalf("the natural peak is %d, rest and 15%% more %d: nothing to try", natural, least)
	}
	n.say("%d tokens through the daemon, greedy; 40 layers. Weights hold %d buffers, a turn's states %d more: at rest %d.", e.prompt, r.weights, r.states, r.all())
	n.say("The natural extra, that of steps 2048 wide, is %d. Every answer is the same.\n", natural-r.all())
	n.say("| limit | of the extra | peak | tok/s | steps (width/layers at once) | reasons |\n| --- | --- | --- | --- | --- | --- |")
	n.row(0, r, natural, free)
	for i := range e.limits {
		limit := least + (natural-least)*turn.Buffers(i)/turn.Buffers(max(e.limits-1, 1))
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			h, _ := loaded(t, limit)
			s := h.say(prompt, 16)
			n.row(limit, r, natural, s)
			if !slices.Equal(s.ids, free.ids) {
				t.Errorf("%v, without a limit %v", s.ids, free.ids)
			}
			if b := s.done.Report.Buffers; b.Peak > limit || b.Limit != limit {
				t.Errorf("buffers %+v at a limit of %d", b, limit)
			}
			for _, st := range s.done.Report.Prefill.Steps {
				if st.PeakLive > limit || st.Width > 2048 || st.Reason == "" {
					t.Errorf("step %+v at a limit of %d", st, limit)
				}
			}
			if m := h.modelNamed(tinyName); m.Restarts != 0 {
				t.Errorf("%d restarts", m.Restarts)
			}
		})
	}
}

// row adds how one prompt went.
func (n *note) row(limit turn.Buffers, r rest, natural turn.Buffers, s *said) {
	p := s.done.Report.Prefill
	at, of := "none", "-"
	if limit > 0 {
		at, of = fmt.Sprint(limit), fmt.Sprintf("%.0f%%", 100*float64(limit-r.all())/float64(natural-r.all()))
	}
	n.say("| %s | %s | %d | %.0f | %s | %s |", at, of, s.done.Report.Buffers.Peak, p.TokS, shapes(p.Steps), reasons(p.Steps))
}

// shapes sums up steps, runs of equal ones as one.
func shapes(steps []turn.PrefillStep) string {
	var out []string
	for i := 0; i < len(steps); {
		j := i
		for j < len(steps) && steps[j].Width == steps[i].Width && steps[j].Depth == steps[i].Depth {
			j++
		}
		depth := "all"
		if steps[i].Depth > 0 {
			depth = fmt.Sprint(steps[i].Depth)
		}
		word := fmt.Sprintf("%d/%s", steps[i].Width, depth)
		if j-i > 1 {
			word += fmt.Sprintf(" x%d", j-i)
		}
		out = append(out, word)
		i = j
	}
	return strings.Join(out, ", ")
}

func reasons(steps []turn.PrefillStep) string {
	var out []string
	for _, s := range steps {
		if !slices.Contains(out, string(s.Reason)) {
			out = append(out, string(s.Reason))
		}
	}
	return strings.Join(out, ", ")
}

// TestSoakSpeed compares a daemon at 60% and at 80% of the natural extra with
// one without a limit, in interleaved pairs of prompts. Only the full edition
// has enough of them to hold the medians to anything.
func TestSoakSpeed(t *testing.T) {
	e := soak()
	n := newNote(t, "speed", "Speed under a limit")
	r, free := atRest(t), unlimited(t, words(1, e.paired))
	extra := free.done.Report.Buffers.Peak - r.all()
	n.say("Prefill of %d tokens, medians of %d interleaved pairs; each daemon has answered one such prompt before.\n", e.paired, e.pairs)
	n.say("| limit | of the extra | tok/s | without a limit | ratio |\n| --- | --- | --- | --- | --- |")
	for _, percent := range []turn.Buffers{60, 80} {
		limit := r.all() + extra*percent/100
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			wide, _ := loaded(t, 0)
			tight, _ := loaded(t, limit)
			var with, without, ratio []float64
			for i := range e.pairs + 1 {
				p := words(uint64(100+i), e.paired)
				a, b := tight.say(p, 1).done.Report.Prefill.TokS, wide.say(p, 1).done.Report.Prefill.TokS
				if i > 0 || e.pairs == 1 {
					with, without, ratio = append(with, a), append(without, b), append(ratio, a/b)
				}
			}
			n.say("| %d | %d%% | %.0f | %.0f | %.3f |", limit, percent, middle(with), middle(without), middle(ratio))
			if e.pairs > 1 && middle(with) < 0.95*middle(without) {
				t.Errorf("%.0f tok/s under the limit, %.0f without", middle(with), middle(without))
			}
		})
	}
}

func middle(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// TestSoakGovernorCost: a decision is at most a hundredth of the shortest
// step there is, one decode row of this tiny model.
func TestSoakGovernorCost(t *testing.T) {
	n := newNote(t, "governor", "What the governor costs")
	h, _ := loaded(t, 0)
	d := h.say(words(1, 20), 64).done.Report.Decode
	step := d.MS / float64(d.Tokens)
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkGovernor$", "-benchtime", "2000x", "ingot/runtime/governor").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := regexp.MustCompile(`BenchmarkGovernor/(\w+)\S*\s+\d+\s+([\d.]+) ns/op`).FindAllSubmatch(out, -1)
	if len(found) == 0 {
		t.Fatalf("no benchmark in\n%s", out)
	}
	n.say("A decode step of one row takes %.2f ms. Planning a step and learning from it:\n", step)
	for _, m := range found {
		ns, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			t.Fatal(err)
		}
		n.say("- %s: %.1f us, %.2f%% of it", m[1], ns/1000, ns/step/1e4)
		if ns/1e6 > step/100 {
			t.Errorf("%s: %.0f ns, a step takes %.2f ms", m[1], ns, step)
		}
	}
}

// needs are the numbers of a refusal.
type needs struct {
	Name       ipc.Name
	Need, Have int64
	Width      int
	RetryAfter float64 `json:"retry_after_s"`
}

// TestSoakRefusals: too little for the weights fails the load, too little for
// a turn alone fails that turn, both with numbers, and the daemon goes on.
func TestSoakRefusals(t *testing.T) {
	r, short := atRest(t), words(3, 20)
	weights := r.weights
	h := openTiny(t, weights-100)
	_, err := h.client.Load(context.Background(), ipc.LoadParams{Model: tinyName})
	var e *ipc.Error
	if !errors.As(err, &e) || e.Name != ipc.ModelFailed {
		t.Fatalf("load below the weights: %v", err)
	}
	var n needs
	body, _ := json.Marshal(e.Data)
	if err := json.Unmarshal(body, &n); err != nil || n.Have != int64(weights-100) || n.Need != int64(weights) {
		t.Errorf("need %d, have %d for weights of %d: %v %s", n.Need, n.Have, weights, err, body)
	}

	h, _ = loaded(t, weights+r.states/2)
	for range 2 { // the refusal of one is no one else's
		s, err := h.stream("completion.create", greedy(short, 8))
		if err != nil || s.fail == nil {
			t.Fatalf("a turn without room for its states: %v", err)
		}
		if err := json.Unmarshal(s.fail.Data, &n); err != nil || n.Name != ipc.NoRoom || n.Need <= n.Have || n.Width != 1 || n.RetryAfter <= 0 {
			t.Errorf("%s: %v", s.fail.Data, err)
		}
	}
	if m := h.modelNamed(tinyName); m.State != ipc.StateReady || m.Restarts != 0 || m.Buffers.Live != weights {
		t.Errorf("after refusals: %+v", m)
	}
}

// TestSoakQueueForRoom: where there is room for the states of two turns, six
// at once are all answered as if alone.
func TestSoakQueueForRoom(t *testing.T) {
	prompts := make([][]turn.TokenID, 6)
	want := make([][]turn.TokenID, len(prompts))
	r := atRest(t)
	h, _ := loaded(t, 0)
	for i := range prompts {
		prompts[i] = words(uint64(50+i), 30+10*i)
		want[i] = h.say(prompts[i], 24).ids
	}
	limit := r.all()*115/100 + r.states
	tight, _ := loaded(t, limit)
	var all sync.WaitGroup
	var waited time.Duration
	var mu sync.Mutex
	for i := range prompts {
		all.Go(func() {
			s, err := tight.stream("completion.create", greedy(prompts[i], 24))
			if err != nil || s.fail != nil || !slices.Equal(s.ids, want[i]) {
				t.Errorf("turn %d: %v %+v %v, alone %v", i, err, s.fail, s.ids, want[i])
				return
			}
			mu.Lock()
			defer mu.Unlock()
			waited = max(waited, time.Duration(s.done.Report.QueueMS*float64(time.Millisecond)))
			if b := s.done.Report.Buffers; b.Peak > limit {
				t.Errorf("turn %d: buffers %+v", i, b)
			}
		})
	}
	all.Wait()
	t.Logf("weights %d, states %d a turn, limit %d: the longest wait in the queue was %v", r.weights, r.states, limit, waited)
}
