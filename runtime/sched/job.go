package sched

import (
	"slices"
	"time"

	"ingot/runtime/sample"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// grid is the fixed prefill width of deterministic turns, in tokens. Part of
// the contract: changing it changes their text.
const grid = 256

// job is a turn inside the scheduler. Its fields belong to the scheduler's
// goroutine, save mail, and those that Submit sets before it is known there.
type job struct {
	number  uint64 // age: older is smaller
	req     Request
	mail    *mailbox
	threads []*thread // one a choice
	trunk   *thread   // the shared prompt of several choices, until they fork
	eos     map[turn.TokenID]bool
	limit   int // tokens a choice may have
	gridMax int

	since   time.Time // when it last began to wait
	place   int       // last place told; -1: none
	parked  bool      // by Park
	over    bool      // its End is delivered
	blocked bool      // no room beside the others: waits for one to end
	gained  bool      // a token since it was admitted
	refused int       // how often since its last step
	solo    bool      // steps alone, to learn whether it is the one that fails
	cached  int
	opened  bool // cached is known: later lives don't count
	book    book
}

// thread is one sequence of a job: the prompt, then its choice's tokens.
type thread struct {
	job     *job
	choice  int
	end     int            // prompt tokens it covers
	tokens  []turn.TokenID // sampled or delivered, behind the prompt
	seq     step.SeqID
	open    bool   // seq is the engine's
	pos     int    // tokens committed to seq
	stepped uint64 // the last step it was in
	apart   bool   // its chunk found no place beside decode rows
	sampler *sample.Sampler
	finish  turn.Finish
}

func (s *Scheduler) newJob(r Request) *job {
	j := &job{req: r, since: time.Now(), place: -1, eos: s.eos, gridMax: s.cfg.Grid, limit: s.cfg.Context - len(r.Prompt)}
	j.mail = newMailbox(s.cfg.Mailbox, s.poke)
	if r.Params.MaxTokens > 0 {
		j.limit = min(j.limit, r.Params.MaxTokens)
	}
	for i := range max(1, r.Params.N) {
		j.threads = append(j.threads, j.newThread(i))
	}
	if r.Resume != nil {
		j.cached, j.opened = r.Resume.Cached, true
	}
	return j
}

func (j *job) newThread(choice int) *thread {
	t := &thread{job: j, choice: choice, end: len(j.req.Prompt)}
	t.sampler = sample.New(&j.req.Params, j.req.Prompt, choice)
	if r := j.req.Resume; r != nil && choice < len(r.Choices) {
		d := r.Choices[choice]
		t.tokens, t.finish = slices.Clone(d.Tokens), d.Finish
		for _, id := range d.Tokens {
			t.sampler.Accept(id)
		}
		if n := len(d.Tokens); n > 0 && t.finish == "" {
			t.finish = j.ends(d.Tokens[n-1], n)
		}
	}
	return t
}

// live lists the choices that are not over.
func (j *job) live() []*thread {
	var out []*thread
	for _, t := range j.threads {
		if t.finish == "" {
			out = append(out, t)
		}
	}
	return out
}

// sequences lists what the engine holds for the job.
func (j *job) sequences() []*thread {
	var out []*thread
	for _, t := range append([]*thread{j.trunk}, j.threads...) {
		if t != nil && t.open {
			out = append(out, t)
		}
	}
	return out
}

// working lists the threads that may step: the trunk until it forks, then
// the open choices.
func (j *job) working() []*thread {
	if j.trunk != nil {
		return []*thread{j.trunk}
	}
	return j.live()
}

// grid is the job's fixed prefill width, 0 for an ordinary job.
func (j *job) grid() int {
	if !j.req.Params.Deterministic {
		return 0
	}
	if p := j.req.Params.PrefillStep; p > 0 {
		return min(p, j.gridMax)
	}
	return j.gridMax
}

// active reports whether the job wants to step and its reader keeps up.
func (j *job) active() bool { return !j.parked && j.mail.hasRoom() }

// sleeps reports whether the job may lose its place to another: its reader
// does not come. One that has gained nothing yet keeps it, or two such could
// take turns for ever; but not if it was told to stand aside.
func (j *job) sleeps() bool { return j.parked || j.gained && !j.mail.hasRoom() }

// ends reports whether a sampled token, the n-th of its choice, ends it.
func (j *job) ends(id turn.TokenID, n int) turn.Finish {
	p := &j.req.Params
	switch {
	case j.eos[id] && !p.IgnoreEOS, slices.Contains(p.StopTokens, id):
		return turn.FinishStop
	case n >= j.limit:
		return turn.FinishLength
	}
	return ""
}

// tellPlace reports the place in the queue, from 0, if it changed.
func (j *job) tellPlace(n int) {
	if j.place != n {
		j.place = n
		j.mail.tryPut(Update{Queued: &turn.Queued{Position: n}})
	}
}

// total is the length of the thread's sequence once it has caught up.
func (t *thread) total() int { return t.end + len(t.tokens) }

// need is how many known tokens its sequence lacks.
func (t *thread) need() int { return t.total() - t.pos }

// next returns the n tokens behind pos. 0 < n <= need.
func (t *thread) next(n int) []turn.TokenID {
	out := make([]turn.TokenID, 0, n)
	if t.pos < t.end {
		out = append(out, t.job.req.Prompt[t.pos:min(t.end, t.pos+n)]...)
	}
	for len(out) < n {
		out = append(out, t.tokens[t.pos+len(out)-t.end])
	}
	return out
}

// all returns every token the thread knows.
func (t *thread) all() []turn.TokenID {
	return append(slices.Clone(t.job.req.Prompt[:t.end]), t.tokens...)
}

// prompting reports whether the next token it feeds is the prompt's.
func (t *thread) prompting() bool { return t.pos < t.end }

// forks reports whether the thread is a trunk: it yields no token itself.
func (t *thread) forks() bool { return t == t.job.trunk }
