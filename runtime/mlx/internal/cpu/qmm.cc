// Products with quantized weights, experts' products, rows of a quantized table.
#include "prim.h"

namespace ingot::cpu {
namespace {

using mlx::core::float32;
using mlx::core::int32;
using mlx::core::uint32;

// The shape of one quantized matrix, without its memory.
struct Quant {
  int N, K, group, bits;
  Float type;

  QWeight at(const array& w, const array& scales, const array& biases) const {
    return {w.data<uint32_t>(), scales.data<char>(), biases.data<char>(), type, N, K, group, bits};
  }
  bool operator==(const Quant& o) const {
    return N == o.N && K == o.K && group == o.group && bits == o.bits && type == o.type;
  }
};

// Matrix e of a stack whose first is w.
QWeight expert(QWeight w, int64_t e) {
  const int64_t groups = (int64_t)w.N * w.K / w.group * (w.type == Float::f32 ? 4 : 2);
  w.w += e * ((int64_t)w.N * w.K * w.bits / 32);
  w.scales = (const char*)w.scales + e * groups;
  w.biases = (const char*)w.biases + e * groups;
  return w;
}

// Checks w, scales and biases of `axes` axes against each other and K.
Quant quant_of(const char* name, const array& w, const array& scales, const array& biases,
               size_t axes, int group, int bits) {
  check(bits == 2 || bits == 3 || bits == 4 || bits == 5 || bits == 6 || bits == 8, name,
        "bits " + std::to_string(bits) + " is not one of 2, 3, 4, 5, 6, 8");
  check(group == 32 || group == 64 || group == 128, name,
        "group " + std::to_string(group) + " is not one of 32, 64, 128");
  check(w.dtype() == uint32 && w.ndim() == axes, name, "w " + text(w.shape()) + " is not packed u32");
  check(scales.ndim() == axes && scales.shape() == biases.shape() &&
            scales.dtype() == biases.dtype(),
        name, "scales " + text(scales.shape()) + " and biases " + text(biases.shape()) + " differ");
  Quant q;
  q.type = float_of(name, "scales", scales);
  q.N = w.shape(-2);
  q.group = group;
  q.bits = bits;
  const int64_t K = (int64_t)scales.shape(-1) * group;
  check(K <= INT32_MAX && (int64_t)w.shape(-1) * 32 == K * bits && scales.shape(-2) == q.N &&
            (axes == 2 || scales.shape(0) == w.shape(0)),
        name, "w " + text(w.shape()) + " and scales " + text(scales.shape()) + " do not fit");
  q.K = (int)K;
  return q;
}

void check_x(const char* name, const array& x, int K) {
  check(x.dtype() == float32, name, "x is not f32");
  check(x.ndim() >= 1 && x.shape(-1) == K, name,
        "x " + text(x.shape()) + " has not the weights' " + std::to_string(K) + " columns");
}

void check_ids(const char* name, const array& ids) {
  check(ids.dtype() == int32 || ids.dtype() == uint32, name, "the indices are not i32 or u32");
}

// Row pointers of a dense result.
Out rows_of(float* y, size_t count, int N) {
  Out to(count);
  for (size_t m = 0; m < count; m++) to[m] = y + m * (size_t)N;
  return to;
}

Shape shape_for(const array& x, int N) {
  Shape s = x.shape();
  s.back() = N;
  return s;
}

// Inputs: x, then w, scales and biases of each product.
class Qmm : public Kernel {
 public:
  Qmm(Stream s, std::vector<Quant> q) : Kernel(s), q_(std::move(q)) {}
  const char* name() const override { return "IngotQmm"; }
  bool is_equivalent(const Primitive& o) const override {
    return q_ == static_cast<const Qmm&>(o).q_;
  }
  std::vector<Shape> output_shapes(const Inputs& in) override {
    std::vector<Shape> s;
    for (const auto& q : q_) s.push_back(shape_for(in[0], q.N));
    return s;
  }
  void eval_cpu(const Inputs& in, Inputs& out) override {
    std::vector<std::pair<QWeight, float*>> parts;
    for (size_t i = 0; i < q_.size(); i++) {
      allocate(out[i]);
      parts.push_back({weight(in, i), out[i].data<float>()});
    }
    if (in[0].size() == 0) return;
    start(in, out, [x = View(in[0]), parts = std::move(parts)] {
      const RowsOf rows(x);
      std::vector<Expert> all;
      for (const auto& [w, y] : parts) {
        all.push_back({w, rows.rows(), rows_of(y, rows.rows().size(), w.N)});
      }
      run_experts(kernels(), all);
    });
  }

 protected:
  QWeight weight(const Inputs& in, size_t i) const {
    return q_[i].at(in[1 + 3 * i], in[2 + 3 * i], in[3 + 3 * i]);
  }

 private:
  std::vector<Quant> q_;
};

// Inputs as for Qmm: x, gate's, up's.
class QmmSwiglu : public Qmm {
 public:
  QmmSwiglu(Stream s, Quant gate, Quant up) : Qmm(s, {gate, up}) {}
  const char* name() const override { return "IngotQmmSwiglu"; }
  std::vector<Shape> output_shapes(const Inputs& in) override {
    return {Qmm::output_shapes(in)[0]};
  }
  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate(out[0]);
    if (out[0].size() == 0) return;
    array up = temporary(out[0]);
    start(in, out, [x = View(in[0]), g = weight(in, 0), u = weight(in, 1),
                    y = out[0].data<float>(), up = up.data<float>(), size = out[0].size()] {
      const RowsOf rows(x);
      const size_t M = rows.rows().size();
      run_experts(kernels(), {{g, rows.rows(), rows_of(y, M, g.N)},
                              {u, rows.rows(), rows_of(up, M, u.N)}});
      constexpr size_t each = 8 << 10;
      parallel((int)((size + each - 1) / each), [&](int task, int) {
        const size_t at = (size_t)task * each, n = std::min(each, size - at);
        kernels().swiglu(y + at, up + at, y + at, n);
      });
    });
  }
};

class GatherQmm : public Kernel {
 public:
  GatherQmm(Stream s, Quant q, int E, int k) : Kernel(s), q_(q), E_(E), k_(k) {}
  const char* name() const override { return "IngotGatherQmm"; }
  bool is_equivalent(const Primitive& o) const override {
    const auto& g = static_cast<const GatherQmm&>(o);
    return q_ == g.q_ && E_ == g.E_ && k_ == g.k_;
  }
  std::vector<Shape> output_shapes(const Inputs& in) override {
    return {Shape{in[4].shape(0), k_, q_.N}};
  }
  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate(out[0]);
    if (out[0].size() == 0) return;
    start(in, out, [x = View(in[0]), idx = in[4].data<int32_t>(), T = in[4].shape(0), k = k_,
                    E = E_, w = q_.at(in[1], in[2], in[3]), y = out[0].data<float>()] {
      const RowsOf rows(x);
      run_experts(kernels(), by_expert(rows.rows(), idx, T, k, w, E, y));
    });
  }

 private:
  // Rows of x and y, sorted by expert; rows of no expert become zero.
  static std::vector<Expert> by_expert(const In& x, const int32_t* idx, int T, int k,
                                       const QWeight& w, int E, float* y) {
    std::vector<Expert> used;
    std::vector<int> place((size_t)E, -1);  // of each expert in used
    const size_t N = (size_t)w.N, per = x.size() / (size_t)T;
    for (size_t i = 0; i < (size_t)T * (size_t)k; i++) {
      float* to = y + i * N;
      if ((uint32_t)idx[i] >= (uint32_t)E) {
        std::fill(to, to + N, 0.0f);
        continue;
      }
      int& p = place[(size_t)idx[i]];
      if (p < 0) {
        p = (int)used.size();
        used.push_back({expert(w, idx[i]), {}, {}});
      }
      used[(size_t)p].x.push_back(x[per == 1 ? i / (size_t)k : i]);
      used[(size_t)p].y.push_back(to);
    }
    return used;
  }

  Quant q_;
  int E_, k_;
};

class Qembed : public Kernel {
 public:
  Qembed(Stream s, Quant q) : Kernel(s), q_(q) {}
  const char* name() const override { return "IngotQembed"; }
  bool is_equivalent(const Primitive& o) const override {
    return q_ == static_cast<const Qembed&>(o).q_;
  }
  std::vector<Shape> output_shapes(const Inputs& in) override {
    Shape s = in[0].shape();
    s.push_back(q_.K);
    return {s};
  }
  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate(out[0]);
    if (out[0].size() == 0) return;
    start(in, out, [ids = in[0].data<int32_t>(), count = in[0].size(),
                    w = q_.at(in[1], in[2], in[3]), y = out[0].data<float>()] {
      for (size_t i = 0; i < count; i++) {
        float* row = y + i * (size_t)w.K;
        if ((uint32_t)ids[i] < (uint32_t)w.N) kernels().dequant_row(w, ids[i], row);
        else std::fill(row, row + w.K, 0.0f);
      }
    });
  }

 private:
  Quant q_;
};

}  // namespace

int few_rows() { return kFewRows; }

namespace {

// Checks x against the weights and lays out a primitive's inputs.
std::vector<Quant> gather_inputs(const char* name, const array& x, const std::vector<Quantized>& w,
                                 Stream on, std::vector<array>& in) {
  std::vector<Quant> q;
  in.push_back(x);
  for (const auto& p : w) {
    q.push_back(quant_of(name, p.w, p.scales, p.biases, 2, p.group, p.bits));
    check_x(name, x, q.back().K);
    in.push_back(steady(p.w, on));
    in.push_back(steady(p.scales, on));
    in.push_back(steady(p.biases, on));
  }
  return q;
}

}  // namespace

array qmm(const array& x, const array& w, const array& scales, const array& biases, int group,
          int bits, StreamOrDevice s) {
  const Stream on = cpu_stream("qmm", s);
  std::vector<array> in;
  auto q = gather_inputs("qmm", x, {{w, scales, biases, group, bits}}, on, in);
  Shape shape = shape_for(x, q[0].N);
  return array(std::move(shape), float32, std::make_shared<Qmm>(on, std::move(q)), std::move(in));
}

std::vector<array> qmm_many(const array& x, const std::vector<Quantized>& w, StreamOrDevice s) {
  const Stream on = cpu_stream("qmm_many", s);
  check(!w.empty(), "qmm_many", "no weights");
  std::vector<array> in;
  auto q = gather_inputs("qmm_many", x, w, on, in);
  std::vector<Shape> shapes;
  for (const auto& p : q) shapes.push_back(shape_for(x, p.N));
  return array::make_arrays(shapes, std::vector<mlx::core::Dtype>(w.size(), float32),
                            std::make_shared<Qmm>(on, std::move(q)), in);
}

array qmm_swiglu(const array& x, const Quantized& gate, const Quantized& up, StreamOrDevice s) {
  const Stream on = cpu_stream("qmm_swiglu", s);
  std::vector<array> in;
  auto q = gather_inputs("qmm_swiglu", x, {gate, up}, on, in);
  check(q[0].N == q[1].N, "qmm_swiglu",
        "gate has " + std::to_string(q[0].N) + " rows, up " + std::to_string(q[1].N));
  Shape shape = shape_for(x, q[0].N);
  return array(std::move(shape), float32, std::make_shared<QmmSwiglu>(on, q[0], q[1]),
               std::move(in));
}

array gather_qmm(const array& x, const array& w, const array& scales, const array& biases,
                 const array& idx, int group, int bits, StreamOrDevice s) {
  const char* name = "gather_qmm";
  const Stream on = cpu_stream(name, s);
  const Quant q = quant_of(name, w, scales, biases, 3, group, bits);
  check_x(name, x, q.K);
  check_ids(name, idx);
  check(w.shape(0) > 0, name, "no experts");
  check(idx.ndim() == 2, name, "idx " + text(idx.shape()) + " is not [T, k]");
  const int T = idx.shape(0), k = idx.shape(1);
  const bool fits = x.ndim() == 2 || (x.ndim() == 3 && (x.shape(1) == 1 || x.shape(1) == k));
  check(fits && x.shape(0) == T, name, "x " + text(x.shape()) + " does not fit idx " + text(idx.shape()));
  return array(Shape{T, k, q.N}, float32, std::make_shared<GatherQmm>(on, q, w.shape(0), k),
               {x, steady(w, on), steady(scales, on), steady(biases, on), steady(idx, on)});
}

array qembed(const array& ids, const array& w, const array& scales, const array& biases, int group,
             int bits, StreamOrDevice s) {
  const char* name = "qembed";
  const Stream on = cpu_stream(name, s);
  const Quant q = quant_of(name, w, scales, biases, 2, group, bits);
  check_ids(name, ids);
  Shape shape = ids.shape();
  shape.push_back(q.K);
  return array(shape, float32, std::make_shared<Qembed>(on, q),
               {steady(ids, on), steady(w, on), steady(scales, on), steady(biases, on)});
}

}  // namespace ingot::cpu
