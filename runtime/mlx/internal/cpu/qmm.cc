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

  QWeight at(const array& w, const array& scales, const array& biases, int64_t expert = 0) const {
    const int64_t words = (int64_t)N * K * bits / 32, groups = (int64_t)N * K / group;
    const size_t size = type == Float::f32 ? 4 : 2;
    return {w.data<uint32_t>() + expert * words,
            scales.data<char>() + (size_t)(expert * groups) * size,
            biases.data<char>() + (size_t)(expert * groups) * size,
            type, N, K, group, bits};
  }
  bool operator==(const Quant& o) const {
    return N == o.N && K == o.K && group == o.group && bits == o.bits && type == o.type;
  }
};

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

class Qmm : public Kernel {
 public:
  Qmm(Stream s, Quant q) : Kernel(s), q_(q) {}
  const char* name() const override { return "IngotQmm"; }
  bool is_equivalent(const Primitive& o) const override {
    return q_ == static_cast<const Qmm&>(o).q_;
  }
  std::vector<Shape> output_shapes(const Inputs& in) override {
    Shape s = in[0].shape();
    s.back() = q_.N;
    return {s};
  }
  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate(out[0]);
    if (out[0].size() == 0) return;
    start(in, out, [x = View(in[0]), w = q_.at(in[1], in[2], in[3]), y = out[0].data<float>()] {
      const RowsOf rows(x);
      Out to;
      for (size_t m = 0; m < rows.rows().size(); m++) to.push_back(y + m * (size_t)w.N);
      run_qmm(kernels(), w, rows.rows(), to);
    });
  }

 private:
  Quant q_;
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
    std::vector<QWeight> experts;
    for (int e = 0; e < E_; e++) experts.push_back(q_.at(in[1], in[2], in[3], e));
    start(in, out, [x = View(in[0]), idx = in[4].data<int32_t>(), T = in[4].shape(0), k = k_,
                    experts = std::move(experts), y = out[0].data<float>()] {
      const RowsOf rows(x);
      run_experts(kernels(), by_expert(rows.rows(), idx, T, k, experts, y));
    });
  }

 private:
  // Rows of x and y, sorted by expert; rows of no expert become zero.
  static std::vector<Expert> by_expert(const In& x, const int32_t* idx, int T, int k,
                                       const std::vector<QWeight>& experts, float* y) {
    std::vector<Expert> sorted;
    for (const auto& q : experts) sorted.push_back({q, {}, {}});
    const size_t N = (size_t)experts[0].N, per = x.size() / (size_t)T;
    for (size_t i = 0; i < (size_t)T * (size_t)k; i++) {
      float* to = y + i * N;
      if ((uint32_t)idx[i] >= experts.size()) {
        std::fill(to, to + N, 0.0f);
        continue;
      }
      Expert& e = sorted[(size_t)idx[i]];
      e.x.push_back(x[per == 1 ? i / (size_t)k : i]);
      e.y.push_back(to);
    }
    return sorted;
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

array qmm(const array& x, const array& w, const array& scales, const array& biases, int group,
          int bits, StreamOrDevice s) {
  const char* name = "qmm";
  const Stream on = cpu_stream(name, s);
  const Quant q = quant_of(name, w, scales, biases, 2, group, bits);
  check_x(name, x, q.K);
  Shape shape = x.shape();
  shape.back() = q.N;
  return array(shape, float32, std::make_shared<Qmm>(on, q),
               {x, steady(w, on), steady(scales, on), steady(biases, on)});
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
