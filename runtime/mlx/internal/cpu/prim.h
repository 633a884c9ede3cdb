// What the primitives share: argument checks, strided views, and the way a
// task is handed to MLX's stream thread.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cpu.h"
#include "drive.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"
#include "pool.h"

namespace ingot::cpu {

using mlx::core::Shape;
using mlx::core::Stream;
using mlx::core::Strides;

// Throws std::invalid_argument("name: what") unless ok.
void check(bool ok, const char* name, const std::string& what);
std::string text(const Shape& s);

// The CPU stream of s, the default one if it names none.
Stream cpu_stream(const char* name, StreamOrDevice s);

// a itself if its rows are known to lie one after another, else a node that
// sees to it (a no-op where they do).
array steady(const array& a, Stream s);

// f32, f16 or bf16, else an error that names `what`.
Float float_of(const char* name, const char* what, const array& a);

// MLX's flattened view of memory, without the array: what a task may hold.
struct View {
  const float* p = nullptr;
  Shape shape;
  Strides strides;
  explicit View(const array& a) : p(a.data<float>()), shape(a.shape()), strides(a.strides()) {}
};

// The rows along the last axis of a view, for the time of a task. Where the
// last axis has gaps the rows are copied first.
class RowsOf {
 public:
  explicit RowsOf(const View& v);
  const In& rows() const { return rows_; }

 private:
  std::vector<float> copy_;
  In rows_;
};

// A primitive with f32 outputs, run by the CPU alone.
class Kernel : public mlx::core::Primitive {
 public:
  explicit Kernel(Stream s) : Primitive(s) {}
  void eval_gpu(const std::vector<array>&, std::vector<array>&) override {
    throw std::runtime_error(std::string(name()) + ": this primitive runs on the CPU only");
  }

 protected:
  using Inputs = std::vector<array>;

  // Memory of its own for an output.
  static void allocate(array& out) { out.set_data(mlx::core::allocator::malloc(out.nbytes())); }

  // Memory of an input that nobody else needs, if it fits, else its own.
  static void allocate_or_take(array& out, const array& in);

  // Memory of out's size until the task has run.
  array temporary(const array& out) {
    array t(out.shape(), out.dtype(), nullptr, {});
    allocate(t);
    mlx::core::cpu::get_command_encoder(stream()).add_temporary(t);
    return t;
  }

  // Runs f on the stream's thread once the inputs are ready.
  template <class F>
  void start(const Inputs& in, Inputs& out, F f) {
    auto& encoder = mlx::core::cpu::get_command_encoder(stream());
    for (const auto& a : in) encoder.set_input_array(a);
    for (auto& a : out) encoder.set_output_array(a);
    encoder.dispatch(std::move(f));
  }
};

}  // namespace ingot::cpu
