package nn

import (
	"ingot/runtime/mlx"
)

// deltaChunk is how many tokens the gated delta rule takes at once.
const deltaChunk = 64

// Delta is the gated delta rule (Yang et al. 2024): per head and token
//
//	S = exp(g) S;  S = S + beta (v - S k) k';  y = S q
//
// in f32. q and k are [B, T, Hk, Dk], v [B, T, Hv, Dv], g (the logarithm of
// the decay, at most 0) and beta [B, T, Hv], S [B, Hv, Dv, Dk]; heads of q and
// k serve Hv/Hk consecutive ones of v. It returns y [B, T, Hv, Dv] and the
// last S.
func Delta(s *mlx.Scope, q, k, v, g, beta, state *mlx.Array) (y, next *mlx.Array) {
	if n := v.Dim(2) / k.Dim(2); n > 1 {
		q, k = s.Repeat(q, n, 2), s.Repeat(k, n, 2)
	}
	if v.Dim(1) == 1 {
		return deltaStep(s, q, k, v, g, beta, state)
	}
	return deltaChunks(s, q, k, v, g, beta, state)
}

// deltaStep is one token of each sequence, directly. S q is had without a
// second pass over S: S q = (exp(g) S) q + d (k q), d what the token writes.
func deltaStep(s *mlx.Scope, q, k, v, g, beta, state *mlx.Array) (y, next *mlx.Array) {
	b, h, dk, dv := v.Dim(0), v.Dim(2), k.Dim(3), v.Dim(3)
	decay := s.Reshape(s.Exp(g), b, h, 1, 1)
	state = s.Mul(state, decay)                                        // [B, H, Dv, Dk]
	row, col := s.Reshape(k, b, h, 1, dk), s.Reshape(q, b, h, 1, dk)   //
	kq := s.Concat(2, row, col)                                        // [B, H, 2, Dk]
	seen := s.MatMul(state, s.SwapAxes(kq, 2, 3))                      // [B, H, Dv, 2]
	old, out := s.SliceAxis(seen, 3, 0, 1), s.SliceAxis(seen, 3, 1, 2) // [B, H, Dv, 1]
	write := s.Sub(s.Reshape(v, b, h, dv, 1), old)                     //
	write = s.Mul(write, s.Reshape(beta, b, h, 1, 1))                  // [B, H, Dv, 1]
	next = s.Add(state, s.Mul(write, row))                             // [B, H, Dv, Dk]
	y = s.Add(out, s.Mul(write, s.MatMul(row, s.SwapAxes(col, 2, 3)))) // [B, H, Dv, 1]
	return s.Reshape(y, b, 1, h, dv), next
}

// deltaChunks takes chunks of up to 64 tokens as matrix products (the WY form:
// Yang et al. 2024, section 3.3). Within a chunk, with G the decay's logarithm
// since its start and L[i,j] = beta_i exp(G_i - G_j) k_i k_j below the
// diagonal, what the tokens write is (I+L)^-1 (beta v - beta exp(G) k S').
func deltaChunks(s *mlx.Scope, q, k, v, g, beta, state *mlx.Array) (y, next *mlx.Array) {
	t := v.Dim(1)
	size := chunkSize(t)
	w := wy{s: s, size: size, count: (t + size - 1) / size}
	q, k, v, g, beta = w.split(q), w.split(k), w.split(v), w.split(g), w.split(beta) // [B, M, H, C, D]; D is 1 for g and beta
	sum := s.CumSum(g, -2)                                                           // G
	decay := s.Exp(w.lower(s.Sub(sum, s.SwapAxes(sum, -1, -2))))                     // [B, M, H, C, C], 0 above the diagonal
	kt := s.SwapAxes(k, -1, -2)
	grown := s.Exp(sum)
	inv := w.inverse(s.Mul(s.Mul(s.MatMul(k, kt), decay), beta))
	u := s.MatMul(inv, s.Mul(beta, v))               // [B, M, H, C, Dv]
	r := s.MatMul(inv, s.Mul(s.Mul(beta, grown), k)) // [B, M, H, C, Dk]
	att := s.Mul(s.MatMul(q, kt), decay)             // [B, M, H, C, C]
	qg := s.Mul(q, grown)                            //
	end := s.SliceAxis(sum, -2, size-1, size)        // [B, M, H, 1, 1]
	kd := s.Mul(k, s.Exp(s.Sub(end, sum)))           // what is left of k at the chunk's end
	last := s.Exp(end)
	ys := make([]*mlx.Array, w.count)
	for c := range ys {
		at := func(a *mlx.Array) *mlx.Array { return s.Squeeze(s.SliceAxis(a, 1, c, c+1), 1) }
		st := s.SwapAxes(state, -1, -2)                                                    // [B, H, Dk, Dv]
		write := s.Sub(at(u), s.MatMul(at(r), st))                                         // [B, H, C, Dv]
		ys[c] = s.Add(s.MatMul(at(qg), st), s.MatMul(at(att), write))                      //
		state = s.Add(s.Mul(state, at(last)), s.MatMul(s.SwapAxes(write, -1, -2), at(kd))) // [B, H, Dv, Dk]
	}
	return w.join(ys, t), state
}

// chunkSize is the least power of two that holds t tokens, at most
// deltaChunk.
func chunkSize(t int) int {
	size := 2
	for size < t && size < deltaChunk {
		size *= 2
	}
	return size
}

// wy is the layout of one call: count chunks of size tokens.
type wy struct {
	s           *mlx.Scope
	size, count int
}

// split lays [B, T, H, D?] out as [B, M, H, C, D], padded with zeros at the
// end: a token without key, value, decay and beta changes nothing.
func (w wy) split(a *mlx.Array) *mlx.Array {
	s := w.s
	d := 1
	if a.NDim() == 4 {
		d = a.Dim(3)
	}
	b, t, h := a.Dim(0), a.Dim(1), a.Dim(2)
	a = s.Reshape(a, b, t, h, d)
	if pad := w.size*w.count - t; pad > 0 {
		a = s.Pad(a, 1, 0, pad, 0)
	}
	a = s.Reshape(a, b, w.count, w.size, h, d)
	return s.Transpose(a, 0, 1, 3, 2, 4)
}

// join puts chunks [B, H, C, D] together as [B, T, H, D].
func (w wy) join(ys []*mlx.Array, t int) *mlx.Array {
	s := w.s
	y := s.Transpose(s.Stack(1, ys...), 0, 1, 3, 2, 4) // [B, M, C, H, D]
	y = s.Reshape(y, y.Dim(0), w.size*w.count, y.Dim(3), y.Dim(4))
	return s.SliceAxis(y, 1, 0, t)
}

// lower puts minus infinity above the diagonal.
func (w wy) lower(a *mlx.Array) *mlx.Array {
	s := w.s
	return s.Where(s.Tri(mlx.Bool, w.size, w.size, 0), a, s.Like(a, negInf))
}

// inverse is (I + L)^-1 for the part of a below the diagonal. It doubles
// inverted diagonal blocks: with X the inverse of the blocks of n rows and C
// what lies between two neighbours, X - X C X is that of 2n rows. As many
// products as by repeated squaring, but every intermediate is part of an
// inverse, so that parallel keys do no harm (powers of L grow like binomial
// coefficients).
func (w wy) inverse(a *mlx.Array) *mlx.Array {
	s := w.s
	x := s.Sub(s.FromFloat32(identity(w.size), w.size, w.size), s.Mul(a, w.between(1)))
	for n := 2; n < w.size; n *= 2 {
		c := s.Mul(a, w.between(n))
		x = s.Sub(x, s.MatMul(s.MatMul(x, c), x))
	}
	return x
}

// between is a mask [C, C]: rows of the second, columns of the first of each
// two neighbouring blocks of n.
func (w wy) between(n int) *mlx.Array {
	m := make([]float32, w.size*w.size)
	for i := range w.size {
		for j := range i {
			if i/(2*n) == j/(2*n) && i/n != j/n {
				m[i*w.size+j] = 1
			}
		}
	}
	return w.s.FromFloat32(m, w.size, w.size)
}

func identity(n int) []float32 {
	m := make([]float32, n*n)
	for i := range n {
		m[i*n+i] = 1
	}
	return m
}
