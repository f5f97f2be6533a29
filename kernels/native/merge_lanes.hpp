// Many short pieces merged side by side. What merging costs is waiting for the table of pairs: while one piece waits,
// the others go on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "merges.hpp"

namespace tokseam {

class MergeLanes {
 public:
  static constexpr std::size_t kMostSymbols = 48;  // of a piece

  explicit MergeLanes(const Merges& merges) : merges_(merges) {}

  // For each i < pieces, in any order: start(i, symbols, ranks) fills in what piece i begins as, symbols[0 .. n) and
  // ranks[k] of the pair that begins at symbol k, and returns n <= kMostSymbols; done(i, symbols, count) is handed what it
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
        for (std::size_t k = 0, at = 0; k < lane.left; ++k, at = lane.next[at]) lane.symbols[k] = lane.symbols[at];
        done(lane.piece, lane.symbols.data(), lane.left);
        if (next < pieces)
          begin(lane, next++, start);
        else
          std::swap(lanes_[i], lanes_[--active]);
      }
    }
  }

 private:
  // PERF: so many that a slot has come from the farthest cache until it is a lane's turn again.
  static constexpr std::size_t kLanes = 12;
  static constexpr std::size_t kNothing = ~std::size_t{0};

  // Symbols stay where they are; next[i] and previous[i] lead to the ones that are left. keys[i]: the rank of the pair
  // that begins at i above its place, so that the least one is the lowest rank's leftmost.
  struct Lane {
    std::array<std::uint32_t, kMostSymbols + 4> symbols, keys;
    std::array<std::uint8_t, kMostSymbols + 1> next, previous;
    std::size_t size, left, piece;
    std::size_t merged;  // the place whose pairs are to be looked up, or kNothing
  };

  static std::uint32_t key_of(std::uint32_t rank, std::size_t place) {
    return rank == kNoRank ? kNoRank : rank << 6 | static_cast<std::uint32_t>(place);
  }

  template <class Start>
  static void begin(Lane& lane, std::size_t piece, Start&& start) {
    lane.piece = piece;
    lane.size = lane.left = start(piece, lane.symbols.data(), lane.keys.data());
    lane.merged = kNothing;
    for (std::size_t i = 0; i + 1 < lane.size; ++i) lane.keys[i] = key_of(lane.keys[i], i);
    for (std::size_t i = 0; i < lane.size; ++i) {
      lane.next[i] = static_cast<std::uint8_t>(i + 1);
      lane.previous[i + 1] = static_cast<std::uint8_t>(i);
    }
    for (std::size_t i = std::max<std::size_t>(lane.size, 1) - 1; i < lane.size + 3; ++i) lane.keys[i] = kNoRank;
  }

  // Looks up what the merge before made, and does the next one. False where none is left.
  bool step(Lane& lane) const {
    auto& [symbols, keys, next, previous, size, left, piece, merged] = lane;
    if (merged != kNothing) {
      const std::size_t behind = next[merged];
      keys[merged] = behind < size ? key_of(merges_.find(symbols[merged], symbols[behind]), merged) : kNoRank;
      if (merged > 0) {
        const std::size_t before = previous[merged];
        keys[before] = key_of(merges_.find(symbols[before], symbols[merged]), before);
      }
    }
    std::uint32_t a = kNoRank, b = kNoRank, c = kNoRank, d = kNoRank;
    for (std::size_t i = 0; i + 1 < size; i += 4) {
      a = std::min(a, keys[i]);
      b = std::min(b, keys[i + 1]);
      c = std::min(c, keys[i + 2]);
      d = std::min(d, keys[i + 3]);
    }
    const std::uint32_t best = std::min(std::min(a, b), std::min(c, d));
    if (best == kNoRank) return false;
    merged = best & 63;
    const std::size_t gone = next[merged], behind = next[gone];
    symbols[merged] = merges_.merged(best >> 6);
    keys[gone] = kNoRank;
    next[merged] = static_cast<std::uint8_t>(behind);
    --left;
    if (behind < size) {
      previous[behind] = static_cast<std::uint8_t>(merged);
      merges_.prefetch(symbols[merged], symbols[behind]);
    }
    if (merged > 0) merges_.prefetch(symbols[previous[merged]], symbols[merged]);
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
