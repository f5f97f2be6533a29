// From a bitmap to a list, by prefix sums: each block counts its words, one block adds up the counts, each block lists
// what it has. Three launches, and no block waits for another.
#pragma once

#include "chain.cuh"

namespace tokseam::cuda {

// Which bitmap, and for whom.
enum Listed : u32 { kListStretches, kListPieces, kListTokens };

__device__ inline const Buffer<u32>& listed_bits(const Chain& chain, u32 which) {
  return which == kListTokens ? chain.buffers.token_bits : chain.buffers.start_bits;
}

// How many words of a bitmap there are: one behind the last byte's, so that the end has a rank.
__device__ inline u32 words_of(const Chain& chain) { return chain.buffers.totals[kBytes] / 32 + 1; }

// The sum of the values of all threads of the block before this one; `sum` becomes that of all. `room`: a value a warp.
__device__ inline u32 scan_in_block(u32 value, Shared<u32> room, u32& sum) {
  u32 upto = value;
  for (u32 by = 1; by < kWarpThreads; by *= 2) {
    const u32 below = __shfl_up_sync(kAllLanes, upto, by);
    if (lane_index() >= by) upto += below;
  }
  const u32 warp = threadIdx.x / kWarpThreads;
  if (lane_index() == kWarpThreads - 1) room[warp] = upto;
  __syncthreads();
  u32 before = 0;
  sum = 0;
  for (u32 i = 0; i < kThreads / kWarpThreads; ++i) {
    const u32 one = room[i];
    if (i < warp) before += one;
    sum += one;
  }
  __syncthreads();  // `room` may be used again
  return before + upto - value;
}

constexpr u32 kWordsPerThread = kWordsPerBlock / kThreads;

__device__ inline void count_words(const Chain& chain, u32 which) {
  TOKSEAM_SHARED(u32, room, kThreads / kWarpThreads);
  const Buffer<u32>& bits = listed_bits(chain, which);
  const u32 words = words_of(chain);
  for (u32 block = blockIdx.x; block * kWordsPerBlock < words; block += gridDim.x) {
    u32 count = 0, sum = 0;
    for (u32 i = 0; i < kWordsPerThread; ++i) {
      const u32 word = block * kWordsPerBlock + i * kThreads + threadIdx.x;
      if (word < words) count += count_bits(bits[word]);
    }
    scan_in_block(count, room, sum);
    if (threadIdx.x == 0) chain.buffers.block_sums[block] = sum;
  }
}

// One block.
__device__ inline void add_up_blocks(const Chain& chain, u32 which) {
  TOKSEAM_SHARED(u32, room, kThreads / kWarpThreads);
  const Buffers& b = chain.buffers;
  const u32 blocks = (words_of(chain) + kWordsPerBlock - 1) / kWordsPerBlock;
  u32 carried = 0;
  for (u32 begin = 0; begin < blocks; begin += kThreads) {
    const u32 block = begin + threadIdx.x;
    u32 sum = 0;
    const u32 before = scan_in_block(block < blocks ? b.block_sums[block] : 0, room, sum);
    if (block < blocks) b.block_sums[block] = carried + before;
    carried += sum;
  }
  if (threadIdx.x == 0) b.totals[which == kListTokens ? kIds : kStretches] = carried;
}

// Ranks of the words, and the list: begins of stretches with the text's end behind the last, or ids.
__device__ inline void list(const Chain& chain, u32 which) {
  TOKSEAM_SHARED(u32, room, kThreads / kWarpThreads);
  const Buffers& b = chain.buffers;
  const Buffer<u32>& bits = listed_bits(chain, which);
  const u32 words = words_of(chain);
  for (u32 block = blockIdx.x; block * kWordsPerBlock < words; block += gridDim.x) {
    u32 carried = b.block_sums[block];
    for (u32 i = 0; i < kWordsPerThread; ++i) {
      const u32 word = block * kWordsPerBlock + i * kThreads + threadIdx.x;
      u32 rest = word < words ? bits[word] : 0, sum = 0;
      u32 number = carried + scan_in_block(count_bits(rest), room, sum);
      carried += sum;
      if (word < words) b.ranks[word] = number;
      for (; rest != 0; rest &= rest - 1) {
        const u32 place = word * 32 + lowest_bit(rest);
        if (which == kListTokens) b.ids[number] = b.symbols[place];
        else b.starts[number] = place;
        ++number;
      }
    }
  }
  if (thread_index() != 0 || which == kListTokens) return;
  b.starts[b.totals[kStretches]] = b.totals[kBytes];
  if (which == kListStretches) b.totals[kLong] = b.totals[kTiles] = b.totals[kSupers] = 0;  // of the stage that comes now
}

}  // namespace tokseam::cuda
