package mlx

import "ingot/runtime/mlx/internal/cabi"

var opStateUpdate = newOp("state_update")

// TakeSliceUpdate writes u at [start:stop] of a state that the caller keeps,
// such as a key cache, and returns the state's new handle, kept too.
//
// It consumes state: the graph then holds the only reference, so that MLX
// writes in place instead of copying the whole. No other handle or view of the
// state may be alive at evaluation. Where the scope has failed, or the update is
// refused, state itself comes back unharmed. After a failed Eval, Recover gives
// a usable state again.
func (s *Scope) TakeSliceUpdate(state, u *Array, start, stop []int) *Array {
	next := s.op(opStateUpdate, state, u).ints(len(start)).ints(start...).ints(stop...).one()
	if !next.Alive() {
		return state
	}
	s.Keep(next)
	if err := state.Free(); err != nil {
		s.Fail(err)
	}
	return next
}

// Recover makes a state usable after an evaluation that threw: it is a itself
// where a was evaluated, else the state that a was to be made from. It consumes
// a and returns a kept array. What the failed step was to write may be written
// or not: the caller's own length says which rows count. Device thread.
func Recover(a *Array) (*Array, error) {
	c := calls.Get().(*cabi.Call)
	defer calls.Put(c)
	c.Begin(0)
	c.In(a.h)
	if st := c.Recover(); st != cabi.OK {
		return nil, failure("recover", st, c.Text())
	}
	a.leave()
	a.bury()
	return fromCall(c, 0), nil
}
