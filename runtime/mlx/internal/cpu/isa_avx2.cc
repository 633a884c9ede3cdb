#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#define INGOT_ISA avx2
#define INGOT_AVX2
#include "kern_table.h"

namespace ingot::cpu {
Kernels avx2_kernels() { return avx2::table("avx2"); }
}  // namespace ingot::cpu

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
