// Vectors of 16 floats: AVX-512 F, BW, VL, DQ and F16C.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define INGOT_INLINE inline __attribute__((always_inline))

namespace ingot::cpu::INGOT_ISA {

struct V { __m512 r; };
struct VI { __m512i r; };
constexpr int W = 16;
constexpr int kRegisters = 32;

INGOT_INLINE __mmask16 first(int n) { return (__mmask16)((1u << n) - 1); }

INGOT_INLINE V zero() { return {_mm512_setzero_ps()}; }
INGOT_INLINE V set1(float f) { return {_mm512_set1_ps(f)}; }
INGOT_INLINE V load(const float* p) { return {_mm512_loadu_ps(p)}; }
INGOT_INLINE V load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
INGOT_INLINE void store(float* p, V a) { _mm512_storeu_ps(p, a.r); }
INGOT_INLINE void store_n(float* p, V a, int n) { _mm512_mask_storeu_ps(p, first(n), a.r); }
INGOT_INLINE V add(V a, V b) { return {_mm512_add_ps(a.r, b.r)}; }
INGOT_INLINE V sub(V a, V b) { return {_mm512_sub_ps(a.r, b.r)}; }
INGOT_INLINE V mul(V a, V b) { return {_mm512_mul_ps(a.r, b.r)}; }
INGOT_INLINE V div(V a, V b) { return {_mm512_div_ps(a.r, b.r)}; }
INGOT_INLINE V max(V a, V b) { return {_mm512_max_ps(a.r, b.r)}; }
INGOT_INLINE V min(V a, V b) { return {_mm512_min_ps(a.r, b.r)}; }
INGOT_INLINE V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.r, b.r, c.r)}; }
INGOT_INLINE V fnma(V a, V b, V c) { return {_mm512_fnmadd_ps(a.r, b.r, c.r)}; }
INGOT_INLINE float sum(V a) { return _mm512_reduce_add_ps(a.r); }
INGOT_INLINE float hmax(V a) { return _mm512_reduce_max_ps(a.r); }
INGOT_INLINE V round(V a) {
  return {_mm512_roundscale_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a * 2^n, n a whole number; underflows to zero.
INGOT_INLINE V ldexp(V a, V n) { return {_mm512_scalef_ps(a.r, n.r)}; }

// v where a > limit, else zero.
INGOT_INLINE V keep_above(V v, V a, V limit) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.r, limit.r, _CMP_GT_OQ), v.r)};
}

INGOT_INLINE VI load_words(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
INGOT_INLINE VI load_words_n(const uint32_t* p, int n) {
  return {_mm512_maskz_loadu_epi32(first(n), p)};
}
INGOT_INLINE VI shr(VI a, int n) { return {_mm512_srli_epi32(a.r, (unsigned)n)}; }
INGOT_INLINE VI shl(VI a, int n) { return {_mm512_slli_epi32(a.r, (unsigned)n)}; }
INGOT_INLINE VI and_(VI a, uint32_t m) {
  return {_mm512_and_si512(a.r, _mm512_set1_epi32((int)m))};
}
INGOT_INLINE VI or_(VI a, VI b) { return {_mm512_or_si512(a.r, b.r)}; }
INGOT_INLINE V to_float(VI a) { return {_mm512_cvtepi32_ps(a.r)}; }

// Lane i: p[index[i]].
INGOT_INLINE VI gather(const uint32_t* p, const int32_t* index) {
  return {_mm512_i32gather_epi32(_mm512_loadu_si512(index), p, 4)};
}
// Lane i: p[index[i]] of 16 consecutive floats.
INGOT_INLINE V pick(const float* p, const int32_t* index) {
  return {_mm512_permutexvar_ps(_mm512_loadu_si512(index), _mm512_loadu_ps(p))};
}
INGOT_INLINE V load_half(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))};
}
INGOT_INLINE V load_bfloat(const uint16_t* p) {
  __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(w, 16))};
}

// The J-th value of each word: a table look-up where the index fits in four bits.
template <int BITS, int J>
INGOT_INLINE V unpack(VI w) {
  if constexpr (BITS == 8) {
    VI s = J == 0 ? w : shr(w, 8 * J);
    return to_float(J == 3 ? s : and_(s, 255));
  } else {
    const __m512 t = BITS == 4
        ? _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
        : _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    return {_mm512_permutexvar_ps(shr(w, BITS * J).r, t)};
  }
}

// 16 consecutive values of BITS bits (3, 5 or 6), from the k-th on, of a
// little-endian bit stream.
template <int BITS>
INGOT_INLINE V unpack_stream(const uint8_t* row, int k) {
  const uint8_t* p = row + (size_t)k * BITS / 8;
  alignas(64) static constexpr struct Plan {
    uint8_t byte[64];
    int32_t shift[16];
    constexpr Plan() : byte(), shift() {
      for (int i = 0; i < 16; i++) {
        int at = i * BITS / 8;
        byte[4 * i] = (uint8_t)at;
        byte[4 * i + 1] = (uint8_t)(at + 1);
        byte[4 * i + 2] = byte[4 * i + 3] = 0x80;
        shift[i] = i * BITS % 8;
      }
    }
  } plan;
  __m128i b = _mm_maskz_loadu_epi8((__mmask16)((1u << (2 * BITS)) - 1), p);
  __m512i w = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(b), _mm512_load_si512(plan.byte));
  w = _mm512_srlv_epi32(w, _mm512_load_si512(plan.shift));
  return to_float(and_({w}, (1u << BITS) - 1));
}

// Lane i of a[j] becomes lane j of a[i].
INGOT_INLINE void transpose(V* a) {
  __m512 s[16], t[16];
  for (int i = 0; i < 16; i += 2) {
    s[i] = _mm512_unpacklo_ps(a[i].r, a[i + 1].r);
    s[i + 1] = _mm512_unpackhi_ps(a[i].r, a[i + 1].r);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; j++) {
      __m512d x = _mm512_castps_pd(s[i + j]), y = _mm512_castps_pd(s[i + j + 2]);
      t[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      t[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
  }
  for (int i = 0; i < 4; i++) {  // t[4*q + i]: column i of each quarter, rows 4q..4q+3
    __m512 lo = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
    __m512 hi = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
    __m512 lo2 = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
    __m512 hi2 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
    a[i].r = _mm512_shuffle_f32x4(lo, hi, 0x88);
    a[i + 4].r = _mm512_shuffle_f32x4(lo2, hi2, 0x88);
    a[i + 8].r = _mm512_shuffle_f32x4(lo, hi, 0xdd);
    a[i + 12].r = _mm512_shuffle_f32x4(lo2, hi2, 0xdd);
  }
}

// Lane i: the sum of a[i]'s lanes.
INGOT_INLINE V sum_each(const V* a) {
  __m512 s[8], t[4];
  for (int i = 0; i < 8; i++) {
    __m512 lo = _mm512_unpacklo_ps(a[2 * i].r, a[2 * i + 1].r);
    s[i] = _mm512_add_ps(lo, _mm512_unpackhi_ps(a[2 * i].r, a[2 * i + 1].r));
  }
  for (int i = 0; i < 4; i++) {
    __m512d x = _mm512_castps_pd(s[2 * i]), y = _mm512_castps_pd(s[2 * i + 1]);
    t[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
  }
  __m512 u = _mm512_add_ps(_mm512_shuffle_f32x4(t[0], t[1], 0x88),
                           _mm512_shuffle_f32x4(t[0], t[1], 0xdd));
  __m512 v = _mm512_add_ps(_mm512_shuffle_f32x4(t[2], t[3], 0x88),
                           _mm512_shuffle_f32x4(t[2], t[3], 0xdd));
  return {_mm512_add_ps(_mm512_shuffle_f32x4(u, v, 0x88), _mm512_shuffle_f32x4(u, v, 0xdd))};
}

}  // namespace ingot::cpu::INGOT_ISA
