#include <algorithm>

#include "drive.h"
#include "pool.h"

namespace ingot::cpu {
namespace {

// Weights of one few-row task: some microseconds of work, against a hand-over
// of less than one.
constexpr int kDotWeights = 48 << 10;
// Depth of a panel: 48 columns of it lie in the first cache's good half.
constexpr int kDepth = 256;
// Floats of x that one many-row task keeps in the second cache.
constexpr int kRowFloats = 256 << 10;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// The grid of one product: tasks are blocks of columns times blocks of rows.
struct Grid {
  int columns, column_blocks;
  int rows, row_blocks;
  int tasks() const { return column_blocks * row_blocks; }
};

Grid few_grid(const QWeight& q, int M) {
  int columns = std::max(16, kDotWeights / q.K / std::max(1, M / 4));
  columns = ceil_div(std::min(columns, ceil_div(q.N, pool_threads())), 16) * 16;
  return {columns, ceil_div(q.N, columns), M, 1};
}

Grid many_grid(const Kernels& k, const QWeight& q, int M) {
  int rows = std::clamp(kRowFloats / q.K / 8 * 8, 64, 512);
  const int row_blocks = ceil_div(M, rows);
  rows = ceil_div(ceil_div(M, row_blocks), 8) * 8;
  const int panels = ceil_div(q.N, k.panel), want = 4 * pool_threads();
  const int columns = std::max(1, panels * row_blocks / want) * k.panel;
  return {columns, ceil_div(q.N, columns), rows, row_blocks};
}

// Prepared rows lie in runs of most_rows, as dot() takes them.
size_t ready_floats(const Kernels& k, const QWeight& q, int M) {
  size_t n = 0;
  for (int m = 0; m < M; m += k.most_rows) {
    n += k.prep_floats(q.K, q.bits, std::min(k.most_rows, M - m));
  }
  return n;
}

void make_ready(const Kernels& k, const QWeight& q, const In& x, float* out) {
  const int M = (int)x.size();
  for (int m = 0; m < M; m += k.most_rows) {
    const int rows = std::min(k.most_rows, M - m);
    k.prep(x.data() + m, rows, out, q.K, q.bits);
    out += k.prep_floats(q.K, q.bits, rows);
  }
}

// Whether b's rows, made ready, will do for a.
bool same_rows(const Expert& a, const Expert& b) {
  return a.q.bits == b.q.bits && a.q.K == b.q.K && a.x == b.x;
}

void few_task(const Kernels& k, const QWeight& q, const Grid& g, int task, const float* ready,
              int M, float* const* y, float* scratch) {
  const int n0 = task * g.columns, n1 = std::min(q.N, n0 + g.columns);
  for (int m = 0; m < M; m += k.most_rows) {
    const int rows = std::min(k.most_rows, M - m);
    k.dot(q, ready, rows, y + m, n0, n1, scratch);
    ready += k.prep_floats(q.K, q.bits, rows);
  }
}

void many_task(const Kernels& k, const QWeight& q, const Grid& g, int task, const float* const* x,
               int M, float* const* y, float* panel) {
  const int m0 = task % g.row_blocks * g.rows, m1 = std::min(M, m0 + g.rows);
  const int begin = task / g.row_blocks * g.columns, end = std::min(q.N, begin + g.columns);
  for (int n = begin; n < end; n += k.panel) {
    const int cols = std::min(k.panel, end - n);
    for (int k0 = 0; k0 < q.K; k0 += kDepth) {
      const int k1 = std::min(q.K, k0 + kDepth);
      k.dequant_panel(q, n, k0, k1, panel);
      k.product(m1 - m0, k1 - k0, x + m0, k0, panel, k.panel, y + m0, n, cols, k0 > 0);
    }
  }
}

// One expert's place among the tasks of a call.
struct Part {
  const Expert* e;
  bool few;
  Grid grid;
  int first;     // its first task
  float* ready;  // prepared rows, if few
};

struct Plan {
  std::vector<Part> parts;
  int tasks = 0;
  size_t each = 0, shared = 0;  // floats of scratch
};

Plan plan_of(const Kernels& k, const std::vector<const Expert*>& experts) {
  Plan plan;
  for (const Expert* e : experts) {
    const int M = (int)e->x.size();
    const bool few = M <= kFewRows;
    const Grid g = few ? few_grid(e->q, M) : many_grid(k, e->q, M);
    plan.parts.push_back({e, few, g, plan.tasks, nullptr});
    plan.tasks += g.tasks();
    plan.each = std::max(plan.each, few ? k.dot_floats(e->q.K / e->q.group)
                                        : (size_t)k.panel * kDepth);
    if (few) plan.shared += ready_floats(k, e->q, M);
  }
  return plan;
}

void make_all_ready(const Kernels& k, Plan& plan, float* at) {
  for (size_t i = 0; i < plan.parts.size(); i++) {
    Part& p = plan.parts[i];
    if (!p.few) continue;
    if (i > 0 && plan.parts[i - 1].few && same_rows(*p.e, *plan.parts[i - 1].e)) {
      p.ready = plan.parts[i - 1].ready;
      continue;
    }
    p.ready = at;
    make_ready(k, p.e->q, p.e->x, at);
    at += ready_floats(k, p.e->q, (int)p.e->x.size());
  }
}

void run_parts(const Kernels& k, const std::vector<const Expert*>& experts) {
  if (experts.empty()) return;
  Plan plan = plan_of(k, experts);
  const Scratch scratch(plan.each, plan.shared);
  make_all_ready(k, plan, scratch.shared());
  parallel(plan.tasks, [&](int task, int thread) {
    auto p = std::upper_bound(plan.parts.begin(), plan.parts.end(), task,
                              [](int t, const Part& x) { return t < x.first; }) - 1;
    const Expert& e = *p->e;
    const int M = (int)e.x.size(), i = task - p->first;
    float* own = scratch.of(thread);
    if (p->few) few_task(k, e.q, p->grid, i, p->ready, M, e.y.data(), own);
    else many_task(k, e.q, p->grid, i, e.x.data(), M, e.y.data(), own);
  });
}

}  // namespace

void run_experts(const Kernels& k, const std::vector<Expert>& experts) {
  std::vector<const Expert*> by_unit, by_vectors;
  for (const auto& e : experts) {
    if (e.x.empty() || e.q.N == 0) continue;
    (k.unit && (int)e.x.size() >= kUnitRows ? by_unit : by_vectors).push_back(&e);
  }
  run_on_unit(k, by_unit);
  run_parts(k, by_vectors);
}

void run_qmm(const Kernels& k, const QWeight& q, const In& x, const Out& y) {
  run_experts(k, {Expert{q, x, y}});
}

}  // namespace ingot::cpu
