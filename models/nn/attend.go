package nn

import (
	"ingot/runtime/mlx"
)

// Attention says how scores are made.
type Attention struct {
	Scale   float64
	Window  int        // > 0: positions a row sees, itself included
	Softcap float64    // > 0: scores are capped smoothly
	Sinks   *mlx.Array // [H]; nil: none
}

// Attend appends the keys and values of all segments to the layer's caches
// and lets every row attend to its own sequence: q [1, N, H, D], k [1, N, KVH,
// D], v [1, N, KVH, Dv] -> [1, N, H*Dv].
func Attend(s *mlx.Scope, p *Step, layer int, q, k, v *mlx.Array, a Attention) (*mlx.Array, error) {
	seqs := make([]mlx.Attended, len(p.Segments))
	at := 0
	for i, g := range p.Segments {
		view, err := g.Seq.Push(s, layer, headsFirst(s, k, at, g.Len), headsFirst(s, v, at, g.Len))
		if err != nil {
			return nil, err
		}
		seqs[i] = mlx.Attended{K: view.K, V: view.V, Rows: g.Len, Length: view.Len}
		at += g.Len
	}
	o := s.RaggedAttention(q, mlx.AttentionOptions{Scale: a.Scale, Window: a.Window, Softcap: a.Softcap, Sinks: a.Sinks}, seqs...)
	return s.Reshape(o, 1, p.Rows, o.Dim(2)*o.Dim(3)), s.Err()
}

// headsFirst views rows [at, at+n) of x [1, N, H, D] as [1, H, n, D].
func headsFirst(s *mlx.Scope, x *mlx.Array, at, n int) *mlx.Array {
	if n != x.Dim(1) {
		x = s.SliceAxis(x, 1, at, at+n)
	}
	return s.SwapAxes(x, 1, 2)
}
