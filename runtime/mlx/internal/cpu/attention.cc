// Attention over caches, read in place.
#include "prim.h"

namespace ingot::cpu {
namespace {

using mlx::core::float32;

struct Lengths {
  std::vector<int> rows, lengths;
};

// Inputs: q [R, H, D], then k and v of each sequence, then sinks if any.
class Attention : public Kernel {
 public:
  Attention(Stream s, AttnParams p, Lengths n, bool sinks)
      : Kernel(s), p_(p), n_(std::move(n)), sinks_(sinks) {}
  const char* name() const override { return "IngotAttention"; }

  void eval_cpu(const Inputs& in, Inputs& out) override {
    allocate(out[0]);
    if (out[0].size() == 0) return;
    AttnParams p = p_;
    p.sinks = sinks_ ? in.back().data<float>() : nullptr;
    std::vector<Segment> segments;
    int first = 0;
    for (size_t i = 0; i < n_.rows.size(); i++) {
      segments.push_back({cache_of(in[1 + 2 * i], in[2 + 2 * i], n_.lengths[i]), first, n_.rows[i]});
      first += n_.rows[i];
    }
    start(in, out, [q = View(in[0]), p, segments = std::move(segments), o = out[0].data<float>()] {
      const Heads to{(int64_t)p.H * p.Dv, p.Dv};
      if (p.D <= 1 || q.strides[2] == 1) {
        run_attention(kernels(), p, segments, q.p, {q.strides[0], q.strides[1]}, o, to);
        return;
      }
      const RowsOf packed(q);  // rows one after another
      run_attention(kernels(), p, segments, packed.rows()[0], {(int64_t)p.H * p.D, p.D}, o, to);
    });
  }

 private:
  static CacheView cache_of(const array& k, const array& v, int length) {
    if ((k.shape(3) > 1 && k.strides()[3] != 1) || (v.shape(3) > 1 && v.strides()[3] != 1)) {
      throw std::invalid_argument("attention: the cache's last axis has gaps");
    }
    return {k.data<float>(), v.data<float>(), k.strides()[1], k.strides()[2],
            v.strides()[1],  v.strides()[2],  length};
  }

  AttnParams p_;
  Lengths n_;
  bool sinks_;
};

void check_cache(const char* name, const AttnParams& p, const array& k, const array& v, int rows,
                 int length) {
  check(k.dtype() == float32 && v.dtype() == float32, name, "the cache is not f32");
  check(k.ndim() == 4 && v.ndim() == 4 && k.shape(0) == 1 && v.shape(0) == 1, name,
        "k " + text(k.shape()) + " or v " + text(v.shape()) + " is not [1, KVH, positions, D]");
  check(k.shape(1) == p.KVH && v.shape(1) == p.KVH && k.shape(3) == p.D && v.shape(3) == p.Dv, name,
        "k " + text(k.shape()) + " and v " + text(v.shape()) + " do not fit q's heads");
  check(rows >= 0 && rows <= length && length <= k.shape(2) && length <= v.shape(2), name,
        std::to_string(rows) + " rows at length " + std::to_string(length) + " of a cache of " +
            std::to_string(k.shape(2)));
}

AttnParams params_of(const char* name, const array& q, const array& k, const array& v,
                     const AttentionOptions& o) {
  check(q.dtype() == float32 && q.ndim() == 3, name, "q " + text(q.shape()) + " is not f32 [R, H, D]");
  check(k.ndim() == 4 && v.ndim() == 4, name, "k " + text(k.shape()) + " is not [1, KVH, positions, D]");
  AttnParams p{};
  p.H = q.shape(1);
  p.KVH = k.shape(1);
  p.D = q.shape(2);
  p.Dv = v.shape(3);
  p.scale = o.scale;
  p.softcap = o.softcap;
  p.window = o.window;
  p.causal = o.causal;
  check(p.KVH > 0 && p.H % p.KVH == 0, name,
        std::to_string(p.H) + " heads over " + std::to_string(p.KVH) + " of the cache");
  check(p.D > 0 && p.Dv > 0, name, "an empty head");
  check(o.window >= 0, name, "window " + std::to_string(o.window) + " is negative");
  if (o.sinks) {
    check(o.sinks->dtype() == float32 && o.sinks->ndim() == 1 && o.sinks->shape(0) == p.H, name,
          "sinks " + text(o.sinks->shape()) + " is not f32, one a head");
  }
  return p;
}

array build(const char* name, const array& q, const std::vector<array>& k,
            const std::vector<array>& v, const std::vector<int>& rows,
            const std::vector<int>& lengths, const AttentionOptions& o, Stream on) {
  check(!k.empty() && k.size() == v.size() && k.size() == rows.size() &&
            k.size() == lengths.size(),
        name, "unequal counts of caches, rows and lengths");
  const AttnParams p = params_of(name, q, k[0], v[0], o);
  std::vector<array> in{q};
  int total = 0;
  for (size_t i = 0; i < k.size(); i++) {
    check_cache(name, p, k[i], v[i], rows[i], lengths[i]);
    in.push_back(k[i]);
    in.push_back(v[i]);
    total += rows[i];
  }
  check(total == q.shape(0), name,
        std::to_string(total) + " rows in all, q has " + std::to_string(q.shape(0)));
  if (o.sinks) in.push_back(steady(*o.sinks, on));
  return array(Shape{q.shape(0), p.H, p.Dv}, float32,
               std::make_shared<Attention>(on, p, Lengths{rows, lengths}, o.sinks.has_value()),
               std::move(in));
}

}  // namespace

array ragged_attention(const array& q, const std::vector<array>& k, const std::vector<array>& v,
                       const std::vector<int>& rows, const std::vector<int>& lengths,
                       const AttentionOptions& o, StreamOrDevice s) {
  const char* name = "attention";
  const Stream on = cpu_stream(name, s);
  if (q.ndim() != 4) return build(name, q, k, v, rows, lengths, o, on);
  check(q.shape(0) == 1, name, "q " + text(q.shape()) + " is not [1, R, H, D]");
  array y = build(name, mlx::core::squeeze(q, 0, on), k, v, rows, lengths, o, on);
  return mlx::core::expand_dims(y, 0, on);
}

array attention(const array& q, const array& k, const array& v, int length,
                const AttentionOptions& o, StreamOrDevice s) {
  check(q.ndim() == 3 || q.ndim() == 4, "attention", "q " + text(q.shape()) + " is not [R, H, D]");
  return ragged_attention(q, {k}, {v}, {q.shape(-3)}, {length}, o, s);
}

array sdpa(const array& q, const array& k, const array& v, int length, const AttentionOptions& o,
           StreamOrDevice s) {
  check(q.ndim() == 4, "sdpa", "q " + text(q.shape()) + " is not [1, H, R, D]");
  const Stream on = cpu_stream("sdpa", s);
  array y = attention(mlx::core::swapaxes(q, 1, 2, on), k, v, length, o, on);
  return mlx::core::swapaxes(y, 1, 2, on);
}

}  // namespace ingot::cpu
