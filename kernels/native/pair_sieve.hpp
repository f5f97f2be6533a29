// A set of pairs of characters that never denies one it holds, and grants about one in a hundred that it does not: for
// questions where a wrong yes costs speed alone. Two bytes a pair; the pairs themselves would be a fifth of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/lookup.hpp"
#include "hash.hpp"
#include "image.hpp"

namespace tokseam {

// A blocked Bloom filter. PERF: one load and no branch; most of all text asks, at each of its characters.
class PairSieve {
 public:
  static std::uint64_t key(std::uint32_t before, std::uint32_t behind) {
    return device::PairSieve::key(before, behind);
  }

  static void write(ImageWriter& writer, Section section, std::span<const std::uint64_t> keys) {
    std::vector<std::uint64_t> words(keys.size() / kKeysAWord + 1);
    for (const std::uint64_t key : keys) {
      const std::uint64_t hash = device::PairSieve::hash_of(key);
      words[place_of(hash, words.size())] |= device::PairSieve::bits_of(hash);
    }
    writer.add(section, words);
  }

  PairSieve(const Image& image, Section section) {
    const auto words = image.get<std::uint64_t>(section);
    Image::require(!words.empty(), section);
    words_ = {words.data(), words.size()};
  }

  bool empty() const { return words_.size == 1 && words_.words[0] == 0; }

  bool may_contain(std::uint64_t key) const { return words_.may_contain(key); }

 private:
  static constexpr std::size_t kKeysAWord = 4;

  device::PairSieve words_;
};

}  // namespace tokseam
