package nn

import (
	"ingot/models"
	"ingot/runtime/kv"
	"ingot/runtime/mlx"
)

// Cell computes rows of sequences that have states: x arrays [B, T, ...] and
// states [B, ...] -> y [B, T, ...] and the next states.
type Cell func(s *mlx.Scope, x, states []*mlx.Array) (y *mlx.Array, next []*mlx.Array)

// Recur runs a cell over all segments of x arrays [1, N, ...] -> [1, N, ...].
// The segments of one row are stacked and stepped together; longer ones go
// one by one. The layer's states advance, uncommitted.
func Recur(s *mlx.Scope, p *Step, layer int, x []*mlx.Array, cell Cell) (*mlx.Array, error) {
	var ys []*mlx.Array
	var order []int // the row that each row of the ys, one after another, is
	for _, g := range groups(p.Segments) {
		states, err := kv.Gather(s, layer, g.seqs)
		if err != nil {
			return nil, err
		}
		b, t := len(g.seqs), len(g.rows)/len(g.seqs)
		in := make([]*mlx.Array, len(x))
		for i := range x {
			in[i] = Rows(s, x[i], g.rows)
			in[i] = s.Reshape(in[i], append([]int{b, t}, in[i].Shape()[2:]...)...)
		}
		y, next := cell(s, in, states)
		if err := s.Err(); err != nil {
			return nil, err
		}
		kv.Scatter(s, layer, g.seqs, next)
		ys = append(ys, s.Reshape(y, append([]int{1, b * t}, y.Shape()[2:]...)...))
		order = append(order, g.rows...)
	}
	return inOrder(s, ys, order), s.Err()
}

// group is sequences that are stepped together, and their rows.
type group struct {
	seqs []*kv.Sequence
	rows []int
}

// groups puts all segments of one row together, each longer one alone.
func groups(segs []models.Segment) []group {
	var ones group
	var out []group
	at := 0
	for _, g := range segs {
		if g.Len == 1 {
			ones.seqs, ones.rows = append(ones.seqs, g.Seq), append(ones.rows, at)
		} else {
			rows := make([]int, g.Len)
			for i := range rows {
				rows[i] = at + i
			}
			out = append(out, group{[]*kv.Sequence{g.Seq}, rows})
		}
		at += g.Len
	}
	if len(ones.seqs) > 0 {
		out = append(out, ones)
	}
	return out
}

// inOrder joins arrays [1, n, ...] so that row order[i] of the result is row
// i of theirs.
func inOrder(s *mlx.Scope, ys []*mlx.Array, order []int) *mlx.Array {
	y := ys[0]
	if len(ys) > 1 {
		y = s.Concat(1, ys...)
	}
	back, sorted := make([]int32, len(order)), true
	for i, r := range order {
		back[r] = int32(i)
		sorted = sorted && r == i
	}
	if sorted {
		return y
	}
	return s.Take(y, s.FromInt32(back), 1)
}
