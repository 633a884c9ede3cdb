package kv

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"ingot/runtime/mlx"
)

// plainCache is what a cache should hold: the numbers that were pushed, one
// per position.
type plainCache struct {
	q    *Sequence
	held []float32
}

// pushNumbers commits a step whose rows carry the numbers.
func pushNumbers(s *mlx.Scope, q *Sequence, nums []float32) error {
	t := s.Child()
	defer t.Close()
	if err := q.Reserve(t, len(nums)); err != nil {
		return err
	}
	for i := range q.layers {
		x := t.Broadcast(t.FromFloat32(nums, 1, 1, len(nums), 1), 1, heads, len(nums), dim)
		if _, err := q.Push(t, i, x, x); err != nil {
			return errors.Join(err, q.Rollback())
		}
	}
	if err := t.Eval(q.States()...); err != nil {
		return errors.Join(err, q.Rollback())
	}
	q.Commit(len(nums))
	return nil
}

// numbers reads what a layer's keys or values hold, from the cache's base.
func numbers(a *mlx.Array, rows int) ([]float32, error) {
	flat := make([]float32, a.Size())
	if err := a.Float32s(flat); err != nil {
		return nil, err
	}
	var out []float32
	for r := range rows {
		out = append(out, flat[(a.Dim(2)+r)*dim+dim-1]) // the last feature of head 1
	}
	return out, nil
}

func (p *plainCache) check(t *testing.T) {
	t.Helper()
	if p.q.Len() != len(p.held) {
		t.Fatalf("length %d, want %d", p.q.Len(), len(p.held))
	}
	for i, l := range p.q.layers {
		c := l.cache
		if c.k == nil {
			continue
		}
		for _, a := range []*mlx.Array{c.k, c.v} {
			got, err := numbers(a, p.q.Len()-c.base)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, p.held[c.base:]) {
				t.Fatalf("layer %d holds other numbers from position %d of %d on", i, c.base, p.q.Len())
			}
		}
		if c.spec.Kind == KindWindowed && c.base > max(0, p.q.Len()-c.spec.Window) {
			t.Fatalf("layer %d begins at %d of %d, its window is %d", i, c.base, p.q.Len(), c.spec.Window)
		}
	}
}

// Random pushes, failed pushes, trims and forks, beside plain slices.
func TestRandomLives(t *testing.T) {
	window := appendSpec()
	window.Kind, window.Window = KindWindowed, 20
	for seed := range uint64(6) {
		on(t, func(s *mlx.Scope) error {
			r := rand.New(rand.NewPCG(seed, 7))
			lives := []*plainCache{{q: NewSequence([]Spec{appendSpec(), window})}}
			defer func() {
				for _, p := range lives {
					p.q.Free()
				}
			}()
			for range 120 {
				p := lives[r.IntN(len(lives))]
				more, err := p.move(s, r)
				if err != nil {
					return err
				}
				if more != nil && len(lives) < 4 {
					lives = append(lives, more)
				} else if more != nil {
					more.q.Free()
				}
				p.check(t)
			}
			for _, p := range lives {
				p.check(t)
			}
			return nil
		})
	}
}

// move does one random thing to the sequence and to the slice.
func (p *plainCache) move(s *mlx.Scope, r *rand.Rand) (*plainCache, error) {
	switch r.IntN(6) {
	case 0:
		f, err := p.q.Fork(s)
		return &plainCache{f, slices.Clone(p.held)}, err
	case 1:
		if n := max(0, p.q.Len()-r.IntN(8)); p.q.CanTrim(n) {
			p.held = p.held[:n]
			return nil, p.q.Trim(n)
		}
		return nil, nil
	case 2:
		return nil, p.failing(int64(1 + r.IntN(12)))
	}
	nums := make([]float32, 1+r.IntN(30)*r.IntN(10))
	for i := range nums {
		nums[i] = r.Float32()
	}
	p.held = append(p.held, nums...)
	return nil, pushNumbers(s, p.q, nums)
}

// failing pushes with an allocation failing; where the step needs fewer, it
// goes through.
func (p *plainCache) failing(n int64) error {
	s := dev.NewScope()
	defer s.Close()
	dev.Ledger().FailAt(n)
	defer dev.Ledger().FailAt(0)
	err := pushNumbers(s, p.q, []float32{1, 2, 3})
	if errors.Is(err, mlx.ErrResourceLimit) {
		return nil
	}
	p.held = append(p.held, 1, 2, 3)
	return err
}
