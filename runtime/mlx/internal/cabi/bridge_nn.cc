// Blocks of more than one operation. On the CPU backend, in f32, Ingot's own
// kernels serve (internal/cpu); everywhere else MLX's.
#include <cmath>

#include "bridge_internal.h"
#include "cpu.h"

namespace mx = mlx::core;

namespace ingot {

namespace {

array constant(double v, const array& like) { return array(v, like.dtype()); }

bool group_fits(int g) { return g == 32 || g == 64 || g == 128; }

// Whether internal/cpu reads these packed weights.
bool packed_fits(const Args& a, int scales, int first, size_t ndim) {
  return a.i(first + 2) == 0 && a.has(scales + 1) && group_fits(a.i(first)) && a[scales - 1].ndim() == ndim;
}

}  // namespace

array silu(const array& x) { return mx::multiply(x, mx::sigmoid(x)); }

array gelu(const array& x) {
  array half = mx::multiply(x, constant(0.5, x));
  return mx::multiply(half, mx::add(constant(1.0, x), mx::erf(mx::multiply(x, constant(M_SQRT1_2, x)))));
}

array gelu_tanh(const array& x) {
  array cubic = mx::multiply(constant(0.044715, x), mx::multiply(x, mx::square(x)));
  array inner = mx::multiply(constant(std::sqrt(2 / M_PI), x), mx::add(x, cubic));
  return mx::multiply(mx::multiply(constant(0.5, x), x), mx::add(constant(1.0, x), mx::tanh(inner)));
}

array softplus(const array& x) { return mx::logaddexp(x, constant(0.0, x)); }

array swiglu(const array& gate, const array& up) {
  if (kernels_serve(gate) && kernels_serve(up) && gate.shape() == up.shape()) return cpu::swiglu(gate, up);
  return mx::multiply(silu(gate), up);
}

array geglu(const array& gate, const array& up) {
  if (kernels_serve(gate) && kernels_serve(up) && gate.shape() == up.shape()) return cpu::geglu(gate, up);
  return mx::multiply(gelu_tanh(gate), up);
}

array rms_norm(const array& x, const std::optional<array>& w, float eps) {
  if (kernels_serve(x)) return cpu::rms_norm(x, w, eps);
  return mx::fast::rms_norm(x, w, eps);
}

std::vector<array> add_rms_norm(const array& x, const array& y, const std::optional<array>& w, float eps) {
  if (kernels_serve(x) && kernels_serve(y) && x.shape() == y.shape()) return cpu::add_rms_norm(x, y, w, eps);
  array sum = mx::add(x, y);
  return {sum, rms_norm(sum, w, eps)};
}

// in: x, w, scales, biases; ints: group, bits, mode.
array quantized_matmul(const Args& a) {
  if (kernels_serve(a[0]) && packed_fits(a, 2, 0, 2)) return cpu::qmm(a[0], a[1], a[2], a[3], a.i(0), a.i(1));
  return mx::quantized_matmul(a[0], a[1], a[2], a.opt(3), true, a.i(0), a.i(1), mode(a.i(2)));
}

// Rows of experts. in: x [T, 1 or k, K], w [E, N, ...], scales, biases, idx [T, k]; ints: group, bits, mode, sorted.
// Returns [T, k, N].
array experts_qmm(const Args& a) {
  const array &x = a[0], &idx = a[4];
  if (kernels_serve(x) && packed_fits(a, 2, 0, 3))
    return cpu::gather_qmm(x, a[1], a[2], a[3], idx, a.i(0), a.i(1));
  array rows = mx::expand_dims(x, -2);  // [T, 1 or k, 1, K]
  array y = mx::gather_qmm(rows, a[1], a[2], a.opt(3), std::nullopt, idx, true, a.i(0), a.i(1), mode(a.i(2)),
                           std::nullopt, a.i(3) != 0);
  return mx::squeeze(y, -2);
}

// in: ids, w, scales, biases; ints: group, bits, mode, dtype.
array quantized_embedding(const Args& a) {
  auto to = dtype(a.i(3));
  if (on_cpu() && to == mx::float32 && packed_fits(a, 2, 0, 2))
    return cpu::qembed(a[0], a[1], a[2], a[3], a.i(0), a.i(1));
  std::optional<array> biases;
  if (a.has(3)) biases = mx::take(a[3], a[0], 0);
  return mx::dequantize(mx::take(a[1], a[0], 0), mx::take(a[2], a[0], 0), biases, a.i(0), a.i(1), mode(a.i(2)),
                        std::nullopt, to);
}

}  // namespace ingot
