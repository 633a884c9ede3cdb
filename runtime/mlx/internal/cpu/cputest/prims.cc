#include <exception>
#include <functional>
#include <string>

#include "cpu.h"
#include "cputest.h"
#include "mlx/mlx.h"

namespace mx = mlx::core;
using mx::array;

namespace {

std::string error;

const array& at(ct_array a) { return *static_cast<array*>(a); }

ct_array make(const std::function<array()>& f) {
  try {
    return new array(f());
  } catch (const std::exception& e) {
    error = e.what();
    return nullptr;
  }
}

int attempt(const std::function<void()>& f) {
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    error = e.what();
    return 1;
  }
}

ingot::cpu::AttentionOptions options(ct_heads a, ct_array sinks) {
  ingot::cpu::AttentionOptions o;
  o.scale = a.scale;
  o.causal = a.causal != 0;
  o.window = a.window;
  o.softcap = a.softcap;
  if (sinks) o.sinks = at(sinks);
  return o;
}

// MLX's gathered product wants [T, k, 1, K] and has a row of its own for each expert.
array mlx_gather(const array& x, const array& w, const array& s, const array& b, const array& idx,
                 int group, int bits) {
  array rows = x.ndim() == 2 ? mx::expand_dims(x, {1, 2}) : mx::expand_dims(x, 2);
  array y = mx::gather_qmm(rows, w, s, b, std::nullopt, idx, true, group, bits);
  return mx::squeeze(y, 2);
}

}  // namespace

extern "C" {

const char* ct_error(void) { return error.c_str(); }
void ct_free(ct_array a) { delete static_cast<array*>(a); }

ct_array ct_from(const void* data, int dtype, const int* shape, int n) {
  const mx::Shape s(shape, shape + n);
  return make([&] {
    const float* f = static_cast<const float*>(data);
    switch (dtype) {
      case 0: return array(f, s, mx::float32);
      case 1: return mx::astype(array(f, s, mx::float32), mx::float16);
      case 2: return mx::astype(array(f, s, mx::float32), mx::bfloat16);
      case 3: return array(static_cast<const uint32_t*>(data), s, mx::uint32);
      default: return array(static_cast<const int32_t*>(data), s, mx::int32);
    }
  });
}

ct_array ct_transpose(ct_array a, const int* axes, int n) {
  return make([&] { return mx::transpose(at(a), std::vector<int>(axes, axes + n)); });
}

ct_array ct_slice(ct_array a, const int* start, const int* stop, const int* step, int n) {
  return make([&] {
    return mx::slice(at(a), mx::Shape(start, start + n), mx::Shape(stop, stop + n),
                     mx::Shape(step, step + n));
  });
}

int ct_eval(ct_array a) {
  return attempt([&] { mx::eval(std::vector<array>{at(a)}); });
}

int ct_read(ct_array a, float* out, size_t count) {
  return attempt([&] {
    array c = mx::contiguous(mx::astype(at(a), mx::float32));
    mx::eval(std::vector<array>{c});
    if (c.size() != count) throw std::invalid_argument("read: " + std::to_string(c.size()));
    std::copy(c.data<float>(), c.data<float>() + count, out);
  });
}

int ct_dims(ct_array a, int* shape) {
  for (size_t i = 0; i < at(a).ndim(); i++) shape[i] = at(a).shape((int)i);
  return (int)at(a).ndim();
}

size_t ct_active(void) {
  mx::synchronize();
  return mx::get_active_memory();
}

ct_array ct_qmm(int ours, ct_array x, ct_array w, ct_array s, ct_array b, int group, int bits) {
  return make([&] {
    if (ours) return ingot::cpu::qmm(at(x), at(w), at(s), at(b), group, bits);
    return mx::quantized_matmul(at(x), at(w), at(s), at(b), true, group, bits);
  });
}

int ct_qmm_many(ct_array x, const ct_array* w, const ct_array* s, const ct_array* b, int count,
                int group, int bits, ct_array* out) {
  return attempt([&] {
    std::vector<ingot::cpu::Quantized> q;
    for (int i = 0; i < count; i++) q.push_back({at(w[i]), at(s[i]), at(b[i]), group, bits});
    auto y = ingot::cpu::qmm_many(at(x), q);
    for (int i = 0; i < count; i++) out[i] = new array(y[(size_t)i]);
  });
}

ct_array ct_qmm_swiglu(ct_array x, const ct_array* w, const ct_array* s, const ct_array* b,
                       int group, int bits) {
  return make([&] {
    return ingot::cpu::qmm_swiglu(at(x), {at(w[0]), at(s[0]), at(b[0]), group, bits},
                                  {at(w[1]), at(s[1]), at(b[1]), group, bits});
  });
}

ct_array ct_gather_qmm(int ours, ct_array x, ct_array w, ct_array s, ct_array b, ct_array idx,
                       int group, int bits) {
  return make([&] {
    if (ours) return ingot::cpu::gather_qmm(at(x), at(w), at(s), at(b), at(idx), group, bits);
    return mlx_gather(at(x), at(w), at(s), at(b), at(idx), group, bits);
  });
}

ct_array ct_qembed(int ours, ct_array ids, ct_array w, ct_array s, ct_array b, int group, int bits) {
  return make([&] {
    if (ours) return ingot::cpu::qembed(at(ids), at(w), at(s), at(b), group, bits);
    auto take = [&](ct_array a) { return mx::take(at(a), at(ids), 0); };
    return mx::dequantize(take(w), take(s), take(b), group, bits);
  });
}

ct_array ct_sdpa(int ours, ct_array q, ct_array k, ct_array v, int length, ct_heads a,
                 ct_array sinks) {
  return make([&] {
    if (ours) return ingot::cpu::sdpa(at(q), at(k), at(v), length, options(a, sinks));
    auto part = [&](ct_array c) {
      mx::Shape stop = at(c).shape();
      stop[2] = length;
      return mx::slice(at(c), mx::Shape{0, 0, 0, 0}, stop);
    };
    return mx::fast::scaled_dot_product_attention(at(q), part(k), part(v), a.scale,
                                                  a.causal ? "causal" : "");
  });
}

ct_array ct_ragged(ct_array q, const ct_array* k, const ct_array* v, const int* rows,
                   const int* lengths, int count, ct_heads a) {
  return make([&] {
    std::vector<array> ks, vs;
    for (int i = 0; i < count; i++) {
      ks.push_back(at(k[i]));
      vs.push_back(at(v[i]));
    }
    return ingot::cpu::ragged_attention(at(q), ks, vs, std::vector<int>(rows, rows + count),
                                        std::vector<int>(lengths, lengths + count),
                                        options(a, nullptr));
  });
}

ct_array ct_rms(int ours, ct_array x, ct_array w, float eps) {
  return make([&] {
    std::optional<array> weight;
    if (w) weight = at(w);
    if (ours) return ingot::cpu::rms_norm(at(x), weight, eps);
    return mx::fast::rms_norm(at(x), weight, eps);
  });
}

int ct_add_rms(ct_array x, ct_array y, ct_array w, float eps, ct_array* out) {
  return attempt([&] {
    auto both = ingot::cpu::add_rms_norm(at(x), at(y), at(w), eps);
    out[0] = new array(both[0]);
    out[1] = new array(both[1]);
  });
}

ct_array ct_swiglu(int ours, ct_array g, ct_array u) {
  return make([&] {
    if (ours) return ingot::cpu::swiglu(at(g), at(u));
    return mx::multiply(mx::multiply(at(g), mx::sigmoid(at(g))), at(u));
  });
}
ct_array ct_swiglu_packed(ct_array gu) {
  return make([&] { return ingot::cpu::swiglu_packed(at(gu)); });
}
ct_array ct_geglu(ct_array g, ct_array u) {
  return make([&] { return ingot::cpu::geglu(at(g), at(u)); });
}

ct_array ct_rope(int ours, ct_array x, int dims, int traditional, float base, float scale,
                 int offset, ct_array freqs) {
  return make([&] {
    std::optional<array> f;
    if (freqs) f = at(freqs);
    if (ours) {
      ingot::cpu::RopeOptions o{dims, traditional != 0, base, scale, f};
      return ingot::cpu::rope_bhtd(at(x), offset, o);
    }
    std::optional<float> b;
    if (!freqs) b = base;
    return mx::fast::rope(at(x), dims, traditional != 0, b, scale, offset, f);
  });
}

ct_array ct_rope_rows(ct_array x, const int* positions, int count, int dims, int traditional,
                      float base, float scale) {
  return make([&] {
    ingot::cpu::RopeOptions o{dims, traditional != 0, base, scale, std::nullopt};
    return ingot::cpu::rope(at(x), std::vector<int>(positions, positions + count), o);
  });
}

}  // extern "C"
