package sched

import (
	"cmp"
	"slices"

	"ingot/runtime/governor"
	"ingot/runtime/step"
)

// item is one step to try: decode rows, a chunk of one prompt, or both. Its
// rows may have gone (cancelled, ended) by the time it is done.
type item struct {
	rows  []*thread // one known token each
	chunk *thread   // several known tokens; nil: none
}

// round decides who steps until the next round: every ordinary thread with
// one token to feed in one batch, with one chunk beside it, and deterministic
// or suspected ones alone. So each running turn steps at least once a round,
// and the chunk goes round among those that have one.
func (s *Scheduler) round() []item {
	var batch item
	var loners []item
	var chunks []*thread
	for _, t := range s.ready() {
		switch {
		case t.byOne() && t.lonely():
			for range t.turns() {
				loners = append(loners, item{rows: []*thread{t}})
			}
		case t.byOne():
			batch.rows = append(batch.rows, t)
		default:
			chunks = append(chunks, t)
		}
	}
	slices.SortStableFunc(batch.rows, func(a, b *thread) int { return cmp.Compare(a.stepped, b.stepped) })
	var items []item
	if c := s.nextChunk(chunks); c != nil && (c.lonely() || c.apart) {
		loners = append(loners, item{chunk: c})
	} else {
		batch.chunk = c
	}
	if len(batch.rows) > 0 || batch.chunk != nil {
		items = append(items, batch)
	}
	return append(items, loners...)
}

// ready lists the threads that want to step and may.
func (s *Scheduler) ready() []*thread {
	var out []*thread
	for _, j := range slices.Clone(s.running) {
		if j.blocked || !j.active() {
			continue
		}
		if j.trunk != nil && j.trunk.open && j.trunk.need() == 0 {
			s.fork(j)
		}
		for _, t := range j.working() {
			if t.open && t.need() > 0 {
				out = append(out, t)
			}
		}
	}
	return out
}

// nextChunk picks the thread whose chunk rides: the first one at or behind
// the place where the last round stopped. An order by admission, so a turn
// waits for at most one chunk of each other.
func (s *Scheduler) nextChunk(chunks []*thread) *thread {
	if len(chunks) == 0 {
		return nil
	}
	s.turnOf++
	return chunks[s.turnOf%len(chunks)]
}

// catchUp is how many steps a round a lone thread has while it replays what
// was delivered already: its client has waited for a restart, others go on at
// a part of their speed meanwhile.
const catchUp = 4

// turns is how often a lone thread steps in a round.
func (t *thread) turns() int {
	if t.need() > 1 {
		return catchUp
	}
	return 1
}

// byOne reports whether the thread's next step feeds a single token.
func (t *thread) byOne() bool {
	return t.need() == 1 || t.job.grid() > 0 && !t.prompting()
}

// lonely reports whether the thread shares no step.
func (t *thread) lonely() bool { return t.job.grid() > 0 || t.job.solo }

// gone reports whether the thread has left since its item was made.
func (t *thread) gone() bool {
	return !t.open || t.finish != "" || t.job.blocked || !t.job.active()
}

// fresh drops from an item what has left since.
func (it item) fresh() item {
	var out item
	for _, t := range it.rows {
		if !t.gone() && t.byOne() {
			out.rows = append(out.rows, t)
		}
	}
	if it.chunk != nil && !it.chunk.gone() && !it.chunk.byOne() {
		out.chunk = it.chunk
	}
	return out
}

// do takes one step: plan, levers, engine, then what came of it. An error
// means that the device is lost.
func (s *Scheduler) do(it item) error {
	it = it.fresh()
	if len(it.rows) == 0 && it.chunk == nil {
		return nil
	}
	p, before := s.planned(it)
	if p.Refusal != nil {
		return s.refused(it, p.Refusal)
	}
	if s.yields(it.chunk, p) {
		return s.do(item{rows: it.rows})
	}
	all := it
	if it, p.Width = it.cut(p); len(it.threads()) == 0 {
		return s.refused(all, &governor.Refusal{Width: 1})
	}
	s.announce(p)
	res, err := s.eng.Step(it.step(p))
	if f := step.FaultOf(err); err == nil || f != step.FaultNone && f != step.FaultDevice {
		s.plan.Observe(it.observed(p, before, res, f, s.eng.Reading()))
	}
	if err != nil {
		return s.faulted(it, err)
	}
	s.commit(it, p, res)
	return nil
}

// maxAgain bounds how often a planner may ask to be asked again.
const maxAgain = 4

// planned is the planner's word on the item, with the levers pulled, and the
// reading that it counts on.
func (s *Scheduler) planned(it item) (p governor.Plan, before step.Reading) {
	var pulled []governor.Lever
	for range maxAgain {
		before = s.eng.Reading()
		p = s.plan.Next(it.ask(before))
		if r := relief(p.Levers); r != (step.Relief{}) {
			s.eng.Relieve(r)
			before = s.eng.Reading()
		}
		pulled = append(pulled, p.Levers...)
		if !p.Again || p.Refusal != nil {
			break
		}
	}
	p.Levers = pulled
	return p, before
}

// ask puts the item to the planner.
func (it item) ask(r step.Reading) governor.Ask {
	a := governor.Ask{Decode: len(it.rows), Level: levelOf(r), Limits: limitsOf(r)}
	for _, k := range r.Kept {
		a.Kept = append(a.Kept, governor.Kept(k))
	}
	if t := it.chunk; t != nil {
		a.Remaining, a.Context = t.need(), t.pos
		a.Cap, a.Grid = t.job.req.Params.PrefillStep, t.job.grid()
		if a.Grid > 0 {
			a.Grid, a.Remaining = t.gridded(), t.end-t.pos
		}
	}
	return a
}

// cut leaves what the plan has room for, and the width of its chunk: on a
// grid that is not the planner's to choose. The rows passed over are the
// first of the next round's batch.
func (it item) cut(p governor.Plan) (item, int) {
	if p.Rows < len(it.rows) {
		it.rows = it.rows[:max(p.Rows, 0)]
	}
	width := p.Width
	switch {
	case it.chunk == nil:
		return it, 0
	case it.chunk.job.grid() > 0:
		width = it.chunk.gridded()
	case width <= 0:
		it.chunk.apart = true
		it.chunk = nil
	}
	return it, width
}

// gridded is the width of the thread's next chunk on its grid, which is laid
// from token 0 and ends with the prompt.
func (t *thread) gridded() int {
	g := t.job.grid()
	return min(g-t.pos%g, t.end-t.pos)
}

// step is the item as the engine takes it: the rows, then the chunk.
func (it item) step(p governor.Plan) *step.Step {
	st := &step.Step{Depth: p.Depth}
	for _, t := range it.rows {
		st.Rows = append(st.Rows, t.row(1))
	}
	if it.chunk != nil {
		st.Rows = append(st.Rows, it.chunk.row(p.Width))
	}
	for _, t := range it.threads() {
		st.Deterministic = st.Deterministic || t.job.grid() > 0
	}
	return st
}

// row feeds the thread's next n tokens, and samples if they are its last.
func (t *thread) row(n int) step.Row {
	r := step.Row{Seq: t.seq, Tokens: t.next(n)}
	if n == t.need() && !t.forks() {
		r.Sampler = t.sampler
	}
	return r
}

func (it item) threads() []*thread {
	if it.chunk == nil {
		return it.rows
	}
	return append(it.rows[:len(it.rows):len(it.rows)], it.chunk)
}

// observed is what the planner learns of the step.
func (it item) observed(p governor.Plan, before step.Reading, res *step.Result, f step.Fault, after step.Reading) governor.Reading {
	r := governor.Reading{Decode: len(it.rows), Depth: p.Depth, Before: levelOf(before), Limits: limitsOf(before), Live: after.Live, Fault: governor.Fault(f)}
	if it.chunk != nil {
		r.Width, r.Context = p.Width, it.chunk.pos
	}
	if res != nil {
		r.PeakLive, r.PeakBytes, r.Elapsed = res.PeakLive, res.PeakBytes, res.Elapsed
	}
	return r
}

func levelOf(r step.Reading) governor.Level {
	return governor.Level{Live: r.Live, Cached: r.Cached, Bytes: r.Bytes, CachedBytes: r.CachedBytes, Unsettled: r.Unsettled}
}

func limitsOf(r step.Reading) governor.Limits {
	return governor.Limits{Buffers: r.Limit, Bytes: r.LimitBytes, Resident: r.Resident, ResidentBytes: r.ResidentBytes}
}

// relief sums the levers that are pulled between steps.
func relief(ls []governor.Lever) step.Relief {
	var r step.Relief
	for _, l := range ls {
		switch l.Kind {
		case governor.LeverDetach:
			r.Settle = true
		case governor.LeverClear:
			r.Clear = true
		case governor.LeverEvict:
			r.Evict += l.Count
		}
	}
	return r
}

var _ Planner = (*governor.Governor)(nil)
