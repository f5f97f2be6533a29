// One source, two targets: what differs between CUDA (nvcc, NVRTC) and the emulator of tests/emulator, which defines
// TOKSEAM_EMULATED and CUDA's names before it includes a kernel.
#pragma once

#include "device/tables.hpp"

namespace tokseam::cuda {

using namespace tokseam::device;

#if defined(TOKSEAM_EMULATED)
template <class T>
using Buffer = emulator::Buffer<T>;
template <class T>
using Shared = emulator::Shared<T>;
template <class T>
T* raw(const Buffer<T>& buffer) {
  return buffer.data();
}
template <class T>
T* at(const Buffer<T>& buffer, u64 i) {
  return &buffer[i];
}
template <class T>
void shared_or(const Shared<T>& shared, u32 i, T bits) {
  T& value = shared[i].atomic();
  value |= bits;
}
#define TOKSEAM_SHARED(type, name, size)                                    \
  static std::unique_ptr<emulator::SharedArray<type>> name##_kept;          \
  const emulator::Shared<type> name(emulator::shared_array(name##_kept, size, #name))
#else
template <class T>
using Buffer = T*;
template <class T>
using Shared = T*;
template <class T>
__device__ inline T* raw(T* buffer) {
  return buffer;
}
template <class T>
__device__ inline T* at(T* buffer, u64 i) {
  return buffer + i;
}
template <class T>
__device__ inline void shared_or(T* shared, u32 i, T bits) {
  atomicOr(shared + i, bits);
}
#define TOKSEAM_SHARED(type, name, size) __shared__ type name[size]
#endif

// Threads of a block, of all kernels.
constexpr u32 kThreads = 256;
constexpr u32 kWarpThreads = 32;
constexpr u32 kAllLanes = 0xFFFFFFFF;

__device__ inline u32 lane_index() { return threadIdx.x % kWarpThreads; }

// This thread among all of the grid, and how many those are: kernels loop over what there is, whatever the grid.
__device__ inline u32 thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline u32 thread_count() { return gridDim.x * blockDim.x; }
__device__ inline u32 warp_index() { return thread_index() / kWarpThreads; }
__device__ inline u32 warp_count() { return thread_count() / kWarpThreads; }

// Places of the lowest and the highest bit that is set; the word is not 0.
__device__ inline u32 lowest_bit(u32 word) { return static_cast<u32>(__ffs(static_cast<int>(word))) - 1; }
__device__ inline u32 highest_bit(u32 word) { return 31 - static_cast<u32>(__clz(static_cast<int>(word))); }
__device__ inline u32 count_bits(u32 word) { return static_cast<u32>(__popc(word)); }

// The bits below place i of a word, and those from it on.
__device__ inline u32 bits_below(u32 i) { return (u32{1} << i) - 1; }
__device__ inline u32 bits_from(u32 i) { return ~bits_below(i); }

}  // namespace tokseam::cuda
