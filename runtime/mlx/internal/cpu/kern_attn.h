// Attention over a cache, one kv head at a time, with the running maximum and
// sum of the streaming softmax (Milakov and Gimelshein 2018; Dao et al. 2022).
//
// Blocks of positions lie on a fixed grid, so a row's bits depend on its own
// position and length only, not on the rows computed beside it.
#pragma once

#include "kern_gemm.h"

namespace ingot::cpu::INGOT_ISA {

constexpr int kBlock = 2 * kPanel;   // positions of one prefill block
constexpr float kNone = -__builtin_inff();

INGOT_INLINE float exp1(float x) { return hmax(exp(set1(x))); }

INGOT_INLINE V cap_scores(V s, float scale, float cap) {
  s = mul(s, set1(scale));
  if (cap <= 0) return s;
  V e = exp(mul(s, set1(2.0f / cap)));  // tanh(x) = 1 - 2 / (e^2x + 1)
  V t = sub(set1(1.0f), div(set1(2.0f), add(e, set1(1.0f))));
  return mul(t, set1(cap));
}

inline int first_seen(const AttnParams& a, int position) {
  int p = a.window > 0 ? position - a.window + 1 : 0;
  return p > 0 ? p : 0;
}

// Scores of one query over n <= W positions: lane i is position i.
INGOT_INLINE V score_block(const float* q, const float* k, int64_t stride, int n, int D) {
  V acc[W];
  each<W>(INGOT_EACH(i) { acc[i] = zero(); });
  const float* row[W];
  for (int i = 0; i < W; i++) row[i] = k + (i < n ? i : n - 1) * stride;
  int d = 0;
  for (; d + W <= D; d += W) {
    V x = load(q + d);
    each<W>(INGOT_EACH(i) { acc[i] = fma(x, load(row[i] + d), acc[i]); });
  }
  if (d < D) {
    V x = load_n(q + d, D - d);
    each<W>(INGOT_EACH(i) { acc[i] = fma(x, load_n(row[i] + d, D - d), acc[i]); });
  }
  return sum_each(acc);
}

// s[0..n) becomes exp(s - max); returns {max, sum}. The slack up to a whole
// vector becomes zero.
INGOT_INLINE float soften(float* s, int n, float max_before, float* total) {
  for (int i = n; i % W != 0; i++) s[i] = kNone;
  V top = set1(max_before);
  for (int i = 0; i < n; i += W) top = max(top, load(s + i));
  const float m = hmax(top);
  const V by = set1(m == kNone ? 0.0f : m);
  V all = zero();
  for (int i = 0; i < n; i += W) {
    V e = exp(sub(load(s + i), by));
    store(s + i, e);
    all = add(all, e);
  }
  *total = sum(all);
  return m;
}

inline void decode(const AttnParams& a, const CacheView& c, Rows q, int h, int p0, int p1,
                   float* out) {
  const int G = a.H / a.KVH, n = p1 - p0;
  const float* k = c.k + h * c.k_head + p0 * c.k_pos;
  const float* v = c.v + h * c.v_head + p0 * c.v_pos;
  constexpr int heads = 8;
  float s[heads][kChunk + W];
  for (int g0 = 0; g0 < G; g0 += heads) {
    const int some = G - g0 < heads ? G - g0 : heads;
    for (int i = 0; i < n; i += W) {
      const int have = n - i < W ? n - i : W;
      for (int g = 0; g < some; g++) {
        V x = score_block(q.p + (h * G + g0 + g) * q.row, k + i * c.k_pos, c.k_pos, have, a.D);
        store(s[g] + i, cap_scores(x, a.scale, a.softcap));
      }
    }
    const float* p[heads];
    float* o[heads];
    for (int g = 0; g < some; g++) {
      float* part = out + (size_t)(g0 + g) * (a.Dv + 2);
      part[0] = soften(s[g], n, kNone, &part[1]);
      p[g] = s[g];
      o[g] = part + 2;
    }
    product(some, n, p, 0, v, c.v_pos, o, 0, a.Dv, false);
  }
}

inline void join(const AttnParams& a, int head, const float* partials, int count, int64_t stride,
                 float* o) {
  const float sink = a.sinks ? a.sinks[head] : kNone;
  float m = sink, l = 0;
  for (int i = 0; i < count; i++) m = partials[i * stride] > m ? partials[i * stride] : m;
  if (a.sinks) l = exp1(sink - m);
  for (int d = 0; d < a.Dv; d++) o[d] = 0;
  for (int i = 0; i < count; i++) {
    const float* part = partials + i * stride;
    const float f = exp1(part[0] - m);
    l += part[1] * f;
    for (int d = 0; d < a.Dv; d++) o[d] += part[2 + d] * f;
  }
  const float r = l > 0 ? 1.0f / l : 0.0f;
  for (int d = 0; d < a.Dv; d++) o[d] *= r;
}

// k's positions [p, p + n) as [d][kPanel], the missing ones zero.
inline void pack_keys(const float* k, int64_t stride, int n, int D, float* out) {
  for (int i = 0; i < kPanel; i += W) {
    for (int d = 0; d < D; d += W) {
      const int width = D - d < W ? D - d : W;
      V t[W];
      for (int j = 0; j < W; j++) {
        t[j] = i + j < n ? load_n(k + (i + j) * stride + d, width) : zero();
      }
      transpose(t);
      for (int j = 0; j < width; j++) store(out + (size_t)(d + j) * kPanel + i, t[j]);
    }
  }
}

// The rows of one prefill call and what has been gathered for each.
struct Tile {
  const float** q;  // [rows] queries
  float** o;        // [rows] results, not yet divided by l
  float** s;        // [rows] scores of the block, kBlock each
  float* m;         // [rows] maxima
  float* l;         // [rows] sums
  float* keys;      // [D][kPanel]
  int rows;
};

inline size_t prefill_floats(const AttnParams& a, int rows) {
  size_t n = (size_t)rows * (a.H / a.KVH);
  return n * (kBlock + W) + 2 * n + (size_t)(a.D + W) * kPanel + 3 * n * 2 + 16;
}

inline Tile lay_out(int rows, float* scratch) {
  Tile t;
  t.rows = rows;
  t.q = (const float**)scratch;
  t.o = (float**)(t.q + rows);
  t.s = (float**)(t.o + rows);
  float* f = (float*)(t.s + rows);
  for (int i = 0; i < rows; i++, f += kBlock + W) t.s[i] = f;
  t.m = f;
  t.l = f + rows;
  t.keys = f + 2 * rows;
  return t;
}

// Scores of the block's n positions from p0 on become weights; o and l follow the maximum.
inline void weigh(const AttnParams& a, const Tile& t, int i, int position, int p0, int n) {
  float* s = t.s[i];
  for (int j = 0; j < n; j += W) store(s + j, cap_scores(load(s + j), a.scale, a.softcap));
  const int from = first_seen(a, position) - p0, to = a.causal ? position - p0 + 1 : n;
  for (int j = 0; j < n && j < from; j++) s[j] = kNone;
  for (int j = to > 0 ? to : 0; j < n; j++) s[j] = kNone;
  float total;
  const float m = soften(s, n, t.m[i], &total);
  if (m != t.m[i]) {
    const float f = t.m[i] == kNone ? 0.0f : exp1(t.m[i] - m);
    t.l[i] *= f;
    for (int d = 0; d < a.Dv; d++) t.o[i][d] *= f;
    t.m[i] = m;
  }
  t.l[i] += total;
}

inline void prefill(const AttnParams& a, const CacheView& c, const float* q, int64_t q_row,
                    int64_t q_head, float* o, int64_t o_row, int64_t o_head, int h, int r0, int r1,
                    int total, float* scratch) {
  const int G = a.H / a.KVH, first = c.length - total;
  Tile t = lay_out((r1 - r0) * G, scratch);
  for (int i = 0; i < t.rows; i++) {
    const int r = r0 + i / G, head = h * G + i % G;
    t.q[i] = q + r * q_row + head * q_head;
    t.o[i] = o + r * o_row + head * o_head;
    for (int d = 0; d < a.Dv; d++) t.o[i][d] = 0;
    t.m[i] = a.sinks ? a.sinks[head] : kNone;
    t.l[i] = a.sinks ? 1.0f : 0.0f;
  }
  const int end = a.causal ? first + r1 : c.length;
  for (int p = first_seen(a, first + r0) / kBlock * kBlock; p < end; p += kBlock) {
    const int n = end - p < kBlock ? end - p : kBlock;
    for (int j = 0; j < n; j += kPanel) {
      const int some = n - j < kPanel ? n - j : kPanel;
      pack_keys(c.k + h * c.k_head + (p + j) * c.k_pos, c.k_pos, some, a.D, t.keys);
      product(t.rows, a.D, t.q, 0, t.keys, kPanel, t.s, j, (some + W - 1) / W * W, false);
    }
    for (int i = 0; i < t.rows; i++) weigh(a, t, i, first + r0 + i / G, p, n);
    product(t.rows, n, t.s, 0, c.v + h * c.v_head + p * c.v_pos, c.v_pos, t.o, 0, a.Dv, true);
  }
  for (int i = 0; i < t.rows; i++) {
    const float f = t.l[i] > 0 ? 1.0f / t.l[i] : 0.0f;
    for (int d = 0; d < a.Dv; d++) t.o[i][d] *= f;
  }
}

}  // namespace ingot::cpu::INGOT_ISA
