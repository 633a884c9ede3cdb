package engine

import (
	"errors"
	"fmt"

	"ingot/runtime/kv"
	"ingot/runtime/mlx"
	"ingot/runtime/step"
	"ingot/runtime/turn"
)

// Open makes a sequence for tokens, of which it may already hold the first
// cached (fewer than len(tokens)): the longest prefix that a kept sequence
// can lend or, where that one goes on or would lose most of what it holds,
// spare a copy of. With a grid, cached is a multiple of it and was computed
// on it.
func (e *Engine) Open(tokens []turn.TokenID, grid int) (id step.SeqID, cached int, err error) {
	q := &sequence{}
	if want := len(tokens) - 1; want >= worthReuse {
		err := e.dev.Do(func() (err error) {
			q, err = e.reuse(tokens, want, grid)
			return err
		})
		if err != nil {
			return 0, 0, fault(err)
		}
	}
	if q.kv == nil {
		q.kv = e.model.NewSequence()
	}
	if q.grid != grid {
		q.grid, q.onGrid = grid, 0
	}
	return e.add(q), len(q.tokens), nil
}

func (e *Engine) add(q *sequence) step.SeqID {
	e.last++
	e.seqs[e.last] = q
	return e.last
}

// reuse returns a sequence that holds a prefix, or an empty one. Want of
// room for a copy is no error: the prefix is computed again.
func (e *Engine) reuse(tokens []turn.TokenID, want, grid int) (*sequence, error) {
	at, n := e.prefix.best(tokens, want, grid)
	if other, m := e.running(tokens, want, grid); m > n {
		return e.copyOf(other, m)
	}
	if n < worthReuse {
		return &sequence{}, nil
	}
	if q := e.prefix.entries[at]; 2*n < len(q.tokens) {
		e.prefix.use(at)
		return e.copyOf(q, n)
	}
	q := e.prefix.take(at)
	if err := q.cut(n); err != nil {
		q.free()
		return nil, err
	}
	e.stats.Lent++
	return q, nil
}

// running returns the open sequence that offers most.
func (e *Engine) running(tokens []turn.TokenID, want, grid int) (best *sequence, n int) {
	var of step.SeqID
	for id, q := range e.seqs {
		if m := q.offers(tokens, want, grid); m >= worthReuse && (m > n || m == n && id < of) {
			best, n, of = q, m, id
		}
	}
	return best, n
}

// copyOf copies the first n tokens of a sequence.
func (e *Engine) copyOf(q *sequence, n int) (*sequence, error) {
	c, err := e.fork(q, n)
	switch f := step.FaultOf(fault(err)); {
	case err == nil:
		e.stats.Copied++
		return c, nil
	case f == step.FaultBuffers || f == step.FaultBytes:
		return &sequence{}, nil
	}
	return nil, err
}

func (e *Engine) fork(q *sequence, n int) (*sequence, error) {
	s := e.dev.NewScope()
	defer s.Close()
	c, err := q.fork(s, n)
	if err != nil {
		return nil, err
	}
	f := &sequence{kv: c, tokens: append([]turn.TokenID(nil), q.tokens[:n]...), grid: q.grid, onGrid: min(q.onGrid, n)}
	if q.mark != nil && q.mark.Len() <= n {
		if f.mark, err = q.mark.Copy(s); err != nil {
			f.free()
			return nil, err
		}
	}
	return f, nil
}

// Fork makes a second sequence with the tokens of the first.
func (e *Engine) Fork(id step.SeqID) (step.SeqID, error) {
	q := e.seqs[id]
	if q == nil {
		return 0, fmt.Errorf("fork sequence %d: %w", id, step.ErrUnknown)
	}
	var c *sequence
	err := e.dev.Do(func() (err error) {
		c, err = e.fork(q, len(q.tokens))
		return err
	})
	if err != nil {
		return 0, fault(err)
	}
	return e.add(c), nil
}

// Close ends a sequence. With keep, what it holds may serve as a prefix until
// room is needed. An unknown id is passed over.
func (e *Engine) Close(id step.SeqID, keep bool) {
	q := e.seqs[id]
	if q == nil {
		return
	}
	delete(e.seqs, id)
	e.pressed = false
	_ = e.dev.Do(func() error {
		if !keep || !e.worthKeeping(q) || e.detach(q.kv) != nil {
			q.free()
			return nil
		}
		e.prefix.put(q)
		return nil
	})
	if len(e.seqs) == 0 {
		e.settle()
	}
}

// worthKeeping: a recurrent sequence is of use as a prefix where it has a
// mark; and entries of one model that all hold alike make what is live at rest
// a number that can be checked.
func (e *Engine) worthKeeping(q *sequence) bool {
	return e.prefix.most > 0 && len(q.tokens) >= worthReuse && (q.mark != nil || !q.kv.Recurrent())
}

// detach frees a sequence that will rest from memory shared with others.
func (e *Engine) detach(q *kv.Sequence) error {
	s := e.dev.NewScope()
	defer s.Close()
	return q.Detach(s)
}

// fault classifies what the device threw. Mistakes of the caller pass as
// they are.
func fault(err error) error {
	var classed *step.Error
	kind := step.FaultNone
	switch {
	case err == nil || errors.As(err, &classed):
		return err
	case errors.Is(err, mlx.ErrDevice):
		kind = step.FaultDevice
	case errors.Is(err, mlx.ErrResourceLimit):
		kind = step.FaultBuffers
	case errors.Is(err, mlx.ErrMemory):
		kind = step.FaultBytes
	case errors.Is(err, mlx.ErrLaunch):
		kind = step.FaultLaunch
	default:
		return err
	}
	return &step.Error{Fault: kind, Err: err}
}
