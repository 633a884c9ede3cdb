// The kernels as plain functions on raw pointers, one table per instruction
// set. Nothing here knows MLX, threads or memory: a caller splits the work,
// provides the scratch, and may call any entry from any thread.
//
// Matrices are given as arrays of row pointers, each row contiguous, so that
// views, gathered rows and scattered results need no copies.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ingot::cpu {

enum class Float { f32, f16, bf16 };

// Affine-quantized weights in MLX's packing: value * scale + bias per group.
struct QWeight {
  const uint32_t* w;   // [N, K*bits/32]
  const void* scales;  // [N, K/group] of type
  const void* biases;  // the same
  Float type;
  int N, K;
  int group;  // 32, 64, 128
  int bits;   // 2, 3, 4, 5, 6, 8
};

// What scores of one attention call share.
struct AttnParams {
  int H, KVH, D, Dv;
  float scale;
  float softcap;       // 0: none
  int window;          // 0: none
  bool causal;
  const float* sinks;  // [H] or null
};

// Positions that one decode call takes at most, and the grid that they lie on.
constexpr int kChunk = 256;

// One sequence's cache; strides in floats, the last axis contiguous.
struct CacheView {
  const float* k;
  const float* v;
  int64_t k_head, k_pos, v_head, v_pos;
  int length;  // positions that count
};

// Rows of one head: element d of row r is p[r * row + d].
struct Rows {
  const float* p;
  int64_t row;
};

struct MatrixUnit;

struct Kernels {
  const char* name;
  const MatrixUnit* unit;  // for products of many rows, or null: amx.h

  // -- few rows: dot products straight from packed weights
  int most_rows;  // rows of one dot() call, at most
  // Floats that `rows` prepared rows take.
  size_t (*prep_floats)(int K, int bits, int rows);
  // Rearranges 1 <= rows <= most_rows rows for a dot() of the same bits.
  void (*prep)(const float* const* x, int rows, float* out, int K, int bits);
  // y[m][n] for n in [n0, n1) and the prepared rows; scratch holds
  // dot_floats(K / group) floats.
  void (*dot)(const QWeight& q, const float* prepared, int rows, float* const* y, int n0, int n1,
              float* scratch);
  size_t (*dot_floats)(int groups);

  // -- many rows: panels of dequantized columns, then products
  int panel;  // columns in a panel
  // out[(k - k0) * panel + c] = weight(n0 + c, k), k in [k0, k1), whole groups of 32;
  // columns past N repeat the last.
  void (*dequant_panel)(const QWeight& q, int n0, int k0, int k1, float* out);
  // c[m][n0 + j] (=, or += if add) sum over k < K of a[m][k0 + k] * panel[k * ld + j], j < n.
  void (*product)(int M, int K, const float* const* a, int k0, const float* b, int64_t ld,
                  float* const* c, int n0, int n, bool add);
  // One row of K values, dequantized.
  void (*dequant_row)(const QWeight& q, int n, float* out);

  // -- attention: one kv head
  // One row of the H/KVH query heads of kv head h over positions [p0, p1), at most
  // kChunk: out gets {max, sum, o[Dv]} per query head.
  void (*decode)(const AttnParams& a, const CacheView& c, Rows q, int h, int p0, int p1,
                 float* out);
  // Joins count partials (stride floats apart) of query head `head` into o[Dv].
  void (*join)(const AttnParams& a, int head, const float* partials, int count, int64_t stride,
               float* o);
  // Rows [r0, r1) of the query heads of kv head h; row r has position
  // length - total + r. Element d of head g of row r is q[r * q_row + g * q_head + d].
  void (*prefill)(const AttnParams& a, const CacheView& c, const float* q, int64_t q_row,
                  int64_t q_head, float* o, int64_t o_row, int64_t o_head, int h, int r0, int r1,
                  int total, float* scratch);
  size_t (*prefill_floats)(const AttnParams& a, int rows);

  // -- rows
  void (*rms)(const float* x, const void* w, Float type, float eps, float* y, int n);
  void (*add_rms)(const float* x, const float* y, const void* w, Float type, float eps,
                  float* sum, float* normed, int n);
  void (*swiglu)(const float* gate, const float* up, float* y, size_t n);
  void (*geglu)(const float* gate, const float* up, float* y, size_t n);
  // Turns one head's row; c and s hold dims/2 cosines and sines.
  void (*rope)(const float* x, const float* c, const float* s, float* y, int dims, int n,
               bool traditional);
};

// The best table this machine can run; INGOT_CPU_ISA (amx, avx512, avx2, base)
// picks a lesser one. The choice is made once.
const Kernels& kernels();

// The table of that name, or null where this machine can't run it.
const Kernels* kernels_named(const char* name);

}  // namespace ingot::cpu
