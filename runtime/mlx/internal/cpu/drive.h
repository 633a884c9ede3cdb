// The kernels spread over the pool: raw pointers in, results out, MLX unknown.
// Each call may throw std::bad_alloc for its scratch, before any work.
#pragma once

#include <vector>

#include "kernels.h"

namespace ingot::cpu {

// The most rows that take the few-row path.
constexpr int kFewRows = 8;

using In = std::vector<const float*>;
using Out = std::vector<float*>;

// y[m][0..N) = x[m][0..K) * dequantized(q)^T.
void run_qmm(const Kernels& k, const QWeight& q, const In& x, const Out& y);

// One expert's share of a gathered product.
struct Expert {
  QWeight q;
  In x;
  Out y;
};
void run_experts(const Kernels& k, const std::vector<Expert>& experts);

// The fewest rows that go to the matrix unit, where there is one.
constexpr int kUnitRows = kFewRows + 1;
void run_on_unit(const Kernels& k, const std::vector<const Expert*>& experts);

// One sequence's rows within flattened q and o.
struct Segment {
  CacheView cache;
  int first;  // row of q and o
  int rows;
};
struct Heads {
  int64_t row, head;  // strides in floats
};
void run_attention(const Kernels& k, const AttnParams& a, const std::vector<Segment>& segments,
                   const float* q, Heads q_at, float* o, Heads o_at);

}  // namespace ingot::cpu
