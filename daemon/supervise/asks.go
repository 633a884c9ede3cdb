package supervise

import (
	"encoding/json"
	"fmt"

	"ingot/daemon/lifecycle"
	"ingot/runtime/wire"
)

// ask is a question that waits for its answer, over runner deaths too.
type ask struct {
	id     uint64
	op     wire.Op
	body   json.RawMessage
	tries  int
	answer chan *wire.Answer // has room for one
}

func (s *Supervisor) ask(a *ask) {
	s.lastAsk++
	a.id = s.lastAsk
	switch s.state {
	case lifecycle.Stalled:
		a.answer <- &wire.Answer{Error: s.status.Err}
		return
	case lifecycle.Cold, lifecycle.Failed, lifecycle.Unloading:
		a.answer <- nil
		return
	}
	s.asks[a.id] = a
	if s.state == lifecycle.Ready {
		s.sendAsk(a)
	}
}

func (s *Supervisor) sendAsk(a *ask) {
	a.tries++
	s.gen.send(&wire.Ask{ID: a.id, Op: a.op, Body: a.body})
}

func (s *Supervisor) resendAsks() {
	for _, a := range s.asks {
		s.sendAsk(a)
	}
}

func (s *Supervisor) answered(m *wire.Answer) {
	if a := s.asks[m.ID]; a != nil {
		delete(s.asks, m.ID)
		a.answer <- m
	}
}

func (s *Supervisor) failAsks(err *wire.Error) {
	for id, a := range s.asks {
		delete(s.asks, id)
		a.answer <- &wire.Answer{ID: id, Error: err}
	}
}

// askElsewhere sends everybody away whose runner was stopped.
func (s *Supervisor) askElsewhere() {
	for id, a := range s.asks {
		delete(s.asks, id)
		a.answer <- nil
	}
}

// dropAsks fails the questions that two runners died with.
func (s *Supervisor) dropAsks() {
	for id, a := range s.asks {
		if a.tries >= 2 {
			delete(s.asks, id)
			a.answer <- &wire.Answer{ID: id, Error: &wire.Error{Name: "engine_failed",
				Message: fmt.Sprintf("%s: the runner of %s died twice over it", a.op, s.opt.Model)}}
		}
	}
}
