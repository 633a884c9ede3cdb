package mlx

// Products and whole blocks. On the CPU backend in float32 Ingot's own kernels
// serve (internal/cpu), elsewhere MLX's.

var (
	opMatMul     = newOp("matmul")
	opAddMM      = newOp("addmm")
	opGatherMM   = newOp("gather_mm")
	opConv1D     = newOp("conv1d")
	opQMM        = newOp("quantized_matmul")
	opGatherQMM  = newOp("gather_qmm")
	opExpertsQMM = newOp("experts_qmm")
	opQEmbed     = newOp("quantized_embedding")
	opDequant    = newOp("dequantize")
	opQuantize   = newOp("quantize")
	opRMSNorm    = newOp("rms_norm")
	opAddNorm    = newOp("add_rms_norm")
	opLayerNorm  = newOp("layer_norm")
	opGated      = newOp("gated_delta")
	opSwiGLU     = newOp("swiglu")
	opGeGLU      = newOp("geglu")
)

// QuantMode is a packed format of MLX. Packed weights are w [..., N, K*bits/32]
// uint32 with scales [..., N, K/group], and for Affine biases of the scales' shape.
type QuantMode string

const (
	Affine QuantMode = "affine"
	MXFP4  QuantMode = "mxfp4"
	NVFP4  QuantMode = "nvfp4"
	MXFP8  QuantMode = "mxfp8"
)

// code is the bridge's number of the mode; "" is Affine.
func (m QuantMode) code() int {
	switch m {
	case Affine, "":
		return 0
	case MXFP4:
		return 1
	case NVFP4:
		return 2
	case MXFP8:
		return 3
	}
	return -1
}

// MatMul is a [..., N, K] times b [..., K, M].
func (s *Scope) MatMul(a, b *Array) *Array { return s.op(opMatMul, a, b).one() }

// AddMM is c + a times b.
func (s *Scope) AddMM(c, a, b *Array) *Array { return s.op(opAddMM, c, a, b).one() }

// GatherMM multiplies matrices of a and b chosen by index arrays; nil means all in order.
func (s *Scope) GatherMM(a, b, lhs, rhs *Array, sorted bool) *Array {
	return s.op(opGatherMM, a, b, lhs, rhs).ints(flag(sorted)).one()
}

// Conv1D is x [B, T, Cin] with w [Cout, K, Cin/groups] -> [B, T', Cout].
func (s *Scope) Conv1D(x, w *Array, stride, padding, dilation, groups int) *Array {
	return s.op(opConv1D, x, w).ints(stride, padding, dilation, groups).one()
}

// QuantizedMatMul is x [..., K] times the transpose of packed w [N, K] -> [..., N].
// biases is nil where the mode has none.
func (s *Scope) QuantizedMatMul(x, w, scales, biases *Array, group, bits int, mode QuantMode) *Array {
	return s.op(opQMM, x, w, scales, biases).ints(group, bits, mode.code()).one()
}

// GatherQMM multiplies matrices of x by packed ones of w [E, N, K], transposed,
// chosen by index arrays; a nil lhs means x's matrices in order. sorted promises
// that rhs never falls, which MLX's kernels use. For experts use ExpertsQMM.
func (s *Scope) GatherQMM(x, w, scales, biases, lhs, rhs *Array, group, bits int, mode QuantMode, sorted bool) *Array {
	return s.op(opGatherQMM, x, w, scales, biases, lhs, rhs).ints(group, bits, mode.code(), flag(sorted)).one()
}

// ExpertsQMM sends each row to its experts: x [T, 1, K] (one row for all k) or
// [T, k, K], packed w [E, N, K], idx [T, k] -> [T, k, N]. sorted as in GatherQMM,
// reading idx in order.
func (s *Scope) ExpertsQMM(x, w, scales, biases, idx *Array, group, bits int, mode QuantMode, sorted bool) *Array {
	return s.op(opExpertsQMM, x, w, scales, biases, idx).ints(group, bits, mode.code(), flag(sorted)).one()
}

// QuantizedEmbedding is the rows ids of packed w [V, K], as dt: ids [...] -> [..., K].
func (s *Scope) QuantizedEmbedding(ids, w, scales, biases *Array, group, bits int, mode QuantMode, dt Dtype) *Array {
	return s.op(opQEmbed, ids, w, scales, biases).ints(group, bits, mode.code(), int(dt)).one()
}

// Dequantize unpacks w to dt.
func (s *Scope) Dequantize(w, scales, biases *Array, group, bits int, mode QuantMode, dt Dtype) *Array {
	return s.op(opDequant, w, scales, biases).ints(group, bits, mode.code(), int(dt)).one()
}

// Quantize packs w [..., K]; biases is dead for the modes that have none.
func (s *Scope) Quantize(w *Array, group, bits int, mode QuantMode) (packed, scales, biases *Array) {
	out := s.op(opQuantize, w).ints(group, bits, mode.code()).many(3)
	return out[0], out[1], out[2]
}

// RMSNorm is x / sqrt(mean(x*x) + eps) * w over the last axis; w [D] or nil.
func (s *Scope) RMSNorm(x, w *Array, eps float64) *Array {
	return s.op(opRMSNorm, x, w).floats(eps).one()
}

// AddRMSNorm is x + y, and RMSNorm of that: a residual and the next block's input.
func (s *Scope) AddRMSNorm(x, y, w *Array, eps float64) (sum, norm *Array) {
	out := s.op(opAddNorm, x, y, w).floats(eps).many(2)
	return out[0], out[1]
}

// LayerNorm over the last axis; w and b [D] or nil.
func (s *Scope) LayerNorm(x, w, b *Array, eps float64) *Array {
	return s.op(opLayerNorm, x, w, b).floats(eps).one()
}

// SwiGLU is SiLU(gate) * up.
func (s *Scope) SwiGLU(gate, up *Array) *Array { return s.op(opSwiGLU, gate, up).one() }

// GeGLU is GELUTanh(gate) * up.
func (s *Scope) GeGLU(gate, up *Array) *Array { return s.op(opGeGLU, gate, up).one() }

// GatedDelta is the gated delta rule as MLX has it: q and k [B, T, Hk, Dk], v
// [B, T, Hv, Dv], decay in linear space and beta [B, T, Hv], state [B, Hv, Dv, Dk]
// or nil for zeros -> y [B, T, Hv, Dv] and the next state. Yang et al., "Gated
// Delta Networks", 2024.
func (s *Scope) GatedDelta(q, k, v, decay, beta, state *Array) (y, next *Array) {
	out := s.op(opGated, q, k, v, decay, beta, state).many(2)
	return out[0], out[1]
}
