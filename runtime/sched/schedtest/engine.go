// Package schedtest holds a scripted fake of sched's Engine and the suite
// that every Engine must pass.
//
// The fake computes no model: what a sequence says next is a function of the
// tokens it holds (Says), so a token fed twice, left out or given to a
// neighbour shows in the answer. Costs, limits and faults come from a script;
// inside a testing/synctest bubble its steps take virtual time. Like every
// Engine it is called by one goroutine; Fired and Log may be called when that
// one is idle.
package schedtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ingot/runtime/sample"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// ErrInjected is the cause of every scripted fault.
var ErrInjected = errors.New("schedtest: injected fault")

// Engine is the fake.
type Engine struct {
	script *Script
	seqs   map[step.SeqID]*sequence
	kept   []*sequence // least recently used first
	lastID step.SeqID
	limit  turn.Buffers
	steps  int // tried
	opens  int // tried
	log    []Tried
}

// Tried is one call of Step as the log keeps it.
type Tried struct {
	Rows   []int // tokens of each row
	Depth  int
	Fault  step.Fault
	Ended  time.Time
	Lonely bool // deterministic
}

type sequence struct {
	tokens []turn.TokenID
	cuts   []int // where its steps ended, for grids
}

// New returns a fake that follows a script.
func New(s *Script) *Engine {
	return &Engine{script: s, seqs: make(map[step.SeqID]*sequence), limit: s.Limit}
}

// Says is the token that follows: any of the vocabulary, by a hash (FNV-1a)
// of the whole sequence.
func (s *Script) Says(seq []turn.TokenID) turn.TokenID {
	if n := len(s.Prefix); n > 0 && len(seq) >= n && slices.Equal(seq[:n], s.Prefix) {
		if i := len(seq) - n; i < len(s.Then) {
			return s.Then[i]
		}
	}
	h := uint32(2166136261)
	for _, t := range seq {
		h = (h ^ uint32(t)) * 16777619
	}
	return turn.TokenID(h>>8) % turn.TokenID(s.Vocab)
}

// Info implements sched.Engine.
func (e *Engine) Info() step.Info {
	return step.Info{Family: "fake", Layers: e.script.Layers, Vocab: e.script.Vocab, Context: e.script.Context, EOS: e.script.EOS, Device: "none"}
}

// Open implements sched.Engine.
func (e *Engine) Open(tokens []turn.TokenID, grid int) (step.SeqID, int, error) {
	e.opens++
	if f := e.script.openFault(e.opens); f != step.FaultNone {
		return 0, 0, &step.Error{Fault: f, Err: ErrInjected}
	}
	s := &sequence{}
	best, at := 0, -1
	for i, k := range e.kept {
		if n := k.lends(tokens, grid); n > best {
			best, at = n, i
		}
	}
	if at >= 0 { // lent: moved, and cut
		s.tokens = slices.Clone(e.kept[at].tokens[:best])
		s.cuts = e.kept[at].cuts
		e.kept = slices.Delete(e.kept, at, at+1)
	}
	e.lastID++
	e.seqs[e.lastID] = s
	return e.lastID, best, nil
}

// lends is how many of the tokens the entry can give; on a grid only what
// was computed on it.
func (s *sequence) lends(tokens []turn.TokenID, grid int) int {
	n := 0
	for n < len(s.tokens) && n < len(tokens)-1 && s.tokens[n] == tokens[n] {
		n++
	}
	if grid == 0 {
		return n
	}
	n -= n % grid
	for at := grid; at <= n; at += grid {
		if !slices.Contains(s.cuts, at) {
			return at - grid
		}
	}
	return n
}

// Fork implements sched.Engine.
func (e *Engine) Fork(id step.SeqID) (step.SeqID, error) {
	s := e.seqs[id]
	if s == nil {
		return 0, fmt.Errorf("fork sequence %d: %w", id, step.ErrUnknown)
	}
	e.lastID++
	e.seqs[e.lastID] = &sequence{tokens: slices.Clone(s.tokens), cuts: slices.Clone(s.cuts)}
	return e.lastID, nil
}

// Step implements sched.Engine.
func (e *Engine) Step(st *step.Step) (*step.Result, error) {
	e.steps++
	width, err := e.check(st)
	if err != nil {
		return nil, err
	}
	cost := e.script.PerStep + time.Duration(width)*e.script.PerToken
	if cost > 0 {
		time.Sleep(cost)
	}
	peak := e.Reading().Live + e.script.transient(width, st.Depth)
	fault := e.script.stepFault(e.steps, width)
	if fault == step.FaultNone && e.limit > 0 && peak > e.limit {
		fault = step.FaultBuffers
	}
	e.note(st, fault)
	if fault == mistake {
		return nil, fmt.Errorf("step %d: %w", e.steps, ErrInjected)
	}
	if fault != step.FaultNone {
		return nil, &step.Error{Fault: fault, Err: ErrInjected}
	}
	return e.take(st, &step.Result{PeakLive: peak, Elapsed: cost}), nil
}

// check refuses what breaks the contract of Step.
func (e *Engine) check(st *step.Step) (width int, err error) {
	seen := make(map[step.SeqID]bool)
	for _, r := range st.Rows {
		s := e.seqs[r.Seq]
		switch {
		case s == nil:
			return 0, fmt.Errorf("sequence %d: %w", r.Seq, step.ErrUnknown)
		case seen[r.Seq] || len(r.Tokens) == 0:
			return 0, fmt.Errorf("sequence %d: row twice or empty", r.Seq)
		case len(s.tokens)+len(r.Tokens) > e.script.Context:
			return 0, fmt.Errorf("sequence %d: past the context", r.Seq)
		}
		seen[r.Seq] = true
		width += len(r.Tokens)
	}
	if width == 0 {
		return 0, errors.New("empty step")
	}
	return width, nil
}

func (e *Engine) take(st *step.Step, res *step.Result) *step.Result {
	for _, r := range st.Rows {
		s := e.seqs[r.Seq]
		s.tokens = append(s.tokens, r.Tokens...)
		s.cuts = append(s.cuts, len(s.tokens))
		if r.Sampler != nil {
			res.Picked = append(res.Picked, r.Sampler.Pick(e.script.logits(s.tokens)))
		}
	}
	res.Live = e.Reading().Live
	return res
}

// logits prefer what the script says, and are otherwise those of the
// sequence alone.
func (s *Script) logits(seq []turn.TokenID) []float32 {
	out := make([]float32, s.Vocab)
	h := uint32(len(seq))
	for i := range out {
		h = h*1664525 + 1013904223
		out[i] = float32(h>>24) / 256
	}
	out[s.Says(seq)] += 2
	return out
}

// Oracle is what a greedy turn alone answers: the reference of every test.
func (s *Script) Oracle(prompt []turn.TokenID, p turn.Params, choice int) (out []turn.TokenID, why turn.Finish) {
	sampler := sample.New(&p, prompt, choice)
	seq := slices.Clone(prompt)
	limit := s.Context - len(prompt)
	if p.MaxTokens > 0 {
		limit = min(limit, p.MaxTokens)
	}
	for {
		id := sampler.Pick(s.logits(seq)).Token
		sampler.Accept(id)
		seq, out = append(seq, id), append(out, id)
		if slices.Contains(p.StopTokens, id) || slices.Contains(s.EOS, id) && !p.IgnoreEOS {
			return out, turn.FinishStop
		}
		if len(out) >= limit {
			return out, turn.FinishLength
		}
	}
}

func (e *Engine) note(st *step.Step, f step.Fault) {
	t := Tried{Depth: st.Depth, Fault: f, Ended: time.Now(), Lonely: st.Deterministic}
	for _, r := range st.Rows {
		t.Rows = append(t.Rows, len(r.Tokens))
	}
	e.log = append(e.log, t)
}

// Close implements sched.Engine.
func (e *Engine) Close(id step.SeqID, keep bool) {
	s := e.seqs[id]
	if s == nil {
		panic(fmt.Sprintf("schedtest: sequence %d closed twice", id))
	}
	delete(e.seqs, id)
	if keep && e.script.Keep > 0 {
		e.kept = append(e.kept, s)
		if len(e.kept) > e.script.Keep {
			e.kept = e.kept[1:]
		}
	}
}

// Reading implements sched.Engine.
func (e *Engine) Reading() step.Reading {
	r := step.Reading{Resident: e.script.Resident, Limit: e.limit}
	r.Live = r.Resident + e.script.PerSeq*turn.Buffers(len(e.seqs)+len(e.kept))
	for range e.kept {
		r.Kept = append(r.Kept, step.Kept{Buffers: e.script.PerSeq})
	}
	return r
}

// Relieve implements sched.Engine.
func (e *Engine) Relieve(r step.Relief) {
	e.kept = e.kept[min(r.Evict, len(e.kept)):]
}

// SetGrant implements sched.Engine.
func (e *Engine) SetGrant(buffers turn.Buffers, _ turn.Bytes) { e.limit = buffers }

// Open sequences, so that a test can see that none is left.
func (e *Engine) OpenSequences() int { return len(e.seqs) }

// Log lists the steps tried.
func (e *Engine) Log() []Tried { return e.log }

// Fired counts the scripted faults that fired.
func (e *Engine) Fired() int { return e.script.fired() }
