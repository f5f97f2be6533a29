// Vocabulary entries that begin or end inside a character and go on beyond it: what may join a part of a character with
// its neighbour. There are a few hundred; of each is known where it crosses from the part to the rest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "image.hpp"
#include "utf8.hpp"

namespace tokseam {

class PartedEntries {
 public:
  static void write(ImageWriter& writer, std::span<const std::string_view> entries) {
    std::vector<std::tuple<std::uint32_t, std::string_view, std::size_t>> found;  // key, entry, place
    for (const std::string_view entry : entries) {
      std::size_t begin = 0;  // it may begin inside a character
      while (begin < entry.size() && is_continuation(entry[begin])) ++begin;
      if (begin > 0 && begin < entry.size()) found.emplace_back(key_at(entry, begin), entry, begin);
      std::size_t last = entry.size();  // and end inside another
      while (last > begin && is_continuation(entry[last - 1])) --last;
      if (last > begin && last > 1 && utf8_width(entry[last - 1]) > entry.size() - (last - 1))
        found.emplace_back(key_at(entry, last - 1), entry, last - 1);
    }
    std::ranges::sort(found);
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
                         entry.place < entry.size,
                     Section::parted_entries);
  }

  // Whether such an entry stands in `text` so that it crosses text[at], where a character begins, from or to a part of
  // one. 0 < at < text.size().
  bool cross(std::string_view text, std::size_t at) const {
    const std::uint32_t key = key_at(text, at);
    return (keys_[key / 8] >> key % 8 & 1) != 0 && any(text, at, key);
  }

 private:
  struct Entry {
    std::uint32_t key;
    std::uint32_t begin, size;  // in the bytes
    std::uint32_t place;        // where it crosses
  };
  static constexpr std::size_t kKeys = 65536;

  // The two bytes that meet there.
  static std::uint32_t key_at(std::string_view text, std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at - 1])) << 8 |
           static_cast<unsigned char>(text[at]);
  }

  bool any(std::string_view text, std::size_t at, std::uint32_t key) const {
    const auto [first, last] = std::ranges::equal_range(entries_, key, {}, &Entry::key);
    return std::any_of(first, last, [&](const Entry& entry) {
      return entry.place <= at && entry.size - entry.place <= text.size() - at &&
             std::memcmp(bytes_.data() + entry.begin, text.data() + at - entry.place, entry.size) == 0;
    });
  }

  std::span<const std::uint8_t> keys_;  // a bit for each key
  std::span<const Entry> entries_;      // by key
  std::span<const char> bytes_;
};

}  // namespace tokseam
