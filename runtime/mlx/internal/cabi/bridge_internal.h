// What the bridge's own files share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bridge.h"
#include "mlx/mlx.h"

namespace ingot {

using mlx::core::array;
using mlx::core::Shape;

bool on_device_thread();
// The default device is the CPU backend: Ingot's own kernels serve there.
bool on_cpu();

// Whether Ingot's own kernels take x: they compute in f32 on the CPU backend.
inline bool kernels_serve(const array& x) { return on_cpu() && x.dtype() == mlx::core::float32; }

// What an exception means to the caller. MLX carries some of them across
// threads as text only, so the text decides. Where: an error of unknown kind is
// the caller's while a graph is built, and the device's once it runs.
enum class Phase { build, run };
int classify(const char* what, Phase phase);
void copy_text(char* text, const char* what);

// The one place where exceptions end.
template <class F>
int guard(char* text, Phase phase, F&& f) {
  if (!on_device_thread()) {
    copy_text(text, "called off the device thread");
    return IG_THREAD;
  }
  try {
    f();
    return IG_OK;
  } catch (const std::bad_alloc&) {
    copy_text(text, "out of memory");
    return IG_MEMORY;
  } catch (const std::invalid_argument& e) {
    copy_text(text, e.what());
    return IG_INVALID;
  } catch (const std::exception& e) {
    copy_text(text, e.what());
    return classify(e.what(), phase);
  } catch (...) {
    copy_text(text, "an exception of unknown type");
    return IG_DEVICE;
  }
}

array& ref(ig_array h);
ig_array give(array a);
mlx::core::Dtype dtype(int code);
int code(mlx::core::Dtype d);
const std::string& mode(int code);

// An operation's arguments, checked as they are taken.
class Args {
 public:
  explicit Args(const ig_call& c) : c_(c) {}
  int inputs() const { return c_.nin; }
  int ints() const { return c_.nints; }
  bool has(int k) const { return k < c_.nin && c_.in[k] != 0; }
  const array& operator[](int k) const;
  std::optional<array> opt(int k) const;
  int i(int k) const;
  float f(int k) const;
  Shape shape(int from, int count) const;
  Shape shape(int from) const { return shape(from, c_.nints - from); }
  std::vector<int> axes(int from) const;
  std::vector<int> list(int from, int count) const;
  std::vector<array> all(int from = 0) const;

 private:
  const ig_call& c_;
};

// An operation's results, written into the call.
class Outs {
 public:
  explicit Outs(ig_call& c) : c_(c) { c_.nout = 0; }
  void push(array a);
  void push(std::vector<array> as);

 private:
  ig_call& c_;
};

struct Op {
  const char* name;
  void (*run)(const Args& a, Outs& o);
};

void install_ledger();
// Whether MLX's allocations really pass through the ledger; allocates a little.
void probe_ledger();

// Operations longer than a line; bridge_ops.cc names them.
array gelu(const array& x);
array gelu_tanh(const array& x);
array silu(const array& x);
array softplus(const array& x);
array swiglu(const array& gate, const array& up);
array geglu(const array& gate, const array& up);
array rms_norm(const array& x, const std::optional<array>& w, float eps);
std::vector<array> add_rms_norm(const array& x, const array& y, const std::optional<array>& w, float eps);
array quantized_matmul(const Args& a);
array experts_qmm(const Args& a);
array quantized_embedding(const Args& a);
array rope(const Args& a);
array rope_rows(const Args& a);
array sdpa(const Args& a);
array ragged_attention(const Args& a);

}  // namespace ingot
