// Products by the matrix unit of newer Xeons (AMX, bf16), exact enough to stand
// for f32.
//
// A packed value less half its range is a whole number of at most 8 bits, which
// bf16 holds exactly; an f32 is exactly the sum of three bf16 numbers. So the
// unit multiplies without rounding and adds in f32; scales and biases are
// applied group by group, in f32:
//
//   y = sum over groups of scale * sum(x * (q - c)) + (bias + c * scale) * sum(x)
//
// Each element is one chain in the order of the groups, whatever the rows and
// columns beside it.
#pragma once

#include "kernels.h"

namespace ingot::cpu {

struct MatrixUnit {
  static constexpr int kRows = 32;     // rows of one split block
  static constexpr int kColumns = 32;  // columns of one block of weights

  // Bytes of a split block of rows.
  size_t (*split_bytes)(int K, int group);
  // Splits up to kRows rows; missing ones are zero. out is 64-byte aligned.
  void (*split)(const float* const* x, int rows, int K, int group, void* out);

  // Bytes of scratch for columns [n0, n1) of a product.
  size_t (*scratch_bytes)(int K, int group, int columns);
  // y[m][n] for n in [n0, n1) and M rows, which lie in consecutive split blocks.
  void (*product)(const QWeight& q, const void* split, int M, float* const* y, int n0, int n1,
                  void* scratch);
};

// The unit, or null where there is none or the system keeps it. Asks the
// system once for the process.
const MatrixUnit* matrix_unit();

}  // namespace ingot::cpu
