// BPE of a piece without an end: windows of 768 bytes by a warp each, joined where that is proved right.
//
// By the pair lemma (kernels/README.md, claim 10) tokens that merge to themselves are a piece's result if all neighbours
// are stable, that is what merging the two alone gives; and a result's own neighbours are. So a region around a seam is
// merged anew, from the begin of some token to the begin of another one: where its first and its last token come out as
// they were, the pairs at its ends are pairs of the windows' own results, hence stable, and the region may be put in
// place (claim 17). Seams are tried side by side, with regions that do not touch. One that fails is settled from left to
// right, by regions that need agree with the left alone, until one agrees on both sides: near-linear, but one warp.
// A document in which even that fails is reported.
#pragma once

#include "chain.cuh"
#include "merge.cuh"

namespace tokseam::cuda {

// How far from a seam its region may reach, the shortest first. Two seams' regions leave whole words between them.
constexpr u32 kReaches = 3;
__device__ inline u32 reach_of(u32 attempt) { return attempt == 0 ? 64 : attempt == 1 ? 160 : 320; }

// In window_giant: the seam in front of the window is not joined.
constexpr u32 kApart = 0x80000000;

struct Giant {
  u32 begin, end;  // bytes
  u32 first, windows;
};

__device__ inline Giant giant_at(const Chain& chain, u32 number) {
  const Buffers& b = chain.buffers;
  Giant one;
  one.begin = b.starts[b.giant_pieces[number]];
  one.end = b.starts[b.giant_pieces[number] + 1];
  one.first = b.giant_window[number];
  one.windows = (one.end - one.begin + kWindowBytes - 1) / kWindowBytes;
  return one;
}

// The begin of a character, at `place` or behind it: where symbols are characters, none is parted.
__device__ inline u32 aligned(const Chain& chain, u32 place, u32 end) {
  if (chain.tables.by_characters != 0)
    for (u32 i = 0; i < 3 && place < end && continues(chain.buffers.text[place]); ++i) ++place;
  return place;
}

__device__ inline u32 window_begin(const Chain& chain, const Giant& giant, u32 window) {
  if (window == 0) return giant.begin;
  if (window == giant.windows) return giant.end;
  return aligned(chain, giant.begin + window * kWindowBytes, giant.end);
}

// Whose each window is. A block a piece.
__device__ inline void lay_windows(const Chain& chain) {
  const Buffers& b = chain.buffers;
  for (u32 number = blockIdx.x; number < b.totals[kGiant]; number += gridDim.x) {
    const Giant giant = giant_at(chain, number);
    for (u32 i = threadIdx.x; i < giant.windows; i += blockDim.x) b.window_giant[giant.first + i] = number;
  }
}

__device__ inline Region window_region(Shared<u32> room) {
  return region_at(room + threadIdx.x / kWarpThreads * region_words(kRegionBytes), kRegionBytes);
}

// Each window by itself. A warp a window.
__device__ inline void merge_windows(const Chain& chain) {
  TOKSEAM_SHARED(u32, room, kLargeWarps * region_words(kRegionBytes));
  const Buffers& b = chain.buffers;
  Region region = window_region(room);
  for (u32 i = warp_index(); i < b.totals[kWindows]; i += warp_count()) {
    const Giant giant = giant_at(chain, b.window_giant[i]);
    const u32 begin = window_begin(chain, giant, i - giant.first), end = window_begin(chain, giant, i - giant.first + 1);
    if (begin >= end) continue;
    merge_region(chain, region, begin, end);
    put_region(chain, region, begin);
  }
}

// Whether the first token of a region that was merged anew is the one that was there.
__device__ inline bool keeps_first(const Chain& chain, const Region& region, u32 begin, u32 end) {
  const Buffers& b = chain.buffers;
  if ((region.left[0] & 1) == 0 || region.ids[0] != b.symbols[begin]) return false;
  const u32 next = symbol_after(region, 0);
  return next_set(b.token_bits, begin + 1, end) == (next == kNone32 ? end : begin + next);
}
__device__ inline bool keeps_last(const Chain& chain, const Region& region, u32 begin, u32 end) {
  const Buffers& b = chain.buffers;
  u32 word = region.words - 1;
  while (word > 0 && region.left[word] == 0) --word;
  if (region.left[word] == 0) return false;
  const u32 last = word * 32 + highest_bit(region.left[word]);
  return last_set(b.token_bits, begin, end) == begin + last && region.ids[last] == b.symbols[begin + last];
}

// Puts a region's tokens in the place of those that were there.
__device__ inline void replace_region(const Chain& chain, const Region& region, u32 begin, u32 end) {
  const Buffers& b = chain.buffers;
  for (u32 word = begin / 32 + lane_index(); word * 32 < end; word += kWarpThreads) {
    u32 kept = word * 32 < begin ? bits_below(begin % 32) : 0;
    if (end < word * 32 + 32) kept |= bits_from(end % 32);
    atomicAnd(at(b.token_bits, word), kept);
  }
  __syncwarp();
  put_region(chain, region, begin);
}

// A warp a seam.
__device__ inline void merge_seams(const Chain& chain) {
  TOKSEAM_SHARED(u32, room, kLargeWarps * region_words(kRegionBytes));
  const Buffers& b = chain.buffers;
  Region region = window_region(room);
  for (u32 i = warp_index(); i < b.totals[kWindows]; i += warp_count()) {
    const u32 number = b.window_giant[i];
    const Giant giant = giant_at(chain, number);
    if (i == giant.first) continue;
    const u32 seam = window_begin(chain, giant, i - giant.first);
    bool joined = seam >= giant.end;
    for (u32 attempt = 0; attempt < kReaches && !joined; ++attempt) {
      const u32 reach = reach_of(attempt);
      const u32 begin = next_set(b.token_bits, seam - reach, seam);
      const bool to_end = giant.end - seam <= reach;
      const u32 end = to_end ? giant.end : last_set(b.token_bits, seam + 1, seam + reach);
      if (begin == seam || end == kNone32) continue;
      merge_region(chain, region, begin, end);
      joined = keeps_first(chain, region, begin, end) && (to_end || keeps_last(chain, region, begin, end));
      __syncwarp();
      if (joined) replace_region(chain, region, begin, end);
    }
    __syncwarp();  // all lanes have read whose window it is
    if (!joined && lane_index() == 0) {
      b.window_giant[i] = number | kApart;
      b.giant_unsettled[number] = 1;
    }
  }
}

// A warp a piece with seams that failed.
__device__ inline void settle(const Chain& chain) {
  TOKSEAM_SHARED(u32, room, kLargeWarps * region_words(kRegionBytes));
  const Buffers& b = chain.buffers;
  Region region = window_region(room);
  for (u32 number = warp_index(); number < b.totals[kGiant]; number += warp_count()) {
    if (b.giant_unsettled[number] == 0) continue;
    const Giant giant = giant_at(chain, number);
    u32 right_of = giant.begin;  // tokens left of it are the piece's own, and its neighbours to the next seam that failed
    for (u32 window = 1; window < giant.windows; ++window) {
      if ((b.window_giant[giant.first + window] & kApart) == 0) continue;
      u32 front = window_begin(chain, giant, window);  // where the tokens from the left end
      if (front < right_of) continue;
      for (bool agreed = false; !agreed;) {
        bool placed = false;
        for (u32 attempt = 0; attempt < kReaches && !placed; ++attempt) {
          const u32 reach = reach_of(attempt);
          const bool from_begin = front - giant.begin <= reach;
          const u32 begin = from_begin ? giant.begin : next_set(b.token_bits, front - reach, front);
          if (begin == front) continue;
          const u32 most = begin + kWindowBytes;
          const bool to_end = giant.end <= most;
          u32 end = giant.end;
          if (!to_end) {
            end = last_set(b.token_bits, front + 1, most);
            if (end == kNone32) end = aligned(chain, most, giant.end);
          }
          const bool at_token = to_end || bit(b.token_bits, end);
          merge_region(chain, region, begin, end);
          placed = from_begin || keeps_first(chain, region, begin, end);
          if (placed) agreed = to_end || (at_token && keeps_last(chain, region, begin, end));
          __syncwarp();
          if (!placed) continue;
          replace_region(chain, region, begin, end);
          front = end;
        }
        if (!placed) {
          if (lane_index() == 0) flag(chain, b.span_begin, giant.begin, kUnsettled);
          agreed = true;
          front = giant.end;
        }
      }
      right_of = front;
    }
  }
}

}  // namespace tokseam::cuda
