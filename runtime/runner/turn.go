package runner

import (
	"errors"
	"fmt"

	"ingot/runtime/sample"
	"ingot/runtime/sched"
	"ingot/runtime/text"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// speaker turns one turn's updates into its frames. It belongs to the turn's
// goroutine.
type speaker struct {
	id      turn.ID
	prompt  []turn.TokenID
	resumed int // runner deaths so far
	before  int // tokens delivered in earlier lives
	asm     []*text.Assembler
	finish  []turn.Finish
	stopped func(choice int) // tells the scheduler of a stop string
}

// newSpeaker makes the assemblers, brought up to what a resume delivered.
func newSpeaker(w Words, m *wire.Submit, prompt []turn.TokenID, p *turn.Params, stopped func(int)) (*speaker, error) {
	s := &speaker{id: m.Turn, prompt: prompt, stopped: stopped, finish: make([]turn.Finish, p.N)}
	for i := range p.N {
		a := text.NewAssembler(w.Stream(), w, text.Options{Choice: i, Stop: p.Stop, IDs: m.IDs, Logprobs: p.Logprobs})
		s.asm = append(s.asm, a)
		if m.Resume == nil || i >= len(m.Resume.Choices) {
			continue
		}
		d := m.Resume.Choices[i]
		if err := a.Replay(d.Tokens); err != nil {
			s.close()
			return nil, fmt.Errorf("choice %d: replay of %d tokens: %w", i, len(d.Tokens), err)
		}
		s.finish[i] = d.Finish
		s.before += len(d.Tokens)
	}
	if m.Resume != nil {
		s.resumed = m.Resume.Resumed
	}
	return s, nil
}

func (s *speaker) close() {
	for _, a := range s.asm {
		a.Close()
	}
}

// catchUp ends choices whose delivered text holds a stop string already: the
// runner died between the token and its end.
func (s *speaker) catchUp() *wire.Step {
	f := &wire.Step{Turn: s.id}
	for i, a := range s.asm {
		if a.Over() && s.finish[i] == "" {
			s.finish[i] = turn.FinishStop
			s.stopped(i)
			f.Choices = append(f.Choices, wire.Advance{Choice: i, Finish: turn.FinishStop})
		}
	}
	if len(f.Choices) == 0 {
		return nil
	}
	return f
}

// frame is one update as a frame, or nil if there is nothing to say.
func (s *speaker) frame(u sched.Update) (*wire.Step, error) {
	f := &wire.Step{Turn: s.id}
	if u.Queued != nil {
		f.Events = append(f.Events, turn.Event{Type: turn.EventQueued, Queued: u.Queued})
	}
	if u.Prefill != nil {
		f.Events = append(f.Events, turn.Event{Type: turn.EventPrefill, Prefill: u.Prefill})
	}
	for _, g := range u.Gains {
		if s.finish[g.Choice] != "" {
			continue // sampled before the scheduler heard that the choice is over
		}
		if err := s.gain(f, g); err != nil {
			return nil, err
		}
	}
	if u.End != nil && u.End.Err == nil {
		if err := s.endAll(f, u.End); err != nil {
			return nil, err
		}
	}
	if len(f.Choices)+len(f.Events) == 0 {
		return nil, nil
	}
	return f, nil
}

// endAll ends choices that ended without a word: a resume had delivered them
// to their last token.
func (s *speaker) endAll(f *wire.Step, e *sched.End) error {
	for i, why := range e.Finish {
		if s.finish[i] == "" {
			if err := s.gain(f, sched.Gain{Choice: i, Finish: why}); err != nil {
				return err
			}
		}
	}
	return nil
}

// gain adds what one choice gained to the frame.
func (s *speaker) gain(f *wire.Step, g sched.Gain) error {
	adv := wire.Advance{Choice: g.Choice, Finish: g.Finish}
	a := s.asm[g.Choice]
	for i, p := range g.Picked {
		var why turn.Finish
		if i == len(g.Picked)-1 {
			why = g.Finish
		}
		out, err := a.Step(sampled(p), why)
		if err != nil {
			return fmt.Errorf("choice %d: token %d: %w", g.Choice, p.Token, err)
		}
		adv.Tokens = append(adv.Tokens, p.Token)
		f.Events = append(f.Events, out.Events...)
		if out.Stopped {
			adv.Finish = turn.FinishStop
			s.stopped(g.Choice)
			break
		}
	}
	if len(g.Picked) == 0 {
		out, err := a.Finish()
		if err != nil {
			return fmt.Errorf("choice %d: end: %w", g.Choice, err)
		}
		f.Events = append(f.Events, out.Events...)
	}
	s.finish[g.Choice] = adv.Finish
	f.Choices = append(f.Choices, adv)
	return nil
}

func sampled(p sample.Picked) text.Sampled {
	t := text.Sampled{ID: p.Token, Logprob: p.Logprob}
	for _, alt := range p.Top {
		t.Top = append(t.Top, text.Alternative{ID: alt.Token, Logprob: alt.Logprob})
	}
	return t
}

// end is the turn's last frame. nil after a device error: the turn is not
// over, the daemon resumes it in a new runner.
func (s *speaker) end(e *sched.End) *wire.End {
	switch {
	case errors.Is(e.Err, sched.ErrDevice):
		return nil
	case e.Err != nil:
		return &wire.End{Turn: s.id, Error: named(e.Err)}
	}
	d := &turn.Done{FinishReason: s.finish[0], Report: e.Report}
	if len(s.finish) > 1 {
		d.FinishReasons = s.finish
	}
	total := 0
	for _, a := range s.asm {
		total += a.Tokens()
	}
	d.Usage = turn.Usage{PromptTokens: len(s.prompt), CompletionTokens: total, TotalTokens: len(s.prompt) + total}
	d.Usage.Prompt.CachedTokens = e.Cached
	d.Report.Decode.Tokens = total - s.before // what was sampled behind a stop string is dropped
	d.Report.Resumed = s.resumed
	return &wire.End{Turn: s.id, Done: d}
}
