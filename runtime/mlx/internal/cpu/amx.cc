#include "amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__clang__)
#pragma clang attribute push(                                                          \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,amx-tile,amx-bf16"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,amx-tile,amx-bf16")
// GCC's own header passes undefined vectors around on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define INGOT_ISA amx
#define INGOT_AVX512
#include "kern_amx.h"

namespace ingot::cpu {
namespace {

bool has_unit() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned bf16 = 1u << 22, tile = 1u << 24;
  if ((d & bf16) == 0 || (d & tile) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

const MatrixUnit* matrix_unit() {
  static const MatrixUnit unit = {amx::split_bytes, amx::split, amx::scratch_bytes,
                                  amx::unit_product};
  static const bool have = has_unit();
  return have ? &unit : nullptr;
}

}  // namespace ingot::cpu

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
namespace ingot::cpu {
const MatrixUnit* matrix_unit() { return nullptr; }
}  // namespace ingot::cpu
#endif
