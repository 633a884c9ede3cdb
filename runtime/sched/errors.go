package sched

import (
	"errors"
	"fmt"
	"time"

	"ingot/runtime/turn"
)

// ErrClosed ends turns that the scheduler no longer serves.
var ErrClosed = errors.New("sched: shutting down")

// ErrDevice ends the turns, and Run, when the device can no longer be
// trusted. The process must exit.
var ErrDevice = errors.New("sched: device error")

// ErrNoPrompt refuses a turn without a single token.
var ErrNoPrompt = errors.New("sched: prompt has no token")

// QueueFullError refuses a turn because too many wait already.
type QueueFullError struct {
	Queued     int
	RetryAfter time.Duration // a guess: when a place should be free
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("sched: queue is full with %d turns", e.Queued)
}

// ContextError refuses a prompt that leaves no place for an answer.
type ContextError struct {
	Tokens  int // of the prompt
	Context int // tokens the model can hold
}

func (e *ContextError) Error() string {
	return fmt.Sprintf("sched: prompt of %d tokens leaves no room in a context of %d", e.Tokens, e.Context)
}

// NoRoomError ends a turn that, alone and as narrow and deep as a step can
// be, needs more than the limits leave.
type NoRoomError struct {
	Resource   string // "buffers" or "bytes": what Need and Have count
	Need, Have int64
	Width      int // tokens a step, assumed
	RetryAfter time.Duration
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("sched: no room: a step of width %d needs %d %s, %d are left", e.Width, e.Need, e.Resource, e.Have)
}

// EngineError ends a turn whose step failed for no reason that a narrower
// step could cure.
type EngineError struct{ Err error }

func (e *EngineError) Error() string { return "sched: engine: " + e.Err.Error() }

// Unwrap returns the engine's own error.
func (e *EngineError) Unwrap() error { return e.Err }

// Resume says what a turn delivered in earlier lives, a choice each.
type Resume struct {
	Choices []Delivered
	Cached  int // prompt tokens the first life took from a kept prefix
}

// Delivered is one choice of a Resume. Its tokens are not delivered again.
type Delivered struct {
	Tokens []turn.TokenID
	Finish turn.Finish // set: this choice is over
}
