#include <algorithm>

#include "amx.h"
#include "drive.h"
#include "pool.h"

namespace ingot::cpu {
namespace {

// Rows of one part: enough to repay unpacking the weights, few enough for
// their split to stay in a cache.
constexpr int kPartRows = 512;
// Bytes of split rows at a time.
constexpr size_t kBatchBytes = 16 << 20;
// Bytes of unpacked weights in a task: half of a second cache.
constexpr size_t kTaskBytes = 768 << 10;

int ceil_div(int a, int b) { return (a + b - 1) / b; }
size_t floats(size_t bytes) { return (bytes + 63) / 64 * 16; }

// Some rows of an expert.
struct Part {
  const Expert* e;
  int m0, rows;
  int columns;                    // of one task
  int first_split, first_task;    // -1: the split is the one before's
  char* split;
  int blocks() const { return ceil_div(rows, MatrixUnit::kRows); }
  int tasks() const { return ceil_div(e->q.N, columns); }
};

bool same_split(const Part& a, const Part& b) {
  return a.m0 == b.m0 && a.rows == b.rows && a.e->q.K == b.e->q.K &&
      a.e->q.group == b.e->q.group && a.e->x == b.e->x;
}

// Columns of a task: whole blocks whose weights stay in the second cache, and
// tasks enough for the threads.
int columns_of(const MatrixUnit& u, const QWeight& q) {
  constexpr int block = MatrixUnit::kColumns;
  const size_t one = u.scratch_bytes(q.K, q.group, block);
  const int most = std::max(1, (int)(kTaskBytes / one));
  const int fair = std::max(1, ceil_div(q.N, block) / (3 * pool_threads()));
  return std::min(most, fair) * block;
}

// Parts whose split rows fit one batch.
struct Batch {
  std::vector<Part> parts;
  int splits = 0, tasks = 0;
  size_t split_bytes = 0, scratch_bytes = 0;

  void add(const MatrixUnit& u, Part p) {
    const QWeight& q = p.e->q;
    const bool shared = !parts.empty() && same_split(parts.back(), p);
    p.first_split = shared ? -1 : splits;
    p.first_task = tasks;
    if (!shared) {
      splits += p.blocks();
      split_bytes += bytes(u, p);
    }
    tasks += p.tasks();
    scratch_bytes = std::max(scratch_bytes, u.scratch_bytes(q.K, q.group, p.columns));
    parts.push_back(p);
  }

  static size_t bytes(const MatrixUnit& u, const Part& p) {
    return (size_t)p.blocks() * u.split_bytes(p.e->q.K, p.e->q.group);
  }
};

void split_task(const MatrixUnit& u, const std::vector<const Part*>& owners, int task) {
  auto p = *(std::upper_bound(owners.begin(), owners.end(), task,
                              [](int t, const Part* x) { return t < x->first_split; }) - 1);
  const QWeight& q = p->e->q;
  const int block = task - p->first_split, m = block * MatrixUnit::kRows;
  const int rows = std::min(MatrixUnit::kRows, p->rows - m);
  u.split(p->e->x.data() + p->m0 + m, rows, q.K, q.group,
          p->split + (size_t)block * u.split_bytes(q.K, q.group));
}

void product_task(const MatrixUnit& u, const std::vector<Part>& parts, int task, void* scratch) {
  auto p = std::upper_bound(parts.begin(), parts.end(), task,
                            [](int t, const Part& x) { return t < x.first_task; }) - 1;
  const QWeight& q = p->e->q;
  const int n0 = (task - p->first_task) * p->columns, n1 = std::min(q.N, n0 + p->columns);
  u.product(q, p->split, p->rows, p->e->y.data() + p->m0, n0, n1, scratch);
}

void run_batch(const MatrixUnit& u, Batch& b) {
  const Scratch scratch(floats(b.scratch_bytes), floats(b.split_bytes));
  char* at = (char*)scratch.shared();
  std::vector<const Part*> owners;
  for (size_t i = 0; i < b.parts.size(); i++) {
    Part& p = b.parts[i];
    if (p.first_split < 0) {
      p.split = b.parts[i - 1].split;
      continue;
    }
    p.split = at;
    at += Batch::bytes(u, p);
    owners.push_back(&p);
  }
  parallel(b.splits, [&](int task, int) { split_task(u, owners, task); });
  parallel(b.tasks, [&](int task, int thread) {
    product_task(u, b.parts, task, scratch.of(thread));
  });
}

}  // namespace

void run_on_unit(const Kernels& k, const std::vector<const Expert*>& experts) {
  if (experts.empty()) return;
  const MatrixUnit& u = *k.unit;
  Batch batch;
  for (const Expert* e : experts) {
    const int M = (int)e->x.size(), pieces = ceil_div(M, kPartRows);
    const int rows = ceil_div(ceil_div(M, pieces), MatrixUnit::kRows) * MatrixUnit::kRows;
    for (int m = 0; m < M; m += rows) {
      const Part p{e, m, std::min(rows, M - m), columns_of(u, e->q), 0, 0, nullptr};
      if (!batch.parts.empty() && batch.split_bytes + Batch::bytes(u, p) > kBatchBytes) {
        run_batch(u, batch);
        batch = Batch();
      }
      batch.add(u, p);
    }
  }
  run_batch(u, batch);
}

}  // namespace ingot::cpu
