package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingot/ipc"
)

// Editions of the kill test: make test's, and make soak's.
const (
	fewKills  = 4 // the soak test's small edition has ten
	manyKills = 100
	clients   = 4
	answerLen = 120
)

// killParams is the request of one client's nth turn.
func killParams(model string, client, n int, deterministic bool) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Tell me story %d.%d"}],"max_tokens":%d,"temperature":0.8,"repetition_penalty":1.1,`+
		`"seed":%d,"ignore_eos":true,"logprobs":true,"return_token_ids":true,"stream":true,"ingot":{"deterministic":%v}}`,
		model, client, n, answerLen, 100*client+n, deterministic)
}

// TestKills: the runner is killed at random moments under four concurrent
// turns. Every stream completes without gap or repetition; a deterministic
// one is byte for byte that of an undisturbed run.
func TestKills(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprintf("deterministic=%v", deterministic), func(t *testing.T) {
			kills := fewKills
			switch {
			case raced:
				kills = 1
			case os.Getenv("INGOT_SOAK") != "":
				kills = manyKills
			}
			testKills(t, openHouse(t, realBin, `keep_alive = "-1"`), starterName, kills, deterministic)
		})
	}
}

// testKills returns what it found in a line.
func testKills(t *testing.T, h *house, model string, kills int, deterministic bool) string {
	if _, err := h.client.Load(context.Background(), ipc.LoadParams{Model: model}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	heard := map[string]*said{} // by request
	var spoke [clients]atomic.Int64
	for c := range clients {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				req := killParams(model, c, n, deterministic)
				s, err := h.streamWith("chat.create", req, func() { spoke[c].Store(time.Now().UnixNano()) })
				if err != nil {
					t.Errorf("client %d turn %d: %v", c, n, err)
					return
				}
				s.complete(t)
				mu.Lock()
				heard[req] = s
				mu.Unlock()
			}
		})
	}
	times := killer(t, h, model, kills, spoke[:])
	close(stop)
	wg.Wait()
	found := waits(t, times, heard)
	if deterministic {
		compare(t, h, heard)
	}
	return found
}

// complete holds one answer to its promises.
func (s *said) complete(t *testing.T) {
	switch {
	case s.fail != nil:
		t.Errorf("failed: %s", s.fail.Message)
	case len(s.ids) != answerLen || s.done.Usage.CompletionTokens != answerLen || len(s.probs) != answerLen:
		t.Errorf("%d ids, %d logprobs, usage %d, want %d (resumed %d times)",
			len(s.ids), len(s.probs), s.done.Usage.CompletionTokens, answerLen, s.done.Report.Resumed)
	case !strings.HasPrefix(marked(joined(s)), strings.TrimRight(marked(s.text), "\ufffd")):
		t.Errorf("text %q is not what its tokens say: %q", s.text, joined(s))
	}
}

// marked makes one mark of each row of bytes that are no characters.
func marked(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	for strings.Contains(text, "\ufffd\ufffd") {
		text = strings.ReplaceAll(text, "\ufffd\ufffd", "\ufffd")
	}
	return text
}

// joined is the text of the tokens, as their logprobs spell it.
func joined(s *said) string {
	var b []byte
	for _, p := range s.probs {
		for _, x := range p.Bytes {
			b = append(b, byte(x))
		}
	}
	return string(b)
}

// killer kills the runner at random moments and returns when it did. After
// each kill it lets every client get on first: what a kill in the middle of a
// restart does is the supervisor's own test.
func killer(t *testing.T, h *house, model string, kills int, spoke []atomic.Int64) []time.Time {
	rng := rand.New(rand.NewPCG(3, 5))
	var times []time.Time
	for len(times) < kills && !t.Failed() {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		m := h.modelNamed(model)
		if m.PID == 0 {
			continue
		}
		times = append(times, time.Now())
		if err := syscall.Kill(m.PID, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		for c := range spoke {
			recovered(t, &spoke[c], c, times)
		}
	}
	return times
}

// recovered waits until a client has heard something since the last kill. One
// that hears nothing is an error, not a reason for another kill.
func recovered(t *testing.T, spoke *atomic.Int64, client int, kills []time.Time) {
	last := kills[len(kills)-1]
	for spoke.Load() <= last.Add(inFlight).UnixNano() {
		if time.Since(last) > patience {
			t.Errorf("client %d has heard nothing for %v after kill %d", client, patience, len(kills))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// waits reports how long clients waited after a kill. The soak holds the
// longest to twice the median restart and replay: of the same kill, since a
// replay takes as long as there is to replay. The small edition only prints
// it: a clock is no judge on a busy machine.
func waits(t *testing.T, kills []time.Time, heard map[string]*said) string {
	all, worst := []time.Duration{}, 0.0
	for _, k := range kills {
		var gaps []time.Duration
		for _, s := range heard {
			if gap, ok := s.silence(k); ok {
				gaps = append(gaps, gap)
			}
		}
		if len(gaps) > 0 {
			slices.Sort(gaps)
			worst = max(worst, float64(gaps[len(gaps)-1])/float64(median(gaps)))
			all = append(all, gaps...)
		}
	}
	if len(all) == 0 {
		t.Fatal("no client waited for a restart: nothing was tried")
	}
	slices.Sort(all)
	found := fmt.Sprintf("%d turns, %d kills; wait for the next token: median %v, most %v, at worst %.2f times the median of its kill",
		len(heard), len(kills), median(all), all[len(all)-1], worst)
	t.Log(found)
	if worst > 2 && os.Getenv("INGOT_SOAK") != "" {
		t.Errorf("a client waited %.2f times the median restart and replay", worst)
	}
	return found
}

func median(sorted []time.Duration) time.Duration {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// inFlight is how long after a kill tokens of before may still be coming.
const inFlight = 50 * time.Millisecond

// silence is the time from a kill until the answer went on, where it was
// under way.
func (s *said) silence(kill time.Time) (time.Duration, bool) {
	heard := kill.Add(inFlight)
	for i := 1; i < len(s.when); i++ {
		if s.when[i-1].Before(heard) && s.when[i].After(heard) && s.when[0].Before(kill) {
			return s.when[i].Sub(kill), true
		}
	}
	return 0, false
}

// compare repeats every turn without a disturbance.
func compare(t *testing.T, h *house, heard map[string]*said) {
	for req, s := range heard {
		again, err := h.stream("chat.create", req)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(s.probs)
		b, _ := json.Marshal(again.probs)
		if s.text != again.text || !slices.Equal(s.ids, again.ids) || !reflect.DeepEqual(a, b) {
			t.Errorf("resumed %d times, %s\ngot  %q\nwant %q", s.done.Report.Resumed, req, s.text, again.text)
		}
	}
}
