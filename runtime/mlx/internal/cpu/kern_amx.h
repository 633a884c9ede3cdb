// The matrix unit's side of amx.h. Included by amx.cc alone.
#pragma once

#include "kern_gemm.h"
#include "kern_qdot.h"

namespace ingot::cpu::INGOT_ISA {

constexpr int kTile = 16;          // rows, and words of a row, of a tile
constexpr int kDeep = 32;          // values of k that a tile spans
constexpr int kTileBytes = 1024;
constexpr int kPlanes = 3;
constexpr int kStep = 128;         // values of k whose rows stay in the first cache
constexpr int kR = MatrixUnit::kRows, kC = MatrixUnit::kColumns;

// A split block: tiles [K / 32][plane][row half], then the rows' sums [K / group][kR].
inline size_t tile_bytes(int K) { return (size_t)(K / kDeep) * kPlanes * 2 * kTileBytes; }
inline size_t split_bytes(int K, int group) {
  return tile_bytes(K) + (size_t)(K / group) * kR * sizeof(float);
}

// The upper half of each word: bf16 by truncation, so that what is left over is exact.
INGOT_INLINE __m512 upper(__m512 x) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)0xffff0000)));
}
INGOT_INLINE void store_bf16(uint16_t* p, __m512 x) {
  __m512i w = _mm512_srli_epi32(_mm512_castps_si512(x), 16);
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(w));
}

// One row of 32 values into the three planes' tiles; returns its lanes' sums.
INGOT_INLINE V split_row(const float* x, char* tile, int row) {
  V total = zero();
  for (int half = 0; half < 2; half++) {
    __m512 v = _mm512_loadu_ps(x + 16 * half);
    total = add(total, {v});
    for (int p = 0; p < kPlanes; p++) {
      __m512 top = upper(v);
      store_bf16((uint16_t*)(tile + p * 2 * kTileBytes + row * 64) + 16 * half, top);
      v = _mm512_sub_ps(v, top);
    }
  }
  return total;
}

inline void split(const float* const* x, int rows, int K, int group, void* out) {
  char* tiles = (char*)out;
  float* sums = (float*)(tiles + tile_bytes(K));
  memset(out, 0, split_bytes(K, group));
  for (int r = 0; r < rows; r++) {
    char* mine = tiles + r / kTile * kTileBytes;
    V total = zero();
    for (int k = 0; k < K; k += kDeep) {
      char* at = mine + (size_t)(k / kDeep) * kPlanes * 2 * kTileBytes;
      total = add(total, split_row(x[r] + k, at, r % kTile));
      if ((k + kDeep) % group == 0) {
        sums[k / group * kR + r] = sum(total);
        total = zero();
      }
    }
  }
}

// Weights of kC columns: tiles [K / 32][column half], then scales and shifted
// biases [K / group][kC] each.
struct Columns {
  char* tiles;
  float* scale;
  float* bias;
};

inline size_t column_bytes(int K, int group) {
  return (size_t)(K / kDeep) * 2 * kTileBytes + 2 * (size_t)(K / group) * kC * sizeof(float);
}

INGOT_INLINE Columns columns_at(void* p, int K, int group) {
  char* tiles = (char*)p;
  float* scale = (float*)(tiles + (size_t)(K / kDeep) * 2 * kTileBytes);
  return {tiles, scale, scale + (size_t)(K / group) * kC};
}

// Two neighbouring values of k as a pair of bf16 in each word.
INGOT_INLINE __m512i pair(V a, V b) {
  __m512i low = _mm512_srli_epi32(_mm512_castps_si512(a.r), 16);
  return _mm512_or_si512(low, _mm512_castps_si512(b.r));
}

template <int BITS>
void unpack_half(const QWeight& q, int n0, int half, const Columns& c) {
  const int words = q.K * BITS / 32, groups = q.K / q.group;
  const float centre = 1 << (BITS - 1);
  n0 += half * kTile;
  const int base = n0 < q.N ? n0 : q.N - 1;
  int32_t row[W];
  size_t at[W];
  for (int i = 0; i < W; i++) {
    const int n = n0 + i < q.N ? n0 + i : q.N - 1;
    row[i] = (n - base) * words;
    at[i] = (size_t)n * groups;
  }
  const uint32_t* w = q.w + (size_t)base * words;
  for (int k = 0; k < q.K; k += kDeep) {
    VI v[BITS];
    each<BITS>(INGOT_EACH(i) { v[i] = gather(w + (size_t)k * BITS / 32 + i, row); });
    char* tile = c.tiles + (size_t)(k / kDeep * 2 + half) * kTileBytes;
    each<kTile>(INGOT_EACH(i) {
      const V middle = set1(centre);
      V a = sub(value_of<BITS, 2 * i>(v), middle), b = sub(value_of<BITS, 2 * i + 1>(v), middle);
      _mm512_storeu_si512(tile + i * 64, pair(a, b));
    });
  }
  for (int g = 0; g < groups; g++) {
    V s = column(q.scales, q.type, at, g), b = column(q.biases, q.type, at, g);
    store(c.scale + g * kC + half * kTile, s);
    store(c.bias + g * kC + half * kTile, fma(s, set1(centre), b));
  }
}

inline void unpack_columns(const QWeight& q, int n0, const Columns& c) {
  for (int half = 0; half < 2; half++) {
    switch (q.bits) {
      case 2: unpack_half<2>(q, n0, half, c); break;
      case 3: unpack_half<3>(q, n0, half, c); break;
      case 4: unpack_half<4>(q, n0, half, c); break;
      case 5: unpack_half<5>(q, n0, half, c); break;
      case 6: unpack_half<6>(q, n0, half, c); break;
      default: unpack_half<8>(q, n0, half, c); break;
    }
  }
}

struct alignas(64) Config {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t width[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles 0..3 are the sums of two halves of rows by two of columns.
INGOT_INLINE void multiply(const char* a, const char* b) {
  _tile_loadd(6, b, 64);
  _tile_loadd(7, b + kTileBytes, 64);
#define INGOT_PLANE(p)                              \
  _tile_loadd(4, a + (2 * (p)) * kTileBytes, 64);     \
  _tile_loadd(5, a + (2 * (p) + 1) * kTileBytes, 64); \
  _tile_dpbf16ps(0, 4, 6);                          \
  _tile_dpbf16ps(1, 4, 7);                          \
  _tile_dpbf16ps(2, 5, 6);                          \
  _tile_dpbf16ps(3, 5, 7);
  INGOT_PLANE(0)
  INGOT_PLANE(1)
  INGOT_PLANE(2)
#undef INGOT_PLANE
}

INGOT_INLINE void put_sums(float* out) {
  _tile_stored(0, out, kC * sizeof(float));
  _tile_stored(1, out + kTile, kC * sizeof(float));
  _tile_stored(2, out + kTile * kC, kC * sizeof(float));
  _tile_stored(3, out + kTile * kC + kTile, kC * sizeof(float));
}

// acc += sums * scale + xsum * bias, for one group of a block.
INGOT_INLINE void apply(const float* sums, const float* scale, const float* bias,
                        const float* xsum, float* acc) {
  const V s0 = load(scale), s1 = load(scale + W), b0 = load(bias), b1 = load(bias + W);
  for (int r = 0; r < kR; r++, sums += kC, acc += kC) {
    const V x = set1(xsum[r]);
    store(acc, fma(x, b0, fma(load(sums), s0, load(acc))));
    store(acc + W, fma(x, b1, fma(load(sums + W), s1, load(acc + W))));
  }
}

// One block of rows and columns over k in [k0, k1). The groups' sums are applied
// while the unit works on the next group.
inline void block(const char* x, const Columns& c, int K, int group, int k0, int k1, float* acc) {
  alignas(64) float sums[2][kR * kC];
  const float* xsum = (const float*)(x + tile_bytes(K));
  int before = -1;
  for (int k = k0; k < k1; k += group) {
    const int g = k / group;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int i = k / kDeep; i < (k + group) / kDeep; i++) {
      multiply(x + (size_t)i * kPlanes * 2 * kTileBytes, c.tiles + (size_t)i * 2 * kTileBytes);
    }
    put_sums(sums[g & 1]);
    if (before >= 0) {
      apply(sums[before & 1], c.scale + before * kC, c.bias + before * kC, xsum + before * kR, acc);
    }
    before = g;
  }
  apply(sums[before & 1], c.scale + before * kC, c.bias + before * kC, xsum + before * kR, acc);
}

inline size_t scratch_bytes(int K, int group, int columns) {
  const size_t blocks = (size_t)(columns + kC - 1) / kC;
  return blocks * (column_bytes(K, group) + kR * kC * sizeof(float));
}

inline void unit_product(const QWeight& q, const void* split_x, int M, float* const* y, int n0,
                         int n1, void* scratch) {
  const int blocks = (n1 - n0 + kC - 1) / kC;
  const size_t size = column_bytes(q.K, q.group);
  float* acc = (float*)scratch;
  char* columns = (char*)(acc + (size_t)blocks * kR * kC);
  for (int b = 0; b < blocks; b++) {
    unpack_columns(q, n0 + b * kC, columns_at(columns + b * size, q.K, q.group));
  }
  const Config config;
  _tile_loadconfig(&config);
  const char* x = (const char*)split_x;
  for (int m = 0; m < M; m += kR, x += split_bytes(q.K, q.group)) {
    memset(acc, 0, (size_t)blocks * kR * kC * sizeof(float));
    for (int k = 0; k < q.K; k += kStep) {
      const int end = k + kStep < q.K ? k + kStep : q.K;
      for (int b = 0; b < blocks; b++) {
        block(x, columns_at(columns + b * size, q.K, q.group), q.K, q.group, k, end,
              acc + (size_t)b * kR * kC);
      }
    }
    for (int r = 0; r < kR && m + r < M; r++) {
      for (int b = 0; b < blocks; b++) {
        const int n = n0 + b * kC, cols = n1 - n < kC ? n1 - n : kC;
        memcpy(y[m + r] + n, acc + ((size_t)b * kR + r) * kC, (size_t)cols * sizeof(float));
      }
    }
  }
  _tile_release();
}

}  // namespace ingot::cpu::INGOT_ISA
