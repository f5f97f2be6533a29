// Hashes of keys in flat tables. Not cryptographic: whoever looks a key up confirms a hit by the key itself.
#pragma once

#include "types.hpp"

#if !defined(__CUDACC_RTC__)
#include <cstring>
#endif

namespace tokseam::device {

constexpr u64 kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD6E8FEB86659FD93;

#if !defined(__CUDACC_RTC__)
__extension__ typedef unsigned __int128 Wide;
#endif

// The high half of the product.
TOKSEAM_DEVICE inline u64 multiply_high(u64 a, u64 b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#elif !defined(__CUDACC_RTC__)
  return static_cast<u64>(static_cast<Wide>(a) * b >> 64);
#else
  return 0;  // NVRTC makes no code for the host
#endif
}

// The high and the low half of the product, folded: every input bit reaches every output bit.
TOKSEAM_DEVICE inline u64 mix(u64 a, u64 b) {
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
  return (a * b) ^ multiply_high(a, b);
#else
  const Wide product = static_cast<Wide>(a) * b;  // PERF: one multiplication for both halves
  return static_cast<u64>(product) ^ static_cast<u64>(product >> 64);
#endif
}

// PERF: one load on the host; on the device, which reads no word across its boundary, a load a byte.
TOKSEAM_DEVICE inline u64 load8(const u8* p) {
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
  u64 value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | p[i];
  return value;
#else
  u64 value;
  std::memcpy(&value, p, 8);
  return value;
#endif
}

TOKSEAM_DEVICE inline u64 load4(const u8* p) {
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
  return static_cast<u64>(p[0]) | static_cast<u64>(p[1]) << 8 | static_cast<u64>(p[2]) << 16 |
         static_cast<u64>(p[3]) << 24;
#else
  u32 value;
  std::memcpy(&value, p, 4);
  return value;
#endif
}

TOKSEAM_DEVICE inline u64 hash_bytes(const u8* p, u64 n) {
  u64 a = 0, b = 0;
  if (n > 16) {
    u64 sum = kOdd2 ^ n;
    u64 i = 0;
    for (; i + 16 < n; i += 16) sum = mix(load8(p + i) ^ sum, load8(p + i + 8) ^ kOdd1);
    return mix(load8(p + n - 16) ^ sum, load8(p + n - 8) ^ kOdd1);
  }
  if (n >= 8) {
    a = load8(p), b = load8(p + n - 8);
  } else if (n >= 4) {
    a = load4(p), b = load4(p + n - 4);
  } else if (n > 0) {
    a = static_cast<u64>(p[0]) << 16 | static_cast<u64>(p[n / 2]) << 8 | p[n - 1];
  }
  return mix(a ^ kOdd1 ^ n, b ^ kOdd2);
}

// A place below `size`, which need not be a power of two, from the high bits of a hash.
TOKSEAM_DEVICE inline u64 place_of(u64 hash, u64 size) { return multiply_high(hash, size); }

}  // namespace tokseam::device
