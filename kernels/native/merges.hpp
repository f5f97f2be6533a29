// BPE: merge the pair of lowest rank, the leftmost first, until none is left. Ranks may be in any order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <queue>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "vocabulary.hpp"

namespace tokseam {

constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

struct Merge {
  std::uint32_t rank = kNoRank;
  std::uint32_t id = kNoId;
};

// (left id, right id) -> rank, as a flat hash table of 8 bytes a slot; rank -> merged id, as an array.
class Merges {
 public:
  struct Entry {
    std::uint32_t left, right;
    Merge merge;
  };

  // Of entries for the same pair the last one counts, as in the reference. byte_ids: the symbol of each byte, kNoId
  // where there is none, for apply_bytes. Throws std::invalid_argument where ids and ranks do not fit a slot together.
  Merges(const std::vector<Entry>& entries, const std::array<std::uint32_t, 256>& byte_ids) : byte_ids_(byte_ids) {
    std::uint32_t max_id = 1, max_rank = 1;
    for (const Entry& entry : entries) {
      max_id = std::max({max_id, entry.left, entry.right});
      max_rank = std::max(max_rank, entry.merge.rank);
    }
    // One more than the largest rank, so that a slot that holds nothing (all ones) is no pair's.
    rank_bits_ = static_cast<int>(std::bit_width(max_rank + std::uint64_t{1}));
    id_bits_ = static_cast<int>(std::bit_width(max_id));
    if (rank_bits_ + 2 * id_bits_ > 64 || rank_bits_ > kMaxRankBits)
      throw std::invalid_argument("merges: too many of them for their table");
    rank_mask_ = (std::uint64_t{1} << rank_bits_) - 1;
    size_ = entries.size() * 2 + kLine;
    slots_.assign(size_ + kLine, kFree);  // the last few lines have the first ones' room behind them
    merged_.assign(static_cast<std::size_t>(max_rank) + 1, kNoId);
    for (const Entry& entry : entries) insert(entry);
    for (std::size_t first = 0; first < 256; ++first)
      for (std::size_t second = 0; second < 256; ++second)
        byte_pairs_[first << 8 | second] = byte_ids[first] == kNoId || byte_ids[second] == kNoId
                                               ? kNoRank
                                               : find(byte_ids[first], byte_ids[second]);
    for (const std::uint32_t id : byte_ids) every_byte_ = every_byte_ && id != kNoId;
  }

  // The rank of a pair, or kNoRank.
  std::uint32_t find(std::uint32_t left, std::uint32_t right) const {
    if ((left | right) >> id_bits_ != 0) return kNoRank;
    const std::uint64_t key = pair_key(left, right);
    for (std::size_t at = slot_of(key);; ++at) {
      const std::uint64_t slot = slots_[at];
      if (slot >> rank_bits_ == key) return static_cast<std::uint32_t>(slot & rank_mask_);
      if (slot == kFree) return kNoRank;
    }
  }

  // Merge `symbols` in place; on return it holds the ids.
  void apply(std::vector<std::uint32_t>& symbols) const {
    if (symbols.size() < 2) return;
    if (symbols.size() > kShort) return apply_long(symbols);
    std::uint32_t ranks[kShort];
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) ranks[i] = find(symbols[i], symbols[i + 1]);
    symbols.resize(apply_short(symbols.data(), ranks, symbols.size()));
  }

  // The ids of a piece of bytes, appended to `ids`. `symbols` is room to work in.
  void apply_bytes(std::string_view piece, std::vector<std::uint32_t>& symbols, std::vector<std::uint32_t>& ids) const {
    if (piece.size() > kShort || !every_byte_) {
      symbols.clear();
      for (const char byte : piece) {
        const std::uint32_t id = byte_ids_[static_cast<unsigned char>(byte)];
        if (id != kNoId) symbols.push_back(id);
      }
      apply(symbols);
      ids.insert(ids.end(), symbols.begin(), symbols.end());
      return;
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
    const std::size_t n = piece.size();
    std::uint32_t s[kShort], ranks[kShort];
    for (std::size_t i = 0; i < n; ++i) s[i] = byte_ids_[bytes[i]];
    // PERF: two bytes that stand side by side are looked up in a table of their own, most of it in the nearest caches.
    for (std::size_t i = 0; i + 1 < n; ++i) ranks[i] = byte_pairs_[static_cast<std::size_t>(bytes[i]) << 8 | bytes[i + 1]];
    ids.insert(ids.end(), s, s + apply_short(s, ranks, n));
  }

 private:
  // Up to here a scan for the lowest rank is quicker than a heap (both give the same ids).
  static constexpr std::size_t kShort = 48;
  static constexpr std::size_t kLine = 8;       // slots of a cache line
  static constexpr int kMaxRankBits = 26;       // a rank and a place among kShort fit 32 bits
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  void insert(const Entry& entry) {
    const std::uint64_t key = pair_key(entry.left, entry.right);
    std::uint32_t& merged = merged_[entry.merge.rank];
    if (merged != kNoId && merged != entry.merge.id) throw std::invalid_argument("merges: one rank, two tokens");
    merged = entry.merge.id;
    for (std::size_t at = slot_of(key);; ++at) {
      // A run that reaches the end needs more room there: rare, and a matter of building only.
      if (at + 1 == slots_.size()) slots_.push_back(kFree);
      if (slots_[at] != kFree && slots_[at] >> rank_bits_ != key) continue;
      slots_[at] = key << rank_bits_ | entry.merge.rank;
      return;
    }
  }

  std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) const {
    return static_cast<std::uint64_t>(left) << id_bits_ | right;
  }
  // By the high half of a product, so that the table may have any size (Lemire's reduction).
  std::size_t slot_of(std::uint64_t key) const {
    const detail::Wide product = static_cast<detail::Wide>(key * 0x9E3779B97F4A7C15U) * size_;
    return static_cast<std::size_t>(product >> 64);
  }

  // Merge n symbols whose pairs have `ranks`; returns how many are left. n <= kShort.
  std::size_t apply_short(std::uint32_t* s, std::uint32_t* ranks, std::size_t n) const {
    // keys[i]: the rank of symbols i and i + 1 above the place i, so that the least one is the lowest rank's leftmost.
    std::uint32_t keys[kShort + 4];
    const auto key = [](std::uint32_t rank, std::size_t place) {
      return rank == kNoRank ? kNoRank : rank << 6 | static_cast<std::uint32_t>(place);
    };
    for (std::size_t i = 0; i + 1 < n; ++i) keys[i] = key(ranks[i], i);
    // Symbols stay where they are; next[i] and previous[i] lead to the ones that are left.
    std::uint8_t next[kShort + 1], previous[kShort + 1];
    for (std::size_t i = 0; i < n; ++i) {
      next[i] = static_cast<std::uint8_t>(i + 1);
      previous[i + 1] = static_cast<std::uint8_t>(i);
    }
    for (std::size_t i = n - 1; i < n + 3; ++i) keys[i] = kNoRank;
    std::size_t left = n;
    for (;;) {
      std::uint32_t a = kNoRank, b = kNoRank, c = kNoRank, d = kNoRank;
      for (std::size_t i = 0; i + 1 < n; i += 4) {
        a = std::min(a, keys[i]);
        b = std::min(b, keys[i + 1]);
        c = std::min(c, keys[i + 2]);
        d = std::min(d, keys[i + 3]);
      }
      const std::uint32_t best = std::min(std::min(a, b), std::min(c, d));
      if (best == kNoRank) break;
      const std::size_t at = best & 63, gone = next[at], behind = next[gone];
      s[at] = merged_[best >> 6];
      keys[gone] = kNoRank;
      next[at] = static_cast<std::uint8_t>(behind);
      --left;
      if (behind < n) {
        previous[behind] = static_cast<std::uint8_t>(at);
        keys[at] = key(find(s[at], s[behind]), at);
      } else {
        keys[at] = kNoRank;
      }
      if (at > 0) {
        const std::size_t before = previous[at];
        keys[before] = key(find(s[before], s[at]), before);
      }
    }
    for (std::size_t i = 0, at = 0; i < left; ++i, at = next[at]) s[i] = s[at];
    return left;
  }

  // A heap of (rank, position) over a linked list: n log n whatever the text.
  void apply_long(std::vector<std::uint32_t>& symbols) const {
    const std::size_t n = symbols.size();
    constexpr std::uint32_t kEnd = 0xFFFFFFFF;
    struct Node {
      std::uint32_t previous, next;
      std::uint32_t rank;  // of this symbol and the next, kNoRank where none; a merged-away symbol has kNoRank
    };
    std::vector<Node> nodes(n);
    std::vector<std::uint64_t> start;
    start.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t rank = i + 1 < n ? find(symbols[i], symbols[i + 1]) : kNoRank;
      nodes[i] = {i ? static_cast<std::uint32_t>(i - 1) : kEnd, i + 1 < n ? static_cast<std::uint32_t>(i + 1) : kEnd,
                  rank};
      if (rank != kNoRank) start.push_back(static_cast<std::uint64_t>(rank) << 32 | i);
    }
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue(std::greater<>(),
                                                                                         std::move(start));
    const auto update = [&](std::uint32_t at) {
      Node& node = nodes[at];
      node.rank = node.next == kEnd ? kNoRank : find(symbols[at], symbols[node.next]);
      if (node.rank != kNoRank) queue.push(static_cast<std::uint64_t>(node.rank) << 32 | at);
    };
    while (!queue.empty()) {
      const std::uint64_t top = queue.top();
      queue.pop();
      const auto at = static_cast<std::uint32_t>(top);
      Node& node = nodes[at];
      if (node.rank != static_cast<std::uint32_t>(top >> 32)) continue;  // what was queued is no longer so
      const std::uint32_t gone = node.next;
      symbols[at] = merged_[node.rank];
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

  std::vector<std::uint64_t> slots_;    // pair_key << rank_bits_ | rank; the last one is free, so that every probe ends
  std::vector<std::uint32_t> merged_;   // by rank
  std::array<std::uint32_t, 256> byte_ids_;
  std::array<std::uint32_t, 65536> byte_pairs_;  // ranks of two bytes' symbols
  std::uint64_t size_ = 0, rank_mask_ = 0;
  int rank_bits_ = 0, id_bits_ = 0;
  bool every_byte_ = true;  // every byte has a symbol
};

}  // namespace tokseam
