package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"ingot/models"
	"ingot/runtime/mlx"
	"ingot/runtime/sample"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// Step feeds every row and samples where a row has a sampler.
//
//	Step
//	├─ check         the caller's mistakes, before anything is touched
//	├─ on the device thread: attempt
//	│  ├─ lead       prompts of recurrent models, but for their last tokens;
//	│  │             marked there
//	│  ├─ pass       forward, evaluate logits and states, read; once,
//	│  │             or once a row where rows must not see each other
//	│  └─ commit | rollback, all sequences
//	└─ pick          sampling, a goroutine a row
func (e *Engine) Step(st *step.Step) (*step.Result, error) {
	began := time.Now()
	seqs, err := e.check(st)
	if err != nil {
		return nil, err
	}
	e.settled = false
	e.ledger.ResetPeak()
	got := harvest{vocab: e.info.Vocab, picked: make([]sample.Picked, samplers(st.Rows))}
	if err := e.dev.Do(func() error { return e.attempt(st, seqs, &got) }); err != nil {
		e.stats.Failed++
		e.flush()
		return nil, fault(err)
	}
	e.rows = got.rows[:0]
	got.pick()
	c := e.counts()
	return &step.Result{
		Picked: got.picked, Live: c.Buffers, PeakLive: c.PeakBuffers, Bytes: c.Bytes, PeakBytes: c.PeakBytes,
		Elapsed: time.Since(began),
	}, nil
}

// flush waits until all that a failed attempt took is given back. MLX holds
// temporaries of the operation that threw until the next one: it gets one.
func (e *Engine) flush() {
	_ = e.dev.Do(func() error {
		s := e.dev.NewScope()
		defer s.Close()
		return s.Eval(s.Neg(s.Scalar(1)))
	})
	e.settle()
}

// check resolves the rows' sequences and refuses what breaks the contract.
func (e *Engine) check(st *step.Step) ([]*sequence, error) {
	if len(st.Rows) == 0 {
		return nil, errors.New("engine: step without rows")
	}
	seqs := make([]*sequence, len(st.Rows))
	seen := make(map[step.SeqID]bool, len(st.Rows))
	for i, r := range st.Rows {
		q := e.seqs[r.Seq]
		switch {
		case q == nil:
			return nil, fmt.Errorf("engine: step of sequence %d: %w", r.Seq, step.ErrUnknown)
		case seen[r.Seq]:
			return nil, fmt.Errorf("engine: sequence %d twice in a step", r.Seq)
		case len(r.Tokens) == 0:
			return nil, fmt.Errorf("engine: row of sequence %d without tokens", r.Seq)
		case len(q.tokens)+len(r.Tokens) > e.info.Context:
			return nil, fmt.Errorf("engine: sequence %d: %d tokens are past the context of %d", r.Seq, len(q.tokens)+len(r.Tokens), e.info.Context)
		}
		seqs[i], seen[r.Seq] = q, true
	}
	return seqs, nil
}

func samplers(rows []step.Row) (n int) {
	for _, r := range rows {
		if r.Sampler != nil {
			n++
		}
	}
	return n
}

// attempt computes a step and commits it, or undoes it.
func (e *Engine) attempt(st *step.Step, seqs []*sequence, got *harvest) error {
	got.rows = e.rows
	if e.pressed { // answers come before prefixes
		for _, q := range e.seqs {
			q.setMark(nil)
		}
	}
	led, rows, err := e.lead(st, seqs)
	if err == nil {
		err = e.passes(rows, st, seqs, got)
	}
	if err != nil {
		return e.undo(err, led, seqs)
	}
	for i, r := range rows {
		seqs[i].kv.Commit(len(r.Tokens))
		seqs[i].grew(st.Rows[i].Tokens, st.Deterministic)
	}
	for _, l := range led {
		l.keep()
	}
	return nil
}

// undo takes every sequence back to where it was.
func (e *Engine) undo(err error, led []*lead, seqs []*sequence) error {
	for _, q := range seqs {
		if lost := q.kv.Rollback(); lost != nil {
			err = errors.Join(err, fmt.Errorf("%w: rollback: %w", mlx.ErrDevice, lost))
		}
	}
	for _, l := range led {
		if lost := l.drop(); lost != nil {
			err = errors.Join(err, fmt.Errorf("%w: return to mark: %w", mlx.ErrDevice, lost))
		}
	}
	if f := step.FaultOf(fault(err)); f == step.FaultBuffers || f == step.FaultBytes {
		e.pressed = true
	}
	return err
}

// passes runs all rows at once, or one by one: then none's numbers depend on
// another's being there.
func (e *Engine) passes(rows []step.Row, st *step.Step, seqs []*sequence, got *harvest) error {
	if !st.Deterministic {
		return e.pass(rows, seqs, st.Depth, got)
	}
	for i := range rows {
		if err := e.pass(rows[i:i+1], seqs[i:i+1], st.Depth, got); err != nil {
			return err
		}
	}
	return nil
}

// pass computes rows: afterwards logits are read and states evaluated, but
// nothing is committed.
func (e *Engine) pass(rows []step.Row, seqs []*sequence, depth int, got *harvest) error {
	s := e.dev.NewScope()
	defer s.Close()
	b := batch(rows, seqs, depth)
	logits, err := e.model.Forward(s, b) // [len(b.Want), V]
	if err != nil {
		return err
	}
	out := got.ask(s, rows, logits)
	arrays := out.arrays()
	for _, q := range seqs {
		arrays = append(arrays, q.kv.States()...)
	}
	if err := s.Eval(arrays...); err != nil {
		return err
	}
	return got.read(out)
}

func batch(rows []step.Row, seqs []*sequence, depth int) *models.Batch {
	b := &models.Batch{Depth: depth}
	for i, r := range rows {
		for _, t := range r.Tokens {
			b.Tokens = append(b.Tokens, int32(t))
		}
		b.Segments = append(b.Segments, models.Segment{Seq: seqs[i].kv, Len: len(r.Tokens)})
		if r.Sampler != nil {
			b.Want = append(b.Want, len(b.Tokens)-1)
		}
	}
	return b
}

// harvest gathers what the passes of a step bring.
type harvest struct {
	vocab  int
	picked []sample.Picked
	done   int // of picked
	rows   []float32
	draws  []draw
}

// draw is one row of logits on the host, to be sampled.
type draw struct {
	sampler *sample.Sampler
	picked  *sample.Picked
	at      int // in rows
}

// outputs is what one pass computes for its samplers.
type outputs struct {
	best, most *mlx.Array        // [W] argmax and maximum of every wanted row; nil: no row is plain
	rows       *mlx.Array        // [D, V] logits of those that are drawn; nil: none are
	wanted     []*sample.Sampler // [W]
	plain      []bool            // [W]
}

func (o *outputs) arrays() (out []*mlx.Array) {
	for _, a := range []*mlx.Array{o.best, o.most, o.rows} {
		if a != nil {
			out = append(out, a)
		}
	}
	return out
}

// ask builds what the samplers of a pass need: an argmax on the device where
// that is all, the row of logits elsewhere.
func (h *harvest) ask(s *mlx.Scope, rows []step.Row, logits *mlx.Array) *outputs {
	o := &outputs{}
	var drawn []int32
	for _, r := range rows {
		if r.Sampler == nil {
			continue
		}
		if o.plain = append(o.plain, r.Sampler.Plain()); !r.Sampler.Plain() {
			drawn = append(drawn, int32(len(o.wanted)))
		}
		o.wanted = append(o.wanted, r.Sampler)
	}
	switch len(drawn) {
	case 0:
	case len(o.wanted):
		o.rows = logits
	default:
		o.rows = s.Take(logits, s.FromInt32(drawn), 0)
	}
	if len(drawn) < len(o.wanted) {
		o.best, o.most = s.ArgMax(logits, -1), s.Max(logits, -1)
	}
	return o
}

// read copies a pass's evaluated outputs to the host.
func (h *harvest) read(o *outputs) error {
	best, most := make([]int32, len(o.wanted)), make([]float32, len(o.wanted))
	if o.best != nil {
		if err := errors.Join(o.best.Int32s(best), o.most.Float32s(most)); err != nil {
			return err
		}
	}
	from := len(h.rows)
	if o.rows != nil {
		n := o.rows.Size()
		h.rows = slices.Grow(h.rows, n)[:from+n]
		if err := o.rows.Float32s(h.rows[from:]); err != nil {
			return err
		}
	}
	for i, sampler := range o.wanted {
		p := &h.picked[h.done]
		h.done++
		if !o.plain[i] {
			h.draws = append(h.draws, draw{sampler, p, from})
			from += h.vocab
			continue
		}
		*p = plain(best[i], most[i])
	}
	return nil
}

// plain is what the device's own argmax brought. A maximum that is no number
// tells that some logit was none.
func plain(best int32, most float32) sample.Picked {
	if m := float64(most); math.IsNaN(m) || math.IsInf(m, 0) {
		return sample.Picked{Err: &sample.LogitsError{Index: int(best), Value: most}}
	}
	return sample.Picked{Token: turn.TokenID(best)}
}

// pick samples every row that was read.
func (h *harvest) pick() {
	workers := min(runtime.NumCPU(), len(h.draws))
	var next sync.Mutex
	at := 0
	work := func() {
		for {
			next.Lock()
			i := at
			at++
			next.Unlock()
			if i >= len(h.draws) {
				return
			}
			d := h.draws[i]
			*d.picked = d.sampler.Pick(h.rows[d.at : d.at+h.vocab])
		}
	}
	if workers <= 1 {
		work()
		return
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(work)
	}
	all.Wait()
}
