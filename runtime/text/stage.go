package text

import "ingot/runtime/turn"

// Piece is a run of what the model says, of one kind: answer (turn.EventText),
// thinking (turn.EventReasoning) or part of a call (turn.EventToolCall).
type Piece struct {
	Type turn.EventType
	Text string
	Call *turn.ToolCall // of a turn.EventToolCall
}

// Stage splits or rewrites pieces on their way from the stop matcher to the events.
// It may hold text back until it knows what it is. One goroutine calls it.
type Stage interface {
	// Push takes the next piece and calls out for each that is certain.
	Push(p Piece, out func(Piece))
	// End calls out for what was held back; nothing follows.
	End(out func(Piece))
}

func (p Piece) event(choice int) turn.Event {
	e := turn.Event{Type: p.Type, Choice: &choice}
	if p.Type == turn.EventToolCall {
		e.ToolCall = p.Call
	} else {
		e.Text = &turn.Text{Delta: p.Text}
	}
	return e
}
