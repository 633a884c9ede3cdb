package faults

import (
	"errors"
	"time"

	"ingot/runtime/sched"
	"ingot/runtime/step"
)

// ErrInjected is the cause of every step that fails on purpose.
var ErrInjected = errors.New("faults: on purpose")

// Allocator fails allocations: mlx.Ledger.
type Allocator interface {
	// FailAt makes the n-th allocation from now fail once; 0: none.
	FailAt(n int64)
	// Fired counts those that did.
	Fired() int64
	// Allocated counts allocations.
	Allocated() int64
}

// Engine suffers the faults of a Set. The scheduler's goroutine calls it, as
// it does the engine within.
type Engine struct {
	sched.Engine
	set   *Set
	alloc Allocator
	kill  func() // does not return

	steps, tokens int
	start         int64  // allocations before the first step
	armed         *Fault // the malloc fault that the allocator waits for
	fired         int64
}

// Wrap returns e with the faults of the set, or e itself if there are none.
// kill ends the process.
func (s *Set) Wrap(e sched.Engine, alloc Allocator, kill func()) sched.Engine {
	if s.Empty() {
		return e
	}
	w := &Engine{Engine: e, set: s, alloc: alloc, kill: kill, start: alloc.Allocated(), fired: alloc.Fired()}
	w.arm()
	return w
}

// Step implements sched.Engine.
func (w *Engine) Step(st *step.Step) (*step.Result, error) {
	w.steps++
	n := w.steps
	for _, verb := range []string{"stall", "slow"} {
		if f := w.set.hit(verb, "step", n, n); f != nil {
			time.Sleep(f.delay)
		}
	}
	if w.set.hit("kill", "step", n, n) != nil {
		w.kill()
	}
	for _, k := range []struct {
		verb, what string
		fault      step.Fault
	}{{"throw", "eval", step.FaultBuffers}, {"throw", "bytes", step.FaultBytes}, {"throw", "launch", step.FaultLaunch}, {"device", "step", step.FaultDevice}} {
		if w.set.hit(k.verb, k.what, n, n) != nil {
			return nil, &step.Error{Fault: k.fault, Err: ErrInjected}
		}
	}
	res, err := w.Engine.Step(st)
	w.watch()
	if err == nil {
		before := w.tokens
		w.tokens += len(res.Picked)
		if w.tokens > before && w.set.hit("kill", "token", before+1, w.tokens) != nil {
			w.kill()
		}
	}
	return res, err
}

// arm has the allocator fail where the next malloc fault says.
func (w *Engine) arm() {
	w.armed = nil
	done := w.alloc.Allocated() - w.start
	for _, f := range w.set.faults {
		if f.verb != "throw" || f.what != "malloc" || f.spent() {
			continue
		}
		if w.armed == nil || f.from < w.armed.from {
			w.armed = f
		}
	}
	if w.armed != nil {
		w.alloc.FailAt(max(1, int64(w.armed.from)-done))
	}
}

// watch reports a malloc fault that fired and arms the next.
func (w *Engine) watch() {
	if w.armed == nil || w.alloc.Fired() == w.fired {
		return
	}
	w.fired = w.alloc.Fired()
	w.set.fire(w.armed)
	w.arm()
}
