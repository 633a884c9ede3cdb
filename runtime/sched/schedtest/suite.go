package schedtest

import (
	"errors"
	"slices"
	"testing"

	"ingot/runtime/sample"
	"ingot/runtime/sched"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// Suite checks what sched's Engine promises. open returns an engine without
// sequences, of a context of at least 512 tokens; it may be the same one each
// time. The engine is called from the test's goroutine.
func Suite(t *testing.T, open func(testing.TB) sched.Engine) {
	for _, tc := range []struct {
		name string
		run  func(*probe)
	}{
		{"info", (*probe).info},
		{"a split prompt is the same prompt", (*probe).splits},
		{"neighbours don't matter", (*probe).neighbours},
		{"deterministic rows are identical in any company", (*probe).identical},
		{"a fork goes its own way", (*probe).forks},
		{"a kept prefix gives the same answer", (*probe).prefix},
		{"a kept prefix on a grid is whole", (*probe).prefixOnGrid},
		{"what is not wanted is not picked", (*probe).unwanted},
		{"mistakes change nothing", (*probe).mistakes},
		{"a failed step never was", (*probe).failure},
		{"depth changes nothing", (*probe).depth},
		{"decode holds no more at each step", (*probe).steady},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &probe{TB: t, eng: open(t), open: map[step.SeqID]bool{}}
			p.before = p.held()
			tc.run(p)
			p.end()
		})
	}
}

// probe drives an engine by hand and tidies up behind itself.
type probe struct {
	testing.TB
	eng    sched.Engine
	open   map[step.SeqID]bool
	before turn.Buffers
}

func (p *probe) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// held is the live buffers without kept prefixes.
func (p *probe) held() turn.Buffers {
	p.eng.Relieve(step.Relief{Settle: true, Evict: len(p.eng.Reading().Kept)})
	return p.eng.Reading().Live
}

// end closes what is open and checks that nothing stays.
func (p *probe) end() {
	for id := range p.open {
		p.eng.Close(id, false)
	}
	if now := p.held(); now != p.before {
		p.Errorf("%d live buffers, %d before", now, p.before)
	}
}

func (p *probe) tokens(n, salt int) []turn.TokenID {
	out := make([]turn.TokenID, n)
	vocab := min(p.eng.Info().Vocab, 400)
	for i := range out {
		out[i] = turn.TokenID(1 + (i*i*31+i*7+salt*131)%(vocab-1))
	}
	return out
}

// begin opens an ordinary sequence with nothing in it.
func (p *probe) begin(grid int) step.SeqID {
	p.Helper()
	id, cached, err := p.eng.Open([]turn.TokenID{1}, grid)
	p.must(err)
	if cached != 0 {
		p.Fatalf("%d cached of one token", cached)
	}
	p.open[id] = true
	return id
}

func greedy() *sample.Sampler {
	params := turn.Neutral()
	params.Temperature, params.Logprobs, params.TopLogprobs = 0, true, 3
	return sample.New(&params, nil, 0)
}

func (p *probe) step(rows ...step.Row) []sample.Picked {
	p.Helper()
	res, err := p.eng.Step(&step.Step{Rows: rows})
	p.must(err)
	return res.Picked
}

// feed appends tokens and picks behind them.
func (p *probe) feed(id step.SeqID, tokens []turn.TokenID) sample.Picked {
	p.Helper()
	return p.step(step.Row{Seq: id, Tokens: tokens, Sampler: greedy()})[0]
}

// decode appends n greedy tokens, beginning with one.
func (p *probe) decode(id step.SeqID, first sample.Picked, n int) []turn.TokenID {
	p.Helper()
	out := []turn.TokenID{first.Token}
	for len(out) < n {
		out = append(out, p.feed(id, out[len(out)-1:]).Token)
	}
	return out
}

// alone is what a prompt answers by itself.
func (p *probe) alone(prompt []turn.TokenID, n int) []turn.TokenID {
	p.Helper()
	id := p.begin(0)
	out := p.decode(id, p.feed(id, prompt), n)
	p.close(id, false)
	return out
}

func (p *probe) close(id step.SeqID, keep bool) {
	p.eng.Close(id, keep)
	delete(p.open, id)
}

func (p *probe) same(what string, got, want []turn.TokenID) {
	p.Helper()
	if !slices.Equal(got, want) {
		p.Errorf("%s: got %v\nwant %v", what, got, want)
	}
}

func (p *probe) info() {
	if i := p.eng.Info(); i.Vocab < 2 || i.Context < 512 || i.Layers < 1 || i.Family == "" {
		p.Errorf("info %+v", i)
	}
	if r := p.eng.Reading(); r.Live < r.Resident || r.Limit > 0 && r.Live > r.Limit {
		p.Errorf("reading %+v", r)
	}
}

func (p *probe) splits() {
	prompt := p.tokens(90, 1)
	want := p.alone(prompt, 12)
	for _, cuts := range [][]int{{1}, {89}, {30, 60}, {64}, {88, 89}} {
		id := p.begin(0)
		at := 0
		for _, cut := range cuts {
			if got := p.step(step.Row{Seq: id, Tokens: prompt[at:cut]}); len(got) != 0 {
				p.Errorf("%d picked of a row without sampler", len(got))
			}
			at = cut
		}
		p.same("split", p.decode(id, p.feed(id, prompt[at:]), 12), want)
	}
}

func (p *probe) neighbours() {
	prompts := [][]turn.TokenID{p.tokens(40, 2), p.tokens(7, 3), p.tokens(65, 4)}
	ids := []step.SeqID{p.begin(0), p.begin(0), p.begin(0)}
	got := make([][]turn.TokenID, len(ids))
	// The first decodes while the others' prompts ride along.
	got[0] = append(got[0], p.feed(ids[0], prompts[0]).Token)
	for i := 1; i < len(ids); i++ {
		rows := []step.Row{}
		for j := range i {
			rows = append(rows, step.Row{Seq: ids[j], Tokens: got[j][len(got[j])-1:], Sampler: greedy()})
		}
		rows = append(rows, step.Row{Seq: ids[i], Tokens: prompts[i], Sampler: greedy()})
		for j, picked := range p.step(rows...) {
			got[j] = append(got[j], picked.Token)
		}
	}
	for range 8 {
		var rows []step.Row
		for j, id := range ids {
			rows = append(rows, step.Row{Seq: id, Tokens: got[j][len(got[j])-1:], Sampler: greedy()})
		}
		for j, picked := range p.step(rows...) {
			got[j] = append(got[j], picked.Token)
		}
	}
	for i := range ids {
		p.same("beside others", got[i], p.alone(prompts[i], len(got[i])))
	}
}

func (p *probe) identical() {
	const grid = 32
	prompt, other := p.tokens(50, 5), p.tokens(20, 6)
	run := func(company bool) (out []sample.Picked) {
		id, friend := p.begin(grid), p.begin(grid)
		next := []turn.TokenID{1}
		for _, tokens := range [][]turn.TokenID{prompt[:grid], prompt[grid:], nil, nil, nil, nil} {
			if tokens == nil {
				tokens = []turn.TokenID{out[len(out)-1].Token}
			}
			rows := []step.Row{{Seq: id, Tokens: tokens, Sampler: greedy()}}
			if company {
				rows = append(rows, step.Row{Seq: friend, Tokens: append(other, next...)})
			}
			res, err := p.eng.Step(&step.Step{Rows: rows, Deterministic: true})
			p.must(err)
			out = append(out, res.Picked[0])
		}
		p.close(id, false)
		p.close(friend, false)
		return out
	}
	alone, beside := run(false), run(true)
	for i := range alone {
		if alone[i].Token != beside[i].Token || alone[i].Logprob != beside[i].Logprob || !slices.Equal(alone[i].Top, beside[i].Top) {
			p.Errorf("token %d: alone %+v, beside others %+v", i, alone[i], beside[i])
		}
	}
}

func (p *probe) forks() {
	prompt := p.tokens(33, 7)
	id := p.begin(0)
	p.step(step.Row{Seq: id, Tokens: prompt})
	twin, err := p.eng.Fork(id)
	p.must(err)
	p.open[twin] = true
	tails := [][]turn.TokenID{p.tokens(5, 8), p.tokens(9, 9)}
	first := p.step(step.Row{Seq: id, Tokens: tails[0], Sampler: greedy()}, step.Row{Seq: twin, Tokens: tails[1], Sampler: greedy()})
	p.same("the first", p.decode(id, first[0], 8), p.alone(slices.Concat(prompt, tails[0]), 8))
	p.same("its twin", p.decode(twin, first[1], 8), p.alone(slices.Concat(prompt, tails[1]), 8))
	p.close(id, false)
	p.feed(twin, prompt[:1]) // outlives it
	if _, err := p.eng.Fork(id); !errors.Is(err, step.ErrUnknown) {
		p.Errorf("fork of a closed sequence: %v", err)
	}
}

func (p *probe) prefix() {
	prompt := p.tokens(200, 10)
	want := p.alone(prompt, 10)
	id := p.begin(0)
	p.decode(id, p.feed(id, prompt), 5)
	p.close(id, true)
	again, cached, err := p.eng.Open(prompt, 0)
	p.must(err)
	p.open[again] = true
	if cached >= len(prompt) || cached < 0 {
		p.Fatalf("%d cached of %d tokens", cached, len(prompt))
	}
	p.same("warm", p.decode(again, p.feed(again, prompt[cached:]), 10), want)
	if r := p.eng.Reading(); len(r.Kept) > 0 {
		p.Logf("%d kept prefixes", len(r.Kept))
	}
}

func (p *probe) prefixOnGrid() {
	const grid = 32
	prompt := p.tokens(150, 11)
	cold := p.onGrid(prompt, grid, 0)
	// One computed off the grid may not be lent; one on it up to its last whole piece.
	id := p.begin(0)
	p.feed(id, prompt)
	p.close(id, true)
	for range 2 {
		id, cached, err := p.eng.Open(prompt, grid)
		p.must(err)
		p.open[id] = true
		if cached%grid != 0 || cached >= len(prompt) {
			p.Fatalf("%d tokens cached on a grid of %d", cached, grid)
		}
		if warm := p.gridded(id, prompt, grid, cached); warm.Token != cold.Token || warm.Logprob != cold.Logprob {
			p.Errorf("warm %+v behind %d cached tokens, cold %+v", warm, cached, cold)
		}
		p.close(id, true)
	}
}

func (p *probe) onGrid(prompt []turn.TokenID, grid, from int) sample.Picked {
	id := p.begin(grid)
	defer p.close(id, false)
	return p.gridded(id, prompt, grid, from)
}

// gridded feeds a prompt from a position on, piece by piece.
func (p *probe) gridded(id step.SeqID, prompt []turn.TokenID, grid, from int) (last sample.Picked) {
	for ; from < len(prompt); from += grid {
		piece := prompt[from:min(from+grid, len(prompt))]
		res, err := p.eng.Step(&step.Step{Rows: []step.Row{{Seq: id, Tokens: piece, Sampler: greedy()}}, Deterministic: true})
		p.must(err)
		last = res.Picked[0]
	}
	return last
}

func (p *probe) unwanted() {
	a, b, c := p.begin(0), p.begin(0), p.begin(0)
	tokens := p.tokens(20, 12)
	got := p.step(step.Row{Seq: a, Tokens: tokens[:5]}, step.Row{Seq: b, Tokens: tokens, Sampler: greedy()}, step.Row{Seq: c, Tokens: tokens[:9]})
	if len(got) != 1 {
		p.Fatalf("%d picked", len(got))
	}
	p.same("the wanted one", []turn.TokenID{got[0].Token}, p.alone(tokens, 1))
}

func (p *probe) mistakes() {
	prompt := p.tokens(25, 13)
	id := p.begin(0)
	first := p.feed(id, prompt)
	row := step.Row{Seq: id, Tokens: []turn.TokenID{first.Token}, Sampler: greedy()}
	long := make([]turn.TokenID, p.eng.Info().Context)
	for name, rows := range map[string][]step.Row{
		"none":        nil,
		"twice":       {row, row},
		"empty":       {row, {Seq: p.begin(0)}},
		"unknown":     {row, {Seq: 1 << 60, Tokens: prompt}},
		"too long":    {{Seq: id, Tokens: long}},
		"no sequence": {{Tokens: prompt}},
	} {
		_, err := p.eng.Step(&step.Step{Rows: rows})
		if err == nil || step.FaultOf(err) != step.FaultNone {
			p.Errorf("%s: %v", name, err)
		}
		if name == "unknown" && !errors.Is(err, step.ErrUnknown) {
			p.Errorf("%s: %v", name, err)
		}
	}
	p.same("after all that", p.decode(id, first, 8), p.alone(prompt, 8))
}

func (p *probe) failure() {
	prompt := p.tokens(70, 14)
	want := p.alone(prompt, 8)
	id := p.begin(0)
	p.feed(id, prompt[:40])
	live := p.eng.Reading().Live
	p.eng.SetGrant(max(live, 1), 0)
	_, err := p.eng.Step(&step.Step{Rows: []step.Row{{Seq: id, Tokens: prompt[40:], Sampler: greedy()}}})
	p.eng.SetGrant(0, 0)
	if live > 0 && step.FaultOf(err) != step.FaultBuffers {
		p.Fatalf("a step within %d live buffers: %v", live, err)
	}
	if now := p.eng.Reading().Live; err != nil && now != live {
		p.Errorf("%d live buffers after the failure, %d before", now, live)
	}
	if err == nil {
		p.Log("this engine counts no buffers")
		return
	}
	p.same("once more", p.decode(id, p.feed(id, prompt[40:]), 8), want)
}

func (p *probe) depth() {
	prompt := p.tokens(60, 15)
	want := p.alone(prompt, 8)
	for depth := 1; depth <= p.eng.Info().Layers; depth++ {
		id := p.begin(0)
		res, err := p.eng.Step(&step.Step{Depth: depth, Rows: []step.Row{{Seq: id, Tokens: prompt, Sampler: greedy()}}})
		p.must(err)
		p.same("in depth", p.decode(id, res.Picked[0], 8), want)
		p.close(id, false)
	}
}

func (p *probe) steady() {
	id := p.begin(0)
	next := p.feed(id, p.tokens(100, 16))
	var held turn.Buffers
	for i := range 60 {
		next = p.feed(id, []turn.TokenID{next.Token})
		switch now := p.eng.Reading().Live; {
		case i == 0:
			held = now
		case now != held:
			p.Fatalf("%d live buffers at token %d, %d at the first", now, i, held)
		}
	}
}
