// From the bytes of a whole piece to its id: a flat hash table in an image.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
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

  // Of equal keys the first one counts.
  static void write(ImageWriter& writer, std::span<const Entry> entries) {
    std::vector<Stored> stored;
    std::vector<char> bytes;
    std::vector<std::uint32_t> slots(entries.size() + entries.size() / 2 + 2, kFree);
    const int bits = number_bits(slots.size());
    for (const Entry& entry : entries) {
      const std::uint64_t hash = hash_bytes(entry.bytes);
      std::size_t at = place_of(hash, slots.size());
      bool known = false;
      for (; slots[at] != kFree && !known; at = at + 1 == slots.size() ? 0 : at + 1) {
        const std::uint32_t other = slots[at] & ((std::uint32_t{1} << bits) - 1);
        const std::size_t end = other + 1 < stored.size() ? stored[other + 1].begin : bytes.size();
        known = std::string_view(bytes.data() + stored[other].begin, end - stored[other].begin) == entry.bytes;
      }
      if (known) continue;
      slots[at] = tagged(hash, static_cast<std::uint32_t>(stored.size()), bits);
      stored.push_back({static_cast<std::uint32_t>(bytes.size()), entry.id});
      bytes.insert(bytes.end(), entry.bytes.begin(), entry.bytes.end());
    }
    stored.push_back({static_cast<std::uint32_t>(bytes.size()), kNoId});  // where the last one ends
    writer.add(Section::vocabulary_slots, slots);
    writer.add(Section::vocabulary_entries, stored);
    writer.add(Section::vocabulary_bytes, bytes);
  }

  explicit Vocabulary(const Image& image)
      : slots_(image.get<std::uint32_t>(Section::vocabulary_slots)),
        entries_(image.get<Stored>(Section::vocabulary_entries)),
        bytes_(image.get<char>(Section::vocabulary_bytes)),
        bits_(number_bits(slots_.size())) {
    Image::require(!slots_.empty() && bits_ < 32, Section::vocabulary_slots);
    Image::require(!entries_.empty() && entries_.back().begin <= bytes_.size(), Section::vocabulary_entries);
    for (std::size_t i = 0; i + 1 < entries_.size(); ++i)
      Image::require(entries_[i].begin <= entries_[i + 1].begin, Section::vocabulary_entries);
    bool ends = false;
    for (const std::uint32_t slot : slots_) {
      ends = ends || slot == kFree;
      Image::require(slot == kFree || number(slot) + 1 < entries_.size(), Section::vocabulary_slots);
    }
    Image::require(ends, Section::vocabulary_slots);
  }

  std::uint32_t find(std::string_view bytes) const { return find(bytes, hash_bytes(bytes)); }

  // ids[i] becomes the id of keys[i]. PERF: a look-up waits for memory three times; here many wait together.
  void find_all(std::span<const std::string_view> keys, std::uint32_t* ids) const {
    constexpr std::size_t kTogether = 32;
    std::array<std::uint64_t, kTogether> hashes;
    for (; !keys.empty(); keys = keys.subspan(std::min(keys.size(), kTogether))) {
      const std::size_t count = std::min(keys.size(), kTogether);
      for (std::size_t i = 0; i < count; ++i) {
        hashes[i] = hash_bytes(keys[i]);
        __builtin_prefetch(slots_.data() + place_of(hashes[i], slots_.size()));
      }
      for (std::size_t i = 0; i < count; ++i)
        if (const Stored* entry = likely(hashes[i])) __builtin_prefetch(entry);
      for (std::size_t i = 0; i < count; ++i)
        if (const Stored* entry = likely(hashes[i])) __builtin_prefetch(bytes_.data() + entry->begin);
      for (std::size_t i = 0; i < count; ++i) *ids++ = find(keys[i], hashes[i]);
    }
  }

 private:
  struct Stored {
    std::uint32_t begin;  // in the bytes; the entry ends where the next one begins
    std::uint32_t id;
  };

  // The first entry whose tag is that of `hash`, or null: where the key is, if it is anywhere, but for few.
  const Stored* likely(std::uint64_t hash) const {
    const std::uint32_t tag = tagged(hash, 0, bits_);
    for (std::size_t at = place_of(hash, slots_.size());;) {
      const std::uint32_t slot = slots_[at];
      if (slot == kFree) return nullptr;
      if ((slot ^ tag) >> bits_ == 0) return entries_.data() + number(slot);
      if (++at == slots_.size()) at = 0;
    }
  }

  std::uint32_t find(std::string_view bytes, std::uint64_t hash) const {
    const std::uint32_t tag = tagged(hash, 0, bits_);
    for (std::size_t at = place_of(hash, slots_.size());;) {
      const std::uint32_t slot = slots_[at];
      if (slot == kFree) return kNoId;
      if ((slot ^ tag) >> bits_ == 0) {
        const Stored* entry = entries_.data() + number(slot);
        const std::size_t begin = entry[0].begin;
        if (entry[1].begin - begin == bytes.size() &&
            std::memcmp(bytes_.data() + begin, bytes.data(), bytes.size()) == 0)
          return entry->id;
      }
      if (++at == slots_.size()) at = 0;
    }
  }

  // A slot: the entry's number, and above it as much of the low bits of its hash as there is room for.
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;

  static int number_bits(std::size_t slots) { return static_cast<int>(std::bit_width(slots)); }
  static std::uint32_t tagged(std::uint64_t hash, std::uint32_t number, int bits) {
    return static_cast<std::uint32_t>(hash) << bits | number;
  }
  std::uint32_t number(std::uint32_t slot) const { return slot & ((std::uint32_t{1} << bits_) - 1); }

  std::span<const std::uint32_t> slots_;  // at most two thirds full, so every probe ends
  std::span<const Stored> entries_;       // and one more behind the last
  std::span<const char> bytes_;
  int bits_;
};

}  // namespace tokseam
