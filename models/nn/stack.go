package nn

import (
	"fmt"

	"ingot/models"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// Stream is what flows from block to block: the residual and what is still
// to be added to it, so that the sum and the next norm are one operation.
type Stream struct {
	X     *mlx.Array // [1, N, D]
	Delta *mlx.Array // [1, N, D]; nil: nothing to add
}

// Norm adds what is pending and norms the sum.
func (r Stream) Norm(s *mlx.Scope, n Norm) (Stream, *mlx.Array) {
	if r.Delta == nil {
		return r, n.Apply(s, r.X)
	}
	sum, h := s.AddRMSNorm(r.X, r.Delta, n.W, n.Eps)
	return Stream{X: sum}, h
}

// Step is a batch as the layers see it.
type Step struct {
	Segments []models.Segment
	Rows     int
	runs     []mlx.Run // positions of the segments
}

// Begin reserves room in every sequence of the batch.
func Begin(s *mlx.Scope, b *models.Batch) (*Step, error) {
	p := &Step{Segments: b.Segments, Rows: len(b.Tokens)}
	for _, g := range b.Segments {
		if err := g.Seq.Reserve(s, g.Len); err != nil {
			return nil, err
		}
		p.runs = append(p.runs, mlx.Run{Position: g.Seq.Len(), Rows: g.Len})
	}
	return p, nil
}

// Layer is one block of a model: first what lets rows see each other and
// advances the states, then what maps each row by itself. Temporaries live in
// s.
type Layer interface {
	Mix(s *mlx.Scope, p *Step, layer int, r Stream) (Stream, error)
	Feed(s *mlx.Scope, r Stream) Stream
}

// Stack runs n layers, each in a scope of its own, and evaluates the stream
// and the states every b.Depth layers: the one place where a step is split in
// depth. The last layer feeds only the rows that b wants. It returns them
// normed, [1, len(b.Want), D], or nil where b wants none.
func Stack[L Layer](s *mlx.Scope, b *models.Batch, x *mlx.Array, layers []L, last Norm) (*mlx.Array, error) {
	p, err := Begin(s, b)
	if err != nil {
		return nil, err
	}
	f := &flow{s: s, r: Stream{X: s.Keep(x)}}
	defer f.close()
	for i, l := range layers {
		want := everyRow
		if i == len(layers)-1 {
			want = b.Want
		}
		if err := f.through(l, p, i, want); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		if b.Depth > 0 && (i+1)%b.Depth == 0 && i+1 < len(layers) {
			if err := f.barrier(p, i+1-b.Depth, i+1); err != nil {
				return nil, fmt.Errorf("layers up to %d: %w", i, err)
			}
		}
	}
	if len(b.Want) == 0 {
		return nil, s.Err()
	}
	_, h := f.r.Norm(s, last)
	return h, s.Err()
}

// everyRow wants all rows of a step.
var everyRow = []int{-1}

// flow owns the stream between layers.
type flow struct {
	s *mlx.Scope
	r Stream
}

func (f *flow) close() { _ = mlx.FreeAll(f.r.X, f.r.Delta) }

// through replaces the stream by what one layer makes of it, in the rows
// wanted.
func (f *flow) through(l Layer, p *Step, i int, want []int) error {
	t := f.s.Child()
	defer t.Close()
	next, err := l.Mix(t, p, i, f.r)
	if err == nil && len(want) > 0 {
		next = l.Feed(t, next.rows(t, want))
	}
	if err == nil {
		err = f.s.Err()
	}
	if err != nil {
		return err
	}
	old := f.r
	f.r = Stream{X: t.Keep(next.X), Delta: next.Delta}
	if next.Delta != nil {
		t.Keep(next.Delta)
	}
	if old.X == next.X {
		old.X = nil
	}
	return mlx.FreeAll(old.X, old.Delta)
}

// rows is the stream of some rows.
func (r Stream) rows(s *mlx.Scope, want []int) Stream {
	if want[0] < 0 {
		return r
	}
	r.X = Rows(s, r.X, want)
	if r.Delta != nil {
		r.Delta = Rows(s, r.Delta, want)
	}
	return r
}

func (f *flow) barrier(p *Step, from, to int) error {
	arrays := []*mlx.Array{f.r.X}
	if f.r.Delta != nil {
		arrays = append(arrays, f.r.Delta)
	}
	for i := from; i < to; i++ {
		arrays = append(arrays, states(p, i)...)
	}
	return f.s.Eval(arrays...)
}

func states(p *Step, layer int) []*mlx.Array {
	var out []*mlx.Array
	for _, g := range p.Segments {
		out = append(out, g.Seq.LayerStates(layer)...)
	}
	return out
}

// Rows takes ascending rows of x [1, N, D]: a view where they are
// consecutive.
func Rows(s *mlx.Scope, x *mlx.Array, want []int) *mlx.Array {
	first, n := want[0], len(want)
	if want[n-1]-first == n-1 {
		if n == x.Dim(1) {
			return x
		}
		return s.SliceAxis(x, 1, first, first+n)
	}
	idx := make([]int32, n)
	for i, w := range want {
		idx[i] = int32(w)
	}
	return s.Take(x, s.FromInt32(idx), 1)
}

// Sequences lists the sequences of segments.
func Sequences(segs []models.Segment) []*kv.Sequence {
	out := make([]*kv.Sequence, len(segs))
	for i, g := range segs {
		out[i] = g.Seq
	}
	return out
}
