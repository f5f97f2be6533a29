// From a bitmap to a list, by prefix sums: each block counts its words, one block adds up the counts, each block lists
// what it has. Three launches, and no block waits for another. The same from sizes, of which there is one a word: then
// all that is wanted is the sums.
#pragma once

#include "chain.cuh"

namespace tokseam::cuda {

// Which bitmap, and for whom; kListNormalized: the sizes of normal forms, which `ranks` holds.
enum Listed : u32 { kListStretches, kListPieces, kListTokens, kListNormalized };

__device__ inline const Buffer<u32>& listed_bits(const Chain& chain, u32 which) {
  return which == kListTokens ? chain.buffers.token_bits : chain.buffers.start_bits;
}

// How many words of a bitmap there are: one behind the last byte's, so that the end has a rank.
__device__ inline u32 words_of(const Chain& chain, u32 which) {
  return chain.buffers.totals[which == kListNormalized ? kRaw : kBytes] / 32 + 1;
}

// What a word counts for.
__device__ inline u32 count_of(const Chain& chain, u32 which, u32 word) {
  return which == kListNormalized ? chain.buffers.ranks[word] : count_bits(listed_bits(chain, which)[word]);
}

// The sum of the values of all lanes up to this one.
__device__ inline u32 scan_in_warp(u32 value) {
  u32 upto = value;
  for (u32 by = 1; by < kWarpThreads; by *= 2) {
    const u32 below = __shfl_up_sync(kAllLanes, upto, by);
    if (lane_index() >= by) upto += below;
  }
  return upto;
}

// The sum of the values of all threads of the block before this one; `sum` becomes that of all. `room`: a value a warp.
__device__ inline u32 scan_in_block(u32 value, Shared<u32> room, u32& sum) {
  const u32 upto = scan_in_warp(value);
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

// No sum is larger; no capacity is either.
constexpr u32 kMostSum = 0x7FFFFFFF;

// The sizes of as many blocks as are added up at once, each cluster a byte and as large as one may be, have 32 bits.
static_assert(u64{kThreads} * kWordsPerBlock * 32 * 4 * NormalForm::kMostPoints <= u64{kMostSum} + 1);

constexpr u32 kWordsPerThread = kWordsPerBlock / kThreads;

__device__ inline void count_words(const Chain& chain, u32 which) {
  TOKSEAM_SHARED(u32, room, kThreads / kWarpThreads);
  const u32 words = words_of(chain, which);
  for (u32 block = blockIdx.x; block * kWordsPerBlock < words; block += gridDim.x) {
    u32 count = 0, sum = 0;
    for (u32 i = 0; i < kWordsPerThread; ++i) {
      const u32 word = block * kWordsPerBlock + i * kThreads + threadIdx.x;
      if (word < words) count += count_of(chain, which, word);
    }
    scan_in_block(count, room, sum);
    if (threadIdx.x == 0) chain.buffers.block_sums[block] = sum;
  }
}

// The normal form of all of the text is so large. One that does not fit is refused: the others see no bytes of it.
__device__ inline void take_normalized(const Chain& chain, u32 bytes) {
  const Buffers& b = chain.buffers;
  b.totals[kNormalized] = bytes;
  if (bytes <= chain.capacity_bytes) {
    b.totals[kBytes] = bytes;
    return;
  }
  b.totals[kRefused] = 1;
  b.totals[kRaw] = b.totals[kSpans] = b.totals[kDocuments] = 0;
}

// One block.
__device__ inline void add_up_blocks(const Chain& chain, u32 which) {
  TOKSEAM_SHARED(u32, room, kThreads / kWarpThreads);
  const Buffers& b = chain.buffers;
  const u32 blocks = (words_of(chain, which) + kWordsPerBlock - 1) / kWordsPerBlock;
  u32 carried = 0;
  for (u32 begin = 0; begin < blocks; begin += kThreads) {
    const u32 block = begin + threadIdx.x;
    u32 sum = 0;
    const u32 before = scan_in_block(block < blocks ? b.block_sums[block] : 0, room, sum);
    if (block < blocks) b.block_sums[block] = carried + before;
    // A normal form has several times the bytes of its text at most, which may be more than are counted here.
    carried = sum > kMostSum - carried ? kMostSum : carried + sum;
  }
  if (threadIdx.x != 0) return;
  if (which == kListNormalized) take_normalized(chain, carried);
  else b.totals[which == kListTokens ? kIds : kStretches] = carried;
}

// Ranks of the words, and the list: begins of stretches with the text's end behind the last, or ids; of sizes none.
__device__ inline void list(const Chain& chain, u32 which) {
  TOKSEAM_SHARED(u32, room, kThreads / kWarpThreads);
  const Buffers& b = chain.buffers;
  const u32 words = words_of(chain, which);
  for (u32 block = blockIdx.x; block * kWordsPerBlock < words; block += gridDim.x) {
    u32 carried = b.block_sums[block];
    for (u32 i = 0; i < kWordsPerThread; ++i) {
      const u32 word = block * kWordsPerBlock + i * kThreads + threadIdx.x;
      u32 sum = 0, number = carried + scan_in_block(word < words ? count_of(chain, which, word) : 0, room, sum);
      carried += sum;
      if (word < words) b.ranks[word] = number;
      if (which == kListNormalized) continue;
      for (u32 rest = word < words ? listed_bits(chain, which)[word] : 0; rest != 0; rest &= rest - 1) {
        const u32 place = word * 32 + lowest_bit(rest);
        if (which == kListTokens) b.ids[number] = b.symbols[place];
        else b.starts[number] = place;
        ++number;
      }
    }
  }
  if (thread_index() != 0 || which == kListTokens || which == kListNormalized) return;
  b.starts[b.totals[kStretches]] = b.totals[kBytes];
  if (which == kListStretches) b.totals[kLong] = b.totals[kTiles] = b.totals[kSupers] = 0;  // of the stage that comes now
}

}  // namespace tokseam::cuda
