#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "amx.h"
#include "kernels.h"

namespace ingot::cpu {

Kernels base_kernels();
#if defined(__x86_64__)
Kernels avx2_kernels();
Kernels avx512_kernels();

namespace {
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
}  // namespace
#endif

const Kernels* kernels_named(const char* name) {
#if defined(__x86_64__)
  if (strcmp(name, "amx") == 0 && has_avx512() && matrix_unit()) {
    static const Kernels k = [] {
      Kernels t = avx512_kernels();
      t.name = "amx";
      t.unit = matrix_unit();
      return t;
    }();
    return &k;
  }
  if (strcmp(name, "avx512") == 0 && has_avx512()) {
    static const Kernels k = avx512_kernels();
    return &k;
  }
  if (strcmp(name, "avx2") == 0 && has_avx2()) {
    static const Kernels k = avx2_kernels();
    return &k;
  }
#endif
  if (strcmp(name, "base") == 0) {
    static const Kernels k = base_kernels();
    return &k;
  }
  return nullptr;
}

const Kernels& kernels() {
  static const Kernels* best = [] {
    const Kernels* k = nullptr;
    if (const char* want = getenv("INGOT_CPU_ISA")) k = kernels_named(want);
    for (const char* name : {"amx", "avx512", "avx2", "base"}) {
      if (!k) k = kernels_named(name);
    }
    return k;
  }();
  return *best;
}

}  // namespace ingot::cpu
