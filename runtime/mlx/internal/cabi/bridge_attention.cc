// Rotary positions and attention, for one sequence and for many.
#include <limits>

#include "bridge_internal.h"
#include "cpu.h"

namespace mx = mlx::core;

namespace ingot {

namespace {

// ints from k: dims, traditional; numbers: base, scale; freqs or nothing.
cpu::RopeOptions rope_options(const Args& a, int k, std::optional<array> freqs) {
  cpu::RopeOptions o;
  o.dims = a.i(k);
  o.traditional = a.i(k + 1) != 0;
  o.base = a.f(0);
  o.scale = a.f(1);
  o.freqs = std::move(freqs);
  return o;
}

array mlx_rope(const array& x, const array& offset, const cpu::RopeOptions& o) {
  auto base = o.freqs ? std::nullopt : std::optional<float>(o.base);
  return mx::fast::rope(x, o.dims, o.traditional, base, o.scale, offset, o.freqs);
}

// Which of a cache's positions each new row sees, as MLX's boolean mask [R, length].
array window_mask(int rows, int length, int window) {
  array at = mx::expand_dims(mx::arange(length - rows, length, mx::int32), 1);
  array seen = mx::expand_dims(mx::arange(0, length, mx::int32), 0);
  return mx::logical_and(mx::less_equal(seen, at), mx::greater(seen, mx::subtract(at, array(window, mx::int32))));
}

// Softmax attention by hand, for what MLX's fused one does not do: q [1, H, R, D].
array softcapped(const array& q, const array& k, const array& v, const array& seen, const cpu::AttentionOptions& o) {
  int heads = q.shape(1), groups = heads / k.shape(1);
  array kk = groups == 1 ? k : mx::repeat(k, groups, 1), vv = groups == 1 ? v : mx::repeat(v, groups, 1);
  array score = mx::multiply(mx::matmul(q, mx::swapaxes(kk, 2, 3)), array(o.scale, q.dtype()));
  array cap = array(o.softcap, q.dtype());
  score = mx::multiply(cap, mx::tanh(mx::divide(score, cap)));
  score = mx::where(seen, score, array(-std::numeric_limits<float>::infinity(), q.dtype()));
  return mx::matmul(mx::softmax(score, -1, true), vv);
}

// One sequence by MLX's operations: q [1, H, R, D], k and v [1, KVH, cap, D].
array mlx_attention(const array& q, const array& k, const array& v, int length, const cpu::AttentionOptions& o) {
  auto upto = [length](const array& c) {
    Shape stop = c.shape();
    stop[2] = length;
    return mx::slice(c, Shape(c.ndim(), 0), stop);
  };
  int rows = q.shape(2);
  bool windowed = o.window > 0 && length > o.window;
  if (o.softcap > 0)
    return softcapped(q, upto(k), upto(v), window_mask(rows, length, o.window > 0 ? o.window : length), o);
  std::optional<array> mask;
  if (windowed) mask = window_mask(rows, length, o.window);
  std::string how = windowed ? "array" : rows > 1 ? "causal" : "";
  auto sinks = o.sinks ? std::optional<array>(mx::astype(*o.sinks, q.dtype())) : std::nullopt;
  return mx::fast::scaled_dot_product_attention(q, upto(k), upto(v), o.scale, how, mask, sinks);
}

}  // namespace

// x [B, H, T, D]; in: x, freqs or nothing; ints: dims, traditional, offset; numbers: base, scale.
array rope(const Args& a) {
  auto o = rope_options(a, 0, a.opt(1));
  if (kernels_serve(a[0])) return cpu::rope_bhtd(a[0], a.i(2), o);
  auto base = o.freqs ? std::nullopt : std::optional<float>(o.base);
  return mx::fast::rope(a[0], o.dims, o.traditional, base, o.scale, a.i(2), o.freqs);
}

// x [R, H, D] or [1, R, H, D]; ints: dims, traditional, then first position and count per run of rows.
array rope_rows(const Args& a) {
  auto o = rope_options(a, 0, a.opt(1));
  std::vector<int> at;
  for (int k = 2; k + 1 < a.ints(); k += 2)
    for (int j = 0; j < a.i(k + 1); j++) at.push_back(a.i(k) + j);
  if (kernels_serve(a[0])) return cpu::rope(a[0], at, o);
  const array& x = a[0];
  int rows = x.shape(-3), heads = x.shape(-2), width = x.shape(-1);
  if (int(at.size()) != rows) throw std::invalid_argument("rope_rows: positions and rows differ");
  array y = mlx_rope(mx::reshape(x, {rows, heads, 1, width}), array(at.data(), {rows}, mx::int32), o);
  return mx::reshape(y, x.shape());
}

// in: q [B, H, R, D], k, v [B, KVH, L, D], mask or nothing; ints: 0 no mask, 1 causal, 2 array; numbers: scale.
array sdpa(const Args& a) {
  const array& q = a[0];
  bool alone = q.ndim() == 4 && q.shape(0) == 1 && a.i(0) != 2;
  if (alone && kernels_serve(q) && kernels_serve(a[1]) && kernels_serve(a[2]) && a[1].ndim() == 4) {
    cpu::AttentionOptions o;
    o.scale = a.f(0);
    o.causal = a.i(0) == 1;
    return cpu::sdpa(q, a[1], a[2], a[1].shape(2), o);
  }
  std::string how = a.i(0) == 2 ? "array" : a.i(0) == 1 ? "causal" : "";
  return mx::fast::scaled_dot_product_attention(q, a[1], a[2], a.f(0), how, a.opt(3));
}

// Many sequences' rows at once: in: q [1, R, H, D], sinks or nothing, then k and v of each sequence;
// ints: window, then rows and length of each; numbers: scale, softcap. Returns [1, R, H, Dv].
array ragged_attention(const Args& a) {
  cpu::AttentionOptions o;
  o.scale = a.f(0);
  o.softcap = a.f(1);
  o.window = a.i(0);
  o.sinks = a.opt(1);
  int n = (a.inputs() - 2) / 2;
  std::vector<array> k, v;
  std::vector<int> rows, lengths;
  for (int s = 0; s < n; s++) {
    k.push_back(a[2 + 2 * s]);
    v.push_back(a[3 + 2 * s]);
    rows.push_back(a.i(1 + 2 * s));
    lengths.push_back(a.i(2 + 2 * s));
  }
  const array& q = a[0];
  bool own = kernels_serve(q);
  for (int s = 0; s < n && own; s++) own = kernels_serve(k[s]) && kernels_serve(v[s]);
  if (own) return cpu::ragged_attention(q, k, v, rows, lengths, o);
  std::vector<array> out;
  for (int s = 0, from = 0; s < n; from += rows[s++]) {
    array qs = mx::slice(q, {0, from, 0, 0}, {1, from + rows[s], q.shape(2), q.shape(3)});
    array y = mlx_attention(mx::swapaxes(qs, 1, 2), k[s], v[s], lengths[s], o);
    out.push_back(mx::swapaxes(y, 1, 2));
  }
  return out.size() == 1 ? out[0] : mx::concatenate(out, 1);
}

}  // namespace ingot
