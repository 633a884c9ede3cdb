// Rotary position embedding (Su et al. 2021), with MLX's conventions.
#include <math.h>

#include "prim.h"

namespace ingot::cpu {
namespace {

using mlx::core::float32;

// Cosines and sines, [position][dims / 2] each.
struct Table {
  std::vector<float> c, s;
};

// Angles are f32 products of f32 factors, as in MLX, so that both agree far
// from the start too.
Table table_of(const std::vector<int>& positions, const RopeOptions& o, const float* freqs) {
  const int half = o.dims / 2;
  std::vector<float> rate((size_t)half);
  const float step = logf(o.base) / (float)half;
  for (int i = 0; i < half; i++) rate[(size_t)i] = freqs ? 1.0f / freqs[i] : expf(-(float)i * step);
  Table t;
  t.c.resize(positions.size() * (size_t)half);
  t.s.resize(t.c.size());
  for (size_t r = 0; r < positions.size(); r++) {
    const float p = (float)positions[r] * o.scale;
    for (size_t i = 0; i < (size_t)half; i++) {
      const float angle = p * rate[i];
      t.c[r * (size_t)half + i] = cosf(angle);
      t.s[r * (size_t)half + i] = sinf(angle);
    }
  }
  return t;
}

// The layers of a step turn the same positions the same way: the last table of
// each stream's thread is kept.
const Table& cached_table(const std::vector<int>& positions, const RopeOptions& o,
                          const float* freqs) {
  struct Last {
    std::vector<int> positions;
    int dims = 0;
    float base = 0, scale = 0;
    std::vector<float> freqs;
    Table table;
  };
  thread_local Last last[2];  // two: models that alternate global and local layers
  std::vector<float> f;
  if (freqs) f.assign(freqs, freqs + o.dims / 2);
  for (auto& l : last) {
    if (l.dims == o.dims && l.base == o.base && l.scale == o.scale && l.freqs == f &&
        l.positions == positions) {
      return l.table;
    }
  }
  std::swap(last[0], last[1]);
  Last& l = last[0];
  l.dims = 0;  // invalid, should the table throw
  l.table = table_of(positions, o, freqs);
  l.positions = positions;
  l.base = o.base;
  l.scale = o.scale;
  l.freqs = std::move(f);
  l.dims = o.dims;
  return l.table;
}

// x [B, R, H, D] by strides: whatever order of axes the caller has.
struct Layout {
  int64_t B, R, H, D;
  int64_t in_b, in_r, in_h, in_d, out_b, out_r, out_h;
};

class Rope : public Kernel {
 public:
  Rope(Stream s, std::vector<int> positions, RopeOptions o, bool bhtd)
      : Kernel(s), positions_(std::move(positions)), o_(std::move(o)), bhtd_(bhtd) {}
  const char* name() const override { return "IngotRope"; }
  std::vector<Shape> output_shapes(const Inputs& in) override { return {in[0].shape()}; }

  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate_or_take(out[0], in[0]);
    if (out[0].size() == 0) return;
    start(in, out, [l = layout(in[0]), x = in[0].data<float>(), y = out[0].data<float>(),
                    freqs = in.size() > 1 ? in[1].data<float>() : nullptr, o = options(),
                    positions = positions_] {
      turn(l, x, y, o, cached_table(positions, o, freqs));
    });
  }

 private:
  RopeOptions options() const {
    RopeOptions o = o_;
    o.freqs.reset();  // a task holds no arrays
    return o;
  }

  Layout layout(const array& x) const {
    const size_t n = x.ndim();
    const auto& st = x.strides();
    Layout l;
    const size_t r = bhtd_ ? n - 2 : n - 3, h = bhtd_ ? n - 3 : n - 2;
    l.B = n == 4 ? x.shape(0) : 1;
    l.R = x.shape((int)r);
    l.H = x.shape((int)h);
    l.D = x.shape(-1);
    l.in_b = n == 4 ? st[0] : 0;
    l.in_r = st[r];
    l.in_h = st[h];
    l.in_d = st[n - 1];
    l.out_b = l.R * l.H * l.D;
    l.out_r = bhtd_ ? l.D : l.H * l.D;
    l.out_h = bhtd_ ? l.R * l.D : l.D;
    return l;
  }

  static void turn(const Layout& l, const float* x, float* y, const RopeOptions& o,
                   const Table& t) {
    const int64_t rows = l.B * l.R, each = std::max<int64_t>(1, (8 << 10) / (l.H * l.D));
    const int half = o.dims / 2;
    parallel((int)((rows + each - 1) / each), [&](int task, int) {
      for (int64_t i = task * each; i < std::min(rows, (task + 1) * each); i++) {
        const int64_t b = i / l.R, r = i % l.R;
        for (int64_t h = 0; h < l.H; h++) {
          const float* from = x + b * l.in_b + r * l.in_r + h * l.in_h;
          float* to = y + b * l.out_b + r * l.out_r + h * l.out_h;
          if (l.in_d != 1) {
            for (int64_t d = 0; d < l.D; d++) to[d] = from[d * l.in_d];
            from = to;
          }
          kernels().rope(from, t.c.data() + r * half, t.s.data() + r * half, to, o.dims, (int)l.D,
                         o.traditional);
        }
      }
    });
  }

  std::vector<int> positions_;
  RopeOptions o_;
  bool bhtd_;
};

array build(const char* name, const array& x, std::vector<int> positions, const RopeOptions& o,
            bool bhtd, StreamOrDevice s) {
  const Stream on = cpu_stream(name, s);
  check(o.dims > 0 && o.dims % 2 == 0 && o.dims <= x.shape(-1), name,
        "dims " + std::to_string(o.dims) + " of " + std::to_string(x.shape(-1)));
  std::vector<array> in{x};
  RopeOptions plain = o;
  plain.freqs.reset();
  if (o.freqs) {
    check(o.freqs->dtype() == float32 && o.freqs->ndim() == 1 && o.freqs->shape(0) == o.dims / 2,
          name, "freqs " + text(o.freqs->shape()) + " is not f32 [dims / 2]");
    in.push_back(steady(*o.freqs, on));
  } else {
    check(o.base > 0, name, "base " + std::to_string(o.base));
  }
  return array(x.shape(), float32,
               std::make_shared<Rope>(on, std::move(positions), std::move(plain), bhtd),
               std::move(in));
}

std::vector<int> from(int offset, int rows) {
  std::vector<int> p((size_t)rows);
  for (int i = 0; i < rows; i++) p[(size_t)i] = offset + i;
  return p;
}

void check_x(const char* name, const array& x) {
  check(x.dtype() == float32 && (x.ndim() == 3 || x.ndim() == 4), name,
        text(x.shape()) + " is not f32 of 3 or 4 axes");
}

}  // namespace

array rope(const array& x, int offset, const RopeOptions& o, StreamOrDevice s) {
  check_x("rope", x);
  return build("rope", x, from(offset, x.shape(-3)), o, false, s);
}

array rope(const array& x, const std::vector<int>& positions, const RopeOptions& o,
           StreamOrDevice s) {
  check_x("rope", x);
  check((int)positions.size() == x.shape(-3), "rope",
        std::to_string(positions.size()) + " positions for x " + text(x.shape()));
  return build("rope", x, positions, o, false, s);
}

array rope_bhtd(const array& x, int offset, const RopeOptions& o, StreamOrDevice s) {
  check_x("rope_bhtd", x);
  return build("rope_bhtd", x, from(offset, x.shape(-2)), o, true, s);
}

}  // namespace ingot::cpu
