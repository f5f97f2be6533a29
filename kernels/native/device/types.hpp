// What device code may use: fixed-width integers and the mark of a function that both sides run. These headers are
// compiled by the host's compiler, nvcc, NVRTC (which has no standard library) and the emulator of tests/.
#pragma once

#if defined(__CUDACC__)
#define TOKSEAM_DEVICE __host__ __device__
#define TOKSEAM_DEVICE_INLINE __host__ __device__ __forceinline__
#else
#define TOKSEAM_DEVICE
#define TOKSEAM_DEVICE_INLINE [[gnu::always_inline]]
#endif

#if !defined(__CUDACC_RTC__)
#include <cstddef>
#include <cstdint>
#endif

namespace tokseam::device {

#if defined(__CUDACC_RTC__)
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long;  // 64 bits: LP64
using usize = decltype(sizeof(0));
#else
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using usize = std::size_t;
#endif

static_assert(sizeof(u64) == 8 && sizeof(usize) == 8, "a 64-bit machine");

// No id, no rank, no position: whatever a 32-bit number counts.
constexpr u32 kNone32 = 0xFFFFFFFF;

}  // namespace tokseam::device
