#include <vector>

#include "cputest.h"
#include "drive.h"
#include "pool.h"

using namespace ingot::cpu;

namespace {
const Kernels* chosen = nullptr;
const Kernels& now() { return chosen ? *chosen : kernels(); }

QWeight weight(ct_quant q, const uint32_t* w, const void* s, const void* b) {
  return {w, s, b, static_cast<Float>(q.type), q.N, q.K, q.group, q.bits};
}
}  // namespace

extern "C" {

int ct_isa(const char* name) {
  const Kernels* k = kernels_named(name);
  if (k) chosen = k;
  return k != nullptr;
}
void ct_threads(int n) { pool_resize(n); }
int ct_thread_count(void) { return pool_threads(); }

void ct_raw_qmm(ct_quant q, const uint32_t* w, const void* s, const void* b, const float* x, int M,
                float* y) {
  In in;
  Out out;
  for (int m = 0; m < M; m++) {
    in.push_back(x + (size_t)m * q.K);
    out.push_back(y + (size_t)m * q.N);
  }
  run_qmm(now(), weight(q, w, s, b), in, out);
}

void ct_raw_row(ct_quant q, const uint32_t* w, const void* s, const void* b, int n, float* y) {
  now().dequant_row(weight(q, w, s, b), n, y);
}

void ct_raw_attention(ct_heads a, const float* q, const float* k, const float* v,
                      const float* sinks, int cap, int count, const int* rows, const int* lengths,
                      const int64_t* at_k, const int64_t* at_v, float* o) {
  AttnParams p{};
  p.H = a.H;
  p.KVH = a.KVH;
  p.D = a.D;
  p.Dv = a.Dv;
  p.scale = a.scale;
  p.softcap = a.softcap;
  p.window = a.window;
  p.causal = a.causal != 0;
  p.sinks = a.sinks ? sinks : nullptr;
  std::vector<Segment> segments;
  int first = 0;
  for (int i = 0; i < count; i++) {
    CacheView c{k + at_k[i], v + at_v[i], (int64_t)cap * a.D, a.D, (int64_t)cap * a.Dv, a.Dv,
                lengths[i]};
    segments.push_back({c, first, rows[i]});
    first += rows[i];
  }
  run_attention(now(), p, segments, q, {(int64_t)a.H * a.D, a.D}, o, {(int64_t)a.H * a.Dv, a.Dv});
}

void ct_raw_rms(const float* x, const float* w, float eps, float* y, int n) {
  now().rms(x, w, Float::f32, eps, y, n);
}
void ct_raw_gate(int gelu, const float* g, const float* u, float* y, int n) {
  (gelu ? now().geglu : now().swiglu)(g, u, y, (size_t)n);
}
void ct_raw_rope(const float* x, const float* c, const float* s, float* y, int dims, int n,
                 int traditional) {
  now().rope(x, c, s, y, dims, n, traditional != 0);
}

void ct_pool(int tasks, int32_t* hits) {
  parallel(tasks, [&](int task, int) { hits[task]++; });
}

}  // extern "C"
