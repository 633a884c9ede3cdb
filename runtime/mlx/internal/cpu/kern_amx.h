// The matrix unit's side of amx.h. Included by amx.cc alone.
#pragma once

#include "kern_gemm.h"
#include "kern_qdot.h"

namespace ingot::cpu::INGOT_ISA {

constexpr int kTile = 16;          // rows, and words of a row, of a tile
constexpr int kDeep = 32;          // values of k that a tile spans
constexpr int kTileBytes = 1024;
constexpr int kPlanes = 3;
constexpr int kStep = 128;         // values of k whose split rows stay in the first cache
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
// The upper halves of 32 words, in order.
INGOT_INLINE void store_bf16(char* p, __m512 lo, __m512 hi) {
  alignas(64) static constexpr struct Odd {
    uint16_t at[32];
    constexpr Odd() : at() {
      for (int i = 0; i < 32; i++) at[i] = (uint16_t)(2 * i + 1);
    }
  } odd;
  _mm512_store_si512(p, _mm512_permutex2var_epi16(_mm512_castps_si512(lo),
                                                  _mm512_load_si512(odd.at),
                                                  _mm512_castps_si512(hi)));
}

// 32 values of a row into the three planes' tiles; returns their lanes' sums.
INGOT_INLINE V split_values(const float* x, char* at) {
  __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
  const V total = {_mm512_add_ps(a, b)};
  for (int p = 0; p < kPlanes; p++) {
    store_bf16(at + p * 2 * kTileBytes, a, b);
    a = _mm512_sub_ps(a, upper(a));
    b = _mm512_sub_ps(b, upper(b));
  }
  return total;
}

inline void split_row(const float* x, int K, int group, char* at, float* sums) {
  V total = zero();
  for (int k = 0; k < K; k += kDeep, at += kPlanes * 2 * kTileBytes) {
    total = add(total, split_values(x + k, at));
    if ((k + kDeep) % group == 0) {
      sums[k / group * kR] = sum(total);
      total = zero();
    }
  }
}

inline void split(const float* const* x, int rows, int K, int group, void* out) {
  char* tiles = (char*)out;
  float* sums = (float*)(tiles + tile_bytes(K));
  if (rows < kR) memset(out, 0, split_bytes(K, group));
  for (int r = 0; r < rows; r++) {
    split_row(x[r], K, group, tiles + r / kTile * kTileBytes + r % kTile * 64, sums + r);
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

// Sixteen rows of a block over `count` tiles of k. Half 0 sums up in tiles 0 and
// 1, half 1 in tiles 2 and 3, so that one half is stored while the other is
// multiplied. The tiles' numbers are part of the instructions.
#define INGOT_HALF(name, half, left, right)                                  \
  INGOT_INLINE void multiply_##name(const char* a, const char* b, int count) { \
    _tile_zero(left);                                                        \
    _tile_zero(right);                                                       \
    a += (half) * kTileBytes;                                                \
    for (int i = 0; i < count; i++) {                                        \
      _tile_loadd(6, b, 64);                                                 \
      _tile_loadd(7, b + kTileBytes, 64);                                    \
      _tile_loadd(4, a, 64);                                                 \
      _tile_dpbf16ps(left, 4, 6);                                            \
      _tile_dpbf16ps(right, 4, 7);                                           \
      _tile_loadd(5, a + 2 * kTileBytes, 64);                                \
      _tile_dpbf16ps(left, 5, 6);                                            \
      _tile_dpbf16ps(right, 5, 7);                                           \
      _tile_loadd(4, a + 4 * kTileBytes, 64);                                \
      _tile_dpbf16ps(left, 4, 6);                                            \
      _tile_dpbf16ps(right, 4, 7);                                           \
      a += kPlanes * 2 * kTileBytes;                                         \
      b += 2 * kTileBytes;                                                   \
    }                                                                        \
  }                                                                          \
  INGOT_INLINE void put_##name(float* out) {                                 \
    _tile_stored(left, out, kC * sizeof(float));                             \
    _tile_stored(right, out + kTile, kC * sizeof(float));                    \
  }
INGOT_HALF(top, 0, 0, 1)
INGOT_HALF(bottom, 1, 2, 3)
#undef INGOT_HALF

// acc += sums * scale + xsum * bias, for one group of sixteen rows.
INGOT_INLINE void apply(const float* sums, const float* scale, const float* bias,
                        const float* xsum, float* acc) {
  const V s0 = load(scale), s1 = load(scale + W), b0 = load(bias), b1 = load(bias + W);
  for (int r = 0; r < kTile; r += 4) {
    each<4>(INGOT_EACH(i) {
      const V x = set1(xsum[r + i]);
      const float* from = sums + (r + i) * kC;
      float* to = acc + (r + i) * kC;
      store(to, fma(x, b0, fma(load(from), s0, load(to))));
      store(to + W, fma(x, b1, fma(load(from + W), s1, load(to + W))));
    });
  }
}

// One group of one block: where its factors are and where its sums go.
struct Place {
  const char* a;       // split rows
  const char* b;       // weights
  const float* scale;
  const float* bias;
  const float* xsum;
  float* acc;
};

// What a block of rows meets: all blocks of columns.
struct Sweep {
  const char* x;
  char* columns;
  size_t size;  // of one block of columns
  float* acc;
  int K, group;

  INGOT_INLINE Place at(int block, int g) const {
    const Columns c = columns_at(columns + block * size, K, group);
    const size_t tiles = (size_t)g * (group / kDeep) * 2 * kTileBytes;
    return {x + tiles * kPlanes, c.tiles + tiles, c.scale + g * kC, c.bias + g * kC,
            (const float*)(x + tile_bytes(K)) + g * kR, acc + (size_t)block * kR * kC};
  }
};

// All blocks of columns over the groups [g0, g1), whose split rows stay in the
// first cache. The unit is kept at work: sums are stored one half, and applied
// two halves, after their products.
inline void sweep(const Sweep& s, int blocks, int g0, int g1) {
  alignas(64) float top[kTile * kC], bottom[kTile * kC];
  const int count = s.group / kDeep;
  Place last = {};
  auto use_top = [&]() __attribute__((always_inline)) {
    apply(top, last.scale, last.bias, last.xsum, last.acc);
  };
  auto use_bottom = [&]() __attribute__((always_inline)) {
    apply(bottom, last.scale, last.bias, last.xsum + kTile, last.acc + kTile * kC);
  };
  for (int b = 0; b < blocks; b++) {
    for (int g = g0; g < g1; g++) {
      const Place now = s.at(b, g);
      multiply_top(now.a, now.b, count);
      if (last.a) {
        put_bottom(bottom);
        use_top();
      }
      multiply_bottom(now.a, now.b, count);
      put_top(top);
      if (last.a) use_bottom();
      last = now;
    }
  }
  put_bottom(bottom);
  use_top();
  use_bottom();
}

inline size_t scratch_bytes(int K, int group, int columns) {
  const size_t blocks = (size_t)(columns + kC - 1) / kC;
  return blocks * (column_bytes(K, group) + kR * kC * sizeof(float));
}

// The blocks' sums into the rows of y, from column n0 on.
inline void put_rows(const float* acc, int blocks, float* const* y, int rows, int n0, int n1) {
  for (int r = 0; r < rows; r++) {
    for (int b = 0; b < blocks; b++) {
      const float* from = acc + ((size_t)b * kR + r) * kC;
      const int n = n0 + b * kC, cols = n1 - n;
      float* to = y[r] + n;
      if (cols >= kC) {
        store(to, load(from));
        store(to + W, load(from + W));
      } else {
        store_n(to, load(from), cols < W ? cols : W);
        if (cols > W) store_n(to + W, load(from + W), cols - W);
      }
    }
  }
}

inline void unit_product(const QWeight& q, const void* split_x, int M, float* const* y, int n0,
                         int n1, void* scratch) {
  const int blocks = (n1 - n0 + kC - 1) / kC;
  const int groups = q.K / q.group, step = kStep / q.group;
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
    const Sweep pass = {x, columns, size, acc, q.K, q.group};
    for (int g = 0; g < groups; g += step) {
      sweep(pass, blocks, g, g + step < groups ? g + step : groups);
    }
    put_rows(acc, blocks, y + m, M - m < kR ? M - m : kR, n0, n1);
  }
  _tile_release();
}

}  // namespace ingot::cpu::INGOT_ISA
