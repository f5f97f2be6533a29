// A set of pairs of characters that never denies one it holds, and grants about one in a hundred that it does not: for
// questions where a wrong yes costs speed alone. Two bytes a pair; the pairs themselves would be a fifth of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "avx512.hpp"
#include "device/lookup.hpp"
#include "image.hpp"

namespace tokseam {

// A blocked Bloom filter. PERF: one load and no branch; most of all text asks, at each of its characters.
class PairSieve {
 public:
  static std::uint64_t key(std::uint32_t before, std::uint32_t behind) {
    return device::PairSieve::key(before, behind);
  }

  static void write(ImageWriter& writer, Section section, std::span<const std::uint64_t> keys) {
    std::vector<std::uint32_t> words(keys.size() / kKeysAWord + 1);
    for (const std::uint64_t key : keys) {
      const std::uint32_t hash = device::PairSieve::hash_of(key);
      words[device::PairSieve::place_of(hash, static_cast<std::uint32_t>(words.size()))] |=
          device::PairSieve::bits_of(hash);
    }
    writer.add(section, words);
  }

  PairSieve(const Image& image, Section section) {
    const auto words = image.get<std::uint32_t>(section);
    Image::require(!words.empty() && words.size() <= kMostWords, section);
    words_ = {words.data(), static_cast<std::uint32_t>(words.size())};
  }

  bool empty() const { return words_.size == 1 && words_.words[0] == 0; }

  bool may_contain(std::uint64_t key) const { return words_.may_contain(key); }

#if defined(TOKSEAM_AVX512)
  // The same of sixteen pairs: a bit for each of `lanes` that may be one. As device::PairSieve does, step by step.
  // SAFETY: place_of() is below the size.
  TOKSEAM_AVX512 __mmask16 may_contain(__m512i before, __m512i behind, __mmask16 lanes) const {
    using Sieve = device::PairSieve;
    const __m512i hash = _mm512_add_epi32(times(before, Sieve::kBefore), times(behind, Sieve::kBehind));
    // The high halves of products of 32 bits, those of the even lanes and those of the odd ones.
    const __m512i size = _mm512_set1_epi32(static_cast<int>(words_.size));
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(hash, size), 32);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(hash, 32), size);
    const __m512i place = _mm512_mask_mov_epi32(even, 0xAAAA, odd);
    const __m512i again = times(_mm512_xor_si512(hash, _mm512_srli_epi32(hash, Sieve::kFold)), Sieve::kAgain);
    const __m512i bits = _mm512_or_si512(_mm512_or_si512(bit<Sieve::kFirst>(again), bit<Sieve::kSecond>(again)),
                                         _mm512_or_si512(bit<Sieve::kThird>(again), bit<Sieve::kFourth>(again)));
    const __m512i word = gather<4>(words_.words, place, lanes);
    return _mm512_mask_cmpeq_epi32_mask(lanes, _mm512_and_si512(word, bits), bits);
  }
#endif

 private:
#if defined(TOKSEAM_AVX512)
  TOKSEAM_AVX512 static __m512i times(__m512i numbers, std::uint32_t factor) {
    return _mm512_mullo_epi32(numbers, _mm512_set1_epi32(static_cast<int>(factor)));
  }
  template <unsigned shift>
  TOKSEAM_AVX512 static __m512i bit(__m512i numbers) {
    return _mm512_rolv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32(numbers, shift));
  }
#endif

  static constexpr std::size_t kKeysAWord = 2;
  // So that a place is a number of 31 bits, as a vector's gather takes them.
  static constexpr std::size_t kMostWords = std::size_t{1} << 31;

  device::PairSieve words_;
};

}  // namespace tokseam
