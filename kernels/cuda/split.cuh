// One stage over every stretch: a thread each, in the stages' own words (device/stage.hpp). A long stretch is left to
// tiles.cuh.
#pragma once

#include "chain.cuh"

namespace tokseam::cuda {

// The class of bytes that belong to the character before, for this stage.
__device__ inline u8 inner_of(const Chain& chain, u32 stage) {
  return stage < chain.tables.stage_count ? chain.tables.classes.inner() : Tables::kNoInner;
}

__device__ inline u32 tiles_of(u32 bytes) { return (bytes + kTileBytes - 1) / kTileBytes; }
__device__ inline u32 supers_of(u32 tiles) { return (tiles + kTilesPerSuper - 1) / kTilesPerSuper; }

// Room for the tiles of a long stretch.
__device__ inline void put_by(const Chain& chain, u32 begin, u32 end) {
  const Buffers& b = chain.buffers;
  const u32 tiles = tiles_of(end - begin);
  const u32 number = atomicAdd(at(b.totals, kLong), 1U);
  b.long_begin[number] = begin;
  b.long_end[number] = end;
  b.long_tile[number] = atomicAdd(at(b.totals, kTiles), tiles);
  b.long_super[number] = atomicAdd(at(b.totals, kSupers), supers_of(tiles));
}

__device__ inline void split(const Chain& chain, u32 number) {
  const Buffers& b = chain.buffers;
  const Stage& stage = chain.tables.stages[number];
  const u8 inner = inner_of(chain, number);
  for (u32 stretch = thread_index(); stretch < b.totals[kStretches]; stretch += thread_count()) {
    const u32 begin = b.starts[stretch], end = b.starts[stretch + 1];
    if (bit(b.closed_bits, begin)) continue;
    if (end - begin > kTileBytes) {
      put_by(chain, begin, end);
      continue;
    }
    stage.split(raw(b.classes), inner, begin, end, [&](u64 from, u64, bool kept) {
      set_bit(b.start_bits, static_cast<u32>(from));
      if (!kept) set_bit(b.closed_bits, static_cast<u32>(from));
    });
  }
}

}  // namespace tokseam::cuda
