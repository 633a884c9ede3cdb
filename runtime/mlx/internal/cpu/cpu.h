// Kernels for MLX's CPU backend, as graph-building functions.
//
// Each function below checks its arguments at once (std::invalid_argument, the
// text names the function and the value), and returns an array whose primitive
// runs on the stream given, which must be a CPU stream. Call them where MLX is
// called: on the device thread. Inputs may be any strided views; nothing is
// converted or copied beforehand. All arithmetic is f32.
//
// Bits. For one machine, one build and one thread count every result is
// reproducible, whatever the threads' timing. What holds beyond that (rows
// against the rows computed beside them) is said per function.
#pragma once

#include <optional>
#include <vector>

#include "mlx/array.h"
#include "mlx/utils.h"

namespace ingot::cpu {

using mlx::core::array;
using mlx::core::StreamOrDevice;

// Threads used by every kernel: INGOT_THREADS if set, else min(cores, 8).
int threads();

// ---- products with affine-quantized weights --------------------------------
// w      [N, K*bits/32] u32, MLX's packing; bits 2, 3, 4, 5, 6 or 8
// scales [N, K/group], biases the same shape and type: f32, f16 or bf16; group 32, 64 or 128

// y[..., N] = x[..., K] * dequantized(w)^T; x f32.
// A row's bits do not depend on its neighbours while the rows are at most
// few_rows(); above that they depend on nothing but being above it.
array qmm(const array& x, const array& w, const array& scales, const array& biases,
          int group, int bits, StreamOrDevice s = {});

// One product's weights, with group and bits of their own.
struct Quantized {
  array w, scales, biases;
  int group, bits;
};

// qmm(x, w[i]) for all i in one primitive: q, k and v of a layer. The bits are
// those of qmm.
std::vector<array> qmm_many(const array& x, const std::vector<Quantized>& w, StreamOrDevice s = {});

// silu(qmm(x, gate)) * qmm(x, up) in one primitive; gate and up of equal shape.
array qmm_swiglu(const array& x, const Quantized& gate, const Quantized& up, StreamOrDevice s = {});

// The largest number of rows that qmm computes directly from packed weights.
int few_rows();

// Experts: w [E, N, ...], scales and biases [E, N, K/group], idx [T, k] i32 or u32.
// x [T, K] or [T, 1, K] (one row for all k) or [T, k, K] (one row each).
// y[t, j, :] = x[t, j or 0, :] * dequantized(w[idx[t, j]])^T, shape [T, k, N].
// Rows are grouped by expert inside; no order of idx is asked for. An index
// outside [0, E) gives a row of zeros. A row has the bits that qmm would give
// it among the rows of its expert: those it has alone while the expert has at
// most few_rows().
array gather_qmm(const array& x, const array& w, const array& scales, const array& biases,
                 const array& idx, int group, int bits, StreamOrDevice s = {});

// Rows of a quantized table: ids [...] i32 or u32 -> f32 [..., K].
array qembed(const array& ids, const array& w, const array& scales, const array& biases,
             int group, int bits, StreamOrDevice s = {});

// ---- attention -------------------------------------------------------------

struct AttentionOptions {
  float scale = 1.0f;
  bool causal = true;           // row r of R sees positions <= length - R + r
  int window = 0;               // > 0: a row at position p sees only positions > p - window
  float softcap = 0.0f;         // > 0: softcap * tanh(score / softcap)
  std::optional<array> sinks;   // [H] f32: one more logit per head that takes weight but gives no value
};

// q [R, H, D] or [1, R, H, D], f32; k [1, KVH, cap, D], v [1, KVH, cap, Dv], f32, H % KVH == 0.
// length: the positions of the cache that count, R new rows included (0 <= R <= length <= cap).
// Returns [R, H, Dv] (or [1, R, H, Dv]). k and v are read in place.
array attention(const array& q, const array& k, const array& v, int length,
                const AttentionOptions& o, StreamOrDevice s = {});

// The same for the flattened rows of many sequences in one primitive: sequence i
// owns rows[i] consecutive rows of q and attends to k[i], v[i] (shapes as above,
// capacities may differ) of lengths[i] positions. sum(rows) == R.
// A decode row (rows[i] == 1) has the bits it would have alone.
array ragged_attention(const array& q, const std::vector<array>& k, const std::vector<array>& v,
                       const std::vector<int>& rows, const std::vector<int>& lengths,
                       const AttentionOptions& o, StreamOrDevice s = {});

// The same in MLX's layout: q [1, H, R, D] -> [1, H, R, Dv] (a view of [1, R, H, Dv]).
array sdpa(const array& q, const array& k, const array& v, int length,
           const AttentionOptions& o, StreamOrDevice s = {});

// ---- small fused operations, f32; a row's bits depend on that row alone -----

// x * rsqrt(mean(x^2) + eps) * w over the last axis; w [D] f32, f16 or bf16, or nothing.
array rms_norm(const array& x, const std::optional<array>& w, float eps, StreamOrDevice s = {});

// {x + y, rms_norm(x + y)}.
std::vector<array> add_rms_norm(const array& x, const array& y, const std::optional<array>& w,
                                float eps, StreamOrDevice s = {});

// silu(gate) * up, elementwise; equal shapes.
array swiglu(const array& gate, const array& up, StreamOrDevice s = {});
// The same over halves of one product: gu [..., 2F] -> [..., F].
array swiglu_packed(const array& gu, StreamOrDevice s = {});

// gelu_tanh(gate) * up.
array geglu(const array& gate, const array& up, StreamOrDevice s = {});

struct RopeOptions {
  int dims = 0;                 // leading features rotated, even; the rest is copied
  bool traditional = false;     // pairs (2i, 2i+1), else (i, i + dims/2)
  float base = 10000.0f;        // ignored when freqs is set
  float scale = 1.0f;           // multiplies the position
  std::optional<array> freqs;   // [dims/2] f32, MLX's meaning: angle = position * scale / freqs
};

// x [R, H, D] or [1, R, H, D]; positions: one per row (ragged batches), or the
// first row's position. Rows first, heads second: no transposes around it.
array rope(const array& x, int offset, const RopeOptions& o, StreamOrDevice s = {});
array rope(const array& x, const std::vector<int>& positions, const RopeOptions& o,
           StreamOrDevice s = {});

// The same in MLX's layout, x [B, H, T, D].
array rope_bhtd(const array& x, int offset, const RopeOptions& o, StreamOrDevice s = {});

}  // namespace ingot::cpu
