// Package step holds the words that the scheduler and the engine share: what
// one step of the device computes, what it brought, and how it may fail.
//
// It owns nouns only, so that sched need not import engine nor engine sched.
// Values are plain data, handed over whole; no goroutine changes one that
// another may read.
package step

import (
	"errors"
	"time"

	"ingot/runtime/sample"
	"ingot/runtime/turn"
)

// SeqID names one sequence of an engine: a row of tokens with its caches.
// Zero names none; ids are not used twice.
type SeqID uint64

// Step is what the device computes at once: the rows of several sequences,
// each sequence at most once.
type Step struct {
	Rows  []Row
	Depth int // layers between evaluations; 0: the whole model at once

	// Deterministic asks that rows be computed one by one, in order, so that
	// none's numbers depend on another's being there.
	Deterministic bool
}

// Row appends Tokens (at least one) to the caches of Seq. With a Sampler the
// logits behind the last token are drawn from; without one they are not even
// computed.
type Row struct {
	Seq     SeqID
	Tokens  []turn.TokenID
	Sampler *sample.Sampler
}

// Result is what a committed step brought.
type Result struct {
	Picked    []sample.Picked // one for each Row with a Sampler, in order; not yet accepted by it
	Live      turn.Buffers    // after the step
	PeakLive  turn.Buffers    // most live during it
	Bytes     turn.Bytes      // after the step
	PeakBytes turn.Bytes      // most during it
	Elapsed   time.Duration
}

// Reading says where an engine stands between steps.
type Reading struct {
	Live        turn.Buffers // buffer objects held by arrays
	Cached      turn.Buffers // upper bound of those in MLX's cache
	Bytes       turn.Bytes
	CachedBytes turn.Bytes
	Unsettled   bool // Live may include buffers that the device is about to let go

	Resident      turn.Buffers // weights
	ResidentBytes turn.Bytes
	Limit         turn.Buffers // in force; 0: none
	LimitBytes    turn.Bytes

	Kept []Kept // prefix entries that may be evicted, least recently used first; read only
}

// Kept is what a prefix entry would give back.
type Kept struct {
	Buffers turn.Buffers
	Bytes   turn.Bytes
}

// Relief is a measure that gives buffers or bytes back between steps.
type Relief struct {
	Settle bool // evaluate what is lazy, wait for the device to let go
	Clear  bool // empty MLX's cache
	Evict  int  // so many prefix entries, least recently used first
}

// Info is what an engine has loaded.
type Info struct {
	Family  string
	Layers  int
	Vocab   int
	Context int            // tokens
	EOS     []turn.TokenID // end-of-turn tokens
	Device  string
}

// Fault is why a step failed. After every fault but FaultDevice all
// sequences are as they were before the step.
type Fault string

// Faults.
const (
	FaultNone    Fault = ""        // not a fault of resources: a mistake of the caller
	FaultBuffers Fault = "buffers" // the buffer limit
	FaultBytes   Fault = "bytes"   // the memory limit
	FaultLaunch  Fault = "launch"  // the device refused this shape; a narrower one may do
	FaultDevice  Fault = "device"  // nothing of the process can be trusted any more
)

// Error is a step's failure. It unwraps to its cause.
type Error struct {
	Fault Fault
	Err   error
}

func (e *Error) Error() string { return "step: " + string(e.Fault) + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// FaultOf classifies an error of a step.
func FaultOf(err error) Fault {
	var e *Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return FaultNone
}

// ErrUnknown reports a SeqID that is not open.
var ErrUnknown = errors.New("step: unknown sequence")
