// Classes of a run of ASCII characters, 32 at a time where the processor has AVX2 (asked at run time), else one by one.
// Characters beyond ASCII are the caller's (classes.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "avx512.hpp"

namespace tokseam {

class AsciiClasses {
 public:
  AsciiClasses() = default;
  // classes: those of the 128 ASCII characters.
  explicit AsciiClasses(const std::uint8_t* classes) {
    for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = classes[i];
  }

  static bool has_avx2() {
#if defined(__x86_64__)
    static const bool has = __builtin_cpu_supports("avx2");
    return has;
#else
    return false;
#endif
  }

  // Writes the classes of the ASCII characters that `text` starts with; returns how many there are, or some of them:
  // at least one where the first is ASCII.
  std::size_t fill(const char* text, std::size_t size, std::uint8_t* out) const {
#if defined(__x86_64__)
    if (size >= kBlock && has_avx2()) {
      const std::size_t done = fill_avx2(text, size, out);
      if (done > 0) return done;
    }
#endif
    return fill_portable(text, size < kBlock ? size : kBlock, out);
  }

  std::size_t fill_portable(const char* text, std::size_t size, std::uint8_t* out) const {
    std::size_t at = 0;
    for (; at < size && static_cast<unsigned char>(text[at]) < 0x80; ++at)
      out[at] = table_[static_cast<unsigned char>(text[at])];
    return at;
  }

#if defined(__x86_64__)
  // Whole blocks of ASCII only.
  // PERF: eight 16-byte table lookups a block, one for each high nibble, instead of 32 loads.
  __attribute__((target("avx2"))) std::size_t fill_avx2(const char* text, std::size_t size, std::uint8_t* out) const {
    std::size_t at = 0;
    for (; at + kBlock <= size; at += kBlock) {
      // SAFETY: [at, at + kBlock) lies inside both buffers; loads and stores are unaligned ones.
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + at));
      if (_mm256_movemask_epi8(bytes) != 0) break;
      const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi8(0x0F));
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(0x07));
      __m256i classes = _mm256_setzero_si256();
      for (int row = 0; row < 8; ++row) {
        const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table_.data() + 16 * row));
        const __m256i looked_up = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), low);
        const __m256i here = _mm256_cmpeq_epi8(high, _mm256_set1_epi8(static_cast<char>(row)));
        classes = _mm256_or_si256(classes, _mm256_and_si256(here, looked_up));
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at), classes);
    }
    return at;
  }
#endif

 private:
  static constexpr std::size_t kBlock = 32;  // bytes of an AVX2 register

  std::array<std::uint8_t, 128> table_{};  // class of each ASCII character
};

}  // namespace tokseam
