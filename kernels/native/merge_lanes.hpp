// Many short pieces merged side by side. What merging costs is waiting for the table of pairs: while one piece waits,
// the others go on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "merges.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tokseam {

class MergeLanes {
  static constexpr std::size_t kBlock = 8;  // keys compared at once
  struct Lane;

 public:
  static constexpr std::size_t kMostSymbols = 255;  // of a piece; beyond, looking for the least key takes too long

  // What a piece became.
  class Result {
   public:
    explicit Result(const Lane& lane) : lane_(lane) {}
    // visit(id, symbols that it is made of), in order.
    template <class Visit>
    void each(Visit&& visit) const {
      for (std::size_t at = lane_.next[0]; at <= lane_.size; at = lane_.next[at])
        visit(lane_.symbols[at], std::size_t{lane_.next[at]} - at);
    }

   private:
    const Lane& lane_;
  };

  explicit MergeLanes(const Merges& merges) : merges_(merges) {}

  // What a lane begins with where only the symbols are known: copies them, and looks up the ranks of their pairs.
  std::size_t start(std::span<const std::uint32_t> from, std::uint32_t* symbols, std::uint32_t* ranks) const {
    std::ranges::copy(from, symbols);
    for (std::size_t k = 0; k + 1 < from.size(); ++k) merges_.prefetch(from[k], from[k + 1]);
    for (std::size_t k = 0; k + 1 < from.size(); ++k) ranks[k] = merges_.find(from[k], from[k + 1]);
    return from.size();
  }

  // For each i < pieces, in any order: start(i, symbols, ranks) fills in what piece i begins as, symbols[0 .. n) and
  // ranks[k] of the pair that begins at symbol k, and returns n <= kMostSymbols; done(i, result) is handed what it
  // becomes.
  template <class Start, class Done>
  void run(std::size_t pieces, Start&& start, Done&& done) {
    std::size_t next = 0, active = 0;
    for (; active < kLanes && next < pieces; ++active) begin(*lanes_[active], next++, start);
    while (active > 0) {
      for (std::size_t i = 0; i < active;) {
        Lane& lane = *lanes_[i];
        if (step(lane)) {
          ++i;
          continue;
        }
        done(lane.piece, Result{lane});
        if (next < pieces)
          begin(lane, next++, start);
        else
          std::swap(lanes_[i], lanes_[--active]);
      }
    }
  }

 private:
  // Symbols stay where they are, at 1 .. size; next[i] and previous[i] lead to the ones that are left, and to one at
  // either end that merges with none: PERF: so that no step has to ask whether it is at an end. keys[i]: the rank of the
  // pair that begins at i above its place, so that the least one is the lowest rank's leftmost; kNoKey where there is none.
  struct Lane {
    std::array<std::uint32_t, kMostSymbols + 2> symbols;
    std::array<std::uint32_t, kMostSymbols + 2 * kBlock> keys;
    std::array<std::uint16_t, kMostSymbols + 2> next, previous;
    std::size_t size, piece;
    std::size_t merged;  // the place whose pairs are to be looked up
  };

  static constexpr int kPlaceBits = 8;
  static_assert(kMostSymbols < std::size_t{1} << kPlaceBits);

  // The bits of the least and of the greatest float that are normal: keys between them are in the same order as the
  // floats of their bits, also where a process has smaller ones taken for zero.
  static constexpr std::uint32_t kLeastKey = 0x00800000, kNoKey = 0x7F7FFFFF;
  static_assert((std::uint64_t{1} << (Merges::kMaxRankBits + kPlaceBits)) + kLeastKey < kNoKey);

  // PERF: so many that a slot has come from the farthest cache until it is a lane's turn again.
  static constexpr std::size_t kLanes = 12;

  static std::uint32_t key_of(std::uint32_t rank, std::size_t place) {
    return rank == kNoRank ? kNoKey : kLeastKey + (rank << kPlaceBits | static_cast<std::uint32_t>(place));
  }

  template <class Start>
  static void begin(Lane& lane, std::size_t piece, Start&& start) {
    auto& [symbols, keys, next, previous, size, number, merged] = lane;
    number = piece;
    size = start(piece, symbols.data() + 1, keys.data() + 1);
    symbols[0] = symbols[size + 1] = kNoId;
    for (std::size_t i = 1; i < size; ++i) keys[i] = key_of(keys[i], i);
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

  const Merges& merges_;
  std::array<Lane, kLanes> room_;
  std::array<Lane*, kLanes> lanes_ = [this] {
    std::array<Lane*, kLanes> lanes;
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = &room_[i];
    return lanes;
  }();
};

}  // namespace tokseam
