// Few rows: each weight is unpacked and scaled once, in registers, and meets
// all rows.
//
// Values of 2, 4 and 8 bits lie whole in words. A vector of W words holds W
// runs of 32/bits values; taking value j of every word at once needs no
// shuffles if the rows are laid out the same way. Values of 3, 5 and 6 bits
// straddle words: they are unpacked in their natural order. Either way the
// prepared rows are vectors [step][row], step being the order of unpacking.
//
// Each result is one chain of fused products per lane in the order of the
// steps, then the lanes' sum: the same for a row alone and among others.
#pragma once

#include "simd.h"

namespace ingot::cpu::INGOT_ISA {

constexpr int kMostRows = 8;

// Bytes of weights asked for ahead of their use: they come from memory once,
// in order, faster than the hardware's own guess fetches them.
constexpr int kAhead = 4096;

constexpr bool whole(int bits) { return bits == 2 || bits == 4 || bits == 8; }

// Values that one step group takes: the vectors of one load of words.
constexpr int span_of(int bits) { return whole(bits) ? W * (32 / bits) : W; }

// Rows for which dot() has code: the least of these that holds m.
inline int padded_rows(int m) {
  for (int r = 1; r < kMostRows; r *= 2)
    if (m <= r) return r;
  return kMostRows;
}

inline size_t prep_floats(int K, int bits, int rows) {
  const int span = span_of(bits);
  return (size_t)((K + span - 1) / span * span) * padded_rows(rows);
}

// Lays out rows x[0..rows); the padding rows are zero.
inline void prep(const float* const* x, int rows, float* out, int K, int bits) {
  const int pad = padded_rows(rows), span = span_of(bits), per = span / W;
  for (int m = 0; m < pad; m++) {
    float* o = out + m * W;
    for (int k0 = 0; k0 < K; k0 += span) {
      for (int j = 0; j < per; j++, o += pad * W) {
        for (int l = 0; l < W; l++) {
          const int k = k0 + l * per + j;
          o[l] = m < rows && k < K ? x[m][k] : 0.0f;
        }
      }
    }
  }
}

// n scales or biases as f32, followed by a vector of slack.
inline void widen(const void* p, Float type, size_t at, int n, float* out) {
  int i = 0;
  if (type == Float::f32) {
    const float* f = (const float*)p + at;
    for (; i + W <= n; i += W) {
      __builtin_prefetch((const char*)(f + i) + kAhead / 2);
      store(out + i, load(f + i));
    }
    store(out + i, load_n(f + i, n - i));
    return;
  }
  const uint16_t* h = (const uint16_t*)p + at;
  for (; i + W <= n; i += W) {
    __builtin_prefetch((const char*)(h + i) + kAhead / 2);
    store(out + i, type == Float::f16 ? load_half(h + i) : load_bfloat(h + i));
  }
  uint16_t tail[W] = {};
  for (int j = 0; i + j < n; j++) tail[j] = h[i + j];
  store(out + i, type == Float::f16 ? load_half(tail) : load_bfloat(tail));
}

inline size_t dot_floats(int groups) { return 2 * ((size_t)groups * W + 3 * W); }

// The scales of the W words of a block: word i belongs to group i / run.
struct Spread {
  int32_t lane[W];
  int run;
  explicit Spread(int words) : run(words) {
    for (int i = 0; i < W; i++) lane[i] = i / words;
  }
  INGOT_INLINE V operator()(const float* row, int block) const {
    if (run >= W) return set1(row[block * W / run]);
    return pick(row + block * (W / run), lane);
  }
};

// What a call's inner loops share.
struct Dot {
  const uint32_t* w;    // first row of weights
  const float* scale;   // its scales and biases, [row][groups]
  const float* bias;
  const float* x;       // prepared rows
  int K, words, groups, group;
};

template <int BITS, int M, int N>
INGOT_INLINE void dot_words(const Dot& d, const Spread& spread, V (*acc)[M]) {
  constexpr int per = 32 / BITS;
  const float* x = d.x;
  for (int b = 0; b * W < d.words; b++, x += per * M * W) {
    const int have = d.words - b * W;
    VI v[N];
    V s[N], o[N];
    each<N>(INGOT_EACH(n) {
      const uint32_t* w = d.w + (size_t)n * d.words + b * W;
      __builtin_prefetch((const char*)w + kAhead);
      v[n] = have >= W ? load_words(w) : load_words_n(w, have);
      s[n] = spread(d.scale + n * d.groups, b);
      o[n] = spread(d.bias + n * d.groups, b);
    });
    each<per>(INGOT_EACH(j) {
      V q[N];
      each<N>(INGOT_EACH(n) { q[n] = fma(unpack<BITS, j>(v[n]), s[n], o[n]); });
      each<M>(INGOT_EACH(m) {
        V y = load(x + (j * M + m) * W);
        each<N>(INGOT_EACH(n) { acc[n][m] = fma(q[n], y, acc[n][m]); });
      });
    });
  }
}

template <int BITS, int M, int N>
INGOT_INLINE void dot_stream(const Dot& d, V (*acc)[M]) {
  const float* x = d.x;
  for (int k = 0, g = 0; k < d.K; g++) {
    V s[N], o[N];
    each<N>(INGOT_EACH(n) {
      s[n] = set1(d.scale[n * d.groups + g]);
      o[n] = set1(d.bias[n * d.groups + g]);
    });
    for (int end = k + d.group; k < end; k += W, x += M * W) {
      V q[N];
      each<N>(INGOT_EACH(n) {
        const uint8_t* w = (const uint8_t*)(d.w + (size_t)n * d.words);
        q[n] = fma(unpack_stream<BITS>(w, k), s[n], o[n]);
      });
      each<M>(INGOT_EACH(m) {
        V y = load(x + m * W);
        each<N>(INGOT_EACH(n) { acc[n][m] = fma(q[n], y, acc[n][m]); });
      });
    }
  }
}

// N rows of weights: out[m * W + n] gets the lanes of row n and x's row m.
template <int BITS, int M, int N>
void dot_tile(const Dot& d, const Spread& spread, V* out) {
  V acc[N][M];
  each<N>(INGOT_EACH(n) { each<M>(INGOT_EACH(m) { acc[n][m] = zero(); }); });
  if constexpr (whole(BITS)) dot_words<BITS, M, N>(d, spread, acc);
  else dot_stream<BITS, M, N>(d, acc);
  each<N>(INGOT_EACH(n) { each<M>(INGOT_EACH(m) { out[m * W + n] = acc[n][m]; }); });
}

template <int BITS, int M>
void dot_rows(const QWeight& q, const float* x, int rows, float* const* y, int n0, int n1,
              float* scratch) {
  constexpr int N = M == 1 ? 4 : M <= 4 ? 2 : 1;
  const int words = q.K * BITS / 32, groups = q.K / q.group;
  const Spread spread(whole(BITS) ? q.group * BITS / 32 : W);
  float* scale = scratch;
  float* bias = scratch + dot_floats(groups) / 2;
  V lanes[M * W];
  for (int n = n0; n < n1; n += W) {
    const int some = n1 - n < W ? n1 - n : W;
    widen(q.scales, q.type, (size_t)n * groups, some * groups, scale);
    widen(q.biases, q.type, (size_t)n * groups, some * groups, bias);
    Dot d{q.w + (size_t)n * words, scale, bias, x, q.K, words, groups, q.group};
    int i = 0;
    for (; i < some; i += i + N <= some ? N : 1) {
      if (i + N <= some) dot_tile<BITS, M, N>(d, spread, lanes + i);
      else dot_tile<BITS, M, 1>(d, spread, lanes + i);
      const int step = i + N <= some ? N : 1;
      d.w += (size_t)step * words;
      d.scale += step * groups;
      d.bias += step * groups;
    }
    for (; i < W; i++)
      for (int m = 0; m < M; m++) lanes[m * W + i] = zero();
    for (int m = 0; m < rows; m++) store_n(y[m] + n, sum_each(lanes + m * W), some);
  }
}

template <int BITS>
void dot_bits(const QWeight& q, const float* x, int rows, float* const* y, int n0, int n1,
              float* scratch) {
  switch (padded_rows(rows)) {
    case 1: return dot_rows<BITS, 1>(q, x, rows, y, n0, n1, scratch);
    case 2: return dot_rows<BITS, 2>(q, x, rows, y, n0, n1, scratch);
    case 4: return dot_rows<BITS, 4>(q, x, rows, y, n0, n1, scratch);
    default: return dot_rows<BITS, 8>(q, x, rows, y, n0, n1, scratch);
  }
}

inline void dot(const QWeight& q, const float* x, int rows, float* const* y, int n0, int n1,
                float* scratch) {
  switch (q.bits) {
    case 2: return dot_bits<2>(q, x, rows, y, n0, n1, scratch);
    case 3: return dot_bits<3>(q, x, rows, y, n0, n1, scratch);
    case 4: return dot_bits<4>(q, x, rows, y, n0, n1, scratch);
    case 5: return dot_bits<5>(q, x, rows, y, n0, n1, scratch);
    case 6: return dot_bits<6>(q, x, rows, y, n0, n1, scratch);
    default: return dot_bits<8>(q, x, rows, y, n0, n1, scratch);
  }
}

}  // namespace ingot::cpu::INGOT_ISA
