// The small operations between the products. Each row's bits depend on that
// row alone.
#pragma once

#include "simd.h"

namespace ingot::cpu::INGOT_ISA {

// W (or the n left) of the weights, which may be absent.
INGOT_INLINE V weights(const void* w, Float type, int i, int n) {
  if (!w) return set1(1.0f);
  if (type == Float::f32) {
    const float* f = (const float*)w + i;
    return n >= W ? load(f) : load_n(f, n);
  }
  const uint16_t* h = (const uint16_t*)w + i;
  uint16_t tail[W] = {};
  if (n < W) {
    for (int j = 0; j < n; j++) tail[j] = h[j];
    h = tail;
  }
  return type == Float::f16 ? load_half(h) : load_bfloat(h);
}

// y may be x.
inline void rms(const float* x, const void* w, Float type, float eps, float* y, int n) {
  V s = zero();
  int i = 0;
  for (; i + W <= n; i += W) {
    V v = load(x + i);
    s = fma(v, v, s);
  }
  if (i < n) {
    V v = load_n(x + i, n - i);
    s = fma(v, v, s);
  }
  const V r = set1(1.0f / __builtin_sqrtf(sum(s) / (float)n + eps));
  for (i = 0; i + W <= n; i += W) {
    store(y + i, mul(mul(load(x + i), r), weights(w, type, i, W)));
  }
  if (i < n) {
    store_n(y + i, mul(mul(load_n(x + i, n - i), r), weights(w, type, i, n - i)), n - i);
  }
}

inline void add_rms(const float* x, const float* y, const void* w, Float type, float eps,
                    float* total, float* normed, int n) {
  int i = 0;
  for (; i + W <= n; i += W) store(total + i, add(load(x + i), load(y + i)));
  for (; i < n; i++) total[i] = x[i] + y[i];
  rms(total, w, type, eps, normed, n);
}

INGOT_INLINE V silu(V x) {
  return div(x, add(set1(1.0f), exp(sub(zero(), x))));
}

// x * sigmoid(2u), u = sqrt(2/pi) * (x + 0.044715 x^3): the tanh form of GELU.
INGOT_INLINE V gelu(V x) {
  V u = mul(x, fma(mul(x, x), set1(0.044715f), set1(1.0f)));
  return div(x, add(set1(1.0f), exp(mul(u, set1(-1.5957691216057308f)))));
}

template <class F>
INGOT_INLINE void gated(const float* g, const float* u, float* y, size_t n, F&& f) {
  size_t i = 0;
  for (; i + W <= n; i += W) store(y + i, mul(f(load(g + i)), load(u + i)));
  if (i < n) {
    const int k = (int)(n - i);
    store_n(y + i, mul(f(load_n(g + i, k)), load_n(u + i, k)), k);
  }
}

inline void swiglu(const float* g, const float* u, float* y, size_t n) {
  gated(g, u, y, n, [](V x) { return silu(x); });
}

inline void geglu(const float* g, const float* u, float* y, size_t n) {
  gated(g, u, y, n, [](V x) { return gelu(x); });
}

// y may be x.
inline void rope(const float* x, const float* c, const float* s, float* y, int dims, int n,
                 bool traditional) {
  const int half = dims / 2;
  int i = 0;
  if (traditional) {
    for (; i < half; i++) {
      const float a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = a * c[i] - b * s[i];
      y[2 * i + 1] = a * s[i] + b * c[i];
    }
  } else {
    for (; i + W <= half; i += W) {
      V a = load(x + i), b = load(x + half + i), co = load(c + i), si = load(s + i);
      store(y + i, sub(mul(a, co), mul(b, si)));
      store(y + half + i, add(mul(a, si), mul(b, co)));
    }
    for (; i < half; i++) {
      const float a = x[i], b = x[half + i];
      y[i] = a * c[i] - b * s[i];
      y[half + i] = a * s[i] + b * c[i];
    }
  }
  if (y != x) {
    for (i = dims; i < n; i++) y[i] = x[i];
  }
}

}  // namespace ingot::cpu::INGOT_ISA
