// Many rows: a panel of columns is dequantized into [k][column] order, small
// enough to stay in the first or second cache, and all rows pass over it.
//
// Each element of the result is one chain of fused products in the order of k,
// whatever the rows and columns beside it.
#pragma once

#include "simd.h"

namespace ingot::cpu::INGOT_ISA {

// Rows and vectors of a register tile.
constexpr bool kWide = kRegisters >= 32;
constexpr int kPanelVectors = kWide ? 3 : 2;
constexpr int kPanel = kPanelVectors * W;

// Value I of 32 whose BITS words are w: it may straddle two.
template <int BITS, int I>
INGOT_INLINE V value_of(const VI* w) {
  constexpr int word = I * BITS / 32, shift = I * BITS % 32;
  if constexpr (32 % BITS == 0) {
    return unpack<BITS, shift / BITS>(w[word]);
  } else if constexpr (shift + BITS <= 32) {
    return to_float(and_(shr(w[word], shift), (1u << BITS) - 1));
  } else {
    VI both = or_(shr(w[word], shift), shl(w[word + 1], 32 - shift));
    return to_float(and_(both, (1u << BITS) - 1));
  }
}

// One float of each of W rows, row i at index at[i].
INGOT_INLINE V column(const void* p, Float type, const size_t* at, int g) {
  if (type == Float::f32) {
    float f[W];
    for (int i = 0; i < W; i++) f[i] = ((const float*)p)[at[i] + g];
    return load(f);
  }
  uint16_t h[W];
  for (int i = 0; i < W; i++) h[i] = ((const uint16_t*)p)[at[i] + g];
  return type == Float::f16 ? load_half(h) : load_bfloat(h);
}

// W columns from n0 on, into out[(k - k0) * kPanel].
template <int BITS>
void dequant_columns(const QWeight& q, int n0, int k0, int k1, float* out) {
  const int words = q.K * BITS / 32, groups = q.K / q.group;
  int32_t row[W];
  size_t at[W];
  const int base = n0 < q.N ? n0 : q.N - 1;
  for (int i = 0; i < W; i++) {
    int n = n0 + i < q.N ? n0 + i : q.N - 1;
    row[i] = (n - base) * words;
    at[i] = (size_t)n * groups;
  }
  const uint32_t* w = q.w + (size_t)base * words;
  V s = zero(), b = zero();
  for (int k = k0; k < k1; k += 32) {
    if (k == k0 || k % q.group == 0) {
      s = column(q.scales, q.type, at, k / q.group);
      b = column(q.biases, q.type, at, k / q.group);
    }
    VI v[BITS];
    each<BITS>(INGOT_EACH(i) { v[i] = gather(w + (size_t)k * BITS / 32 + i, row); });
    float* o = out + (size_t)(k - k0) * kPanel;
    each<32>(INGOT_EACH(i) { store(o + i * kPanel, fma(value_of<BITS, i>(v), s, b)); });
  }
}

inline void dequant_panel(const QWeight& q, int n0, int k0, int k1, float* out) {
  for (int v = 0; v < kPanelVectors; v++) {
    const int n = n0 + v * W;
    float* o = out + v * W;
    switch (q.bits) {
      case 2: dequant_columns<2>(q, n, k0, k1, o); break;
      case 3: dequant_columns<3>(q, n, k0, k1, o); break;
      case 4: dequant_columns<4>(q, n, k0, k1, o); break;
      case 5: dequant_columns<5>(q, n, k0, k1, o); break;
      case 6: dequant_columns<6>(q, n, k0, k1, o); break;
      default: dequant_columns<8>(q, n, k0, k1, o); break;
    }
  }
}

// One row: few, so the plain way will do.
inline void dequant_row(const QWeight& q, int n, float* out) {
  const int groups = q.K / q.group;
  const uint8_t* w = (const uint8_t*)(q.w + (size_t)n * (q.K * q.bits / 32));
  const uint32_t mask = (1u << q.bits) - 1;
  for (int g = 0; g < groups; g++) {
    const size_t at = (size_t)n * groups;
    size_t same[W];
    for (int i = 0; i < W; i++) same[i] = at;
    float sb[2 * W];
    store(sb, column(q.scales, q.type, same, g));
    store(sb + W, column(q.biases, q.type, same, g));
    for (int k = g * q.group; k < (g + 1) * q.group; k++) {
      const size_t bit = (size_t)k * q.bits;
      uint32_t v = w[bit / 8];
      if (bit % 8 + q.bits > 8) v |= (uint32_t)w[bit / 8 + 1] << 8;
      out[k] = __builtin_fmaf((float)(v >> bit % 8 & mask), sb[0], sb[W]);
    }
  }
}

// c[m][j] (+)= sum over k of a[m][k] * b[k * ld + j], for `rows` of MR rows and
// NV vectors of columns, the last of which has `last` of them if TAIL.
template <int MR, int NV, bool TAIL>
void tile(int K, const float* const* a, int k0, const float* b, int64_t ld, float* const* c,
          int n0, int rows, int last, bool add_c) {
  const float* p[MR];
  V t[MR][NV];
  for (int m = 0; m < MR; m++) p[m] = a[m < rows ? m : 0] + k0;
  auto get = [&](const float* q, int v) __attribute__((always_inline)) {
    return TAIL && v == NV - 1 ? load_n(q + v * W, last) : load(q + v * W);
  };
  each<MR>(INGOT_EACH(m) { each<NV>(INGOT_EACH(v) { t[m][v] = zero(); }); });
  if (add_c) {
    each<MR>(INGOT_EACH(m) {
      if (m < rows) each<NV>(INGOT_EACH(v) { t[m][v] = get(c[m] + n0, v); });
    });
  }
  for (int k = 0; k < K; k++, b += ld) {
    V y[NV];
    each<NV>(INGOT_EACH(v) { y[v] = get(b, v); });
    each<MR>(INGOT_EACH(m) {
      V x = set1(p[m][k]);
      each<NV>(INGOT_EACH(v) { t[m][v] = fma(x, y[v], t[m][v]); });
    });
  }
  each<MR>(INGOT_EACH(m) {
    if (m >= rows) return;
    each<NV>(INGOT_EACH(v) {
      float* q = c[m] + n0 + v * W;
      if (TAIL && v == NV - 1) store_n(q, t[m][v], last);
      else store(q, t[m][v]);
    });
  });
}

template <int MR, int NV, bool TAIL>
void strip(int M, int K, const float* const* a, int k0, const float* b, int64_t ld,
           float* const* c, int n0, int last, bool add_c) {
  constexpr int half = MR / 2;
  int m = 0;
  for (; M - m > half; m += MR) {
    int rows = M - m < MR ? M - m : MR;
    tile<MR, NV, TAIL>(K, a + m, k0, b, ld, c + m, n0, rows, last, add_c);
  }
  if (M - m == 1) tile<1, NV, TAIL>(K, a + m, k0, b, ld, c + m, n0, 1, last, add_c);
  else if (m < M) tile<half, NV, TAIL>(K, a + m, k0, b, ld, c + m, n0, M - m, last, add_c);
}

template <int MR, int NV>
void strip_of(int M, int K, const float* const* a, int k0, const float* b, int64_t ld,
              float* const* c, int n0, int n, bool add_c) {
  const int last = n - (NV - 1) * W;
  if (last == W) strip<MR, NV, false>(M, K, a, k0, b, ld, c, n0, last, add_c);
  else strip<MR, NV, true>(M, K, a, k0, b, ld, c, n0, last, add_c);
}

inline void product(int M, int K, const float* const* a, int k0, const float* b, int64_t ld,
                    float* const* c, int n0, int n, bool add_c) {
  constexpr int most = kWide ? 4 : 2;
  while (n > 0) {
    const int vectors = (n + W - 1) / W, strips = (vectors + most - 1) / most;
    const int take = (vectors + strips - 1) / strips, cols = take * W < n ? take * W : n;
    if constexpr (kWide) {
      switch (take) {
        case 4: strip_of<6, 4>(M, K, a, k0, b, ld, c, n0, cols, add_c); break;
        case 3: strip_of<8, 3>(M, K, a, k0, b, ld, c, n0, cols, add_c); break;
        case 2: strip_of<8, 2>(M, K, a, k0, b, ld, c, n0, cols, add_c); break;
        default: strip_of<8, 1>(M, K, a, k0, b, ld, c, n0, cols, add_c); break;
      }
    } else if (take == 2) {
      strip_of<6, 2>(M, K, a, k0, b, ld, c, n0, cols, add_c);
    } else {
      strip_of<6, 1>(M, K, a, k0, b, ld, c, n0, cols, add_c);
    }
    n0 += cols;
    n -= cols;
    b += cols;
  }
}

}  // namespace ingot::cpu::INGOT_ISA
