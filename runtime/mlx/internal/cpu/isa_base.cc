#define INGOT_ISA base
#include "kern_table.h"

namespace ingot::cpu {
Kernels base_kernels() { return base::table("base"); }
}  // namespace ingot::cpu
