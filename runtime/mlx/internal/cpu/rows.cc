// Norms and gated activations.
#include "prim.h"

namespace ingot::cpu {
namespace {

using mlx::core::float32;

// Rows of one task: enough work to be worth a hand-over.
constexpr size_t kTaskFloats = 8 << 10;

// f(begin, end) over [0, count) things of `width` floats each.
template <class F>
void spread(size_t count, size_t width, F&& f) {
  const size_t each = std::max<size_t>(1, kTaskFloats / std::max<size_t>(1, width));
  const int tasks = (int)((count + each - 1) / each);
  parallel(tasks, [&](int task, int) {
    const size_t begin = (size_t)task * each;
    f(begin, std::min(count, begin + each));
  });
}

// Norm weights, or none.
struct Weight {
  const void* p = nullptr;
  Float type = Float::f32;
};

class RmsNorm : public Kernel {
 public:
  RmsNorm(Stream s, float eps, bool weighted, Float type)
      : Kernel(s), eps_(eps), weighted_(weighted), type_(type) {}
  const char* name() const override { return "IngotRmsNorm"; }
  bool is_equivalent(const Primitive& o) const override {
    const auto& r = static_cast<const RmsNorm&>(o);
    return eps_ == r.eps_ && weighted_ == r.weighted_ && type_ == r.type_;
  }
  std::vector<Shape> output_shapes(const Inputs& in) override { return {in[0].shape()}; }

  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate_or_take(out[0], in[0]);
    if (out[0].size() == 0) return;
    Weight w{weighted_ ? in[1].data<char>() : nullptr, type_};
    start(in, out, [x = View(in[0]), w, eps = eps_, y = out[0].data<float>()] {
      const RowsOf rows(x);
      const size_t n = (size_t)x.shape.back();
      spread(rows.rows().size(), n, [&](size_t i, size_t end) {
        for (; i < end; i++) kernels().rms(rows.rows()[i], w.p, w.type, eps, y + i * n, (int)n);
      });
    });
  }

 private:
  float eps_;
  bool weighted_;
  Float type_;
};

class AddRmsNorm : public Kernel {
 public:
  AddRmsNorm(Stream s, float eps, bool weighted, Float type)
      : Kernel(s), eps_(eps), weighted_(weighted), type_(type) {}
  const char* name() const override { return "IngotAddRmsNorm"; }
  bool is_equivalent(const Primitive& o) const override {
    const auto& r = static_cast<const AddRmsNorm&>(o);
    return eps_ == r.eps_ && weighted_ == r.weighted_ && type_ == r.type_;
  }
  std::vector<Shape> output_shapes(const Inputs& in) override {
    return {in[0].shape(), in[0].shape()};
  }

  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate_or_take(out[0], in[0]);
    allocate(out[1]);
    if (out[0].size() == 0) return;
    Weight w{weighted_ ? in[2].data<char>() : nullptr, type_};
    start(in, out, [x = View(in[0]), y = View(in[1]), w, eps = eps_, sum = out[0].data<float>(),
                    normed = out[1].data<float>()] {
      const RowsOf a(x), b(y);
      const size_t n = (size_t)x.shape.back();
      spread(a.rows().size(), n, [&](size_t i, size_t end) {
        for (; i < end; i++) {
          kernels().add_rms(a.rows()[i], b.rows()[i], w.p, w.type, eps, sum + i * n, normed + i * n,
                            (int)n);
        }
      });
    });
  }

 private:
  float eps_;
  bool weighted_;
  Float type_;
};

enum class Gate { silu, gelu };

// Inputs: gate and up, or one array whose last axis holds both halves.
class Gated : public Kernel {
 public:
  Gated(Stream s, Gate gate, bool packed) : Kernel(s), gate_(gate), packed_(packed) {}
  const char* name() const override { return "IngotGated"; }
  bool is_equivalent(const Primitive& o) const override {
    const auto& g = static_cast<const Gated&>(o);
    return gate_ == g.gate_ && packed_ == g.packed_;
  }
  std::vector<Shape> output_shapes(const Inputs& in) override {
    Shape s = in[0].shape();
    if (packed_) s.back() /= 2;
    return {s};
  }

  void eval_cpu(const Inputs& in, Inputs& out) override {
    if (packed_) allocate(out[0]);
    else allocate_or_take(out[0], in[0]);
    if (out[0].size() == 0) return;
    auto apply = gate_ == Gate::silu ? kernels().swiglu : kernels().geglu;
    start(in, out, [g = View(in[0]), u = View(in.back()), packed = packed_, apply,
                    n = (size_t)out[0].shape(-1), y = out[0].data<float>()] {
      const RowsOf gate(g), up(u);
      spread(gate.rows().size(), n, [&](size_t i, size_t end) {
        for (; i < end; i++) {
          apply(gate.rows()[i], up.rows()[i] + (packed ? n : 0), y + i * n, n);
        }
      });
    });
  }

 private:
  Gate gate_;
  bool packed_;
};

void check_rows(const char* name, const array& x) {
  check(x.dtype() == float32 && x.ndim() >= 1, name, text(x.shape()) + " is not rows of f32");
}

Float check_weight(const char* name, const array& x, const std::optional<array>& w) {
  if (!w) return Float::f32;
  check(w->ndim() == 1 && w->shape(0) == x.shape(-1), name,
        "w " + text(w->shape()) + " does not fit x " + text(x.shape()));
  return float_of(name, "w", *w);
}

array gated(const char* name, const array& gate, const array& up, Gate kind, StreamOrDevice s) {
  const Stream on = cpu_stream(name, s);
  check_rows(name, gate);
  check_rows(name, up);
  check(gate.shape() == up.shape(), name,
        "gate " + text(gate.shape()) + " and up " + text(up.shape()) + " differ");
  return array(gate.shape(), float32, std::make_shared<Gated>(on, kind, false), {gate, up});
}

}  // namespace

array rms_norm(const array& x, const std::optional<array>& w, float eps, StreamOrDevice s) {
  const char* name = "rms_norm";
  const Stream on = cpu_stream(name, s);
  check_rows(name, x);
  const Float type = check_weight(name, x, w);
  std::vector<array> in{x};
  if (w) in.push_back(steady(*w, on));
  return array(x.shape(), float32, std::make_shared<RmsNorm>(on, eps, w.has_value(), type),
               std::move(in));
}

std::vector<array> add_rms_norm(const array& x, const array& y, const std::optional<array>& w,
                                float eps, StreamOrDevice s) {
  const char* name = "add_rms_norm";
  const Stream on = cpu_stream(name, s);
  check_rows(name, x);
  check_rows(name, y);
  check(x.shape() == y.shape(), name, "x " + text(x.shape()) + " and y " + text(y.shape()) + " differ");
  const Float type = check_weight(name, x, w);
  std::vector<array> in{x, y};
  if (w) in.push_back(steady(*w, on));
  return array::make_arrays({x.shape(), x.shape()}, {float32, float32},
                            std::make_shared<AddRmsNorm>(on, eps, w.has_value(), type), in);
}

array swiglu(const array& gate, const array& up, StreamOrDevice s) {
  return gated("swiglu", gate, up, Gate::silu, s);
}

array geglu(const array& gate, const array& up, StreamOrDevice s) {
  return gated("geglu", gate, up, Gate::gelu, s);
}

array swiglu_packed(const array& gu, StreamOrDevice s) {
  const char* name = "swiglu_packed";
  const Stream on = cpu_stream(name, s);
  check_rows(name, gu);
  check(gu.shape(-1) % 2 == 0, name, text(gu.shape()) + " has no two halves");
  Shape shape = gu.shape();
  shape.back() /= 2;
  return array(shape, float32, std::make_shared<Gated>(on, Gate::silu, true), {gu});
}

}  // namespace ingot::cpu
