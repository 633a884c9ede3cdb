// Package supervise runs the runner of one model: it starts the process,
// hands it turns, watches it, restarts it with back-off when it dies and lets
// the turns go on where they stood.
//
// It owns the process, its descriptor and the order in which turns are
// resumed. Everything happens on one goroutine per Supervisor, which never
// waits for the runner or for a client; any goroutine may call the methods.
// A new runner is never started before the old one is reaped. It decides
// neither which models are loaded (package lifecycle) nor what a turn has
// delivered (package journal).
package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"ingot/daemon/lifecycle"
	"ingot/runtime/turn"
	"ingot/runtime/wire"
)

// Turns is where turns live while runners come and go. The supervisor calls
// it from its goroutine; no method may block or call back into it.
type Turns interface {
	// Submission returns the frame that hands the turn to a runner, and
	// whether a runner had it before; !ok when the turn is over.
	Submission(id turn.ID) (s *wire.Submit, again, ok bool)
	Resumed(id turn.ID)
	Tell(id turn.ID, ev turn.Event)
	Phase(id turn.ID, phase string)

	Prompted(p *wire.Prompt)
	Stepped(s *wire.Step) (fresh bool) // a token was delivered
	Ended(e *wire.End)
	Cancelled(id turn.ID) // ended here, by its client's wish
	Failed(id turn.ID, err *wire.Error)
}

// Options of a Supervisor. Zero durations take the defaults.
type Options struct {
	Model  string
	Folder string
	Mode   wire.Mode
	Policy wire.Policy
	Launch Launcher
	Turns  Turns
	Faults *Faults // shared by all generations; nil: none
	Log    zerolog.Logger

	// Changed is told every change of state, from the supervisor's
	// goroutine; it must not block or call back into it.
	Changed func(Status)

	Watchdog time.Duration // least silence that is a hang: 30 s
	Grace    time.Duration // between Stop and SIGKILL: 5 s
	Reap     time.Duration // between SIGKILL and the state stalled: 5 s
}

func (o *Options) fill() {
	if o.Watchdog == 0 {
		o.Watchdog = 30 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	if o.Reap == 0 {
		o.Reap = 5 * time.Second
	}
	if o.Mode == "" {
		o.Mode = wire.ModeFull
	}
	if o.Changed == nil {
		o.Changed = func(Status) {}
	}
	if o.Faults == nil {
		o.Faults = NewFaults("")
	}
}

// Status is what a supervisor knows of its model.
type Status struct {
	State    lifecycle.State
	PID      int
	Progress float64 // of the load
	Ready    time.Time
	Info     wire.Info
	Gauge    wire.Gauge
	Open     int // turns not ended
	Sent     int // of them in the runner
	Restarts int
	Err      *wire.Error // why it failed or stalled
}

// Supervisor runs the runner of one model.
type Supervisor struct {
	opt  Options
	in   *queue[func()]
	done chan struct{}

	// Owned by the goroutine of run.
	plan      Plan
	cancelled map[turn.ID]bool
	gen       *generation // nil: no process
	state     lifecycle.State
	status    Status
	grant     wire.Grant
	nth       int // loads so far
	deaths    int // without a delivered token between
	retryAt   time.Time
	loadErr   *wire.Error // Failed, from the current runner
	asks      map[uint64]*ask
	lastAsk   uint64
	loads     []chan error
	stops     []chan struct{}
	closing   bool
}

// New returns a supervisor without a process and starts its goroutine. Close
// ends it.
func New(opt Options) *Supervisor {
	opt.fill()
	s := &Supervisor{
		opt: opt, in: newQueue[func()](), done: make(chan struct{}),
		cancelled: map[turn.ID]bool{}, asks: map[uint64]*ask{},
		state: lifecycle.Cold,
	}
	go s.run()
	return s
}

// Start starts a runner if there is none.
func (s *Supervisor) Start(g wire.Grant) {
	s.in.put(func() { s.grant = g; s.wake() })
}

// Grant changes what the runner may hold.
func (s *Supervisor) Grant(g wire.Grant) {
	s.in.put(func() {
		if g == s.grant {
			return
		}
		s.grant = g
		if s.gen != nil {
			s.gen.send(&g)
		}
	})
}

// Submit hands a turn over; it is run as soon as a runner is ready.
func (s *Supervisor) Submit(id turn.ID) {
	s.in.put(func() {
		s.plan.Add(id)
		s.submitted(id)
	})
}

// Cancel ends a turn.
func (s *Supervisor) Cancel(id turn.ID) { s.in.put(func() { s.cancel(id) }) }

// Flow parks a turn or lets it go on.
func (s *Supervisor) Flow(id turn.ID, parked bool) {
	s.in.put(func() {
		if s.plan.Park(id, parked) && s.gen != nil {
			s.gen.send(&wire.Flow{Turn: id, Parked: parked})
		}
		s.pump()
	})
}

// Loaded returns a channel that gets nil once the runner is ready, or why it
// is not. It starts nothing; call it before Start.
func (s *Supervisor) Loaded() <-chan error {
	c := make(chan error, 1)
	s.in.put(func() {
		if s.state == lifecycle.Ready {
			c <- nil
			return
		}
		switch {
		case s.closing:
			c <- &wire.Error{Name: "shutting_down", Message: "the daemon is stopping"}
			return
		case s.state == lifecycle.Stalled:
			c <- s.status.Err
			return
		}
		s.loads = append(s.loads, c)
	})
	return c
}

// ErrGone says that there is no runner, nor one on its way, to be asked.
var ErrGone = errors.New("supervise: no runner")

// Ask puts a question to the runner once it is ready. It starts nothing:
// ErrGone without a runner.
func (s *Supervisor) Ask(ctx context.Context, op wire.Op, body any) (json.RawMessage, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	a := &ask{op: op, body: raw, answer: make(chan *wire.Answer, 1)}
	s.in.put(func() { s.ask(a) })
	select {
	case r := <-a.answer:
		switch {
		case r == nil:
			return nil, ErrGone
		case r.Error != nil:
			return nil, r.Error
		}
		return r.Body, nil
	case <-ctx.Done():
		s.in.put(func() { delete(s.asks, a.id) })
		return nil, ctx.Err()
	}
}

// Halt ends the runner unless it has turns: one may have come while nobody
// was thought to need it. The channel closes when the process is gone, or the
// wish declined.
func (s *Supervisor) Halt() <-chan struct{} {
	c := make(chan struct{})
	s.in.put(func() {
		if len(s.plan.open) > 0 {
			close(c)
			return
		}
		s.stop(c)
	})
	return c
}

// Refuse fails everybody who waits for a runner that will not be started.
func (s *Supervisor) Refuse(err *wire.Error) {
	s.in.put(func() {
		if s.gen == nil && s.retryAt.IsZero() {
			s.hopeless(err)
		}
	})
}

// Abandon tells those who wait for a load that it will not be.
func (s *Supervisor) Abandon(err *wire.Error) { s.in.put(func() { s.finishLoads(err) }) }

// Retire is Close for a supervisor that nobody uses any more, without
// waiting.
func (s *Supervisor) Retire() {
	s.in.put(func() {
		s.close(&wire.Error{Name: "engine_failed", Message: s.opt.Model + " is no longer in use"})
	})
}

// Close stops the runner, kills it when ctx ends, and ends the goroutine
// once it is reaped. Turns that are still open fail with err.
func (s *Supervisor) Close(ctx context.Context, err *wire.Error) {
	s.in.put(func() { s.close(err) })
	select {
	case <-s.done:
	case <-ctx.Done():
		s.in.put(s.kill)
		select {
		case <-s.done:
		case <-time.After(s.opt.Reap): // stuck in the driver: the system reaps it
		}
	}
}
