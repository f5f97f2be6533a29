// BPE of pieces up to 768 bytes: the pair of lowest rank first, the leftmost of equals (kernels/README.md, claim 6).
//
// Symbols stay where they begin, a place a byte; a bitmap says which are left, so that neighbours are found by its bits
// and nothing ever moves. A thread takes a piece of up to 32 bytes, whose bitmap is one word; a warp takes a region of
// up to 128 or 768, its symbols in shared memory.
//
// A warp merges one pair a round, or, where ranks are *rising* and there are many, all pairs of the lowest rank at once,
// leftmost ones that don't overlap. Rising: every merge ranks behind all merges that make its parts. Then what a merge makes only has
// pairs of higher ranks, so until all of this rank are merged none of a lower one comes up, and of those that overlap
// the one further left goes first (claim 15). device_tables.hpp decides it from the merges.
#pragma once

#include "chain.cuh"
#include "device/utf8.hpp"
#include "pieces.cuh"

namespace tokseam::cuda {

// The symbol that begins at `place` of a stretch that begins at `begin` and ends at `end`, or kNone32: of a byte, or
// of a character; a byte that continues one has its own where the vocabulary lacks the character.
__device__ inline u32 symbol_at(const Chain& chain, u32 place, u32 begin, u32 end) {
  const Tables& tables = chain.tables;
  const u8* text = raw(chain.buffers.text);
  if (tables.by_characters == 0) return tables.byte_ids[text[place]];
  u32 lead = place;
  while (lead > begin && place - lead < 3 && continues(text[lead])) --lead;
  // Of a text that is not valid, all bytes stand for themselves.
  const u32 width = utf8_valid_width(text + lead, end - lead);
  const u32 id = width > place - lead ? tables.character_ids.find(utf8_decode(text + lead)) : kNone32;
  if (id == kNone32) return tables.byte_tokens[text[place]];
  return lead == place ? id : kNone32;
}

// The rank of the pair of symbols that begin at `place` and at `next`, as they are before any merge.
// PERF: two bytes side by side, as most pairs are, are looked up in a table of their own, which takes one load.
__device__ inline u32 first_rank(const Chain& chain, u32 place, u32 next, u32 left, u32 right) {
  const u8* text = raw(chain.buffers.text);
  if (chain.tables.by_characters == 0 && next == place + 1)
    return chain.tables.byte_pairs[static_cast<u32>(text[place]) << 8 | text[next]];
  return chain.tables.merges.find(left, right);
}

// Sets the tokens of 32 places from `place` on: those of the bits of `left`.
__device__ inline void put_tokens(const Chain& chain, u32 place, u32 left) {
  if (left == 0) return;
  const Buffers& b = chain.buffers;
  atomicOr(at(b.token_bits, place / 32), left << place % 32);
  if (place % 32 != 0 && left >> (32 - place % 32) != 0)
    atomicOr(at(b.token_bits, place / 32 + 1), left >> (32 - place % 32));
}

// A thread a piece.
__device__ inline void merge_short(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const Merges& merges = chain.tables.merges;
  for (u32 i = thread_index(); i < b.totals[kShort]; i += thread_count()) {
    const u32 begin = b.starts[b.short_pieces[i]], end = b.starts[b.short_pieces[i] + 1];
    u32 ids[kThreadBytes], ranks[kThreadBytes];
    u32 left = 0;  // places of the symbols that are left
    for (u32 at = 0; at < end - begin; ++at) {
      ids[at] = symbol_at(chain, begin + at, begin, end);
      if (ids[at] != kNone32) left |= u32{1} << at;
    }
    const auto rank_of = [&](u32 at) {
      const u32 behind = left & bits_from(at) & ~(u32{1} << at);
      return behind == 0 ? kNone32 : merges.find(ids[at], ids[lowest_bit(behind)]);
    };
    for (u32 rest = left; rest != 0;) {
      const u32 at = lowest_bit(rest);
      rest &= rest - 1;
      const u32 next = rest == 0 ? at : lowest_bit(rest);
      ranks[at] = rest == 0 ? kNone32 : first_rank(chain, begin + at, begin + next, ids[at], ids[next]);
    }
    for (;;) {
      u32 best = kNone32, where = 0;
      for (u32 rest = left; rest != 0; rest &= rest - 1) {
        const u32 at = lowest_bit(rest);
        if (ranks[at] < best) best = ranks[at], where = at;
      }
      if (best == kNone32) break;
      left &= ~(u32{1} << lowest_bit(left & bits_from(where) & ~(u32{1} << where)));
      ids[where] = merges.made(best);
      ranks[where] = rank_of(where);
      const u32 before = left & bits_below(where);
      if (before != 0) ranks[highest_bit(before)] = rank_of(highest_bit(before));
    }
    for (u32 rest = left; rest != 0; rest &= rest - 1)
      b.symbols[begin + lowest_bit(rest)] = ids[lowest_bit(rest)];
    put_tokens(chain, begin, left);
  }
}

// With so few pairs of the lowest rank, or fewer, the warp merges one and looks again. PERF: a round for all of them goes
// over all places five times.
constexpr u32 kFewPairs = 4;

// What a warp merges, in shared memory. Place p is bit p % 32 of word p / 32, and lane p % 32 looks after it.
struct Region {
  Shared<u32> ids, ranks;
  Shared<u32> left;      // bitmap of the symbols that are left
  Shared<u32> chosen;    // of the pairs that this round merges, by their first symbol
  Shared<u32> gone;      // of their second symbols
  u32 words;             // of each bitmap
};

// Words of shared memory of a region of so many places.
TOKSEAM_DEVICE constexpr u32 region_words(u32 places) { return 2 * places + 3 * (places / 32); }

__device__ inline Region region_at(Shared<u32> room, u32 places) {
  const u32 words = places / 32;
  return {room,
          room + places,
          room + 2 * places,
          room + (2 * places + words),
          room + (2 * places + 2 * words),
          words};
}

// The next symbol that is left behind place p, or kNone32.
__device__ inline u32 symbol_after(const Region& region, u32 p) {
  u32 word = p / 32;
  u32 bits = region.left[word] & bits_from(p % 32) & ~(u32{1} << p % 32);
  while (bits == 0) {
    if (++word == region.words) return kNone32;
    bits = region.left[word];
  }
  return word * 32 + lowest_bit(bits);
}
__device__ inline u32 symbol_before(const Region& region, u32 p) {
  u32 word = p / 32;
  u32 bits = region.left[word] & bits_below(p % 32);
  while (bits == 0) {
    if (word-- == 0) return kNone32;
    bits = region.left[word];
  }
  return word * 32 + highest_bit(bits);
}

// Which of the pairs at `bits` are merged when all are that don't overlap one further left: in a run of neighbours every
// second one, from its first on. `odd`: whether the run that reaches into this word has an odd number so far.
__device__ inline u32 every_second(u32 bits, u32 left, u32& odd) {
  const u32 breaks = left & ~bits, lane = lane_index();
  const u32 below = breaks & bits_below(lane);
  const u32 run = below == 0 ? bits & bits_below(lane) : bits & bits_below(lane) & bits_from(highest_bit(below));
  const bool first = ((count_bits(run) + (below == 0 ? odd : 0)) & 1) == 0;
  const u32 chosen = __ballot_sync(kAllLanes, (bits >> lane & 1) != 0 && first);
  odd = breaks == 0 ? (odd + count_bits(bits)) & 1 : count_bits(bits & bits_from(highest_bit(breaks))) & 1;
  return chosen;
}

// The rank of the pair at p, whose first symbol is left.
__device__ inline u32 pair_rank(const Chain& chain, const Region& region, u32 p) {
  const u32 next = symbol_after(region, p);
  return next == kNone32 ? kNone32 : chain.tables.merges.find(region.ids[p], region.ids[next]);
}

// The lowest rank that a lane looks after, and the leftmost place that has it.
struct Least {
  u32 rank, place;
};
__device__ inline Least least_of(const Region& region) {
  Least least{kNone32, kNone32};
  for (u32 word = 0; word < region.words; ++word) {
    const u32 p = word * 32 + lane_index(), rank = region.ranks[p];
    if (rank < least.rank) least = {rank, p};
  }
  return least;
}

// Merge the pair at p, which has this rank, and look up the two pairs that come of it. All lanes.
__device__ inline void merge_one(const Chain& chain, Region& region, u32 rank, u32 p, Least& least) {
  const u32 lane = lane_index();
  const u32 before = symbol_before(region, p), gone = symbol_after(region, p), behind = symbol_after(region, gone);
  const u32 made = chain.tables.merges.made(rank);
  __syncwarp();
  if (lane == 0) {
    region.ids[p] = made;
    region.left[gone / 32] &= ~(u32{1} << gone % 32);
    region.ranks[gone] = kNone32;
    region.ranks[p] = behind == kNone32 ? kNone32 : chain.tables.merges.find(made, region.ids[behind]);
  }
  if (lane == 1 && before != kNone32) region.ranks[before] = chain.tables.merges.find(region.ids[before], made);
  __syncwarp();
  if (lane == p % 32 || lane == gone % 32 || (before != kNone32 && lane == before % 32)) least = least_of(region);
}

// Merge all pairs of the lowest rank that do not overlap one further left. All lanes.
__device__ inline void merge_all(const Chain& chain, Region& region, u32 rank, Least& least) {
  const u32 lane = lane_index();
  const u32 made = chain.tables.merges.made(rank);
  u32 odd = 0;
  for (u32 word = 0; word < region.words; ++word) {
    const u32 bits = __ballot_sync(kAllLanes, region.ranks[word * 32 + lane] == rank);
    const u32 chosen = every_second(bits, region.left[word], odd);
    if (lane == 0) region.chosen[word] = chosen, region.gone[word] = 0;
  }
  __syncwarp();
  for (u32 word = 0; word < region.words; ++word) {
    if ((region.chosen[word] >> lane & 1) == 0) continue;
    const u32 p = word * 32 + lane, gone = symbol_after(region, p);
    region.ids[p] = made;
    shared_or(region.gone, gone / 32, u32{1} << gone % 32);
  }
  __syncwarp();
  for (u32 word = lane; word < region.words; word += kWarpThreads) region.left[word] &= ~region.gone[word];
  __syncwarp();
  // Ranks of what is new: a chosen symbol with the next, and the one before it, unless that is chosen too.
  for (u32 word = 0; word < region.words; ++word) {
    const u32 p = word * 32 + lane;
    if ((region.gone[word] >> lane & 1) != 0) region.ranks[p] = kNone32;
    if ((region.chosen[word] >> lane & 1) == 0) continue;
    region.ranks[p] = pair_rank(chain, region, p);
    const u32 before = symbol_before(region, p);
    if (before != kNone32 && (region.chosen[before / 32] >> before % 32 & 1) == 0)
      region.ranks[before] = pair_rank(chain, region, before);
  }
  __syncwarp();
  least = least_of(region);
}

// Load the symbols of [begin, end), and merge them. All lanes of a warp.
__device__ inline void merge_region(const Chain& chain, Region& region, u32 begin, u32 end) {
  const u32 lane = lane_index();
  region.words = (end - begin + 31) / 32;
  for (u32 word = 0; word < region.words; ++word) {
    const u32 p = word * 32 + lane;
    const u32 id = begin + p < end ? symbol_at(chain, begin + p, begin, end) : kNone32;
    region.ids[p] = id;
    const u32 left = __ballot_sync(kAllLanes, id != kNone32);
    if (lane == 0) region.left[word] = left;
  }
  __syncwarp();
  for (u32 word = 0; word < region.words; ++word) {
    const u32 p = word * 32 + lane, next = symbol_after(region, p);
    const bool pair = (region.left[word] >> lane & 1) != 0 && next != kNone32;
    region.ranks[p] = pair ? first_rank(chain, begin + p, begin + next, region.ids[p], region.ids[next]) : kNone32;
  }
  Least least = least_of(region);
  for (;;) {
    const u32 rank = __reduce_min_sync(kAllLanes, least.rank);
    if (rank == kNone32) break;
    const u32 lanes = __ballot_sync(kAllLanes, least.rank == rank);
    if (chain.tables.rising != 0 && count_bits(lanes) > kFewPairs) {
      merge_all(chain, region, rank, least);
    } else {
      const u32 place = __reduce_min_sync(kAllLanes, least.rank == rank ? least.place : kNone32);
      merge_one(chain, region, rank, place, least);
    }
  }
  __syncwarp();
}

// The tokens of a merged region, at their places in the text.
__device__ inline void put_region(const Chain& chain, const Region& region, u32 begin) {
  const Buffers& b = chain.buffers;
  for (u32 word = 0; word < region.words; ++word) {
    const u32 p = word * 32 + lane_index();
    if ((region.left[word] >> lane_index() & 1) != 0) b.symbols[begin + p] = region.ids[p];
    if (lane_index() == 0) put_tokens(chain, begin + word * 32, region.left[word]);
  }
  __syncwarp();
}

// Warps of a block that merge regions: their shared memory stays within the 48 KB that every device has.
constexpr u32 kMiddleWarps = kThreads / kWarpThreads;
constexpr u32 kLargeWarps = 4;
constexpr u32 kLargeThreads = kLargeWarps * kWarpThreads;

// A warp a piece of up to 128 bytes.
__device__ inline void merge_middle(const Chain& chain) {
  TOKSEAM_SHARED(u32, room, kMiddleWarps * region_words(kWarpBytes));
  const Buffers& b = chain.buffers;
  Region region = region_at(room + threadIdx.x / kWarpThreads * region_words(kWarpBytes), kWarpBytes);
  for (u32 i = warp_index(); i < b.totals[kMiddle]; i += warp_count()) {
    const u32 piece = b.middle_pieces[i];
    merge_region(chain, region, b.starts[piece], b.starts[piece + 1]);
    put_region(chain, region, b.starts[piece]);
  }
}

// A warp a piece of up to 768 bytes.
__device__ inline void merge_large(const Chain& chain) {
  TOKSEAM_SHARED(u32, room, kLargeWarps * region_words(kRegionBytes));
  const Buffers& b = chain.buffers;
  Region region = region_at(room + threadIdx.x / kWarpThreads * region_words(kRegionBytes), kRegionBytes);
  for (u32 i = warp_index(); i < b.totals[kLarge]; i += warp_count()) {
    const u32 piece = b.large_pieces[i];
    merge_region(chain, region, b.starts[piece], b.starts[piece + 1]);
    put_region(chain, region, b.starts[piece]);
  }
}

}  // namespace tokseam::cuda
