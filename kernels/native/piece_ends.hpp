// Where the pieces of a short segment of ASCII end, by the classes of its characters alone: nearly all of the few ways
// in which words are built come again, and looking one up costs no guess at how long it is. What is kept is true in
// every text, for ever; of two that meet in one place the newer one stays. One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "avx512.hpp"
#include "hash.hpp"

namespace tokseam {

// The classes of a segment's characters, a byte each.
struct Shape {
  static constexpr std::size_t kMostBytes = 16;
  std::uint64_t low, high;
  bool operator==(const Shape&) const = default;
};

// The shape of a segment, if all of it is ASCII that needs no closer look.
class AsciiShapes {
 public:
  static constexpr std::uint8_t kCloser = 0x80;
  static constexpr std::size_t kMostClasses = 0x7F;

  // numbers: below kCloser, the same for two characters of one class; kCloser for one that needs a closer look.
  explicit AsciiShapes(const std::array<std::uint8_t, 128>& numbers) : numbers_(numbers) {}

  // Of at most Shape::kMostBytes bytes. False, with nothing set, for one that needs a closer look.
  bool find(std::string_view segment, Shape& shape) const {
#if defined(TOKSEAM_AVX512)
    if (vectors_) return find_by_vectors(segment, shape);
#endif
    return find_portable(segment, shape);
  }

  bool find_portable(std::string_view segment, Shape& shape) const {
    std::array<std::uint8_t, Shape::kMostBytes> numbers;
    numbers.fill(kBehind);
    std::uint8_t any = 0;
    for (std::size_t i = 0; i < segment.size(); ++i) {
      const auto byte = static_cast<unsigned char>(segment[i]);
      numbers[i] = numbers_[byte & 0x7F];
      any = static_cast<std::uint8_t>(any | byte | numbers[i]);
    }
    std::memcpy(&shape, numbers.data(), sizeof(shape));
    return (any & kCloser) == 0;
  }

 private:
  static constexpr std::uint8_t kBehind = kMostClasses;  // where the segment has ended

#if defined(TOKSEAM_AVX512)
  // PERF: no loop, so no guess at its length.
  TOKSEAM_AVX512_ENTRY bool find_by_vectors(std::string_view segment, Shape& shape) const {
    const auto some = static_cast<__mmask16>((1U << segment.size()) - 1);
    const __m128i bytes = _mm_maskz_loadu_epi8(some, segment.data());
    const __m512i found = _mm512_permutex2var_epi8(_mm512_loadu_si512(numbers_.data()), _mm512_castsi128_si512(bytes),
                                                   _mm512_loadu_si512(numbers_.data() + 64));
    const __m128i numbers = _mm_mask_mov_epi8(_mm_set1_epi8(kBehind), some, _mm512_castsi512_si128(found));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&shape), numbers);
    return _mm_movepi8_mask(_mm_or_si128(numbers, bytes)) == 0;
  }

  bool vectors_ = has_avx512();
#endif
  std::array<std::uint8_t, 128> numbers_;
};

class PieceEnds {
 public:
  // Bit i: a piece ends behind byte i, and the next one begins there. 0: not so simple. make() finds it out.
  template <class Make>
  std::uint32_t through(const Shape& shape, Make&& make) {
    Entry& entry = entries_[detail::mix(shape.low ^ kOdd1, shape.high ^ kOdd2) >> (64 - kBits)];
    if (!entry.used || entry.shape != shape) entry = {shape, make(), true};
    return entry.ends;
  }

 private:
  static constexpr int kBits = 9;
  struct Entry {
    Shape shape{0, 0};
    std::uint32_t ends = 0;
    bool used = false;
  };
  std::array<Entry, std::size_t{1} << kBits> entries_{};  // 12 KiB
};

}  // namespace tokseam
