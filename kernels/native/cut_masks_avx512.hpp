// The masks of cut_masks.hpp with vectors of 64 bytes: all the characters of a word at once, also those beyond ASCII.
// In these vectors a byte stands for a place of the word, but where a comment says otherwise.
// PERF: 2.2 ms for 1.9 MB of Chinese under Qwen 3's tables, where the path for AVX2 takes 6.3 (one core of a Zen 5).
#pragma once

#include "avx512.hpp"

#if defined(TOKSEAM_AVX512)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "classes.hpp"
#include "crossings.hpp"
#include "cut_rectangles.hpp"
#include "cut_tables.hpp"
#include "utf8.hpp"

namespace tokseam {

class CutMasksAvx512 {
 public:
  // SAFETY: the 64 bytes at `bytes`, the two in front and the one behind are the caller's to read; every load is an
  // unaligned one. See CutMasks::word.
  TOKSEAM_AVX512_ENTRY static std::uint64_t word(const CutTables& tables, std::string_view text, std::size_t at,
                                                 const char* bytes) {
    const Text here = text_at(bytes);
    const __m512i any =
        _mm512_or_si512(_mm512_or_si512(here.previous, here.before), _mm512_or_si512(here.behind, here.next));
    if (_mm512_movepi8_mask(any) == 0) {
      std::uint64_t mask = 0;
      for (const Group& group : tables.rectangles.groups()) mask |= cuts_of(ascii(group, here));
      return mask;
    }
    return beyond_ascii(tables, text, at, bytes);
  }

 private:
  using Group = CutRectangles::Group;

  // The bytes around each place; and what is said of the characters around it.
  struct Text {
    __m512i previous, before, behind, next;
  };
  struct Said {
    __m512i previous, before, behind, next;
  };

  TOKSEAM_AVX512 static Text text_at(const char* bytes) {
    return {_mm512_loadu_si512(bytes - 2), _mm512_loadu_si512(bytes - 1), _mm512_loadu_si512(bytes),
            _mm512_loadu_si512(bytes + 1)};
  }

  // PERF: by itself, or words of ASCII alone would save all the registers that it needs.
  TOKSEAM_AVX512_ENTRY __attribute__((noinline)) static std::uint64_t beyond_ascii(const CutTables& tables,
                                                                                   std::string_view text,
                                                                                   std::size_t at, const char* bytes) {
    const Text here = text_at(bytes);
    const Classes& classes = *tables.classes;
    const std::uint64_t leads = _mm512_cmpge_epu8_mask(here.behind, _mm512_set1_epi8(static_cast<char>(0xC0)));
    const std::uint64_t inner = _mm512_movepi8_mask(here.behind) & ~leads;
    const std::uint64_t after = _mm512_movepi8_mask(here.before) & ~inner;  // where one beyond ASCII ends
    const auto count = static_cast<unsigned>(std::popcount(leads));

    // By order, in 32 bits each: at most 32, for one beyond ASCII takes two bytes.
    const __m512i places = _mm512_maskz_compress_epi8(static_cast<__mmask64>(leads), bytes_from(0));
    const __m512i behind_word = tail(text, at);
    const std::uint32_t lanes = _bzhi_u32(0xFFFFFFFF, count);
    const auto lanes_low = static_cast<__mmask16>(lanes), lanes_high = static_cast<__mmask16>(lanes >> 16);
    const __m512i points_low = decode<0>(places, here.behind, behind_word);
    const __m512i classes_low = classes.of(points_low, lanes_low);
    __m512i points_high = _mm512_setzero_si512(), classes_high = _mm512_setzero_si512();
    if (lanes_high != 0) {
      points_high = decode<16>(places, here.behind, behind_word);
      classes_high = classes.of(points_high, lanes_high);
    }
    const __m512i by_order = _mm512_castsi256_si512(
        _mm256_set_m128i(_mm512_cvtepi32_epi8(classes_high), _mm512_cvtepi32_epi8(classes_low)));

    // The one that began before this word and ends in it, or in front of it.
    const auto first_end = static_cast<unsigned>(std::countr_one(inner));
    const std::uint64_t carried = after & std::uint64_t{1} << first_end;
    std::uint32_t carried_point = 0;
    std::uint8_t carried_class = 0;
    if (carried != 0 && at > 0) {
      carried_point = utf8_decode(text.data() + utf8_before(text, at + first_end));
      carried_class = classes.of(carried_point);
    }

    const __m512i class_behind = _mm512_maskz_expand_epi8(static_cast<__mmask64>(leads), by_order);
    const __m512i class_before =
        _mm512_mask_mov_epi8(_mm512_maskz_expand_epi8(static_cast<__mmask64>(after & ~carried), by_order),
                             static_cast<__mmask64>(carried), _mm512_set1_epi8(static_cast<char>(carried_class)));
    const __m512i class_next = _mm512_permutexvar_epi8(bytes_from(1), class_behind);
    std::uint64_t mask = 0;
    for (const Group& group : tables.rectangles.groups()) {
      Said said = ascii(group, here);
      said.previous = _mm512_mask_mov_epi8(said.previous, _mm512_movepi8_mask(here.previous),
                                           _mm512_set1_epi8(static_cast<char>(group.unknown[CutRectangles::kPrevious])));
      said.before = _mm512_mask_mov_epi8(said.before, after, of(group, CutRectangles::kBefore, class_before));
      // No rectangle fits inside a character.
      said.behind = _mm512_maskz_mov_epi8(
          ~inner, _mm512_mask_mov_epi8(said.behind, leads, of(group, CutRectangles::kBehind, class_behind)));
      // Where another one than ASCII is next, it is known if it begins in this word.
      said.next = _mm512_mask_mov_epi8(said.next, _mm512_movepi8_mask(here.next),
                                       _mm512_set1_epi8(static_cast<char>(group.unknown[CutRectangles::kNext])));
      said.next = _mm512_mask_mov_epi8(said.next, leads >> 1, of(group, CutRectangles::kNext, class_next));
      mask |= cuts_of(said);
    }

    std::uint64_t apart = leads & after & tables.seamless.has(class_before, class_behind);
    if (apart == 0) return mask;
    const Crossings& crossings = *tables.crossings;
    const auto asked = static_cast<std::uint32_t>(_pext_u64(apart, leads));
    const __m512i before_low =
        _mm512_alignr_epi32(points_low, _mm512_set1_epi32(static_cast<int>(carried_point)), 15);
    std::uint32_t joined = crossings.possible(before_low, points_low, static_cast<__mmask16>(asked));
    if (asked >> 16 != 0) {
      const __m512i before_high = _mm512_alignr_epi32(points_high, points_low, 15);
      const auto high = crossings.possible(before_high, points_high, static_cast<__mmask16>(asked >> 16));
      joined |= static_cast<std::uint32_t>(high) << 16;
    }
    apart &= ~_pdep_u64(joined, leads);
    for (std::uint64_t rest = apart & crossings.parted().may_cross(here.before, here.behind); rest != 0;
         rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      if (crossings.parted().cross(text, at + i)) apart &= ~(rest & -rest);
    }
    return mask | apart;
  }

  TOKSEAM_AVX512 static Said ascii(const Group& group, const Text& text) {
    return {ascii(group, CutRectangles::kPrevious, text.previous), ascii(group, CutRectangles::kBefore, text.before),
            ascii(group, CutRectangles::kBehind, text.behind), ascii(group, CutRectangles::kNext, text.next)};
  }
  TOKSEAM_AVX512 static __m512i ascii(const Group& group, CutRectangles::Place place, __m512i text) {
    const std::uint8_t* table = group.bytes[place].data();
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(table), text, _mm512_loadu_si512(table + 64));
  }
  TOKSEAM_AVX512 static __m512i of(const Group& group, CutRectangles::Place place, __m512i numbers) {
    return _mm512_permutexvar_epi8(numbers, _mm512_loadu_si512(group.of[place].data()));
  }
  TOKSEAM_AVX512 static std::uint64_t cuts_of(const Said& said) {
    return _mm512_test_epi8_mask(_mm512_and_si512(said.before, said.behind),
                                 _mm512_and_si512(said.previous, said.next));
  }

  // The numbers from `first` on.
  TOKSEAM_AVX512 static __m512i bytes_from(int first) {
    const __m512i numbers = _mm512_set_epi64(0x3F3E3D3C3B3A3938, 0x3736353433323130, 0x2F2E2D2C2B2A2928,
                                             0x2726252423222120, 0x1F1E1D1C1B1A1918, 0x1716151413121110,
                                             0x0F0E0D0C0B0A0908, 0x0706050403020100);
    return _mm512_add_epi8(numbers, _mm512_set1_epi8(static_cast<char>(first)));
  }

  // What of the last character lies behind the word, in the lowest bytes.
  TOKSEAM_AVX512 static __m512i tail(std::string_view text, std::size_t at) {
    std::uint32_t bytes = 0;
    if (text.size() - at >= 64 + sizeof(bytes)) [[likely]]
      std::memcpy(&bytes, text.data() + at + 64, sizeof(bytes));
    else
      for (std::size_t i = at + 64; i < text.size(); ++i)
        bytes |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])) << 8 * (i - at - 64);
    return _mm512_castsi128_si512(_mm_cvtsi32_si128(static_cast<int>(bytes)));
  }

  // The code points of the sixteen characters that begin at places[first] and so on, in 32 bits each; whatever there
  // are less of is anything up to 24 bits.
  template <int first>
  TOKSEAM_AVX512 static __m512i decode(__m512i places, __m512i word, __m512i behind_word) {
    // Four bytes of each, the lead byte lowest.
    const __m512i four_times = _mm512_add_epi32(
        _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                           _mm512_set1_epi32(0x01010101)),
        _mm512_set1_epi32(first * 0x01010101));
    const __m512i at =
        _mm512_add_epi8(_mm512_permutexvar_epi8(four_times, places), _mm512_set1_epi32(0x03020100));
    const __m512i bytes = _mm512_permutex2var_epi8(word, at, behind_word);
    // The six low bits of all four side by side, of which a shorter character has none of the lowest.
    const __m512i six = _mm512_and_si512(bytes, _mm512_set1_epi8(0x3F));
    const __m512i twelve = _mm512_maddubs_epi16(six, _mm512_set1_epi16(0x0140));
    const __m512i all = _mm512_madd_epi16(twelve, _mm512_set1_epi32(0x00011000));
    // By the high half of the lead byte: 0xC and 0xD for two bytes, 0xE for three, 0xF for four.
    const __m512i kind = _mm512_srli_epi32(bytes, 4);
    const __m512i shift =
        _mm512_permutexvar_epi32(kind, _mm512_set_epi32(0, 6, 12, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i bits = _mm512_permutexvar_epi32(
        kind, _mm512_set_epi32(0x1FFFFF, 0xFFFF, 0x7FF, 0x7FF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    return _mm512_and_si512(_mm512_srlv_epi32(all, shift), bits);
  }
};

}  // namespace tokseam

#endif
