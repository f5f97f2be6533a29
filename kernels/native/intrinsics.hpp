// The processor's own instructions. Code that uses those of 512 bits stands between the two macros: GCC 12 takes what its
// own headers leave undefined on purpose for a mistake.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#define TOKSEAM_INTRINSICS_BEGIN                              \
  _Pragma("GCC diagnostic push")                              \
  _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"") \
  _Pragma("GCC diagnostic ignored \"-Wuninitialized\"")
#define TOKSEAM_INTRINSICS_END _Pragma("GCC diagnostic pop")
#endif
