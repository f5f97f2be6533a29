// Vocabulary entries that begin or end inside a character and go on beyond it: what may join a part of a character with
// its neighbour. There are a few hundred; of each is known where it crosses from the part to the rest.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "bit_matrix.hpp"
#include "hash.hpp"
#include "image.hpp"
#include "utf8.hpp"

namespace tokseam {

class PartedEntries {
 public:
  // normalized: whether entries stand in texts that a normalizer may have changed. cross() is asked about the text as it
  // was, where the two characters that meet are what they will be, but those around them need not: then an entry counts
  // wherever what it has of the two stands.
  static void write(ImageWriter& writer, std::span<const std::string_view> entries, bool normalized) {
    std::vector<std::tuple<std::uint32_t, std::string_view, std::size_t>> found;  // key, entry, place
    const auto add = [&](std::string_view entry, std::size_t place) {
      if (normalized) {
        std::size_t before = place - 1;
        while (before > 0 && is_continuation(entry[before])) --before;
        const std::size_t end = std::min(entry.size(), place + utf8_width(entry[place]));
        entry = entry.substr(before, end - before);
        place -= before;
      }
      found.emplace_back(key_at(entry, place), entry, place);
    };
    for (const std::string_view entry : entries) {
      std::size_t begin = 0;  // it may begin inside a character
      while (begin < entry.size() && is_continuation(entry[begin])) ++begin;
      if (begin > 0 && begin < entry.size()) add(entry, begin);
      std::size_t last = entry.size();  // and end inside another
      while (last > begin && is_continuation(entry[last - 1])) --last;
      if (last > begin && last > 1 && utf8_width(entry[last - 1]) > entry.size() - (last - 1)) add(entry, last - 1);
    }
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    std::vector<std::uint8_t> keys(kKeys / 8, 0);
    std::vector<Entry> stored;
    std::vector<char> bytes;
    for (const auto& [key, entry, place] : found) {
      keys[key / 8] = static_cast<std::uint8_t>(keys[key / 8] | 1U << key % 8);
      stored.push_back({key, static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(entry.size()),
                        static_cast<std::uint32_t>(place)});
      bytes.insert(bytes.end(), entry.begin(), entry.end());
    }
    writer.add(Section::parted_keys, keys);
    writer.add(Section::parted_entries, stored);
    writer.add(Section::parted_bytes, bytes);
  }

  explicit PartedEntries(const Image& image)
      : keys_(image.get_sized<std::uint8_t>(Section::parted_keys, kKeys / 8)),
        entries_(image.get<Entry>(Section::parted_entries)),
        bytes_(image.get<char>(Section::parted_bytes)) {
    for (const Entry& entry : entries_)
      Image::require(entry.begin <= bytes_.size() && entry.size <= bytes_.size() - entry.begin &&
                         entry.place < entry.size && entry.key < kKeys,
                     Section::parted_entries);
    arrange();
  }

  // Whether such an entry stands in `text` so that it crosses text[at], where a character begins, from or to a part of
  // one. 0 < at < text.size().
  bool cross(std::string_view text, std::size_t at) const {
    const std::uint32_t key = key_at(text, at);
    return (keys_[key / 8] >> key % 8 & 1) != 0 && any(text, at, key);
  }

#if defined(TOKSEAM_AVX512)
  // Bit i of the answer: whether cross() must be asked where bytes i of these two meet, if a character beyond ASCII
  // ends in the one and another begins in the other.
  TOKSEAM_AVX512 std::uint64_t may_cross(__m512i last, __m512i lead) const { return beyond_ascii_.has(last, lead); }
#endif

 private:
  struct Entry {
    std::uint32_t key;
    std::uint32_t begin, size;  // in the bytes
    std::uint32_t place;        // where it crosses
  };
  static constexpr std::size_t kKeys = 65536;
  static constexpr std::size_t kNumbers = BitMatrix::kSize * BitMatrix::kSize;

  // An entry as it stands around the place where it crosses, as far as eight bytes reach.
  struct Around {
    std::uint64_t bytes, mask;
    const Entry* entry;
  };
  static constexpr std::size_t kReach = 4;

  // The two bytes that meet there.
  static std::uint32_t key_at(std::string_view text, std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at - 1])) << 8 |
           static_cast<unsigned char>(text[at]);
  }

  // Whether both are beyond ASCII, so that the first byte ends a character and the second begins one.
  static bool is_beyond_ascii(std::uint32_t key) { return (key & 0xC0C0) == 0x80C0; }
  // The number of such a key.
  static std::size_t row(std::uint32_t key) { return key >> 8 & 0x3F; }
  static std::size_t column(std::uint32_t key) { return key & 0x3F; }
  static std::size_t number(std::uint32_t key) { return row(key) * BitMatrix::kSize + column(key); }

  void arrange() {
    std::array<std::uint32_t, kNumbers> ends{};
    for (const Entry& entry : entries_) {
      if (!is_beyond_ascii(entry.key)) continue;
      beyond_ascii_.set(row(entry.key), column(entry.key));
      ++begins_[number(entry.key) + 1];
    }
    for (std::size_t i = 0; i < kNumbers; ++i) {
      begins_[i + 1] += begins_[i];
      ends[i] = begins_[i];
    }
    around_.resize(begins_[kNumbers]);
    for (const Entry& entry : entries_)
      if (is_beyond_ascii(entry.key)) around_[ends[number(entry.key)]++] = around(entry);
  }

  Around around(const Entry& entry) const {
    std::array<char, 2 * kReach> bytes{}, mask{};
    const std::size_t first = std::min<std::size_t>(entry.place, kReach);
    const std::size_t size = first + std::min<std::size_t>(entry.size - entry.place, kReach);
    std::memcpy(bytes.data() + kReach - first, bytes_.data() + entry.begin + entry.place - first, size);
    std::memset(mask.data() + kReach - first, 0xFF, size);
    return {detail::load8(bytes.data()), detail::load8(mask.data()), &entry};
  }

  bool any(std::string_view text, std::size_t at, std::uint32_t key) const {
    if (is_beyond_ascii(key) && at >= kReach && text.size() - at >= kReach) [[likely]] {
      const std::uint64_t here = detail::load8(text.data() + at - kReach);
      for (std::size_t i = begins_[number(key)]; i < begins_[number(key) + 1]; ++i)
        if (((here ^ around_[i].bytes) & around_[i].mask) == 0 && stands(*around_[i].entry, text, at)) return true;
      return false;
    }
    const auto [first, last] = std::ranges::equal_range(entries_, key, {}, &Entry::key);
    return std::any_of(first, last, [&](const Entry& entry) { return stands(entry, text, at); });
  }

  bool stands(const Entry& entry, std::string_view text, std::size_t at) const {
    return entry.place <= at && entry.size - entry.place <= text.size() - at &&
           std::memcmp(bytes_.data() + entry.begin, text.data() + at - entry.place, entry.size) == 0;
  }

  std::span<const std::uint8_t> keys_;  // a bit for each key
  std::span<const Entry> entries_;      // by key
  std::span<const char> bytes_;
  // PERF: what a fresh text asks at every eighth of its Chinese characters is not searched for, and mostly decided by
  // one comparison. Of the keys of two characters beyond ASCII: which there are, and the entries of each.
  BitMatrix beyond_ascii_;
  std::array<std::uint32_t, kNumbers + 1> begins_{};
  std::vector<Around> around_;
};

}  // namespace tokseam
