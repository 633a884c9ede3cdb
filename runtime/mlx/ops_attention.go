package mlx

var (
	opRoPE     = newOp("rope")
	opRoPERows = newOp("rope_rows")
	opSDPA     = newOp("sdpa")
	opRagged   = newOp("ragged_attention")
)

// Rotary says how positions turn features.
type Rotary struct {
	Dims        int     // leading features that turn, even
	Traditional bool    // pairs (2i, 2i+1), else (i, i + Dims/2)
	Base        float64 // ignored with Freqs
	Scale       float64 // multiplies the position; 0 means 1
	Freqs       *Array  // [Dims/2] float32: angle = position * Scale / Freqs; or nil
}

func (r Rotary) scale() float64 {
	if r.Scale == 0 {
		return 1
	}
	return r.Scale
}

// RoPE turns x [B, H, T, D] whose first row stands at position offset.
func (s *Scope) RoPE(x *Array, r Rotary, offset int) *Array {
	return s.op(opRoPE, x, r.Freqs).ints(r.Dims, flag(r.Traditional), offset).floats(r.Base, r.scale()).one()
}

// Run is consecutive rows of one sequence: the position of the first, and how many.
type Run struct{ Position, Rows int }

// RoPERows turns x [1, R, H, D], rows of many sequences.
func (s *Scope) RoPERows(x *Array, r Rotary, runs ...Run) *Array {
	b := s.op(opRoPERows, x, r.Freqs).ints(r.Dims, flag(r.Traditional)).floats(r.Base, r.scale())
	for _, run := range runs {
		b = b.ints(run.Position, run.Rows)
	}
	return b.one()
}

// Mask is which keys a query sees in SDPA.
type Mask struct {
	kind  int
	array *Array
}

var (
	// NoMask shows every key.
	NoMask = Mask{}
	// Causal shows query r of R the first L - R + r + 1 of L keys.
	Causal = Mask{kind: 1}
)

// MaskArray shows what a bool array says, or adds a float one to the scores; it
// broadcasts to [B, H, R, L].
func MaskArray(a *Array) Mask { return Mask{2, a} }

// SDPA is softmax(q k' * scale) v: q [B, H, R, D], k [B, KVH, L, D], v [B, KVH, L, Dv] -> [B, H, R, Dv].
func (s *Scope) SDPA(q, k, v *Array, scale float64, m Mask) *Array {
	return s.op(opSDPA, q, k, v, m.array).ints(m.kind).floats(scale).one()
}

// AttentionOptions of RaggedAttention.
type AttentionOptions struct {
	Scale   float64
	Window  int     // > 0: a row sees only the last Window positions, its own included
	Softcap float64 // > 0: Softcap * tanh(score / Softcap)
	Sinks   *Array  // [H]: one more logit per head that takes weight and gives nothing; or nil
}

// Attended is one sequence of a ragged batch: its caches [1, KVH, cap, D], how
// many rows of the batch are its, and how many positions count, those included.
type Attended struct {
	K, V         *Array
	Rows, Length int
}

// maxAttended is how many sequences one call of the bridge takes.
const maxAttended = 255

// RaggedAttention lets each sequence's rows, one after another in q [1, R, H, D],
// see that sequence's cache causally -> [1, R, H, Dv]. It reads the caches in place.
func (s *Scope) RaggedAttention(q *Array, o AttentionOptions, seqs ...Attended) *Array {
	if len(seqs) <= maxAttended {
		return s.ragged(q, o, seqs)
	}
	rows := 0
	for _, a := range seqs[:maxAttended] {
		rows += a.Rows
	}
	head := s.ragged(s.SliceAxis(q, 1, 0, rows), o, seqs[:maxAttended])
	tail := s.RaggedAttention(s.SliceAxis(q, 1, rows, q.Dim(1)), o, seqs[maxAttended:]...)
	return s.Concat(1, head, tail)
}

func (s *Scope) ragged(q *Array, o AttentionOptions, seqs []Attended) *Array {
	b := s.op(opRagged, q, o.Sinks).ints(o.Window).floats(o.Scale, o.Softcap)
	for _, a := range seqs {
		b = b.in(a.K, a.V).ints(a.Rows, a.Length)
	}
	return b.one()
}
