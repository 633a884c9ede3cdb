package supervise

import (
	"slices"

	"ingot/runtime/turn"
)

// Plan decides which open turn a runner gets next and, after deaths, who is
// guilty. It is a pure state machine; one goroutine calls it.
//
// After a death the turns go back to the new runner one at a time, oldest
// first, each on probation until it has delivered a new token or finished its
// prefill; then the next one follows. A resumed turn without a new token is a
// suspect. Where the runner dies with one suspect in it, that turn gets a
// strike, and with the second one, no token between, it is guilty. Where there
// are several, or none, nobody is accused. So that the innocent are kept out
// of it, a turn with a strike goes first next time, and it and each of several
// suspects must then deliver a token before anybody follows.
type Plan struct {
	open     []*standing // oldest first
	trial    *standing   // on probation
	resuming bool        // some turns have not been taken over since the last death
	progress bool        // a token was delivered since the last death
}

type standing struct {
	id      turn.ID
	sent    bool // in the present runner
	again   bool // and handed to it after a death
	proven  bool // has delivered a token since it was sent
	parked  bool // its client does not read
	strict  bool // only a token ends its probation
	strikes int  // probations that ended in a death, without a token between
}

func (p *Plan) find(id turn.ID) *standing {
	for _, s := range p.open {
		if s.id == id {
			return s
		}
	}
	return nil
}

// Add opens a turn.
func (p *Plan) Add(id turn.ID) { p.open = append(p.open, &standing{id: id}) }

// Remove closes a turn: it has ended.
func (p *Plan) Remove(id turn.ID) {
	p.open = slices.DeleteFunc(p.open, func(s *standing) bool { return s.id == id })
	if p.trial != nil && p.trial.id == id {
		p.trial = nil
	}
}

// Open lists the open turns, oldest first.
func (p *Plan) Open() []turn.ID {
	ids := make([]turn.ID, len(p.open))
	for i, s := range p.open {
		ids[i] = s.id
	}
	return ids
}

// Has reports whether the turn is open; Sent whether the runner has it.
func (p *Plan) Has(id turn.ID) bool { return p.find(id) != nil }

// Sent reports whether the present runner has the turn.
func (p *Plan) Sent(id turn.ID) bool {
	s := p.find(id)
	return s != nil && s.sent
}

// Running counts the turns the present runner has, and those of them whose
// clients read.
func (p *Plan) Running() (sent, flowing int) {
	for _, s := range p.open {
		if s.sent {
			sent++
			if !s.parked {
				flowing++
			}
		}
	}
	return sent, flowing
}

// Next returns the turn to hand to the runner now, and counts it as handed.
func (p *Plan) Next() (turn.ID, bool) {
	if p.trial != nil {
		return "", false
	}
	var best *standing
	waiting := false
	for _, s := range p.open {
		if s.sent {
			continue
		}
		waiting = true
		if !s.parked && (best == nil || s.strikes > best.strikes) {
			best = s
		}
	}
	p.resuming = p.resuming && waiting
	if best == nil {
		return "", false
	}
	best.sent, best.proven, best.again = true, false, p.resuming
	if p.resuming {
		p.trial = best
	}
	return best.id, true
}

// Token notes that a turn has delivered a new token.
func (p *Plan) Token(id turn.ID) {
	p.progress = true
	s := p.find(id)
	if s == nil {
		return
	}
	s.proven, s.strict, s.strikes = true, false, 0
	p.acquit(s)
}

// Prefilled notes that a turn has finished its prefill.
func (p *Plan) Prefilled(id turn.ID) {
	if s := p.find(id); s != nil && !s.strict {
		p.acquit(s)
	}
}

func (p *Plan) acquit(s *standing) {
	if p.trial == s {
		p.trial = nil
	}
}

// Park notes that a turn's client has stopped reading, or reads again. It
// reports whether the runner has the turn and must be told. A parked turn
// holds nobody up: its probation is broken off.
func (p *Plan) Park(id turn.ID, parked bool) (tell bool) {
	s := p.find(id)
	if s == nil {
		return false
	}
	s.parked = parked
	if parked && p.trial == s {
		p.trial = nil
		s.strict = true
	}
	return s.sent
}

// Died notes that the runner is gone. It returns the turn that is guilty, if
// one is, already removed, and whether any turn had got on since the last
// death.
func (p *Plan) Died() (guilty turn.ID, progress bool) {
	progress, p.progress = p.progress, false
	guilty = p.judge()
	for _, s := range p.open {
		p.resuming = p.resuming || s.sent
		s.sent = false
	}
	p.trial = nil
	if guilty != "" {
		p.Remove(guilty)
	}
	return guilty, progress
}

// judge accuses the suspect, where there is just one.
func (p *Plan) judge() (guilty turn.ID) {
	var suspects []*standing
	for _, s := range p.open {
		if s.sent && s.again && !s.proven {
			suspects = append(suspects, s)
			s.strict = true
		}
	}
	if len(suspects) != 1 {
		return ""
	}
	s := suspects[0]
	if s.strikes++; s.strikes < 2 {
		return ""
	}
	return s.id
}
