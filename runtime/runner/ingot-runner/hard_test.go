package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// asked is a submission that samples, with all that must come back the same.
func asked(id turn.ID, words string, max int) *wire.Submit {
	m := question(id)
	m.Chat = nil
	text := "Write a story about " + words + "."
	m.Text = &text
	m.Params.Temperature, m.Params.Seed, m.Params.MaxTokens = 0.8, 7, max
	m.Params.Logprobs, m.Params.TopLogprobs = true, 2
	m.Params.RepetitionPenalty = 1.1
	m.Params.Deterministic, m.Params.IgnoreEOS = true, true
	m.Given = append(m.Given, "repetition_penalty")
	return m
}

// record is what a client of a turn keeps.
type record struct {
	Text     string
	Tokens   []turn.TokenID
	Logprobs []turn.Logprob
}

func (r *record) add(s *wire.Step) {
	for _, c := range s.Choices {
		r.Tokens = append(r.Tokens, c.Tokens...)
	}
	for _, e := range s.Events {
		if e.Type == turn.EventText {
			r.Text += e.Text.Delta
			r.Logprobs = append(r.Logprobs, e.Text.Logprobs...)
		}
	}
}

// journal is a small daemon: it keeps records by turn, and resumes what a
// dead runner left.
type journal struct {
	c       *child
	prompts map[turn.ID]*wire.Prompt
	got     map[turn.ID]*record
	ends    map[turn.ID]*wire.End
	fired   int
	gauge   wire.Gauge
}

func newJournal(c *child) *journal {
	return &journal{c: c, prompts: map[turn.ID]*wire.Prompt{}, got: map[turn.ID]*record{}, ends: map[turn.ID]*wire.End{}}
}

// listen takes frames until so many turns have ended, or the runner has. It
// reports which.
func (j *journal) listen(ends int) bool {
	for len(j.ends) < ends {
		m, err := j.c.conn.Recv()
		if err != nil {
			return false
		}
		switch m := m.(type) {
		case *wire.Prompt:
			j.prompts[m.Turn] = m
			j.got[m.Turn] = &record{}
		case *wire.Step:
			j.got[m.Turn].add(m)
		case *wire.End:
			j.ends[m.Turn] = m
		case *wire.Fault:
			j.fired++
		case *wire.Gauge:
			j.gauge = *m
		}
	}
	return true
}

func (j *journal) resume(id turn.ID) *wire.Submit {
	p := j.prompts[id]
	return &wire.Submit{Turn: id, Tokens: p.Tokens, Params: p.Params, IDs: true,
		Resume: &wire.Resume{Choices: []wire.Delivered{{Tokens: j.got[id].Tokens}}, Resumed: 1}}
}

func (j *journal) ended(t *testing.T) {
	t.Helper()
	for id, e := range j.ends {
		if e.Done == nil {
			t.Errorf("%s: %v", id, e.Error)
		}
	}
}

func TestDeterministicTurnsAreIdenticalAloneInCompanyAndResumed(t *testing.T) {
	const max = 30
	themes := []string{"a dog and " + strings.Repeat("a cat and ", 120) + "a bird", "rain", "the sea"}
	alone := newJournal(launch(t, wire.Hello{Policy: wire.Policy{CacheBytes: -1}}))
	for i, w := range themes {
		alone.c.send(asked(turn.ID(fmt.Sprint(i)), w, max))
		if !alone.listen(i + 1) {
			t.Fatal("the runner died")
		}
	}
	alone.ended(t)

	company := newJournal(launch(t, wire.Hello{Faults: "kill token 41; throw eval 9"}))
	for i, w := range themes {
		company.c.send(asked(turn.ID(fmt.Sprint(i)), w, max))
	}
	loud := asked("loud", "money", 60)
	loud.Params.Deterministic = false
	company.c.send(loud)
	if company.listen(4) {
		t.Fatal("the runner was not killed")
	}
	company.c = launch(t, wire.Hello{Nth: 2})
	for id := range company.prompts {
		if company.ends[id] == nil {
			company.c.send(company.resume(id))
		}
	}
	if !company.listen(4) || company.fired != 2 {
		t.Fatalf("%d ends, %d faults fired", len(company.ends), company.fired)
	}
	company.ended(t)
	for id, want := range alone.got {
		if d := cmp.Diff(want, company.got[id]); d != "" {
			t.Errorf("turn %s differs:\n%s", id, d)
		}
	}
}

func TestJustAboveTheWeightsALongPromptIsOnlySlower(t *testing.T) {
	long := strings.Repeat("All work and no play makes Jack a dull boy. ", 80)
	ask := func(env ...string) (*record, *wire.End, wire.Info) {
		c := launch(t, wire.Hello{Policy: wire.Policy{CacheBytes: -1}}, env...)
		_, ready := until(c, first[*wire.Ready])
		m := question("t")
		m.Chat, m.Text, m.Params.MaxTokens = nil, &long, 16
		c.send(m)
		j := newJournal(c)
		j.listen(1)
		j.ended(t)
		return j.got["t"], j.ends["t"], ready.Info
	}
	free, end, info := ask()
	natural := end.Done.Report.Buffers.Peak
	// Resident is the weights and one turn's states; 15% more must do.
	resident := info.Buffers + 2*turn.Buffers(info.Layers)
	limit := resident + resident*15/100
	tight, end, _ := ask(fmt.Sprintf("INGOT_RSRC_LIMIT=%d", limit))
	if d := cmp.Diff(free, tight); d != "" {
		t.Errorf("another answer at the limit:\n%s", d)
	}
	b := end.Done.Report.Buffers
	if b.Peak > b.Limit || b.Limit != limit {
		t.Errorf("buffers %+v at a limit of %d", b, limit)
	}
	t.Logf("weights %d, natural peak %d, limit %d, peak there %d, steps %+v", info.Buffers, natural, limit, b.Peak, end.Done.Report.Prefill.Steps)
}

func TestManyRequestsLeaveNothingBehind(t *testing.T) {
	c := launch(t, wire.Hello{Policy: wire.Policy{CacheBytes: -1}})
	j := newJournal(c)
	r := rand.New(rand.NewPCG(1, 2))
	files := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
		if err != nil {
			return 0 // no such folder on this system
		}
		return len(fds)
	}
	live := func() turn.Buffers { // of a turn alone: what it holds is always the same
		id := turn.ID(fmt.Sprint("probe", len(j.ends)))
		m := question(id)
		m.Params.MaxTokens = 1
		c.send(m)
		j.listen(len(j.ends) + 1)
		return j.ends[id].Done.Report.Buffers.Live
	}
	var held turn.Buffers
	var open int
	for round := range 30 {
		if round == 3 {
			held, open = live(), files()
		}
		for i := range 8 {
			id := turn.ID(fmt.Sprint(round, "-", i))
			c.send(asked(id, fmt.Sprint("number ", r.IntN(100)), 1+r.IntN(12)))
			if i%2 == 0 {
				c.send(&wire.Cancel{Turn: id})
			}
		}
		if !j.listen(len(j.ends) + 8) {
			t.Fatal("the runner died")
		}
	}
	j.ended(t)
	if now := live(); now != held {
		t.Errorf("%d live buffers, %d after the warm-up", now, held)
	}
	if now := files(); now != open {
		t.Errorf("%d descriptors, %d after the warm-up", now, open)
	}
	var reasons []turn.Finish
	for _, e := range j.ends {
		if !slices.Contains(reasons, e.Done.FinishReason) {
			reasons = append(reasons, e.Done.FinishReason)
		}
	}
	if len(reasons) < 2 {
		t.Errorf("all turns ended with %v", reasons)
	}
}
