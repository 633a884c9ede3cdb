package journal

import (
	"time"

	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// entry is one turn. The journal's lock guards all of it.
type entry struct {
	id     turn.ID
	model  string
	submit wire.Submit // as first submitted; with the ids and resolved parameters once Prompted
	linger bool
	born   time.Time

	started   time.Time // first handed to a runner
	loading   bool      // waited for a load before that
	prompted  bool      // the prompt's ids are known
	chosen    []wire.Delivered
	cached    int  // tokens taken from a kept prefix in the first life
	prefilled bool // cached is known
	resumed   int  // runner deaths survived

	events []record
	first  int64 // seq of events[0]
	kept   int   // bytes of events
	ending bool  // its final event is on its way
	final  bool
	ended  time.Time

	reader *Reader
	left   time.Time // when the last reader went; meaningful while reader is nil
	unread int       // bytes the reader has not read; of all kept while there is none
	parked bool
	phase  string
	spoke  time.Time // the last event
	wake   chan struct{}
}

// record is one event and roughly what it costs to keep.
type record struct {
	ev   turn.Event
	size int
}

func (e *entry) next() int64 { return e.first + int64(len(e.events)) }

// add numbers and keeps one event.
func (e *entry) add(ev turn.Event, now time.Time, keep int) {
	ev.Turn, ev.Seq = e.id, e.next()
	n := sizeOf(&ev)
	e.events = append(e.events, record{ev, n})
	e.kept += n
	e.unread += n
	e.final = ev.Final()
	if e.final {
		e.ended = now
	}
	e.spoke = now
	e.phase = phaseOf(ev.Type, e.phase)
	e.trim(keep)
	e.wakeLocked()
}

// trim drops the oldest events that were read: all of them where nobody may
// come back, else what is over keep bytes.
func (e *entry) trim(keep int) {
	read := e.next()
	if e.reader != nil {
		read = e.reader.pos
	} else if e.linger {
		read = e.first
	}
	if !e.linger {
		keep = 0
	}
	n := 0
	for e.kept > keep && e.first+int64(n) < read {
		e.kept -= e.events[n].size
		n++
	}
	if n > 0 {
		clear(e.events[:n]) // what they hold is free; append moves the rest when it must
		e.events = e.events[n:]
		e.first += int64(n)
	}
}

func (e *entry) wakeLocked() {
	close(e.wake)
	e.wake = make(chan struct{})
}

// sizeOf estimates what an event holds in memory, in bytes.
func sizeOf(ev *turn.Event) int {
	n := 256
	if t := ev.Text; t != nil {
		n += len(t.Delta) + 4*len(t.TokenIDs)
		for i := range t.Logprobs {
			n += 96 + len(t.Logprobs[i].Token) + 80*len(t.Logprobs[i].Top)
		}
	}
	if c := ev.ToolCall; c != nil {
		n += len(c.Arguments) + len(c.Name) + len(c.ID)
	}
	if d := ev.Done; d != nil {
		n += 64 * len(d.Report.Prefill.Steps)
	}
	if f := ev.Failure; f != nil {
		n += len(f.Message) + len(f.Data)
	}
	return n
}

func phaseOf(t turn.EventType, was string) string {
	switch t {
	case turn.EventQueued, turn.EventLoading, turn.EventPrefill:
		return string(t)
	case turn.EventText, turn.EventReasoning, turn.EventToolCall:
		return "decode"
	case turn.EventResumed:
		return string(turn.EventPrefill)
	}
	return was
}

// gain adds what a step brought to what is delivered; it reports whether
// there was a new token.
func (e *entry) gain(choices []wire.Advance) bool {
	fresh := false
	for _, a := range choices {
		for a.Choice >= len(e.chosen) && a.Choice < turn.MaxChoices {
			e.chosen = append(e.chosen, wire.Delivered{})
		}
		if a.Choice < 0 || a.Choice >= len(e.chosen) {
			continue
		}
		c := &e.chosen[a.Choice]
		c.Tokens = append(c.Tokens, a.Tokens...)
		if a.Finish != "" {
			c.Finish = a.Finish
		}
		fresh = fresh || len(a.Tokens) > 0
	}
	return fresh
}

// noteCached learns from the first step of the first life how much of the
// prompt a kept prefix covered: what is done, less what the step computed.
func (e *entry) noteCached(p *turn.Prefill) {
	if p != nil && !e.prefilled {
		e.prefilled = true
		e.cached = max(0, p.Done-p.Width)
	}
}

// delivered counts the tokens of all choices.
func (e *entry) delivered() int {
	n := 0
	for i := range e.chosen {
		n += len(e.chosen[i].Tokens)
	}
	return n
}
