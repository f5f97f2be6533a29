// Many short pieces merged side by side. What merging costs is waiting for the table of pairs: while one piece waits,
// the others go on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ascii_classes.hpp"
#include "merges.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tokseam {

class MergeLanes {
  static constexpr std::size_t kBlock = 8;  // keys compared at once
  struct Lane;

 public:
  static constexpr std::size_t kMostSymbols = 256;  // of a piece; beyond, looking for the least key takes too long

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
  // pair that begins at i above its place, so that the least one is the lowest rank's leftmost; kNoRank beyond the last.
  struct Lane {
    std::array<std::uint32_t, kMostSymbols + 2> symbols;
    std::array<std::uint32_t, kMostSymbols + 2 * kBlock> keys;
    std::array<std::uint16_t, kMostSymbols + 2> next, previous;
    std::size_t size, piece;
    std::size_t merged;  // the place whose pairs are to be looked up
  };

  static constexpr int kPlaceBits = 9;
  static_assert(Merges::kMaxRankBits + kPlaceBits <= 32);

  // PERF: so many that a slot has come from the farthest cache until it is a lane's turn again.
  static constexpr std::size_t kLanes = 12;

  static std::uint32_t key_of(std::uint32_t rank, std::size_t place) {
    return rank == kNoRank ? kNoRank : rank << kPlaceBits | static_cast<std::uint32_t>(place);
  }

  template <class Start>
  static void begin(Lane& lane, std::size_t piece, Start&& start) {
    auto& [symbols, keys, next, previous, size, number, merged] = lane;
    number = piece;
    size = start(piece, symbols.data() + 1, keys.data() + 1);
    symbols[0] = symbols[size + 1] = kNoId;
    for (std::size_t i = 1; i < size; ++i) keys[i] = key_of(keys[i], i);
    keys[0] = kNoRank;
    for (std::size_t i = std::max<std::size_t>(size, 1); i < size + 1 + kBlock; ++i) keys[i] = kNoRank;
    for (std::size_t i = 0; i <= size; ++i) {
      next[i] = static_cast<std::uint16_t>(i + 1);
      previous[i + 1] = static_cast<std::uint16_t>(i);
    }
    next[size + 1] = static_cast<std::uint16_t>(size + 1);
    merged = size + 1;  // nothing yet: what is looked up there merges with none
    previous[size + 1] = static_cast<std::uint16_t>(size + 1);
  }

  // The least key of those before place `size`, and of as many more as make up a block.
  std::uint32_t least(const std::uint32_t* keys, std::size_t size) const {
#if defined(__x86_64__)
    if (size > 2 * kBlock && has_avx2_) return least_avx2(keys, size);
#endif
    std::array<std::uint32_t, kBlock> some;
    for (std::size_t k = 0; k < kBlock; ++k) some[k] = keys[k];
    for (std::size_t i = kBlock; i < size; i += kBlock)
      for (std::size_t k = 0; k < kBlock; ++k) some[k] = std::min(some[k], keys[i + k]);
    for (std::size_t width = kBlock / 2; width > 0; width /= 2)
      for (std::size_t k = 0; k < width; ++k) some[k] = std::min(some[k], some[k + width]);
    return some[0];
  }

#if defined(__x86_64__)
  // SAFETY: keys go on for a block behind the last.
  __attribute__((target("avx2"))) static std::uint32_t least_avx2(const std::uint32_t* keys, std::size_t size) {
    const auto load = [keys](std::size_t i) __attribute__((target("avx2"))) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i));
    };
    __m256i some = load(0);
    for (std::size_t i = kBlock; i < size; i += kBlock) some = _mm256_min_epu32(some, load(i));
    __m128i four = _mm_min_epu32(_mm256_castsi256_si128(some), _mm256_extracti128_si256(some, 1));
    four = _mm_min_epu32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_min_epu32(four, _mm_shuffle_epi32(four, 0xB1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(four));
  }
#endif

  // Looks up what the merge before made, and does the next one. False where none is left.
  bool step(Lane& lane) const {
    auto& [symbols, keys, next, previous, size, piece, merged] = lane;
    keys[merged] = key_of(merges_.find(symbols[merged], symbols[next[merged]]), merged);
    const std::size_t before = previous[merged];
    keys[before] = key_of(merges_.find(symbols[before], symbols[merged]), before);
    const std::uint32_t best = least(keys.data(), size);
    if (best == kNoRank) return false;
    merged = best & ((1U << kPlaceBits) - 1);
    const std::size_t gone = next[merged], behind = next[gone];
    symbols[merged] = merges_.merged(best >> kPlaceBits);
    keys[gone] = kNoRank;
    next[merged] = static_cast<std::uint16_t>(behind);
    previous[behind] = static_cast<std::uint16_t>(merged);
    merges_.prefetch(symbols[merged], symbols[behind]);
    merges_.prefetch(symbols[previous[merged]], symbols[merged]);
    return true;
  }

  const Merges& merges_;
#if defined(__x86_64__)
  const bool has_avx2_ = AsciiClasses::has_avx2();
#endif
  std::array<Lane, kLanes> room_;
  std::array<Lane*, kLanes> lanes_ = [this] {
    std::array<Lane*, kLanes> lanes;
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = &room_[i];
    return lanes;
  }();
};

}  // namespace tokseam
