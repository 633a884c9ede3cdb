#include <algorithm>

#include "drive.h"
#include "pool.h"

namespace ingot::cpu {
namespace {

// Segments with fewer rows are computed row by row.
constexpr int kFewQueries = 6;
// Query rows (times heads of a group) of one prefill task.
constexpr int kTileRows = 192;

struct Decode {  // one row, one chunk, one kv head
  const Segment* s;
  int row, h, p0, p1;
  float* out;
};
struct Join {  // one row, one kv head
  int row, h, count;
  const float* partials;
};
struct Prefill {
  const Segment* s;
  int h, r0, r1;
};

// All work of a call, before it is spread.
struct Plan {
  std::vector<Decode> decode;
  std::vector<Join> join;
  std::vector<Prefill> prefill;
  size_t partial;  // floats of one decode task's result
  int tile_rows = 0;
};

void plan_row(const AttnParams& a, const Segment& s, int r, Plan& plan) {
  const int position = s.cache.length - s.rows + r;
  const int end = a.causal ? position + 1 : s.cache.length;
  const int begin = a.window > 0 ? std::max(0, position - a.window + 1) : 0;
  const int grid = begin / kChunk * kChunk, count = (end - grid + kChunk - 1) / kChunk;
  for (int h = 0; h < a.KVH; h++) {
    plan.join.push_back({s.first + r, h, count, nullptr});
    for (int p = grid; p < end; p += kChunk) {
      plan.decode.push_back(
          {&s, s.first + r, h, std::max(p, begin), std::min(p + kChunk, end), nullptr});
    }
  }
}

void plan_tiles(const AttnParams& a, const Segment& s, Plan& plan) {
  const int rows = std::max(8, kTileRows / (a.H / a.KVH));
  plan.tile_rows = std::max(plan.tile_rows, std::min(rows, s.rows));
  for (int r1 = s.rows; r1 > 0; r1 -= rows) {  // the long ones first
    for (int h = 0; h < a.KVH; h++) plan.prefill.push_back({&s, h, std::max(0, r1 - rows), r1});
  }
}

Plan plan_of(const AttnParams& a, const std::vector<Segment>& segments) {
  Plan plan;
  plan.partial = (size_t)(a.H / a.KVH) * (size_t)(a.Dv + 2);
  for (const auto& s : segments) {
    if (s.rows >= kFewQueries) plan_tiles(a, s, plan);
    else for (int r = 0; r < s.rows; r++) plan_row(a, s, r, plan);
  }
  return plan;
}

void place(Plan& plan, float* shared) {
  float* at = shared;
  for (auto& d : plan.decode) {
    d.out = at;
    at += plan.partial;
  }
  at = shared;
  for (auto& j : plan.join) {
    j.partials = at;
    at += plan.partial * (size_t)j.count;
  }
}

void join_row(const Kernels& k, const AttnParams& a, const Join& j, size_t partial, float* o,
              Heads at) {
  const int G = a.H / a.KVH;
  for (int g = 0; g < G; g++) {
    const int head = j.h * G + g;
    k.join(a, head, j.partials + g * (a.Dv + 2), j.count, (int64_t)partial,
           o + j.row * at.row + head * at.head);
  }
}

}  // namespace

void run_attention(const Kernels& k, const AttnParams& a, const std::vector<Segment>& segments,
                   const float* q, Heads q_at, float* o, Heads o_at) {
  Plan plan = plan_of(a, segments);
  const size_t each = plan.prefill.empty() ? 0 : k.prefill_floats(a, plan.tile_rows);
  const Scratch scratch(each, plan.partial * plan.decode.size());
  place(plan, scratch.shared());
  const int tiles = (int)plan.prefill.size();
  parallel(tiles + (int)plan.decode.size(), [&](int task, int thread) {
    if (task < tiles) {
      const Prefill& p = plan.prefill[(size_t)task];
      k.prefill(a, p.s->cache, q + p.s->first * q_at.row, q_at.row, q_at.head,
                o + p.s->first * o_at.row, o_at.row, o_at.head, p.h, p.r0, p.r1, p.s->rows,
                scratch.of(thread));
      return;
    }
    const Decode& d = plan.decode[(size_t)(task - tiles)];
    k.decode(a, d.s->cache, Rows{q + d.row * q_at.row, q_at.head}, d.h, d.p0, d.p1, d.out);
  });
  for (const auto& j : plan.join) join_row(k, a, j, plan.partial, o, o_at);
}

}  // namespace ingot::cpu
