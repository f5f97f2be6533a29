// A Boolean matrix of 64 rows and columns: 512 bytes, asked one place at a time, or 64 places at once in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "avx512.hpp"

namespace tokseam {

class BitMatrix {
 public:
  static constexpr std::size_t kSize = 64;

  void set(std::size_t row, std::size_t column) {
    bytes_[column / 8][row] = static_cast<std::uint8_t>(bytes_[column / 8][row] | 1U << column % 8);
  }

  bool has(std::size_t row, std::size_t column) const { return (bytes_[column / 8][row] >> column % 8 & 1) != 0; }

#if defined(TOKSEAM_AVX512)
  // Bit i of the answer: has(rows[i], columns[i]), for all 64 bytes of each; only the low six bits of one count.
  TOKSEAM_AVX512 std::uint64_t has(__m512i rows, __m512i columns) const {
    // A byte of a column's eight holds the bits of eight columns in one row: its number is columns / 8 * 64 + rows. Two
    // registers give the bytes of sixteen columns.
    const __m512i eighth = _mm512_slli_epi16(_mm512_and_si512(columns, _mm512_set1_epi8(8)), 3);
    const __m512i row = _mm512_and_si512(rows, _mm512_set1_epi8(kSize - 1));
    const __m512i at = _mm512_or_si512(row, eighth);
    const __mmask64 upper_quarter = _mm512_test_epi8_mask(columns, _mm512_set1_epi8(16));
    const __mmask64 upper_half = _mm512_test_epi8_mask(columns, _mm512_set1_epi8(32));
    const __m512i low = _mm512_mask_mov_epi8(sixteen(0, at), upper_quarter, sixteen(1, at));
    const __m512i high = _mm512_mask_mov_epi8(sixteen(2, at), upper_quarter, sixteen(3, at));
    const __m512i bits = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201));
    const __m512i bit = _mm512_shuffle_epi8(bits, _mm512_and_si512(columns, _mm512_set1_epi8(7)));
    return _mm512_test_epi8_mask(_mm512_mask_mov_epi8(low, upper_half, high), bit);
  }
#endif

 private:
#if defined(TOKSEAM_AVX512)
  TOKSEAM_AVX512 __m512i sixteen(std::size_t number, __m512i at) const {
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(bytes_[2 * number].data()), at,
                                    _mm512_loadu_si512(bytes_[2 * number + 1].data()));
  }
#endif

  std::array<std::array<std::uint8_t, kSize>, kSize / 8> bytes_{};  // a bit a column: [column / 8][row]
};

}  // namespace tokseam
