// Vectors of 4 floats in the compiler's own vector types: NEON on arm64, the
// baseline elsewhere (SSE2 on x86-64, where a fused product is emulated by a
// rounded one).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INGOT_INLINE inline __attribute__((always_inline))

namespace ingot::cpu::INGOT_ISA {

typedef float F4 __attribute__((vector_size(16)));
typedef uint32_t U4 __attribute__((vector_size(16)));
typedef int32_t I4 __attribute__((vector_size(16)));

struct V { F4 r; };
struct VI { U4 r; };
constexpr int W = 4;
#if defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

INGOT_INLINE V zero() { return {F4{}}; }
INGOT_INLINE V set1(float f) { return {F4{f, f, f, f}}; }
INGOT_INLINE V load(const float* p) {
  V a;
  memcpy(&a.r, p, sizeof a.r);
  return a;
}
INGOT_INLINE V load_n(const float* p, int n) {
  V a = zero();
  for (int i = 0; i < W; i++)
    if (i < n) a.r[i] = p[i];
  return a;
}
INGOT_INLINE void store(float* p, V a) { memcpy(p, &a.r, sizeof a.r); }
INGOT_INLINE void store_n(float* p, V a, int n) {
  for (int i = 0; i < W; i++)
    if (i < n) p[i] = a.r[i];
}
INGOT_INLINE V add(V a, V b) { return {a.r + b.r}; }
INGOT_INLINE V sub(V a, V b) { return {a.r - b.r}; }
INGOT_INLINE V mul(V a, V b) { return {a.r * b.r}; }
INGOT_INLINE V div(V a, V b) { return {a.r / b.r}; }
INGOT_INLINE V max(V a, V b) { return {a.r > b.r ? a.r : b.r}; }
INGOT_INLINE V min(V a, V b) { return {a.r < b.r ? a.r : b.r}; }
#if defined(__aarch64__)
INGOT_INLINE V fma(V a, V b, V c) {
  return {(F4)vfmaq_f32((float32x4_t)c.r, (float32x4_t)a.r, (float32x4_t)b.r)};
}
INGOT_INLINE V fnma(V a, V b, V c) {
  return {(F4)vfmsq_f32((float32x4_t)c.r, (float32x4_t)a.r, (float32x4_t)b.r)};
}
INGOT_INLINE V round(V a) { return {(F4)vrndnq_f32((float32x4_t)a.r)}; }
#else
INGOT_INLINE V fma(V a, V b, V c) { return {a.r * b.r + c.r}; }
INGOT_INLINE V fnma(V a, V b, V c) { return {c.r - a.r * b.r}; }
// Nearest whole number, |a| < 2^22.
INGOT_INLINE V round(V a) {
  const V big = set1(12582912.0f);
  return sub(add(a, big), big);
}
#endif
INGOT_INLINE float sum(V a) { return (a.r[0] + a.r[2]) + (a.r[1] + a.r[3]); }
INGOT_INLINE float hmax(V a) {
  float x = a.r[0] > a.r[1] ? a.r[0] : a.r[1], y = a.r[2] > a.r[3] ? a.r[2] : a.r[3];
  return x > y ? x : y;
}
// a * 2^n, n a whole number in [-127, 127]; -127 gives zero.
INGOT_INLINE V ldexp(V a, V n) {
  I4 e = {(int)n.r[0], (int)n.r[1], (int)n.r[2], (int)n.r[3]};
  e = (e + 127) << 23;
  F4 f;
  memcpy(&f, &e, sizeof f);
  return {a.r * f};
}

// v where a > limit, else zero.
INGOT_INLINE V keep_above(V v, V a, V limit) { return {a.r > limit.r ? v.r : F4{}}; }

INGOT_INLINE VI load_words(const uint32_t* p) {
  VI a;
  memcpy(&a.r, p, sizeof a.r);
  return a;
}
INGOT_INLINE VI load_words_n(const uint32_t* p, int n) {
  VI a = {U4{}};
  for (int i = 0; i < W; i++)
    if (i < n) a.r[i] = p[i];
  return a;
}
INGOT_INLINE VI shr(VI a, int n) { return {a.r >> (uint32_t)n}; }
INGOT_INLINE VI shl(VI a, int n) { return {a.r << (uint32_t)n}; }
INGOT_INLINE VI and_(VI a, uint32_t m) { return {a.r & m}; }
INGOT_INLINE VI or_(VI a, VI b) { return {a.r | b.r}; }
INGOT_INLINE V to_float(VI a) {
  return {__builtin_convertvector((I4)a.r, F4)};
}

// Lane i: p[index[i]].
INGOT_INLINE VI gather(const uint32_t* p, const int32_t* index) {
  return {U4{p[index[0]], p[index[1]], p[index[2]], p[index[3]]}};
}
// Lane i: p[index[i]] of 4 consecutive floats.
INGOT_INLINE V pick(const float* p, const int32_t* index) {
  return {F4{p[index[0]], p[index[1]], p[index[2]], p[index[3]]}};
}
INGOT_INLINE float half_value(uint16_t h) {
#if defined(__aarch64__)
  __fp16 f;
  memcpy(&f, &h, sizeof f);
  return f;
#else
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
  float f;
  if (rest >= 0x0f800000u) {  // infinity, or not a number
    rest |= 0x7f800000u;
    memcpy(&f, &rest, sizeof f);
  } else {  // 2^112 moves the exponent's bias, subnormal numbers included
    memcpy(&f, &rest, sizeof f);
    f *= 0x1p112f;
  }
  uint32_t w;
  memcpy(&w, &f, sizeof w);
  w |= sign;
  memcpy(&f, &w, sizeof f);
  return f;
#endif
}
INGOT_INLINE V load_half(const uint16_t* p) {
  return {F4{half_value(p[0]), half_value(p[1]), half_value(p[2]), half_value(p[3])}};
}
INGOT_INLINE V load_bfloat(const uint16_t* p) {
  U4 w = {p[0], p[1], p[2], p[3]};
  w <<= 16;
  V a;
  memcpy(&a.r, &w, sizeof a.r);
  return a;
}

// The J-th value of each word.
template <int BITS, int J>
INGOT_INLINE V unpack(VI w) {
  VI s = J == 0 ? w : shr(w, BITS * J);
  return to_float(BITS * (J + 1) == 32 ? s : and_(s, (1u << BITS) - 1));
}

// 4 consecutive values of BITS bits (3, 5 or 6), from the k-th on, of a
// little-endian bit stream; they may start in the middle of a byte.
template <int BITS>
INGOT_INLINE V unpack_stream(const uint8_t* row, int k) {
  size_t at = (size_t)k * BITS;
  uint32_t bits = 0;
  memcpy(&bits, row + at / 8, (BITS + 1) / 2);
  bits >>= at % 8;
  const uint32_t m = (1u << BITS) - 1;
  return to_float({U4{bits & m, bits >> BITS & m, bits >> 2 * BITS & m, bits >> 3 * BITS & m}});
}

// Lane i of a[j] becomes lane j of a[i].
INGOT_INLINE void transpose(V* a) {
  V t[4] = {a[0], a[1], a[2], a[3]};
  for (int i = 0; i < 4; i++) a[i].r = F4{t[0].r[i], t[1].r[i], t[2].r[i], t[3].r[i]};
}

// Lane i: the sum of a[i]'s lanes.
INGOT_INLINE V sum_each(const V* a) {
  return {F4{sum(a[0]), sum(a[1]), sum(a[2]), sum(a[3])}};
}

}  // namespace ingot::cpu::INGOT_ISA
