// A set of pairs of characters that never denies one it holds, and grants about one in a hundred that it does not: for
// questions where a wrong yes costs speed alone. Two bytes a pair; the pairs themselves would be a fifth of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hash.hpp"
#include "image.hpp"

namespace tokseam {

// A blocked Bloom filter. PERF: one load and no branch; most of all text asks, at each of its characters.
class PairSieve {
 public:
  static std::uint64_t key(std::uint32_t before, std::uint32_t behind) {
    return static_cast<std::uint64_t>(before) << 32 | behind;
  }

  static void write(ImageWriter& writer, Section section, std::span<const std::uint64_t> keys) {
    std::vector<std::uint64_t> words(keys.size() / kKeysAWord + 1);
    for (const std::uint64_t key : keys) {
      const std::uint64_t hash = hash_of(key);
      words[place_of(hash, words.size())] |= bits_of(hash);
    }
    writer.add(section, words);
  }

  PairSieve(const Image& image, Section section) : words_(image.get<std::uint64_t>(section)) {
    Image::require(!words_.empty(), section);
  }

  bool empty() const { return words_.size() == 1 && words_[0] == 0; }

  bool may_contain(std::uint64_t key) const {
    const std::uint64_t hash = hash_of(key), bits = bits_of(hash);
    return (words_[place_of(hash, words_.size())] & bits) == bits;
  }

 private:
  static constexpr std::size_t kKeysAWord = 4;

  static std::uint64_t hash_of(std::uint64_t key) { return detail::mix(key ^ kOdd2, kOdd1); }
  // Three of a word's, by the low bits, as the word is by the high ones.
  static std::uint64_t bits_of(std::uint64_t hash) {
    return std::uint64_t{1} << (hash & 63) | std::uint64_t{1} << (hash >> 6 & 63) | std::uint64_t{1} << (hash >> 12 & 63);
  }

  std::span<const std::uint64_t> words_;
};

}  // namespace tokseam
