// The table of the instruction set being compiled.
#pragma once

#include "kern_attn.h"
#include "kern_gemm.h"
#include "kern_qdot.h"
#include "kern_rows.h"

namespace ingot::cpu::INGOT_ISA {

inline Kernels table(const char* name) {
  Kernels k{};
  k.name = name;
  k.most_rows = kMostRows;
  k.prep_floats = prep_floats;
  k.prep = prep;
  k.dot = dot;
  k.dot_floats = dot_floats;
  k.panel = kPanel;
  k.dequant_panel = dequant_panel;
  k.product = product;
  k.dequant_row = dequant_row;
  k.decode = decode;
  k.join = join;
  k.prefill = prefill;
  k.prefill_floats = prefill_floats;
  k.rms = rms;
  k.add_rms = add_rms;
  k.swiglu = swiglu;
  k.geglu = geglu;
  k.rope = rope;
  return k;
}

}  // namespace ingot::cpu::INGOT_ISA
