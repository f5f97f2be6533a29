// One stage over a long stretch, by all threads (kernels/README.md, claim 15).
//
// Where the attempt that begins at x leaves the scan is a function of x alone, since a scan sees nothing before its
// position: let step(x) be the end of its match or, without one, the next character. The scan is the orbit of the
// stretch's begin under `step`. So all steps are found side by side, then which of them the orbit takes.
//  - An attempt may run over many tiles. What a tile does to a DFA state is a table of states (its map); from the maps,
//    last tile first, follows what becomes of an attempt that arrives at a tile in a state (its rest): where its match
//    ends, if it has one there. So no attempt is followed further than to the end of its tile.
//  - An orbit is followed through a tile at once: where it leaves the tile is known for each of its places (exits), by
//    doubling. 64 tiles make a super-tile, through which it is followed at once from each place of the first tile.
// What is done one after the other: super-tiles of 16 KB a stretch, twice; and 64 tiles in each of them, side by side.
// No assumption is made of the automaton. The work is |states| + 128 transitions a byte at most.
#pragma once

#include "chain.cuh"
#include "split.cuh"

namespace tokseam::cuda {

// In a step or an exit: the place, and whether a match leads there (not a character that no match covers).
constexpr u32 kMatched = 0x80000000;
constexpr u32 kPlace = 0x7FFFFFFF;

// A tile, or a super-tile, of a long stretch.
struct Tile {
  u32 owner;             // which long stretch
  u32 begin, end;        // bytes of the text
  u32 stretch_begin, stretch_end;
  bool last;             // of its stretch
};

__device__ inline Tile tile_at(const Chain& chain, u32 tile) {
  const Buffers& b = chain.buffers;
  Tile one;
  one.owner = b.tile_long[tile];
  one.stretch_begin = b.long_begin[one.owner];
  one.stretch_end = b.long_end[one.owner];
  one.begin = one.stretch_begin + (tile - b.long_tile[one.owner]) * kTileBytes;
  one.last = one.stretch_end - one.begin <= kTileBytes;
  one.end = one.last ? one.stretch_end : one.begin + kTileBytes;
  return one;
}

__device__ inline Tile super_at(const Chain& chain, u32 super) {
  const Buffers& b = chain.buffers;
  constexpr u32 kBytesPerSuper = kTileBytes * kTilesPerSuper;
  Tile one;
  one.owner = b.super_long[super];
  one.stretch_begin = b.long_begin[one.owner];
  one.stretch_end = b.long_end[one.owner];
  one.begin = one.stretch_begin + (super - b.long_super[one.owner]) * kBytesPerSuper;
  one.last = one.stretch_end - one.begin <= kBytesPerSuper;
  one.end = one.last ? one.stretch_end : one.begin + kBytesPerSuper;
  return one;
}

// The first tile of a super-tile, and the one behind its last.
struct TileRange {
  u32 first, end;
};
__device__ inline TileRange tiles_in(const Chain& chain, u32 super, const Tile& one) {
  const u32 first = chain.buffers.long_tile[one.owner] + (super - chain.buffers.long_super[one.owner]) * kTilesPerSuper;
  return {first, first + tiles_of(one.end - one.begin)};
}

// Whose each tile is. A block a stretch.
__device__ inline void lay_tiles(const Chain& chain) {
  const Buffers& b = chain.buffers;
  for (u32 number = blockIdx.x; number < b.totals[kLong]; number += gridDim.x) {
    const u32 tiles = tiles_of(b.long_end[number] - b.long_begin[number]);
    for (u32 i = threadIdx.x; i < tiles; i += blockDim.x) {
      b.tile_long[b.long_tile[number] + i] = number;
      b.tile_entries[b.long_tile[number] + i] = kNone32;
    }
    for (u32 i = threadIdx.x; i < supers_of(tiles); i += blockDim.x) {
      b.super_long[b.long_super[number] + i] = number;
      b.super_entries[b.long_super[number] + i] = kNone32;
    }
  }
}

// An attempt inside one tile: where it ends.
struct Run {
  u32 state;  // at the tile's end; kDead where the attempt is over
  u32 last;   // where its last match in the tile ended, or kNone32
};
__device__ inline Run run(const Stage& stage, const u8* classes, u32 state, u32 from, const Tile& tile) {
  Run one{state, kNone32};
  for (u32 at = from; at < tile.end && one.state != Stage::kDead; ++at) {
    const u16 next = stage.entry(one.state, classes[at]);
    if (next & Stage::kMatch) one.last = at;
    one.state = next & Stage::kState;
  }
  if (tile.last && one.state != Stage::kDead) {
    if (stage.entry_at_end(one.state) & Stage::kMatch) one.last = tile.end;
    one.state = Stage::kDead;
  }
  return one;
}

// A map's value: the state at the tile's end, and the place of the last match in the tile, counted from 1.
__device__ inline u32 packed(const Run& one, const Tile& tile) {
  return one.state << 16 | (one.last == kNone32 ? 0 : one.last - tile.begin + 1);
}
__device__ inline Run unpacked(u32 value, u32 tile_begin) {
  return {value >> 16, (value & 0xFFFF) == 0 ? kNone32 : tile_begin + (value & 0xFFFF) - 1};
}

// What each tile does to each state.
__device__ inline void map_tiles(const Chain& chain, u32 number) {
  const Buffers& b = chain.buffers;
  const Stage& stage = chain.tables.stages[number];
  const u64 count = static_cast<u64>(b.totals[kTiles]) * stage.states;
  for (u64 i = thread_index(); i < count; i += thread_count()) {
    const Tile tile = tile_at(chain, static_cast<u32>(i / stage.states));
    b.tile_maps[i] = packed(run(stage, raw(b.classes), static_cast<u32>(i % stage.states), tile.begin, tile), tile);
  }
}

// The same of each super-tile: its tiles' maps, one after the other.
__device__ inline void map_supers(const Chain& chain, u32 number) {
  const Buffers& b = chain.buffers;
  const u32 states = chain.tables.stages[number].states;
  const u64 count = static_cast<u64>(b.totals[kSupers]) * states;
  for (u64 i = thread_index(); i < count; i += thread_count()) {
    const u32 super = static_cast<u32>(i / states);
    const Tile one = super_at(chain, super);
    const TileRange tiles = tiles_in(chain, super, one);
    Run all{static_cast<u32>(i % states), kNone32};
    for (u32 tile = tiles.first; tile < tiles.end && all.state != Stage::kDead; ++tile) {
      const u32 begin = one.begin + (tile - tiles.first) * kTileBytes;
      const Run here = unpacked(b.tile_maps[static_cast<u64>(tile) * states + all.state], begin);
      all.state = here.state;
      if (here.last != kNone32) all.last = here.last;
    }
    b.super_states[i] = all.state;
    b.super_lasts[i] = all.last;
  }
}

// Rests of super-tiles: where the match ends of an attempt that arrives in a state; kNone32 where it has none from there
// on. A block a stretch, from the last super-tile to the first.
__device__ inline void rest_supers(const Chain& chain, u32 number) {
  const Buffers& b = chain.buffers;
  const u32 states = chain.tables.stages[number].states;
  for (u32 one = blockIdx.x; one < b.totals[kLong]; one += gridDim.x) {
    const u32 first = b.long_super[one];
    for (u32 super = first + supers_of(tiles_of(b.long_end[one] - b.long_begin[one])); super-- > first;) {
      for (u32 state = threadIdx.x; state < states; state += blockDim.x) {
        const u64 i = static_cast<u64>(super) * states + state;
        const u32 behind = b.super_states[i];
        const u32 later = behind == Stage::kDead ? kNone32 : b.super_rests[static_cast<u64>(super + 1) * states + behind];
        b.super_rests[i] = later != kNone32 ? later : b.super_lasts[i];
      }
      __syncthreads();
    }
  }
}

// The same of tiles. A block a super-tile.
__device__ inline void rest_tiles(const Chain& chain, u32 number) {
  const Buffers& b = chain.buffers;
  const u32 states = chain.tables.stages[number].states;
  for (u32 super = blockIdx.x; super < b.totals[kSupers]; super += gridDim.x) {
    const Tile one = super_at(chain, super);
    const TileRange tiles = tiles_in(chain, super, one);
    for (u32 tile = tiles.end; tile-- > tiles.first;) {
      const u32 begin = one.begin + (tile - tiles.first) * kTileBytes;
      for (u32 state = threadIdx.x; state < states; state += blockDim.x) {
        const u64 i = static_cast<u64>(tile) * states + state;
        const Run here = unpacked(b.tile_maps[i], begin);
        u32 later = kNone32;
        if (here.state != Stage::kDead)
          later = tile + 1 < tiles.end ? b.tile_rests[i - state + states + here.state]
                                       : b.super_rests[static_cast<u64>(super + 1) * states + here.state];
        b.tile_rests[i] = later != kNone32 ? later : here.last;
      }
      __syncthreads();
    }
  }
}

// Steps and exits of each place. A block a tile, a thread a place.
__device__ inline void step_tiles(const Chain& chain, u32 number) {
  static_assert(kTileBytes == kThreads, "a thread a place");
  TOKSEAM_SHARED(u32, jumps, kTileBytes);
  const Buffers& b = chain.buffers;
  const Stage& stage = chain.tables.stages[number];
  const u8* classes = raw(b.classes);
  const u8 inner = inner_of(chain, number);
  for (u32 number_of_tile = blockIdx.x; number_of_tile < b.totals[kTiles]; number_of_tile += gridDim.x) {
    const Tile tile = tile_at(chain, number_of_tile);
    const u32 place = tile.begin + threadIdx.x;
    u32 step = tile.end;  // of a place that no attempt begins at
    if (place < tile.end && classes[place] != inner) {
      const Run attempt = run(stage, classes, Stage::kStart, place, tile);
      u32 match = attempt.last;
      if (attempt.state != Stage::kDead) {
        const u32 later = b.tile_rests[static_cast<u64>(number_of_tile + 1) * stage.states + attempt.state];
        if (later != kNone32) match = later;
      }
      if (match != kNone32) {
        step = match | kMatched;
      } else {
        step = place + 1;
        while (step < tile.stretch_end && classes[step] == inner) ++step;
      }
    }
    if (place < tile.end) b.steps[place] = step;
    u32 jump = step;
    for (u32 reach = 1; reach < kTileBytes; reach *= 2) {
      jumps[threadIdx.x] = jump;
      __syncthreads();
      if ((jump & kPlace) < tile.end) jump = jumps[(jump & kPlace) - tile.begin];
      __syncthreads();
    }
    if (place < tile.end) b.exits[place] = jump;
  }
}

// Where the orbit leaves each super-tile, from each place of its first tile.
__device__ inline void exit_supers(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const u64 count = static_cast<u64>(b.totals[kSupers]) * kTileBytes;
  for (u64 i = thread_index(); i < count; i += thread_count()) {
    const Tile one = super_at(chain, static_cast<u32>(i / kTileBytes));
    u32 at = one.begin + static_cast<u32>(i % kTileBytes);
    if (at >= one.end) continue;
    while ((at & kPlace) < one.end) at = b.exits[at & kPlace];
    b.super_exits[i] = at;
  }
}

// Where the orbit enters each super-tile that it does not leap over. A thread a stretch.
__device__ inline void enter_supers(const Chain& chain) {
  const Buffers& b = chain.buffers;
  constexpr u32 kBytesPerSuper = kTileBytes * kTilesPerSuper;
  for (u32 one = thread_index(); one < b.totals[kLong]; one += thread_count()) {
    const u32 begin = b.long_begin[one], end = b.long_end[one];
    u32 at = begin;
    while ((at & kPlace) < end) {
      const u32 super = ((at & kPlace) - begin) / kBytesPerSuper, inside = ((at & kPlace) - begin) % kBytesPerSuper;
      b.super_entries[b.long_super[one] + super] = at;
      if (inside < kTileBytes) {
        at = b.super_exits[static_cast<u64>(b.long_super[one] + super) * kTileBytes + inside];
      } else {
        const u32 super_end = begin + (super + 1) * kBytesPerSuper;
        do {
          at = b.exits[at & kPlace];
        } while ((at & kPlace) < super_end && (at & kPlace) < end);
      }
    }
  }
}

// The same of tiles. A thread a super-tile.
__device__ inline void enter_tiles(const Chain& chain) {
  const Buffers& b = chain.buffers;
  for (u32 super = thread_index(); super < b.totals[kSupers]; super += thread_count()) {
    const Tile one = super_at(chain, super);
    const TileRange tiles = tiles_in(chain, super, one);
    u32 at = b.super_entries[super];
    if (at == kNone32) continue;
    while ((at & kPlace) < one.end) {
      b.tile_entries[tiles.first + ((at & kPlace) - one.begin) / kTileBytes] = at;
      at = b.exits[at & kPlace];
    }
  }
}

// The parts that the orbit makes, as Stage::split does. A thread a tile.
__device__ inline void mark_tiles(const Chain& chain, u32 number) {
  const Buffers& b = chain.buffers;
  const Behavior behavior = chain.tables.stages[number].behavior;
  for (u32 number_of_tile = thread_index(); number_of_tile < b.totals[kTiles]; number_of_tile += thread_count()) {
    u32 from = b.tile_entries[number_of_tile];
    if (from == kNone32) continue;
    const Tile tile = tile_at(chain, number_of_tile);
    while ((from & kPlace) < tile.end) {
      const u32 place = from & kPlace, step = b.steps[place], stop = step & kPlace;
      if ((step & kMatched) != 0) {
        if (behavior != Behavior::merged_with_previous) set_bit(b.start_bits, place);
        if (behavior == Behavior::matches_dropped) set_bit(b.closed_bits, place);
        if (behavior != Behavior::merged_with_next && stop < tile.stretch_end) set_bit(b.start_bits, stop);
      } else if (behavior == Behavior::gaps_dropped && (place == tile.stretch_begin || (from & kMatched) != 0)) {
        set_bit(b.closed_bits, place);  // a gap begins
      }
      from = step;
    }
  }
}

}  // namespace tokseam::cuda
