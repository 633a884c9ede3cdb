// The table of operations: a name, and how it is made of its arguments. To add
// one, add its row here and its method beside its likes in runtime/mlx.
//   a[k]      the k-th input       a.opt(k)  the k-th input or nothing
//   a.i(k)    the k-th integer     a.f(k)    the k-th number
//   a.axes(k), a.shape(k)          the integers from the k-th on
#include "bridge_internal.h"

namespace mx = mlx::core;
using namespace ingot;

#define OP(name, ...) {name, [](const Args& a, Outs& o) { o.push(__VA_ARGS__); }}

namespace {

// ints: count of starts; starts, stops and, where given, steps, one each per axis.
array slice(const Args& a) {
  int n = a.i(0);
  if (a.ints() > 1 + 2 * n) return mx::slice(a[0], a.shape(1, n), a.shape(1 + n, n), a.shape(1 + 2 * n, n));
  return mx::slice(a[0], a.shape(1, n), a.shape(1 + n, n));
}

array slice_update(const Args& a) {
  int n = a.i(0);
  return mx::slice_update(a[0], a[1], a.shape(1, n), a.shape(1 + n, n));
}

// slice_update for a state that must stay its own first ancestor, for ig_recover:
// MLX answers an update of the whole with the update alone, so that one is written
// in two parts. Same arguments.
array state_update(const Args& a) {
  int n = a.i(0);
  Shape start = a.shape(1, n), stop = a.shape(1 + n, n);
  const array &state = a[0], &u = a[1];
  int cut = -1;
  for (int k = 0; k < n && k < int(state.ndim()); k++) {
    if (stop[k] - start[k] != state.shape(k)) return slice_update(a);
    if (state.shape(k) > 1 && cut < 0) cut = k;
  }
  if (cut < 0 || n != int(state.ndim())) throw std::invalid_argument("state_update: a state of one element");
  array whole = mx::broadcast_to(u, state.shape());
  Shape head = stop, tail = start;
  head[cut] = tail[cut] = 1;
  array first = mx::slice_update(state, mx::slice(whole, start, head), start, head);
  return mx::slice_update(first, mx::slice(whole, tail, stop), tail, stop);
}

// ints: axis, then low and high pads of that axis.
array pad(const Args& a) {
  return mx::pad(a[0], std::vector<int>{a.i(0)}, Shape{a.i(1)}, Shape{a.i(2)}, array(a.f(0), a[0].dtype()));
}

}  // namespace

extern const Op ingot_ops[] = {
    // element by element
    OP("negative", mx::negative(a[0])),
    OP("abs", mx::abs(a[0])),
    OP("exp", mx::exp(a[0])),
    OP("log", mx::log(a[0])),
    OP("log1p", mx::log1p(a[0])),
    OP("sqrt", mx::sqrt(a[0])),
    OP("rsqrt", mx::rsqrt(a[0])),
    OP("square", mx::square(a[0])),
    OP("tanh", mx::tanh(a[0])),
    OP("sigmoid", mx::sigmoid(a[0])),
    OP("erf", mx::erf(a[0])),
    OP("sin", mx::sin(a[0])),
    OP("cos", mx::cos(a[0])),
    OP("floor", mx::floor(a[0])),
    OP("reciprocal", mx::reciprocal(a[0])),
    OP("logical_not", mx::logical_not(a[0])),
    OP("silu", silu(a[0])),
    OP("gelu", gelu(a[0])),
    OP("gelu_tanh", gelu_tanh(a[0])),
    OP("softplus", softplus(a[0])),
    OP("add", mx::add(a[0], a[1])),
    OP("subtract", mx::subtract(a[0], a[1])),
    OP("multiply", mx::multiply(a[0], a[1])),
    OP("divide", mx::divide(a[0], a[1])),
    OP("floor_divide", mx::floor_divide(a[0], a[1])),
    OP("remainder", mx::remainder(a[0], a[1])),
    OP("power", mx::power(a[0], a[1])),
    OP("maximum", mx::maximum(a[0], a[1])),
    OP("minimum", mx::minimum(a[0], a[1])),
    OP("less", mx::less(a[0], a[1])),
    OP("less_equal", mx::less_equal(a[0], a[1])),
    OP("greater", mx::greater(a[0], a[1])),
    OP("greater_equal", mx::greater_equal(a[0], a[1])),
    OP("equal", mx::equal(a[0], a[1])),
    OP("not_equal", mx::not_equal(a[0], a[1])),
    OP("logical_and", mx::logical_and(a[0], a[1])),
    OP("logical_or", mx::logical_or(a[0], a[1])),
    OP("where", mx::where(a[0], a[1], a[2])),
    OP("swiglu", swiglu(a[0], a[1])),
    OP("geglu", geglu(a[0], a[1])),

    // making
    OP("scalar", array(a.f(0), dtype(a.i(0)))),
    OP("zeros", mx::zeros(a.shape(1), dtype(a.i(0)))),
    OP("full", mx::full(a.shape(1), array(a.f(0), dtype(a.i(0))))),
    OP("arange", mx::arange(double(a.i(1)), double(a.i(2)), double(a.i(3)), dtype(a.i(0)))),
    OP("tri", mx::tri(a.i(1), a.i(2), a.i(3), dtype(a.i(0)))),
    OP("tril", mx::tril(a[0], a.i(0))),
    OP("triu", mx::triu(a[0], a.i(0))),
    OP("astype", mx::astype(a[0], dtype(a.i(0)))),
    OP("view", mx::view(a[0], dtype(a.i(0)))),

    // shape and place
    OP("reshape", mx::reshape(a[0], a.shape(0))),
    OP("transpose", mx::transpose(a[0], a.axes(0))),
    OP("swapaxes", mx::swapaxes(a[0], a.i(0), a.i(1))),
    OP("expand_dims", mx::expand_dims(a[0], a.axes(0))),
    OP("squeeze", mx::squeeze(a[0], a.axes(0))),
    OP("broadcast_to", mx::broadcast_to(a[0], a.shape(0))),
    OP("contiguous", mx::contiguous(a[0])),
    OP("copy", mx::copy(a[0])),
    OP("slice", slice(a)),
    OP("slice_update", slice_update(a)),
    OP("state_update", state_update(a)),
    OP("concatenate", mx::concatenate(a.all(), a.i(0))),
    OP("stack", mx::stack(a.all(), a.i(0))),
    OP("split", mx::split(a[0], a.shape(1), a.i(0))),
    OP("repeat", mx::repeat(a[0], a.i(0), a.i(1))),
    OP("tile", mx::tile(a[0], a.axes(0))),
    OP("pad", pad(a)),
    OP("roll", mx::roll(a[0], a.i(0), a.i(1))),
    OP("take", mx::take(a[0], a[1], a.i(0))),
    OP("take_along_axis", mx::take_along_axis(a[0], a[1], a.i(0))),
    OP("put_along_axis", mx::put_along_axis(a[0], a[1], a[2], a.i(0))),
    OP("scatter_add_axis", mx::scatter_add_axis(a[0], a[1], a[2], a.i(0))),

    // over an axis; ints: axis, whether it stays with length one
    OP("sum", mx::sum(a[0], a.i(0), a.i(1) != 0)),
    OP("mean", mx::mean(a[0], a.i(0), a.i(1) != 0)),
    OP("max", mx::max(a[0], a.i(0), a.i(1) != 0)),
    OP("min", mx::min(a[0], a.i(0), a.i(1) != 0)),
    OP("any", mx::any(a[0], a.i(0), a.i(1) != 0)),
    OP("all", mx::all(a[0], a.i(0), a.i(1) != 0)),
    OP("logsumexp", mx::logsumexp(a[0], a.i(0), a.i(1) != 0)),
    OP("argmax", mx::argmax(a[0], a.i(0), false)),
    OP("argmin", mx::argmin(a[0], a.i(0), false)),
    OP("sort", mx::sort(a[0], a.i(0))),
    OP("argsort", mx::argsort(a[0], a.i(0))),
    OP("argpartition", mx::argpartition(a[0], a.i(0), a.i(1))),
    OP("cumsum", mx::cumsum(a[0], a.i(0), a.i(1) != 0, a.i(2) != 0)),
    OP("cumprod", mx::cumprod(a[0], a.i(0), a.i(1) != 0, a.i(2) != 0)),
    OP("softmax", mx::softmax(a[0], a.i(0), a.i(1) != 0)),

    // products
    OP("matmul", mx::matmul(a[0], a[1])),
    OP("addmm", mx::addmm(a[0], a[1], a[2])),
    OP("gather_mm", mx::gather_mm(a[0], a[1], a.opt(2), a.opt(3), a.i(0) != 0)),
    OP("conv1d", mx::conv1d(a[0], a[1], a.i(0), a.i(1), a.i(2), a.i(3))),
    OP("quantized_matmul", quantized_matmul(a)),
    OP("gather_qmm", mx::gather_qmm(a[0], a[1], a[2], a.opt(3), a.opt(4), a.opt(5), true, a.i(0), a.i(1), mode(a.i(2)),
                                    std::nullopt, a.i(3) != 0)),
    OP("experts_qmm", experts_qmm(a)),
    OP("quantized_embedding", quantized_embedding(a)),
    OP("dequantize", mx::dequantize(a[0], a[1], a.opt(2), a.i(0), a.i(1), mode(a.i(2)), std::nullopt, dtype(a.i(3)))),
    OP("quantize", mx::quantize(a[0], a.i(0), a.i(1), mode(a.i(2)))),

    // whole blocks
    OP("rms_norm", rms_norm(a[0], a.opt(1), a.f(0))),
    OP("add_rms_norm", add_rms_norm(a[0], a[1], a.opt(2), a.f(0))),
    OP("layer_norm", mx::fast::layer_norm(a[0], a.opt(1), a.opt(2), a.f(0))),
    OP("gated_delta", mx::fast::gated_delta_update(a[0], a[1], a[2], a[3], a[4], a.opt(5))),
    OP("rope", rope(a)),
    OP("rope_rows", rope_rows(a)),
    OP("sdpa", sdpa(a)),
    OP("ragged_attention", ragged_attention(a)),
};

extern const int ingot_ops_count = int(std::size(ingot_ops));
