// The vectors of the instruction set being compiled, and what is the same for
// all of them. Included by the kern_*.h of one isa_*.cc, which names INGOT_ISA;
// such a file includes no library templates, whose code the linker would share
// with files compiled for lesser machines.
#pragma once

#include "kernels.h"

#if defined(INGOT_AVX512)
#include "simd_avx512.h"
#elif defined(INGOT_AVX2)
#include "simd_avx2.h"
#else
#include "simd_128.h"
#endif

namespace ingot::cpu::INGOT_ISA {

template <int I>
struct At {
  constexpr operator int() const { return I; }
};

// f(At<0>), f(At<1>) ... f(At<N-1>): unrolled by construction. Write f with
// INGOT_EACH: only inlined whole do arrays of vectors stay in registers.
#define INGOT_EACH(i) [&](auto i) __attribute__((always_inline))
template <int N, int I = 0, class F>
INGOT_INLINE void each(F&& f) {
  if constexpr (I < N) {
    f(At<I>{});
    each<N, I + 1>(f);
  }
}

// e^a to about 1.5 units in the last place; below -87.3 zero.
INGOT_INLINE V exp(V a) {
  const V low = set1(-87.3f);
  V x = min(max(a, low), set1(88.3f));
  V n = round(mul(x, set1(1.44269504088896341f)));
  V r = fnma(n, set1(0.693359375f), x);
  r = fnma(n, set1(-2.12194440e-4f), r);
  V p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = add(fma(mul(r, r), p, r), set1(1.0f));
  return keep_above(ldexp(p, n), a, low);
}

}  // namespace ingot::cpu::INGOT_ISA
