// The vectors of newer x86-64 processors: their intrinsics, how functions are marked that use those of 64 bytes, and
// who has them. Elsewhere TOKSEAM_AVX512 is not defined, and such functions are not there.
#pragma once

#if defined(__x86_64__)

// GCC 12 warns of what its own header leaves undefined on purpose: a vector of which no lane is taken.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

// A function that is called from code for any processor, and one that such functions are made of. PERF: the latter is
// always inline, for it takes and gives vectors.
#define TOKSEAM_AVX512_ENTRY \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt")))
#define TOKSEAM_AVX512 TOKSEAM_AVX512_ENTRY __attribute__((always_inline)) inline

namespace tokseam {

inline bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                          __builtin_cpu_supports("lzcnt");
  return has;
}

// 32 bits from base + scale * at of each of sixteen lanes that is asked for, and zeros for the others.
// PERF: what a gather takes goes by how many lanes it has, asked for or not.
template <int scale>
TOKSEAM_AVX512 __m512i gather(const void* base, __m512i at, __mmask16 lanes) {
  if (lanes <= 0xFF)
    return _mm512_zextsi256_si512(_mm256_mmask_i32gather_epi32(_mm256_setzero_si256(), static_cast<__mmask8>(lanes),
                                                               _mm512_castsi512_si256(at), base, scale));
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes, at, base, scale);
}

}  // namespace tokseam

#endif
