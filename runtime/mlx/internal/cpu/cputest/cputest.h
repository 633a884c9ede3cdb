// The kernels and primitives of package cpu as C calls, for its tests.
// Pointers are the caller's, for the time of the call.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// -- the kernels, on raw memory

// Chooses the instruction set of the raw calls; 0 where it can't run here.
int ct_isa(const char* name);
void ct_threads(int n);
int ct_thread_count(void);

typedef struct {
  int N, K, group, bits;
  int type;  // 0 f32, 1 f16, 2 bf16
} ct_quant;

void ct_raw_qmm(ct_quant q, const uint32_t* w, const void* scales, const void* biases,
                const float* x, int M, float* y);
void ct_raw_row(ct_quant q, const uint32_t* w, const void* scales, const void* biases, int n,
                float* y);

typedef struct {
  int H, KVH, D, Dv, window, causal, sinks;
  float scale, softcap;
} ct_heads;

// Sequence i: rows[i] rows at length lengths[i], its cache k[at[i]...] laid out
// [KVH][cap][D], v likewise at the same position count.
void ct_raw_attention(ct_heads a, const float* q, const float* k, const float* v,
                      const float* sinks, int cap, int count, const int* rows, const int* lengths,
                      const int64_t* at_k, const int64_t* at_v, float* o);

void ct_raw_rms(const float* x, const float* w, float eps, float* y, int n);
void ct_raw_gate(int gelu, const float* g, const float* u, float* y, int n);
void ct_raw_rope(const float* x, const float* c, const float* s, float* y, int dims, int n,
                 int traditional);

// Runs `tasks` tasks that add 1 to hits[task]; for the pool's own test.
void ct_pool(int tasks, int32_t* hits);

// -- the primitives, on MLX arrays; null or non-zero is an error, see ct_error

typedef void* ct_array;
const char* ct_error(void);
void ct_free(ct_array a);
// dtype: 0 f32, 1 f16, 2 bf16 (both given as f32), 3 u32, 4 i32
ct_array ct_from(const void* data, int dtype, const int* shape, int n);
ct_array ct_transpose(ct_array a, const int* axes, int n);
ct_array ct_slice(ct_array a, const int* start, const int* stop, const int* step, int n);
// Evaluates and copies out as f32, row by row.
int ct_read(ct_array a, float* out, size_t count);
int ct_eval(ct_array a);
int ct_dims(ct_array a, int* shape);
// Bytes that MLX holds for live arrays.
size_t ct_active(void);

// ours: this package's primitive, else MLX's own operation.
ct_array ct_qmm(int ours, ct_array x, ct_array w, ct_array s, ct_array b, int group, int bits);
// out[i] = qmm(x, w[i]), one primitive; w, s and b of one group and bits.
int ct_qmm_many(ct_array x, const ct_array* w, const ct_array* s, const ct_array* b, int count,
                int group, int bits, ct_array* out);
ct_array ct_qmm_swiglu(ct_array x, const ct_array* w, const ct_array* s, const ct_array* b,
                       int group, int bits);
ct_array ct_gather_qmm(int ours, ct_array x, ct_array w, ct_array s, ct_array b, ct_array idx,
                       int group, int bits);
ct_array ct_qembed(int ours, ct_array ids, ct_array w, ct_array s, ct_array b, int group, int bits);
// q [1, H, R, D] as MLX has it.
ct_array ct_sdpa(int ours, ct_array q, ct_array k, ct_array v, int length, ct_heads a,
                 ct_array sinks);
ct_array ct_ragged(ct_array q, const ct_array* k, const ct_array* v, const int* rows,
                   const int* lengths, int count, ct_heads a);
ct_array ct_rms(int ours, ct_array x, ct_array w, float eps);
int ct_add_rms(ct_array x, ct_array y, ct_array w, float eps, ct_array* out);
ct_array ct_swiglu(int ours, ct_array g, ct_array u);
ct_array ct_swiglu_packed(ct_array gu);
ct_array ct_geglu(ct_array g, ct_array u);
// x [1, H, T, D] as MLX has it.
ct_array ct_rope(int ours, ct_array x, int dims, int traditional, float base, float scale,
                 int offset, ct_array freqs);
ct_array ct_rope_rows(ct_array x, const int* positions, int count, int dims, int traditional,
                      float base, float scale);

#ifdef __cplusplus
}
#endif
