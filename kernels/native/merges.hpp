// BPE: merge the pair of lowest rank, the leftmost first, until none is left. Ranks may be in any order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <queue>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "hash.hpp"
#include "image.hpp"
#include "vocabulary.hpp"

namespace tokseam {

constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

// (left id, right id) -> rank, as a flat hash table of 8 bytes a slot; rank -> merged id, as an array; in an image.
class Merges {
 public:
  // quads: left, right, rank, merged id; repeated. Of one pair the last one counts, as in the reference. byte_ids: the
  // symbol of each byte, kNoId where there is none. Throws std::invalid_argument where ids and ranks do not fit a slot
  // together, or one rank makes two tokens.
  static void write(ImageWriter& writer, std::span<const std::uint32_t> quads, std::span<const std::uint32_t> byte_ids) {
    const std::size_t count = quads.size() / 4;
    std::uint32_t max_id = 1, max_rank = 1;
    for (std::size_t i = 0; i < count; ++i) {
      max_id = std::max({max_id, quads[4 * i], quads[4 * i + 1]});
      max_rank = std::max(max_rank, quads[4 * i + 2]);
    }
    // One more than the largest rank, so that a free slot (all ones) is no pair's.
    const int rank_bits = static_cast<int>(std::bit_width(max_rank + std::uint64_t{1}));
    const int id_bits = static_cast<int>(std::bit_width(max_id));
    if (rank_bits + 2 * id_bits > 64 || rank_bits > kMaxRankBits)
      throw std::invalid_argument("merges: too many of them for their table");
    std::vector<std::uint64_t> slots(count + count / 2 + kSparePlaces, kFree);
    std::vector<std::uint32_t> merged(std::size_t{max_rank} + 1, kNoId);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t rank = quads[4 * i + 2], id = quads[4 * i + 3];
      if (merged[rank] != kNoId && merged[rank] != id) throw std::invalid_argument("merges: one rank, two tokens");
      merged[rank] = id;
      const std::uint64_t key = static_cast<std::uint64_t>(quads[4 * i]) << id_bits | quads[4 * i + 1];
      std::size_t at = first_place(key, slots.size());
      while (slots[at] != kFree && slots[at] >> rank_bits != key) at = at + 1 == slots.size() ? 0 : at + 1;
      slots[at] = key << rank_bits | rank;
    }
    writer.add(Section::merges, slots);
    writer.add(Section::merge_settings, std::vector<std::int32_t>{rank_bits, id_bits});
    writer.add(Section::merged_ids, merged);
    const Merges made(slots, merged, rank_bits, id_bits);
    std::vector<std::uint32_t> pairs(kBytePairs, kNoRank);
    for (std::size_t pair = 0; pair < kBytePairs; ++pair) {
      const std::uint32_t left = byte_ids[pair >> 8], right = byte_ids[pair & 0xFF];
      if (left != kNoId && right != kNoId) pairs[pair] = made.find(left, right);
    }
    writer.add(Section::byte_pairs, pairs);
  }

  explicit Merges(const Image& image)
      : Merges(image.get<std::uint64_t>(Section::merges), image.get<std::uint32_t>(Section::merged_ids),
               image.get_sized<std::int32_t>(Section::merge_settings, 2)[0],
               image.get_sized<std::int32_t>(Section::merge_settings, 2)[1]) {
    byte_ids_ = image.get_sized<std::uint32_t>(Section::byte_ids, 256);
    byte_pairs_ = image.get_sized<std::uint32_t>(Section::byte_pairs, kBytePairs);
    Image::require(rank_bits_ > 0 && rank_bits_ <= kMaxRankBits && id_bits_ > 0 && rank_bits_ + 2 * id_bits_ <= 64,
                   Section::merge_settings);
    bool ends = false;
    for (const std::uint64_t slot : slots_) {
      ends = ends || slot == kFree;
      Image::require(slot == kFree || (slot & rank_mask_) < merged_.size(), Section::merges);
    }
    Image::require(ends, Section::merges);
    for (const std::uint32_t rank : byte_pairs_)
      Image::require(rank == kNoRank || rank < merged_.size(), Section::byte_pairs);
    every_byte_ = std::ranges::find(byte_ids_, kNoId) == byte_ids_.end();
  }

  // The rank of a pair, or kNoRank.
  std::uint32_t find(std::uint32_t left, std::uint32_t right) const {
    if ((left | right) >> id_bits_ != 0) return kNoRank;
    const std::uint64_t key = static_cast<std::uint64_t>(left) << id_bits_ | right;
    for (std::size_t at = first_place(key, slots_.size());;) {
      const std::uint64_t slot = slots_[at];
      if (slot >> rank_bits_ == key) return static_cast<std::uint32_t>(slot & rank_mask_);
      if (slot == kFree) return kNoRank;
      if (++at == slots_.size()) at = 0;
    }
  }

  // So that find() has it near.
  void prefetch(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = static_cast<std::uint64_t>(left) << id_bits_ | right;
    __builtin_prefetch(slots_.data() + first_place(key, slots_.size()));
  }

  // The token that the merge of this rank, which is one, makes.
  std::uint32_t merged(std::uint32_t rank) const { return merged_[rank]; }

  // The symbol of a byte, and the rank of two bytes' symbols, or kNoRank. Only where every_byte().
  std::uint32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }
  std::uint32_t find_bytes(unsigned char left, unsigned char right) const {
    return byte_pairs_[static_cast<std::size_t>(left) << 8 | right];
  }
  bool every_byte() const { return every_byte_; }

  // What a piece of bytes starts as: the symbols of its bytes that have one.
  void symbols(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
    symbols.clear();
    for (const char byte : piece) {
      const std::uint32_t id = byte_ids_[static_cast<unsigned char>(byte)];
      if (id != kNoId) symbols.push_back(id);
    }
  }

  // Merge `symbols` in place; on return it holds the ids. A heap of (rank, position) over a linked list: n log n whatever
  // the text. For few symbols merge_lanes.hpp is quicker; both give the same ids.
  void apply(std::vector<std::uint32_t>& symbols) const {
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

 private:
  static constexpr std::size_t kSparePlaces = 8;
  static constexpr std::size_t kBytePairs = 65536;
  static constexpr int kMaxRankBits = 26;  // a rank and a place in a lane fit 32 bits (merge_lanes.hpp)
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  Merges(std::span<const std::uint64_t> slots, std::span<const std::uint32_t> merged, int rank_bits, int id_bits)
      : slots_(slots),
        merged_(merged),
        rank_mask_((std::uint64_t{1} << (rank_bits & 63)) - 1),
        rank_bits_(rank_bits),
        id_bits_(id_bits) {}

  static std::size_t first_place(std::uint64_t key, std::size_t slots) { return place_of(key * kOdd1, slots); }

  std::span<const std::uint64_t> slots_;       // key << rank_bits_ | rank; two thirds full, so that every probe ends
  std::span<const std::uint32_t> merged_;      // by rank
  std::span<const std::uint32_t> byte_ids_;    // by byte
  std::span<const std::uint32_t> byte_pairs_;  // by two bytes: the rank of their symbols' pair
  std::uint64_t rank_mask_;
  int rank_bits_, id_bits_;
  bool every_byte_ = false;  // every byte has a symbol
};

}  // namespace tokseam
