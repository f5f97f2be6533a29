// From the bytes of a whole piece to its id: a flat hash table in an image.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "hash.hpp"
#include "image.hpp"

namespace tokseam {

constexpr std::uint32_t kNoId = 0xFFFFFFFF;

class Vocabulary {
 public:
  struct Entry {
    std::string_view bytes;
    std::uint32_t id;
  };

  // Of equal keys the first one counts. Throws std::invalid_argument for more of them than offsets can reach.
  static void write(ImageWriter& writer, std::span<const Entry> entries) {
    std::uint32_t max_id = 1;
    std::size_t most = 0;
    for (const Entry& entry : entries) {
      max_id = std::max(max_id, entry.id);
      most += entry.bytes.size() + 2 * sizeof(std::uint32_t);
    }
    const int id_bits = static_cast<int>(std::bit_width(max_id)), offset_bits = static_cast<int>(std::bit_width(most));
    if (id_bits > kMaxIdBits || offset_bits > kMaxOffsetBits)
      throw std::invalid_argument("vocabulary: too large for its table");
    Vocabulary made;
    made.set_layout(id_bits, offset_bits);
    std::vector<std::uint32_t> slots(entries.size() + entries.size() * 2 / 3 + 2, kFree);
    made.slots_ = slots;
    std::vector<char> stored;
    stored.reserve(most);
    for (const Entry& entry : entries) {
      made.stored_ = stored;
      if (made.find(entry.bytes) != kNoId) continue;
      const std::uint64_t hash = hash_bytes(entry.bytes);
      std::size_t at = place_of(hash, slots.size());
      while (slots[at] != kFree) at = at + 1 == slots.size() ? 0 : at + 1;
      slots[at] = made.slot(hash, stored.size());
      const auto length = static_cast<std::uint32_t>(entry.bytes.size());
      append(stored, std::min(length, made.long_) << made.id_bits_ | entry.id);
      if (length >= made.long_) append(stored, length);
      stored.insert(stored.end(), entry.bytes.begin(), entry.bytes.end());
    }
    writer.add(Section::vocabulary_settings,
               std::vector<std::uint32_t>{static_cast<std::uint32_t>(made.id_bits_),
                                          static_cast<std::uint32_t>(made.offset_bits_)});
    writer.add(Section::vocabulary_slots, slots);
    writer.add(Section::vocabulary_entries, stored);
  }

  explicit Vocabulary(const Image& image)
      : slots_(image.get<std::uint32_t>(Section::vocabulary_slots)),
        stored_(image.get<char>(Section::vocabulary_entries)) {
    const auto settings = image.get_sized<std::uint32_t>(Section::vocabulary_settings, 2);
    Image::require(settings[0] > 0 && settings[0] <= kMaxIdBits && settings[1] <= kMaxOffsetBits,
                   Section::vocabulary_settings);
    set_layout(static_cast<int>(settings[0]), static_cast<int>(settings[1]));
    bool ends = false;
    for (const std::uint32_t slot : slots_) ends = ends || slot == kFree;
    Image::require(ends, Section::vocabulary_slots);
  }

  std::uint32_t find(std::string_view bytes) const { return find(bytes, hash_bytes(bytes)); }

  // visit(bytes, id) of each entry, in the order in which they were written, while it returns true.
  template <class Visit>
  void for_each(Visit&& visit) const {
    // SAFETY: as in is(): an image may lie about how long its entries are.
    constexpr std::size_t kWord = sizeof(std::uint32_t);
    for (std::size_t at = 0; at + kWord <= stored_.size();) {
      const std::uint32_t id = head(at) & id_mask_;
      std::size_t length = head(at) >> id_bits_;
      at += kWord;
      if (length == long_) {
        if (at + kWord > stored_.size()) return;
        length = head(at);
        at += kWord;
      }
      if (length > stored_.size() - at || !visit(std::string_view(stored_.data() + at, length), id)) return;
      at += length;
    }
  }

  // ids[i] becomes the id of keys[i]. PERF: a look-up waits for memory twice; here many wait together.
  void find_all(std::span<const std::string_view> keys, std::uint32_t* ids) const {
    constexpr std::size_t kTogether = 32;
    std::array<std::uint64_t, kTogether> hashes;
    for (; !keys.empty(); keys = keys.subspan(std::min(keys.size(), kTogether))) {
      const std::size_t count = std::min(keys.size(), kTogether);
      for (std::size_t i = 0; i < count; ++i) {
        hashes[i] = hash_bytes(keys[i]);
        __builtin_prefetch(slots_.data() + place_of(hashes[i], slots_.size()));
      }
      for (std::size_t i = 0; i < count; ++i) prefetch_likely(hashes[i]);
      for (std::size_t i = 0; i < count; ++i) *ids++ = find(keys[i], hashes[i]);
    }
  }

 private:
  // So that the first entry is near whose tag is that of `hash`: there the key is, if it is anywhere, but for few.
  void prefetch_likely(std::uint64_t hash) const {
    const std::uint32_t tag = slot(hash, 0);
    for (std::size_t at = place_of(hash, slots_.size());;) {
      const std::uint32_t found = slots_[at];
      if (found == kFree) return;
      if ((found ^ tag) >> offset_bits_ == 0) {
        __builtin_prefetch(stored_.data() + std::min(offset(found), stored_.size()));
        return;
      }
      if (++at == slots_.size()) at = 0;
    }
  }

  std::uint32_t find(std::string_view bytes, std::uint64_t hash) const {
    const std::uint32_t tag = slot(hash, 0);
    for (std::size_t at = place_of(hash, slots_.size());;) {
      const std::uint32_t found = slots_[at];
      if (found == kFree) return kNoId;
      if ((found ^ tag) >> offset_bits_ == 0 && is(offset(found), bytes)) return head(offset(found)) & id_mask_;
      if (++at == slots_.size()) at = 0;
    }
  }

  // A slot: the offset of its entry, and above it as much of the low bits of its hash as there is room for.
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;
  static constexpr int kMaxIdBits = 31;
  static constexpr int kMaxOffsetBits = 28;  // leaves a few bits of the hash

  Vocabulary() = default;

  void set_layout(int id_bits, int offset_bits) {
    id_bits_ = id_bits;
    offset_bits_ = offset_bits;
    id_mask_ = (std::uint32_t{1} << id_bits) - 1;
    long_ = 0xFFFFFFFF >> id_bits;
  }

  std::uint32_t slot(std::uint64_t hash, std::size_t offset) const {
    return static_cast<std::uint32_t>(hash) << offset_bits_ | static_cast<std::uint32_t>(offset);
  }
  std::size_t offset(std::uint32_t slot) const { return slot & ((std::uint32_t{1} << offset_bits_) - 1); }
  std::uint32_t head(std::size_t offset) const {
    return static_cast<std::uint32_t>(detail::load4(stored_.data() + offset));
  }

  // Whether the entry at `offset` is `bytes`.
  bool is(std::size_t offset, std::string_view bytes) const {
    // SAFETY: an image may lie about where its entries are and how long, so both are held against where it ends.
    constexpr std::size_t kWord = sizeof(std::uint32_t);
    if (offset + kWord > stored_.size()) return false;
    std::size_t at = offset + kWord;
    const std::uint32_t length = head(offset) >> id_bits_;
    if (length == long_) {
      if (at + kWord > stored_.size() || head(at) != bytes.size()) return false;
      at += kWord;
    } else if (length != bytes.size()) {
      return false;
    }
    return bytes.size() <= stored_.size() - at && std::memcmp(stored_.data() + at, bytes.data(), bytes.size()) == 0;
  }

  static void append(std::vector<char>& stored, std::uint32_t word) {
    std::array<char, sizeof(word)> bytes;
    std::memcpy(bytes.data(), &word, sizeof(word));
    stored.insert(stored.end(), bytes.begin(), bytes.end());
  }

  std::span<const std::uint32_t> slots_;  // at most three fifths full, so every probe ends
  // One entry behind the other: a word with the id and, above it, the length; where that is long_, the length in a word
  // of its own; the bytes. PERF: what a lookup needs lies together.
  std::span<const char> stored_;
  int id_bits_ = 0, offset_bits_ = 0;
  std::uint32_t id_mask_ = 0, long_ = 0;
};

}  // namespace tokseam
