package mlx

import (
	"sync"

	"ingot/runtime/mlx/internal/cabi"
)

// Scope owns the arrays that its operations make and carries their first error:
// after one, every operation of it and of its relatives does nothing and gives a
// dead array. Close frees what it owns. Device thread only.
type Scope struct {
	run    *run
	owned  []*Array
	child  bool
	closed bool
}

// run is what a scope shares with its children.
type run struct {
	dev  *Device
	call *cabi.Call
	b    build // the operation being prepared; one at a time
	err  error
}

// Calls are large; each root scope borrows one.
var calls = sync.Pool{New: func() any { return new(cabi.Call) }}

// NewScope begins a scope. Close it.
func (d *Device) NewScope() *Scope {
	return &Scope{run: &run{dev: d, call: calls.Get().(*cabi.Call)}}
}

// Child begins a scope for temporaries that die before s does. It shares s's error.
func (s *Scope) Child() *Scope { return &Scope{run: s.run, child: true} }

// Device is where the scope's arrays live.
func (s *Scope) Device() *Device { return s.run.dev }

// Err is the first error of the scope or of a relative.
func (s *Scope) Err() error { return s.run.err }

// Fail records err as the scope's error unless it has one, and returns a dead array.
func (s *Scope) Fail(err error) *Array {
	if s.run.err == nil {
		s.run.err = err
	}
	return dead
}

// Close frees every array the scope owns. A second Close does nothing.
func (s *Scope) Close() {
	if s.closed {
		return
	}
	s.closed = true
	hs := make([]cabi.Handle, len(s.owned))
	for i, a := range s.owned {
		hs[i] = a.h
		a.bury()
	}
	s.owned = nil
	if err := failure("close", cabi.Free(hs), ""); err != nil {
		s.Fail(err)
	}
	if !s.child {
		calls.Put(s.run.call)
		s.run.call = nil
		s.Fail(ErrClosed)
	}
}

// Keep takes a out of whichever scope owns it: the caller must Free it.
func (s *Scope) Keep(a *Array) *Array {
	a.leave()
	return a
}

// Adopt gives a kept array to the scope.
func (s *Scope) Adopt(a *Array) *Array {
	if !a.Alive() || a.owner != nil {
		return a
	}
	a.owner, a.at = s, len(s.owned)
	s.owned = append(s.owned, a)
	return a
}

// Eval computes the arrays and waits. It returns the scope's error if it has one.
func (s *Scope) Eval(arrs ...*Array) error { return s.eval("eval", arrs, true) }

// EvalAsync starts to compute the arrays.
func (s *Scope) EvalAsync(arrs ...*Array) error { return s.eval("async eval", arrs, false) }

func (s *Scope) eval(op string, arrs []*Array, wait bool) error {
	if s.run.err != nil {
		return s.run.err
	}
	hs := make([]cabi.Handle, 0, len(arrs))
	for _, a := range arrs {
		if a != nil {
			hs = append(hs, a.h)
		}
	}
	st, why := cabi.Eval(hs, wait)
	if err := failure(op, st, why); err != nil {
		s.Fail(err)
	}
	return s.run.err
}

// Synchronize waits until the device has done all it was given.
func (s *Scope) Synchronize() error {
	st, why := cabi.Synchronize()
	if err := failure("synchronize", st, why); err != nil {
		s.Fail(err)
	}
	return s.run.err
}

// op is a named row of the bridge's table.
type op struct {
	name string
	code cabi.Op
}

func newOp(name string) *op { return &op{name, cabi.MustOp(name)} }

// build is one operation being prepared. A nil build is that of a failed scope:
// everything it is given is dropped.
type build struct {
	s  *Scope
	op *op
}

func (s *Scope) op(o *op, in ...*Array) *build {
	if s.run.err != nil {
		return nil
	}
	s.run.call.Begin(o.code)
	s.run.b = build{s, o}
	return s.run.b.in(in...)
}

func (b *build) in(arrs ...*Array) *build {
	for _, a := range arrs {
		if b == nil {
			return nil
		}
		var h cabi.Handle
		if a != nil {
			h = a.h
		}
		if !b.s.run.call.In(h) {
			return b.refuse("too many arrays")
		}
	}
	return b
}

func (b *build) ints(vs ...int) *build {
	for _, v := range vs {
		if b == nil {
			return nil
		}
		if !b.s.run.call.Int(v) {
			return b.refuse("an integer beyond 32 bits, or too many")
		}
	}
	return b
}

func (b *build) floats(vs ...float64) *build {
	for _, v := range vs {
		if b != nil && !b.s.run.call.Float(v) {
			return b.refuse("too many numbers")
		}
	}
	return b
}

func (b *build) refuse(why string) *build {
	b.s.Fail(&Error{b.op.name, why, ErrInvalid})
	return nil
}

// one runs the operation and gives its single result to the scope.
func (b *build) one() *Array {
	if b == nil || !b.run() {
		return dead
	}
	return b.s.Adopt(fromCall(b.s.run.call, 0))
}

// many is one for operations of n results.
func (b *build) many(n int) []*Array {
	out := make([]*Array, n)
	for i := range out {
		out[i] = dead
	}
	if b == nil || !b.run() {
		return out
	}
	for i := range min(n, b.s.run.call.Outs()) {
		out[i] = b.s.Adopt(fromCall(b.s.run.call, i))
	}
	return out
}

func (b *build) run() bool {
	c := b.s.run.call
	if st := c.Run(); st != cabi.OK {
		b.s.Fail(failure(b.op.name, st, c.Text()))
		return false
	}
	return true
}
