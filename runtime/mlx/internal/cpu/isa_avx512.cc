#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")
#endif
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header passes undefined vectors around on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define INGOT_ISA avx512
#define INGOT_AVX512
#include "kern_table.h"

namespace ingot::cpu {
Kernels avx512_kernels() { return avx512::table("avx512"); }
}  // namespace ingot::cpu

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
