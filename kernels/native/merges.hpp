// BPE: merge the pair of lowest rank, the leftmost first, until none is left. Ranks may be in any order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <queue>
#include <span>
#include <vector>

#include "hash.hpp"
#include "image.hpp"
#include "vocabulary.hpp"

namespace tokseam {

constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

struct Merge {
  std::uint32_t rank = kNoRank;
  std::uint32_t id = kNoId;
};

// (left id, right id) -> rank and merged id, as a flat hash table in an image.
class Merges {
 public:
  // quads: left, right, rank, merged id; repeated. Of one pair the last one counts, as in the reference.
  static void write(ImageWriter& writer, std::span<const std::uint32_t> quads) {
    const std::size_t count = quads.size() / 4;
    std::vector<Slot> slots(count + count / 4 + 2);
    for (std::size_t i = 0; i < count; ++i) {
      const Slot made{quads[4 * i], quads[4 * i + 1], {quads[4 * i + 2], quads[4 * i + 3]}};
      std::size_t at = first_place(made.left, made.right, slots.size());
      while (slots[at].merge.rank != kNoRank && !(slots[at].left == made.left && slots[at].right == made.right))
        at = at + 1 == slots.size() ? 0 : at + 1;
      slots[at] = made;
    }
    writer.add(Section::merges, slots);
  }

  explicit Merges(const Image& image) : slots_(image.get<Slot>(Section::merges)) {
    bool ends = false;
    for (const Slot& slot : slots_) ends = ends || slot.merge.rank == kNoRank;
    Image::require(ends, Section::merges);
  }

  Merge find(std::uint32_t left, std::uint32_t right) const {
    for (std::size_t at = first_place(left, right, slots_.size());;) {
      const Slot& slot = slots_[at];
      if (slot.merge.rank == kNoRank) return {};
      if (slot.left == left && slot.right == right) return slot.merge;
      if (++at == slots_.size()) at = 0;
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
    std::uint32_t left = 0, right = 0;
    Merge merge;  // rank kNoRank: free
  };

  // Up to here a scan for the lowest rank is quicker than a heap (both give the same ids).
  static constexpr std::size_t kShort = 48;

  static std::size_t first_place(std::uint32_t left, std::uint32_t right, std::size_t slots) {
    return place_of((static_cast<std::uint64_t>(left) << 32 | right) * kOdd1, slots);
  }

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

  std::span<const Slot> slots_;  // at most four fifths full, so every probe ends
};

}  // namespace tokseam
