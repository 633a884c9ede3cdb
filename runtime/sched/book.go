package sched

import (
	"time"

	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// maxSteps bounds the prefill steps a report lists; later ones are summed
// only. A prompt of 128k tokens reaches it at width 32.
const maxSteps = 4096

// book keeps a turn's report as its steps are committed.
type book struct {
	report turn.Report
	queued time.Duration
}

// prefill records a step that fed p.Width prompt (or delivered) tokens.
func (b *book) prefill(p turn.Plan, r *step.Result) {
	f := &b.report.Prefill
	f.Tokens += p.Width
	f.MS += ms(r.Elapsed)
	if len(f.Steps) < maxSteps {
		f.Steps = append(f.Steps, turn.PrefillStep{Width: p.Width, Depth: p.Depth, MS: ms(r.Elapsed), PeakLive: r.PeakLive, Reason: p.Reason})
	}
	b.peaks(r)
}

// decode records a step that fed the turn's own tokens.
func (b *book) decode(r *step.Result) {
	b.report.Decode.MS += ms(r.Elapsed)
	b.peaks(r)
}

// sampled counts tokens of the answer.
func (b *book) sampled(n int) { b.report.Decode.Tokens += n }

func (b *book) peaks(r *step.Result) {
	b.report.Buffers.Peak = max(b.report.Buffers.Peak, r.PeakLive)
	b.report.Memory.Peak = max(b.report.Memory.Peak, r.PeakBytes)
}

// close returns the finished report.
func (b *book) close(j *job, buffers turn.BufferGauge, memory turn.MemoryGauge) turn.Report {
	r := b.report
	r.Buffers.Live, r.Buffers.Limit = buffers.Live, buffers.Limit
	r.Memory.Active, r.Memory.Limit = memory.Active, memory.Limit
	r.Prefill.Cached = j.cached
	r.Prefill.TokS = rate(r.Prefill.Tokens, r.Prefill.MS)
	r.Decode.TokS = rate(r.Decode.Tokens, r.Decode.MS)
	r.QueueMS = ms(b.queued)
	r.Seed = j.req.Params.Seed
	if r.Prefill.Steps == nil {
		r.Prefill.Steps = []turn.PrefillStep{}
	}
	return r
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func rate(n int, ms float64) float64 {
	if ms <= 0 {
		return 0
	}
	return float64(n) / ms * 1000
}

// pace guesses when a place in the queue is free, from how long turns take.
type pace struct{ mean time.Duration }

// ended learns from one turn that ended.
func (p *pace) ended(took time.Duration) {
	if p.mean == 0 {
		p.mean = took
	}
	p.mean += (took - p.mean) / 8
}

// wait is the guess for one behind queued others, slots at a time.
func (p *pace) wait(queued, slots int) time.Duration {
	d := p.mean * time.Duration(1+queued/slots) / 2
	return max(time.Second, min(d, time.Minute)).Round(time.Second)
}

// meter is decode speed over the last whole second or so.
type meter struct {
	from   time.Time
	tokens int
	tokS   float64
}

func (m *meter) count(n int, now time.Time) {
	if m.from.IsZero() {
		m.from = now
	}
	m.tokens += n
	if d := now.Sub(m.from); d >= time.Second {
		m.tokS = float64(m.tokens) / d.Seconds()
		m.from, m.tokens = now, 0
	}
}
