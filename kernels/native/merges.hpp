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
#include <utility>
#include <vector>

#include "close_numbers.hpp"
#include "device/lookup.hpp"
#include "hash.hpp"
#include "image.hpp"
#include "vocabulary.hpp"

namespace tokseam {

constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

// (left id, right id) -> rank, as a flat hash table of 6 bytes a slot; rank -> merged id, as an array; in an image.
//
// The hash is one to one, so it stands for the pair. Its high bits say where a search begins, its low ones lie in the
// slot above the rank. Two pairs with the same low bits begin so far apart that no run of taken slots reaches from the
// one place to the other (`write` sees to that): a search that meets its own low bits has found its own pair.
class Merges {
 public:
  static constexpr int kMaxRankBits = 22;  // a rank and a place in a lane fit 32 bits (linked_lanes.hpp)

  // quads: left, right, rank, merged id; repeated. Of one pair the last one counts, as in the reference. byte_ids: the
  // symbol of each byte, kNoId where there is none. Throws std::invalid_argument where no table of bearable size holds
  // them, or one rank makes two tokens.
  static void write(ImageWriter& writer, std::span<const std::uint32_t> quads, std::span<const std::uint32_t> byte_ids) {
    const std::size_t count = quads.size() / 4;
    std::uint32_t max_id = 1, max_rank = 1;
    for (std::size_t i = 0; i < count; ++i) {
      max_id = std::max({max_id, quads[4 * i], quads[4 * i + 1]});
      max_rank = std::max(max_rank, quads[4 * i + 2]);
    }
    std::vector<std::uint32_t> merged(std::size_t{max_rank} + 1, kNoId);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t rank = quads[4 * i + 2], id = quads[4 * i + 3];
      if (merged[rank] != kNoId && merged[rank] != id) throw std::invalid_argument("merges: one rank, two tokens");
      merged[rank] = id;
    }
    // One more than the largest rank, so that a free slot (all ones) is no pair's.
    const int rank_bits = static_cast<int>(std::bit_width(max_rank + std::uint64_t{1}));
    const int id_bits = static_cast<int>(std::bit_width(max_id));
    constexpr const char* kTooMany = "merges: too many for their table";
    if (rank_bits > kMaxRankBits || id_bits > kMaxIdBits) throw std::invalid_argument(kTooMany);
    Merges made;
    std::vector<std::byte> slots;
    std::size_t places = count + count * 2 / 3 + kSparePlaces;
    const std::size_t most = places * kMostGrowth;
    for (; !made.fill(slots, quads, places, rank_bits, id_bits); places *= 2)
      if (places >= most) throw std::invalid_argument(kTooMany);
    std::vector<std::uint32_t> pairs(kBytePairs, kNoRank);
    for (std::size_t pair = 0; pair < kBytePairs; ++pair) {
      const std::uint32_t left = byte_ids[pair >> 8], right = byte_ids[pair & 0xFF];
      if (left != kNoId && right != kNoId) pairs[pair] = made.find(left, right);
    }
    writer.add(Section::merges, slots);
    writer.add(Section::merge_settings, std::vector<std::int32_t>{rank_bits, id_bits, rise(quads) ? 1 : 0});
    CloseNumbers::write(writer, Section::merged_ids, merged);
    writer.add(Section::byte_pairs, pairs);
  }

  explicit Merges(const Image& image)
      : merged_(image, Section::merged_ids),
        byte_ids_(image.get_sized<std::uint32_t>(Section::byte_ids, 256)),
        byte_pairs_(image.get_sized<std::uint32_t>(Section::byte_pairs, kBytePairs)) {
    const auto settings = image.get_sized<std::int32_t>(Section::merge_settings, 3);
    rising_ = settings[2] != 0;
    Image::require(settings[0] > 0 && settings[0] <= kMaxRankBits && settings[1] > 0 && settings[1] <= kMaxIdBits,
                   Section::merge_settings);
    const auto slots = image.get<std::byte>(Section::merges);
    Image::require(slots.size() >= kPadding && (slots.size() - kPadding) % kSlotBytes == 0, Section::merges);
    set_layout(slots, settings[0], settings[1]);
    bool ends = false, known = true;
    for (std::size_t at = 0; at < table_.places; ++at) {
      const std::uint64_t slot = table_.slot_at(at);
      ends |= slot == kFree;
      known &= slot == kFree || (slot & table_.rank_mask) < merged_.size();
    }
    Image::require(ends && known, Section::merges);
    for (const std::uint32_t rank : byte_pairs_)
      Image::require(rank == kNoRank || rank < merged_.size(), Section::byte_pairs);
    every_byte_ = std::ranges::find(byte_ids_, kNoId) == byte_ids_.end();
  }

  // The rank of a pair, or kNoRank.
  std::uint32_t find(std::uint32_t left, std::uint32_t right) const { return table_.find(left, right); }

  // So that find() has it near. PERF: inlined always: to GCC, a function that only prefetches does nothing, and it
  // drops the calls.
  [[gnu::always_inline]] void prefetch(std::uint32_t left, std::uint32_t right) const {
    __builtin_prefetch(table_.slots + place_of(table_.hash_of(left, right), table_.places) * kSlotBytes);
  }

  // For code that both sides run.
  const device::Merges& table() const { return table_; }

  // Whether every merge ranks behind all merges that make one of its parts: then pairs of the lowest rank may be merged
  // together (kernels/README.md, claim 16).
  bool rising() const { return rising_; }

  // The token that the merge of this rank, which is one, makes.
  std::uint32_t merged(std::uint32_t rank) const { return merged_[rank]; }

  // The symbol of a byte, and the rank of two bytes' symbols, or kNoRank. Only where every_byte().
  std::uint32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }
  std::uint32_t find_bytes(unsigned char left, unsigned char right) const {
    return byte_pairs_[static_cast<std::size_t>(left) << 8 | right];
  }
  bool every_byte() const { return every_byte_; }

  // The same for code that looks up many at a time: by byte, and by two bytes, the left one's in the high bits.
  struct ByteTables {
    const std::uint32_t *ids, *ranks;
  };
  ByteTables byte_tables() const { return {byte_ids_.data(), byte_pairs_.data()}; }

  // What a piece of bytes starts as: the symbols of its bytes that have one.
  void symbols(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
    symbols.clear();
    for (const char byte : piece) {
      const std::uint32_t id = byte_ids_[static_cast<unsigned char>(byte)];
      if (id != kNoId) symbols.push_back(id);
    }
  }

  // visit(id, symbols that it is made of) of what `symbols` become, in order. A heap of (rank, position) over a linked
  // list: n log n whatever the text. For few symbols merge_lanes.hpp is quicker, for many merge_windows.hpp; all give
  // the same ids.
  template <class Visit>
  void apply(std::span<const std::uint32_t> symbols, Visit&& visit) const {
    const std::size_t n = symbols.size();
    constexpr std::uint32_t kEnd = 0xFFFFFFFF;
    struct Node {
      std::uint32_t previous, next;
      std::uint32_t id;
      std::uint32_t rank;  // of this symbol and the next, kNoRank where none; a merged-away symbol has kNoRank
    };
    std::vector<Node> nodes(n);
    std::vector<std::uint64_t> start;
    start.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t rank = i + 1 < n ? find(symbols[i], symbols[i + 1]) : kNoRank;
      nodes[i] = {i ? static_cast<std::uint32_t>(i - 1) : kEnd, i + 1 < n ? static_cast<std::uint32_t>(i + 1) : kEnd,
                  symbols[i], rank};
      if (rank != kNoRank) start.push_back(static_cast<std::uint64_t>(rank) << 32 | i);
    }
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue(std::greater<>(),
                                                                                         std::move(start));
    const auto update = [&](std::uint32_t at) {
      Node& node = nodes[at];
      node.rank = node.next == kEnd ? kNoRank : find(node.id, nodes[node.next].id);
      if (node.rank != kNoRank) queue.push(static_cast<std::uint64_t>(node.rank) << 32 | at);
    };
    while (!queue.empty()) {
      const std::uint64_t top = queue.top();
      queue.pop();
      const auto at = static_cast<std::uint32_t>(top);
      Node& node = nodes[at];
      if (node.rank != static_cast<std::uint32_t>(top >> 32)) continue;  // what was queued is no longer so
      const std::uint32_t gone = node.next;
      node.id = merged_[node.rank];
      node.next = nodes[gone].next;
      if (node.next != kEnd) nodes[node.next].previous = at;
      nodes[gone].rank = kNoRank;
      nodes[gone].next = kEnd;
      update(at);
      if (node.previous != kEnd) update(node.previous);
    }
    for (std::size_t at = 0; at < n;) {
      const std::size_t next = nodes[at].next == kEnd ? n : nodes[at].next;
      visit(nodes[at].id, next - at);
      at = next;
    }
  }

 private:
  static constexpr std::size_t kSparePlaces = 8;
  static constexpr std::size_t kMostGrowth = 16;  // of the table, for pairs that lie too close in a smaller one
  static constexpr std::size_t kBytePairs = 65536;
  static constexpr int kMaxIdBits = 31;
  static constexpr std::size_t kSlotBytes = device::Merges::kSlotBytes;
  static constexpr std::size_t kPadding = 8 - kSlotBytes;  // behind the last slot, for it is read as 8 bytes
  static constexpr std::uint64_t kFree = device::Merges::kFree;

  Merges() = default;

  void set_layout(std::span<const std::byte> slots, int rank_bits, int id_bits) {
    table_ = device::Merges::layout(reinterpret_cast<const std::uint8_t*>(slots.data()),
                                    (slots.size() - kPadding) / kSlotBytes, static_cast<std::uint32_t>(rank_bits),
                                    static_cast<std::uint32_t>(id_bits));
    table_.merged = merged_.table();
  }

  static bool rise(std::span<const std::uint32_t> quads) {
    std::vector<std::uint32_t> made;  // by id: the highest rank that makes it, plus one
    for (std::size_t i = 0; i < quads.size(); i += 4) {
      const std::uint32_t rank = quads[i + 2], id = quads[i + 3];
      if (id >= made.size()) made.resize(std::size_t{id} + 1, 0);
      made[id] = std::max(made[id], rank + 1);
    }
    const auto behind = [&](std::uint32_t rank, std::uint32_t part) { return part >= made.size() || rank >= made[part]; };
    for (std::size_t i = 0; i < quads.size(); i += 4)
      if (!behind(quads[i + 2], quads[i]) || !behind(quads[i + 2], quads[i + 1])) return false;
    return true;
  }

  // Whether the pairs fit so many places. `slots` is what this table looks into from then on.
  bool fill(std::vector<std::byte>& slots, std::span<const std::uint32_t> quads, std::size_t places, int rank_bits,
            int id_bits) {
    slots.assign(places * kSlotBytes + kPadding, std::byte{0xFF});
    set_layout(slots, rank_bits, id_bits);
    for (std::size_t i = 0; i < quads.size(); i += 4) {
      const std::uint64_t hash = table_.hash_of(quads[i], quads[i + 1]), wanted = table_.low_bits(hash);
      std::size_t at = place_of(hash, places);
      while (table_.slot_at(at) != kFree && (table_.slot_at(at) ^ wanted) > table_.rank_mask) at = at + 1 == places ? 0 : at + 1;
      const std::uint64_t slot = wanted | quads[i + 2];
      std::memcpy(slots.data() + at * kSlotBytes, &slot, kSlotBytes);
    }
    const int high_bits = 2 * id_bits + rank_bits - static_cast<int>(8 * kSlotBytes);
    if (high_bits <= 0) return true;  // all of the hash lies in the slot
    return high_bits < 32 && longest_run() < places >> high_bits;
  }

  // The most taken slots side by side, at least; where the last ones and the first ones meet, their sum.
  std::size_t longest_run() const {
    std::size_t run = 0, longest = 0, first = table_.places;
    for (std::size_t at = 0; at < table_.places; ++at) {
      run = table_.slot_at(at) == kFree ? 0 : run + 1;
      if (run == 0) first = std::min(first, at);
      longest = std::max(longest, run);
    }
    return std::max(longest, run + first);
  }

  // By place: the rank, and above it low bits of the pair's hash. Three fifths full, so that
  // every probe ends; the lowest ranks, which are looked up most, went in first and stand where their search begins.
  device::Merges table_{};
  CloseNumbers merged_;                        // by rank
  std::span<const std::uint32_t> byte_ids_;    // by byte
  std::span<const std::uint32_t> byte_pairs_;  // by two bytes: the rank of their symbols' pair
  bool rising_ = false;
  bool every_byte_ = false;  // every byte has a symbol
};

}  // namespace tokseam
