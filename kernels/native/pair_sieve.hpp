// A set of pairs of characters that never denies one it holds, and grants about one in twenty thousand that it does
// not: for questions where a wrong yes costs speed alone. Two bytes a place; the pairs themselves would be a fifth of an
// image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hash.hpp"
#include "image.hpp"

namespace tokseam {

class PairSieve {
 public:
  static std::uint64_t key(std::uint32_t before, std::uint32_t behind) {
    return static_cast<std::uint64_t>(before) << 32 | behind;
  }

  static void write(ImageWriter& writer, Section section, std::span<const std::uint64_t> keys) {
    std::vector<std::uint16_t> places(keys.size() + keys.size() / 2 + 2, kFree);
    for (const std::uint64_t key : keys) {
      const std::uint64_t hash = hash_of(key);
      std::size_t at = place_of(hash, places.size());
      while (places[at] != kFree && places[at] != tag(hash)) at = at + 1 == places.size() ? 0 : at + 1;
      places[at] = tag(hash);
    }
    writer.add(section, places);
  }

  PairSieve(const Image& image, Section section) : places_(image.get<std::uint16_t>(section)) {
    bool ends = false;
    for (const std::uint16_t place : places_) ends = ends || place == kFree;
    Image::require(ends, section);
  }

  bool may_contain(std::uint64_t key) const {
    const std::uint64_t hash = hash_of(key);
    for (std::size_t at = place_of(hash, places_.size());;) {
      if (places_[at] == kFree) return false;
      if (places_[at] == tag(hash)) return true;
      if (++at == places_.size()) at = 0;
    }
  }

 private:
  static constexpr std::uint16_t kFree = 0;

  static std::uint64_t hash_of(std::uint64_t key) { return detail::mix(key ^ kOdd2, kOdd1); }
  // Of the low bits, as the place is of the high ones.
  static std::uint16_t tag(std::uint64_t hash) {
    const auto low = static_cast<std::uint16_t>(hash);
    return low == kFree ? 1 : low;
  }

  std::span<const std::uint16_t> places_;  // at most two thirds taken, so every probe ends
};

}  // namespace tokseam
