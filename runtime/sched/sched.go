// Package sched decides what a loaded model computes next, and for whom.
//
// It owns the queue, admission, the shape of each step (decode rows of many
// turns, and at most one prefill chunk riding along), fairness, cancel, the
// ends of turns and their reports. One goroutine, the one in Run, calls the
// Engine and keeps all of a turn's state; Submit and the methods of Handle
// may be called from any goroutine and never wait for the device. It never
// waits for a client: a turn whose mailbox is full, or that is parked, sits
// out. It knows no text, no MLX and no wire.
//
//	Run
//	├─ intake            commands, cancels; then admit: queue -> running
//	├─ round             who steps: the batch (+ one chunk), then loners
//	└─ do, once an item
//	   ├─ Planner.Next   width, depth; levers to pull; or a refusal
//	   ├─ Engine.Step
//	   └─ commit | faulted | refused
package sched

import (
	"context"
	"sync"

	"ingot/runtime/governor"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// Engine is one loaded model. Only the scheduler's goroutine calls it.
type Engine interface {
	Info() step.Info

	// Open makes a sequence for tokens, of which it may already hold the
	// first cached (fewer than len(tokens)), taken from a kept prefix. With
	// a grid, cached is a multiple of it, and was computed on it.
	Open(tokens []turn.TokenID, grid int) (id step.SeqID, cached int, err error)

	// Fork makes a second sequence with the tokens of the first.
	Fork(id step.SeqID) (step.SeqID, error)

	// Step feeds every row and samples where a row has a sampler. It is all
	// or nothing: on an error no sequence has changed. step.FaultOf tells
	// what kind of error.
	Step(*step.Step) (*step.Result, error)

	// Close ends a sequence. With keep, what it holds may serve as a prefix
	// until room is needed.
	Close(id step.SeqID, keep bool)

	// Reading tells what is held now, and the limits.
	Reading() step.Reading

	// Relieve gives buffers or bytes back, as a plan's levers ask.
	Relieve(step.Relief)

	// SetGrant changes the limits; 0: none but the device's own.
	SetGrant(turn.Buffers, turn.Bytes)
}

// Planner bounds the next step by what is left and by time:
// governor.Governor.
type Planner interface {
	Observe(governor.Reading)
	Next(governor.Ask) governor.Plan
}

// Config sets the scheduler's bounds. Zero values are defaults.
type Config struct {
	MaxTurns int            // turns running at once; 0: 32
	MaxQueue int            // turns waiting; 0: 256
	Mailbox  int            // updates a turn may be behind by; 0: 64
	Grid     int            // prefill width of deterministic turns: prefill_step of the config, at most 256; 0: 256
	Context  int            // tokens; 0: the model's
	EOS      []turn.TokenID // ids that end an answer, besides the model's own
	Watch    func(Status)   // hears of every change, on the scheduler's goroutine; must not wait
}

func (c Config) filled(info step.Info) Config {
	c.MaxTurns = orDefault(c.MaxTurns, 32)
	c.MaxQueue = orDefault(c.MaxQueue, 256)
	c.Mailbox = orDefault(c.Mailbox, 64)
	c.Grid = min(orDefault(c.Grid, grid), grid)
	if c.Context <= 0 || c.Context > info.Context {
		c.Context = info.Context
	}
	if c.Watch == nil {
		c.Watch = func(Status) {}
	}
	return c
}

func orDefault(v, d int) int {
	if v <= 0 {
		return d
	}
	return v
}

// Scheduler runs turns on one Engine.
type Scheduler struct {
	eng  Engine
	plan Planner
	cfg  Config
	eos  map[turn.TokenID]bool
	wake chan struct{}

	mu       sync.Mutex
	number   uint64   // of turns submitted
	inbox    []func() // commands, run by Run's goroutine
	waiting  []*job
	occupied int // running turns, for Submit
	pace     pace
	closed   bool

	// Run's goroutine only.
	running            []*job
	turnOf             int  // rotates the prefill chunk among running turns
	crowded            bool // someone lacks room, or nearly: nobody new until a turn ends
	failed             int  // steps that failed since the last that did not
	status             Status
	narrowest, deepest int // of the present squeeze, for the log
	aside              []Lever
	meter              meter
}

// New returns a scheduler; Run makes it work.
func New(eng Engine, plan Planner, cfg Config) *Scheduler {
	info := eng.Info()
	s := &Scheduler{eng: eng, plan: plan, cfg: cfg.filled(info), wake: make(chan struct{}, 1)}
	s.eos = make(map[turn.TokenID]bool)
	for _, id := range append(info.EOS, cfg.EOS...) {
		s.eos[id] = true
	}
	return s
}

// Run serves turns until ctx ends (nil) or the device fails (an error that
// wraps ErrDevice). Every turn has its End before Run returns.
func (s *Scheduler) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.poke)
	defer stop()
	for ctx.Err() == nil {
		s.intake()
		items := s.round()
		if len(items) == 0 && !s.unstick() {
			s.report()
			<-s.wake
		}
		for _, it := range items {
			if s.intake(); ctx.Err() != nil {
				break
			}
			if err := s.do(it); err != nil {
				s.shut(err)
				return err
			}
		}
	}
	s.shut(ErrClosed)
	return nil
}

// SetGrant changes the limits, before the next step.
func (s *Scheduler) SetGrant(buffers turn.Buffers, bytes turn.Bytes) {
	s.tell(func() {
		s.eng.SetGrant(buffers, bytes)
		s.unblock()
	})
}

func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// tell has f run by Run's goroutine before its next step.
func (s *Scheduler) tell(f func()) {
	s.mu.Lock()
	if !s.closed {
		s.inbox = append(s.inbox, f)
	}
	s.mu.Unlock()
	s.poke()
}

// intake runs the commands that came in and admits whom it can.
func (s *Scheduler) intake() {
	s.mu.Lock()
	todo := s.inbox
	s.inbox = nil
	s.mu.Unlock()
	for _, f := range todo {
		f()
	}
	s.admit()
}

// shut ends every turn with err and refuses new ones.
func (s *Scheduler) shut(err error) {
	s.mu.Lock()
	s.closed = true
	waiting := s.waiting
	s.waiting, s.inbox = nil, nil
	s.mu.Unlock()
	for _, j := range append(waiting, s.running...) {
		s.end(j, nil, err)
	}
	s.report()
}
