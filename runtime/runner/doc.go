// Package runner is the process that serves one model: it speaks runtime/wire
// on one side and drives text and sched on the other.
//
// It owns the process's life (load, ready, end), the goroutines and the
// translation between frames and turns; it neither computes, tokenizes nor
// schedules. What needs cgo comes in through Loader, so all of this runs in
// tests with fakes.
//
//	reader      one goroutine on fd 3; never waits for the device nor for a
//	            write; the end of the stream ends the process at once
//	turn        one each: prompt -> sched -> assembler -> frames; waits for the
//	            daemon to read, and then its turn's mailbox parks the turn
//	ask         one each: tokenizer questions
//	scheduler   one: calls the engine, which calls the device thread
//	gauge       one: tells the daemon how things stand, a few times a second
package runner

import (
	"encoding/json"
	"time"

	"ingot/runtime/runner/faults"
	"ingot/runtime/sched"
	"ingot/runtime/text"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Loader makes what a runner serves. Package runtime/runner/load has the
// real one.
type Loader interface {
	// Words opens the tokenizer and the chat template in folder.
	Words(folder string) (Words, error)

	// Model loads the weights under the grant. progress takes 0 to 1, from
	// any goroutine.
	Model(h *wire.Hello, progress func(float64)) (*Model, error)
}

// Words is the text side of a model. Any goroutine may use it.
type Words interface {
	text.Vocabulary

	// Chat is the prompt of a chat, see text.Prompter.
	Chat(body json.RawMessage, now time.Time) (text.Prompt, error)
	Encode(s string, addSpecial, parseSpecial bool) ([]turn.TokenID, error)
	Decode(ids []turn.TokenID, skipSpecial bool) (string, error)

	// Stream decodes one answer, control tokens left out.
	Stream() text.Stream

	// StopIDs are the tokens that end an answer.
	StopIDs() []turn.TokenID
	Close()
}

// Model is a loaded model. Close is called when nothing uses it any more.
type Model struct {
	Engine  sched.Engine
	Planner sched.Planner
	Alloc   faults.Allocator
	Info    wire.Info
	Close   func()
}

// NeedError reports limits below what the model itself needs.
type NeedError struct {
	Resource   string // "buffers" or "bytes"
	Need, Have int64
}

func (e *NeedError) Error() string {
	return "the model needs " + count(e.Need) + " " + e.Resource + ", the limit is " + count(e.Have)
}
