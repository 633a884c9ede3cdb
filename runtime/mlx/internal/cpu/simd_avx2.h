// Vectors of 8 floats: AVX2, FMA and F16C.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INGOT_INLINE inline __attribute__((always_inline))

namespace ingot::cpu::INGOT_ISA {

struct V { __m256 r; };
struct VI { __m256i r; };
constexpr int W = 8;
constexpr int kRegisters = 16;

INGOT_INLINE __m256i first(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INGOT_INLINE V zero() { return {_mm256_setzero_ps()}; }
INGOT_INLINE V set1(float f) { return {_mm256_set1_ps(f)}; }
INGOT_INLINE V load(const float* p) { return {_mm256_loadu_ps(p)}; }
INGOT_INLINE V load_n(const float* p, int n) { return {_mm256_maskload_ps(p, first(n))}; }
INGOT_INLINE void store(float* p, V a) { _mm256_storeu_ps(p, a.r); }
INGOT_INLINE void store_n(float* p, V a, int n) { _mm256_maskstore_ps(p, first(n), a.r); }
INGOT_INLINE V add(V a, V b) { return {_mm256_add_ps(a.r, b.r)}; }
INGOT_INLINE V sub(V a, V b) { return {_mm256_sub_ps(a.r, b.r)}; }
INGOT_INLINE V mul(V a, V b) { return {_mm256_mul_ps(a.r, b.r)}; }
INGOT_INLINE V div(V a, V b) { return {_mm256_div_ps(a.r, b.r)}; }
INGOT_INLINE V max(V a, V b) { return {_mm256_max_ps(a.r, b.r)}; }
INGOT_INLINE V min(V a, V b) { return {_mm256_min_ps(a.r, b.r)}; }
INGOT_INLINE V fma(V a, V b, V c) { return {_mm256_fmadd_ps(a.r, b.r, c.r)}; }
INGOT_INLINE V fnma(V a, V b, V c) { return {_mm256_fnmadd_ps(a.r, b.r, c.r)}; }
INGOT_INLINE float sum(V a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.r), _mm256_extractf128_ps(a.r, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
INGOT_INLINE float hmax(V a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.r), _mm256_extractf128_ps(a.r, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
INGOT_INLINE V round(V a) {
  return {_mm256_round_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a * 2^n, n a whole number in [-127, 127]; -127 gives zero.
INGOT_INLINE V ldexp(V a, V n) {
  __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n.r), _mm256_set1_epi32(127));
  return {_mm256_mul_ps(a.r, _mm256_castsi256_ps(_mm256_slli_epi32(e, 23)))};
}

// v where a > limit, else zero.
INGOT_INLINE V keep_above(V v, V a, V limit) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.r, limit.r, _CMP_GT_OQ), v.r)};
}

INGOT_INLINE VI load_words(const uint32_t* p) { return {_mm256_loadu_si256((const __m256i*)p)}; }
INGOT_INLINE VI load_words_n(const uint32_t* p, int n) {
  return {_mm256_maskload_epi32((const int*)p, first(n))};
}
INGOT_INLINE VI shr(VI a, int n) { return {_mm256_srli_epi32(a.r, n)}; }
INGOT_INLINE VI shl(VI a, int n) { return {_mm256_slli_epi32(a.r, n)}; }
INGOT_INLINE VI and_(VI a, uint32_t m) {
  return {_mm256_and_si256(a.r, _mm256_set1_epi32((int)m))};
}
INGOT_INLINE VI or_(VI a, VI b) { return {_mm256_or_si256(a.r, b.r)}; }
INGOT_INLINE V to_float(VI a) { return {_mm256_cvtepi32_ps(a.r)}; }

// Lane i: p[index[i]].
INGOT_INLINE VI gather(const uint32_t* p, const int32_t* index) {
  return {_mm256_i32gather_epi32((const int*)p, _mm256_loadu_si256((const __m256i*)index), 4)};
}
// Lane i: p[index[i]] of 8 consecutive floats.
INGOT_INLINE V pick(const float* p, const int32_t* index) {
  return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(p),
                                   _mm256_loadu_si256((const __m256i*)index))};
}
INGOT_INLINE V load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p))};
}
INGOT_INLINE V load_bfloat(const uint16_t* p) {
  __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(w, 16))};
}

// The J-th value of each word.
template <int BITS, int J>
INGOT_INLINE V unpack(VI w) {
  VI s = J == 0 ? w : shr(w, BITS * J);
  return to_float(BITS * (J + 1) == 32 ? s : and_(s, (1u << BITS) - 1));
}

// 8 consecutive values of BITS bits (3, 5 or 6), from the k-th on, of a
// little-endian bit stream.
template <int BITS>
INGOT_INLINE V unpack_stream(const uint8_t* row, int k) {
  const uint8_t* p = row + (size_t)k * BITS / 8;
  alignas(32) static constexpr struct Plan {
    uint8_t byte[32];
    int32_t shift[8];
    constexpr Plan() : byte(), shift() {
      for (int i = 0; i < 8; i++) {
        int at = i * BITS / 8;
        byte[4 * i] = (uint8_t)at;
        byte[4 * i + 1] = (uint8_t)(at + 1);
        byte[4 * i + 2] = byte[4 * i + 3] = 0x80;
        shift[i] = i * BITS % 8;
      }
    }
  } plan;
  uint64_t bits = 0;
  memcpy(&bits, p, BITS);
  __m256i w = _mm256_shuffle_epi8(_mm256_set1_epi64x((long long)bits),
                                  _mm256_load_si256((const __m256i*)plan.byte));
  w = _mm256_srlv_epi32(w, _mm256_load_si256((const __m256i*)plan.shift));
  return to_float(and_({w}, (1u << BITS) - 1));
}

// Lane i of a[j] becomes lane j of a[i].
INGOT_INLINE void transpose(V* a) {
  __m256 s[8], t[8];
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(a[i].r, a[i + 1].r);
    s[i + 1] = _mm256_unpackhi_ps(a[i].r, a[i + 1].r);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; j++) {
      t[i + 2 * j] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0x44);
      t[i + 2 * j + 1] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0xee);
    }
  }
  for (int i = 0; i < 4; i++) {
    a[i].r = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    a[i + 4].r = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
}

// Lane i: the sum of a[i]'s lanes.
INGOT_INLINE V sum_each(const V* a) {
  __m256 t[2];
  for (int i = 0; i < 2; i++) {
    t[i] = _mm256_hadd_ps(_mm256_hadd_ps(a[4 * i].r, a[4 * i + 1].r),
                          _mm256_hadd_ps(a[4 * i + 2].r, a[4 * i + 3].r));
  }
  return {_mm256_add_ps(_mm256_permute2f128_ps(t[0], t[1], 0x20),
                        _mm256_permute2f128_ps(t[0], t[1], 0x31))};
}

}  // namespace ingot::cpu::INGOT_ISA
