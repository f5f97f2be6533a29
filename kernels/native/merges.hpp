// BPE: merge the pair of lowest rank, the leftmost first, until none is left. Ranks may be in any order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <queue>
#include <vector>

#include "vocabulary.hpp"

namespace tokseam {

constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

struct Merge {
  std::uint32_t rank = kNoRank;
  std::uint32_t id = kNoId;
};

// (left id, right id) -> rank and merged id, as a flat hash table.
class Merges {
 public:
  explicit Merges(std::size_t entries) {
    const std::size_t size = std::bit_ceil(entries * 2 + 16);
    slots_.assign(size, Slot{});
    mask_ = size - 1;
    shift_ = 64 - std::countr_zero(size);
  }

  // A pair that is there already gets the new rank: the last one wins, as in the reference.
  void insert(std::uint32_t left, std::uint32_t right, Merge merge) {
    const std::uint64_t key = pair_key(left, right);
    for (std::size_t at = slot_of(key);; at = (at + 1) & mask_) {
      Slot& slot = slots_[at];
      if (slot.merge.rank == kNoRank || slot.key == key) {
        slot = {key, merge};
        return;
      }
    }
  }

  Merge find(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = pair_key(left, right);
    for (std::size_t at = slot_of(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key || slot.merge.rank == kNoRank) return slot.merge.rank == kNoRank ? Merge{} : slot.merge;
    }
  }

  // Merge `symbols` in place; on return it holds the ids.
  void apply(std::vector<std::uint32_t>& symbols) const {
    if (symbols.size() < 2) return;
    if (symbols.size() <= kShort)
      apply_short(symbols);
    else
      apply_long(symbols);
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;  // rank kNoRank: free
  };

  // Up to here a scan for the lowest rank is quicker than a heap (both give the same ids).
  static constexpr std::size_t kShort = 48;

  static std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | right;
  }
  std::size_t slot_of(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15U) >> shift_; }

  void apply_short(std::vector<std::uint32_t>& symbols) const {
    Merge pairs[kShort];  // pairs[i]: symbols i and i + 1
    std::size_t n = symbols.size();
    std::uint32_t* s = symbols.data();
    for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = find(s[i], s[i + 1]);
    while (n > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < n; ++i)
        if (pairs[i].rank < pairs[best].rank) best = i;
      if (pairs[best].rank == kNoRank) break;
      s[best] = pairs[best].id;
      std::memmove(s + best + 1, s + best + 2, (n - best - 2) * sizeof(*s));
      std::copy(pairs + best + 1, pairs + (n - 1), pairs + best);
      --n;
      if (best > 0) pairs[best - 1] = find(s[best - 1], s[best]);
      if (best + 1 < n) pairs[best] = find(s[best], s[best + 1]);
    }
    symbols.resize(n);
  }

  // A heap of (rank, position) over a linked list: n log n whatever the text.
  void apply_long(std::vector<std::uint32_t>& symbols) const {
    const std::size_t n = symbols.size();
    constexpr std::uint32_t kEnd = 0xFFFFFFFF;
    struct Node {
      std::uint32_t previous, next;
      std::uint32_t rank;  // of this symbol and the next, kNoRank where none; a merged-away symbol has kNoRank
      std::uint32_t merged;
    };
    std::vector<Node> nodes(n);
    std::vector<std::uint64_t> start;
    start.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
      const Merge pair = i + 1 < n ? find(symbols[i], symbols[i + 1]) : Merge{};
      nodes[i] = {i ? static_cast<std::uint32_t>(i - 1) : kEnd, i + 1 < n ? static_cast<std::uint32_t>(i + 1) : kEnd,
                  pair.rank, pair.id};
      if (pair.rank != kNoRank) start.push_back(static_cast<std::uint64_t>(pair.rank) << 32 | i);
    }
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue(std::greater<>(),
                                                                                         std::move(start));
    const auto update = [&](std::uint32_t at) {
      Node& node = nodes[at];
      const Merge pair = node.next == kEnd ? Merge{} : find(symbols[at], symbols[node.next]);
      node.rank = pair.rank;
      node.merged = pair.id;
      if (pair.rank != kNoRank) queue.push(static_cast<std::uint64_t>(pair.rank) << 32 | at);
    };
    while (!queue.empty()) {
      const std::uint64_t top = queue.top();
      queue.pop();
      const auto at = static_cast<std::uint32_t>(top);
      Node& node = nodes[at];
      if (node.rank != static_cast<std::uint32_t>(top >> 32)) continue;  // what was queued is no longer so
      const std::uint32_t gone = node.next;
      symbols[at] = node.merged;
      node.next = nodes[gone].next;
      if (node.next != kEnd) nodes[node.next].previous = at;
      nodes[gone].rank = kNoRank;
      nodes[gone].next = kEnd;
      update(at);
      if (node.previous != kEnd) update(node.previous);
    }
    std::size_t count = 0;
    for (std::uint32_t at = 0; at != kEnd; at = nodes[at].next) symbols[count++] = symbols[at];
    symbols.resize(count);
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace tokseam
