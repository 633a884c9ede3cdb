#include "prim.h"

namespace ingot::cpu {

using mlx::core::Device;

void check(bool ok, const char* name, const std::string& what) {
  if (!ok) throw std::invalid_argument(std::string(name) + ": " + what);
}

std::string text(const Shape& s) {
  std::string t = "[";
  for (size_t i = 0; i < s.size(); i++) t += (i ? ", " : "") + std::to_string(s[i]);
  return t + "]";
}

Stream cpu_stream(const char* name, StreamOrDevice s) {
  Stream stream = mlx::core::to_stream(s, Device(Device::cpu));
  check(stream.device == Device::cpu, name, "the stream is not the CPU's");
  return stream;
}

array steady(const array& a, Stream s) {
  if (a.is_available() && a.flags().row_contiguous) return a;
  return mlx::core::contiguous(a, false, s);
}

Float float_of(const char* name, const char* what, const array& a) {
  if (a.dtype() == mlx::core::float32) return Float::f32;
  if (a.dtype() == mlx::core::float16) return Float::f16;
  check(a.dtype() == mlx::core::bfloat16, name, std::string(what) + " is not f32, f16 or bf16");
  return Float::bf16;
}

namespace {

// Calls f(offset) for each index of the leading axes, in row-major order.
template <class F>
void each_offset(const Shape& shape, const Strides& strides, size_t axes, F&& f) {
  size_t count = 1;
  for (size_t i = 0; i < axes; i++) count *= (size_t)shape[i];
  std::vector<int> at(axes, 0);
  int64_t offset = 0;
  for (size_t n = 0; n < count; n++) {
    f(offset);
    for (size_t i = axes; i-- > 0;) {
      offset += strides[i];
      if (++at[i] < shape[i]) break;
      offset -= strides[i] * shape[i];
      at[i] = 0;
    }
  }
}

}  // namespace

RowsOf::RowsOf(const View& v) {
  const size_t axes = v.shape.size();
  if (axes == 0) {
    rows_.push_back(v.p);
    return;
  }
  const int64_t width = v.shape[axes - 1], step = v.strides[axes - 1];
  if (step == 1 || width <= 1) {
    each_offset(v.shape, v.strides, axes - 1, [&](int64_t at) { rows_.push_back(v.p + at); });
    return;
  }
  each_offset(v.shape, v.strides, axes - 1, [&](int64_t at) {
    for (int64_t i = 0; i < width; i++) copy_.push_back(v.p[at + i * step]);
  });
  const size_t count = copy_.size() / (size_t)width;
  for (size_t i = 0; i < count; i++) rows_.push_back(copy_.data() + i * (size_t)width);
}

void Kernel::allocate_or_take(array& out, const array& in) {
  if (in.is_donatable() && in.flags().row_contiguous && in.nbytes() == out.nbytes() &&
      in.dtype() == out.dtype()) {
    out.copy_shared_buffer(in);
  } else {
    allocate(out);
  }
}

}  // namespace ingot::cpu
