// Package server speaks the protocol on accepted connections: JSON-RPC
// dispatch, one ordered writer a connection, permissions and error codes.
//
// It owns connections and the goroutines that serve them; Serve, Shutdown and
// Close may be called from any goroutine. It knows no model and no runner:
// what it needs done it asks of a Backend.
package server

import (
	"context"

	"ingot/ipc"
	"ingot/runtime/turn"
)

// Backend is what a server needs done. Every method may be called from many
// goroutines at once, returns when ctx ends, and fails with an *ipc.Error
// (anything else reaches the client as engine_failed).
type Backend interface {
	Daemon
	Catalogue
	Lifecycle
	Turns
	Tokens
}

// Daemon is the daemon's own state.
type Daemon interface {
	Status(ctx context.Context) (*ipc.Status, error)

	// Watch returns the stream of state: first one EventState with the
	// whole, then deltas. The caller closes it.
	Watch(ctx context.Context) (Watch, error)

	// Stop begins the daemon's end and returns at once: turns are drained or
	// failed with shutting_down, and the daemon then calls Server.Shutdown.
	Stop(ctx context.Context) error

	Logs(ctx context.Context, p ipc.LogsParams) (*ipc.LogsResult, error)
}

// Watch is one watcher's view. One goroutine calls Next; Close may come from
// another and ends it.
type Watch interface {
	// Next waits for the next event. Dull events may have been merged while
	// nobody called; state is never lost. io.EOF: the daemon has ended it.
	Next(ctx context.Context) (*ipc.Event, error)
	Close()
}

// Catalogue is the models on disk.
type Catalogue interface {
	List(ctx context.Context) (*ipc.ModelList, error)
	Show(ctx context.Context, model string) (*ipc.ModelDetail, error)
	Alias(ctx context.Context, p ipc.AliasParams) error
	Remove(ctx context.Context, model string) error

	// Pull returns when the model is there. progress may be called often,
	// from one goroutine at a time, and does not block.
	Pull(ctx context.Context, p ipc.PullParams, progress func(ipc.PullProgress)) (*ipc.PullResult, error)
}

// Lifecycle is the models in memory.
type Lifecycle interface {
	Load(ctx context.Context, p ipc.LoadParams) (*ipc.ModelStatus, error) // returns when ready
	Unload(ctx context.Context, model string) error                       // returns when its process is gone
	Pin(ctx context.Context, p ipc.PinParams) error
}

// Turns is generation.
type Turns interface {
	// StartTurn admits a turn and returns before anything is computed; a
	// model that is not here, a full queue and a daemon that is stopping fail
	// at once. ctx bounds the admission only, not the turn.
	StartTurn(ctx context.Context, req *ipc.TurnRequest) (Turn, error)

	// Cancel ends a turn with finish reason cancelled; its streams get their
	// final event. A turn that has ended already is no error.
	Cancel(ctx context.Context, id turn.ID) error

	// Attach opens another view of a turn, from event fromSeq on.
	// turn_not_found where those events are gone.
	Attach(ctx context.Context, id turn.ID, fromSeq int64) (Turn, error)
}

// Turn is one view of a turn's events. One goroutine calls Next.
//
// The backend numbers the events from 0 without a gap, puts a waiting event
// in at least every 5 s of silence, and ends with exactly one done or error.
// Events nobody fetches are kept within bounds by parking that turn alone.
type Turn interface {
	ID() turn.ID

	// Next returns the next event in order of seq, and io.EOF after the final
	// one. When ctx ends it returns ctx.Err() and loses nothing.
	Next(ctx context.Context) (turn.Event, error)

	// Close gives the view up. A turn whose last view is closed before its
	// end lingers for turns.linger if its request said so (Linger), and is
	// cancelled otherwise.
	Close()
}

// Tokens is text to ids and back, without weights.
type Tokens interface {
	Encode(ctx context.Context, p ipc.EncodeParams) (*ipc.EncodeResult, error)
	Decode(ctx context.Context, p ipc.DecodeParams) (*ipc.DecodeResult, error)
	Count(ctx context.Context, p ipc.CountRequest) (*ipc.CountResult, error)
}

// Modelled is a Turn that knows the catalogue's name of its model, which
// answers then carry instead of what the request said.
type Modelled interface{ Model() string }
