// Pieces merged side by side on any processor: what a piece became so far is a linked list over its first symbols.
// merge_lanes.hpp steps them; vector_lanes.hpp does short ones quicker, where the processor can.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lane_loop.hpp"
#include "merges.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tokseam {

class LinkedLanes {
  static constexpr std::size_t kBlock = 8;  // keys compared at once

 public:
  // Of a piece; beyond, looking for the least key takes too long. PERF: two of the longest runs of spaces, of 128, that
  // vocabularies have; with one less, the seams of a megabyte of spaces go to the heap, at ten times the cost.
  static constexpr std::size_t kMostSymbols = 256;

  // PERF: so many that a slot has come from the farthest cache until it is a lane's turn again.
  static constexpr std::size_t kLanes = 12;

  // Symbols stay where they are, at 1 .. size; next[i] and previous[i] lead to the ones that are left, and to one at
  // either end that merges with none: PERF: so that no step has to ask whether it is at an end. keys[i]: the rank of
  // the pair that begins at i above its place, so that the least one is the lowest rank's leftmost; kNoKey where there
  // is none.
  struct Lane {
    std::array<std::uint32_t, kMostSymbols + 2> symbols;
    std::array<std::uint32_t, kMostSymbols + 2 * kBlock> keys;
    std::array<std::uint16_t, kMostSymbols + 2> next, previous;
    std::size_t size, piece;
    std::size_t merged;  // the place whose pairs are to be looked up

    // visit(id, symbols that it is made of) of what the piece became, in order.
    template <class Visit>
    void each(Visit&& visit) const {
      for (std::size_t at = next[0]; at <= size; at = next[at]) visit(symbols[at], std::size_t{next[at]} - at);
    }
  };

  explicit LinkedLanes(const Merges& merges) : merges_(merges) {}

  // A piece of at most kMostSymbols.
  void begin(Lane& lane, std::span<const std::uint32_t> symbols) const {
    std::ranges::copy(symbols, lane.symbols.begin() + 1);
    for (std::size_t k = 0; k + 1 < symbols.size(); ++k) merges_.prefetch(symbols[k], symbols[k + 1]);
    for (std::size_t k = 0; k + 1 < symbols.size(); ++k)
      lane.keys[k + 1] = key_of(merges_.find(symbols[k], symbols[k + 1]), k + 1);
    link(lane, symbols.size());
  }

  // The same of ASCII, where every byte has a symbol. PERF: two bytes that stand side by side are looked up in a table
  // of their own, most of it in the nearest caches.
  void begin_ascii(Lane& lane, std::string_view piece) const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
    for (std::size_t k = 0; k < piece.size(); ++k) lane.symbols[k + 1] = merges_.byte_id(bytes[k]);
    for (std::size_t k = 0; k + 1 < piece.size(); ++k)
      lane.keys[k + 1] = key_of(merges_.find_bytes(bytes[k], bytes[k + 1]), k + 1);
    link(lane, piece.size());
  }

  // As MergeLanes::run, for the pieces that are mine(i).
  template <class Mine, class Start, class Done>
  void run(std::size_t pieces, Mine&& mine, Start&& start, Done&& done) {
    loop_lanes(*this, room_, pieces, mine, start, done);
  }

  // Looks up what the merge before made, and does the next one. False where none is left.
  bool step(Lane& lane) const {
    auto& [symbols, keys, next, previous, size, piece, merged] = lane;
    keys[merged] = key_of(merges_.find(symbols[merged], symbols[next[merged]]), merged);
    const std::size_t before = previous[merged];
    keys[before] = key_of(merges_.find(symbols[before], symbols[merged]), before);
    const std::uint32_t best = least(keys.data(), size);
    if (best == kNoKey) return false;
    merged = best & ((1U << kPlaceBits) - 1);
    const std::uint32_t rank = (best - kLeastKey) >> kPlaceBits;
    const std::size_t gone = next[merged], behind = next[gone];
    symbols[merged] = merges_.merged(rank);
    keys[gone] = kNoKey;
    next[merged] = static_cast<std::uint16_t>(behind);
    previous[behind] = static_cast<std::uint16_t>(merged);
    merges_.prefetch(symbols[merged], symbols[behind]);
    merges_.prefetch(symbols[previous[merged]], symbols[merged]);
    return true;
  }

 private:
  static constexpr int kPlaceBits = 8;
  static_assert(kMostSymbols <= std::size_t{1} << kPlaceBits, "no pair begins at the last symbol");

  // The bits of the least and of the greatest float that are normal: keys between them are in the same order as the
  // floats of their bits, also where a process has smaller ones taken for zero.
  static constexpr std::uint32_t kLeastKey = 0x00800000, kNoKey = 0x7F7FFFFF;
  static_assert((std::uint64_t{1} << (Merges::kMaxRankBits + kPlaceBits)) + kLeastKey < kNoKey);

  static std::uint32_t key_of(std::uint32_t rank, std::size_t place) {
    return rank == kNoRank ? kNoKey : kLeastKey + (rank << kPlaceBits | static_cast<std::uint32_t>(place));
  }

  static void link(Lane& lane, std::size_t size) {
    auto& [symbols, keys, next, previous, lane_size, piece, merged] = lane;
    lane_size = size;
    symbols[0] = symbols[size + 1] = kNoId;
    keys[0] = kNoKey;
    for (std::size_t i = std::max<std::size_t>(size, 1); i < size + 1 + kBlock; ++i) keys[i] = kNoKey;
    for (std::size_t i = 0; i <= size; ++i) {
      next[i] = static_cast<std::uint16_t>(i + 1);
      previous[i + 1] = static_cast<std::uint16_t>(i);
    }
    next[size + 1] = static_cast<std::uint16_t>(size + 1);
    merged = size + 1;  // nothing yet: what is looked up there merges with none
    previous[size + 1] = static_cast<std::uint16_t>(size + 1);
  }

  // The least key of those before place `size`, and of as many more as make up a block.
  static std::uint32_t least(const std::uint32_t* keys, std::size_t size) {
#if defined(__x86_64__)
    // PERF: every x86-64 compares floats; of unsigned numbers, only newer ones take the least of two in one step.
    const auto load = [keys](std::size_t i) { return _mm_loadu_ps(reinterpret_cast<const float*>(keys + i)); };
    __m128 some = load(0), others = load(kBlock / 2);
    for (std::size_t i = kBlock; i < size; i += kBlock) {
      some = _mm_min_ps(some, load(i));
      others = _mm_min_ps(others, load(i + kBlock / 2));
    }
    some = _mm_min_ps(some, others);
    some = _mm_min_ps(some, _mm_movehl_ps(some, some));
    some = _mm_min_ps(some, _mm_shuffle_ps(some, some, 1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_castps_si128(some)));
#else
    std::array<std::uint32_t, kBlock> some;
    for (std::size_t k = 0; k < kBlock; ++k) some[k] = keys[k];
    for (std::size_t i = kBlock; i < size; i += kBlock)
      for (std::size_t k = 0; k < kBlock; ++k) some[k] = std::min(some[k], keys[i + k]);
    return std::ranges::min(some);
#endif
  }

  const Merges& merges_;
  std::array<Lane, kLanes> room_;
};

}  // namespace tokseam
