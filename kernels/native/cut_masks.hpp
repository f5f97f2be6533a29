// Where a text may be cut, 64 bytes of it at a time, as bit masks: what parts a fresh text into segments.
//
// Cuts are at synchronizing pairs, and where three characters decide (kernels/README.md, claims 4 and 12). Which pairs
// of classes are synchronizing is a Boolean matrix. It is covered here by at most eight rectangles (a set of classes
// before the cut, a set behind it), so that one bit for each rectangle fits a byte, and a place is a cut where the byte
// of the character before it and that of the character behind it share a bit: two table lookups and an `and` for 32 or
// 64 bytes at once. Likewise the two relations of three. One that eight do not cover loses some cuts, never gains one.
// Not here: what the cuts are used for (segments.hpp), the search for single ones (cuts.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "classes.hpp"
#include "crossings.hpp"
#include "utf8.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tokseam {

class CutMasks {
 public:
  static constexpr std::size_t kWordBytes = 64;  // bytes of text that one mask tells about

  enum class Path { portable, avx2, avx512 };

  // The quickest one on this processor.
  static Path best_path() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi")) return Path::avx512;
    if (AsciiClasses::has_avx2()) return Path::avx2;
#endif
    return Path::portable;
  }

  // looking_on, looking_back: three rows of classes.count() bytes each, a bit for each rectangle of a relation of three
  // characters (kernels/compile/contexts.py).
  // seamless: a byte for each pair of classes, where a piece may be parted if no merge crosses; null: nowhere.
  CutMasks(const Classes& classes, const std::uint8_t* looking_on, const std::uint8_t* looking_back,
           const std::uint8_t* seamless = nullptr, const Crossings* crossings = nullptr, Path path = best_path())
      : classes_(&classes), seamless_(seamless), crossings_(crossings), path_(path) {
    cover();
    for (std::size_t number = 0; number < classes.count(); ++number)
      for (std::size_t place = 0; place < 3; ++place) {
        roles_[kOnBefore + place][number] = looking_on[place * classes.count() + number];
        roles_[kBackPrevious + place][number] = looking_back[place * classes.count() + number];
      }
    for (std::size_t role = 0; role < kRoles; ++role)
      for (std::uint32_t byte = 0; byte < 0x80; ++byte) ascii_[role][byte] = roles_[role][classes.of(byte)];
  }

  // Whether text[at] begins a character that the pair alone makes a cut, covered by a rectangle or not.
  bool is_cut(std::string_view text, std::size_t at) const { return pair_at(text, at) != 0; }

  // Bit i of the answer: the text may be cut at at + i, where 0 < at + i < text.size(). `at` is a multiple of 64.
  std::uint64_t at(std::string_view text, std::size_t at) const {
    const std::size_t rest = text.size() - at;
    if (at > 0 && rest > kWordBytes) return word(text, at, text.data() + at);
    // The first word has nothing before it, the last one nothing behind it: a copy has both. The characters of the text
    // itself are looked at in the text, so that one that begins in this word is whole.
    std::array<char, 2 + kWordBytes + 1> copy{};
    const std::size_t size = std::min(rest, kWordBytes);
    if (at > 0) copy[0] = text[at - 2], copy[1] = text[at - 1];
    std::memcpy(copy.data() + 2, text.data() + at, std::min(rest, kWordBytes + 1));
    std::uint64_t mask = word(text, at, copy.data() + 2);
    // What would look beyond the ends saw zeros there.
    if (rest <= kWordBytes) mask &= ~(std::uint64_t{1} << (size - 1)) | pair_at(text, at + size - 1) << (size - 1);
    if (size < kWordBytes) mask &= (std::uint64_t{1} << size) - 1;
    if (at == 0) {
      mask &= ~std::uint64_t{1};
      if (size > 1) mask &= ~std::uint64_t{2} | pair_at(text, 1) << 1;
    }
    return mask;
  }

 private:
  // What each character says about cuts beside it: a bit for each rectangle of each relation.
  enum Role : std::size_t {
    kBefore, kBehind,              // the pair around the cut
    kOnBefore, kOnBehind, kOnNext,  // the pair, and the character behind it
    kBackPrevious, kBackBefore, kBackBehind,  // the character in front of the pair, and it
    kRoles
  };
  using Bits = std::array<std::uint8_t, kWordBytes>;
  using Words = std::array<Bits, kRoles>;  // by role: of each of the 64 places for a cut, what stands in that role there

  // How far from the cut the byte is that a role of an ASCII character is read off.
  static constexpr std::array<std::ptrdiff_t, kRoles> kReach{-1, 0, -1, 0, 1, -2, -1, 0};

  // 1 where text[at] begins a character that the pair alone makes a cut.
  std::uint64_t pair_at(std::string_view text, std::size_t at) const {
    if (at == 0 || is_continuation(text[at])) return 0;
    const std::uint8_t before = classes_->of(utf8_decode(text.data() + utf8_before(text, at)));
    return classes_->synchronizing(before, classes_->of(utf8_decode(text.data() + at)));
  }

  void cover() {
    const std::size_t n = classes_->count();
    const auto pair = [&](std::size_t a, std::size_t b) {
      return classes_->synchronizing(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b));
    };
    std::vector<bool> covered(n * n);
    for (std::size_t bit = 0; bit < 8; ++bit) {
      // The rectangle of each row: its columns, and all rows that have these columns too. Take what covers most.
      std::size_t best = 0, best_row = 0;
      const auto contains = [&](std::size_t outer, std::size_t inner) {
        for (std::size_t b = 0; b < n; ++b)
          if (pair(inner, b) && !pair(outer, b)) return false;
        return true;
      };
      for (std::size_t row = 0; row < n; ++row) {
        std::size_t gain = 0;
        for (std::size_t a = 0; a < n; ++a) {
          if (!contains(a, row)) continue;
          for (std::size_t b = 0; b < n; ++b) gain += pair(row, b) && !covered[a * n + b];
        }
        if (gain > best) best = gain, best_row = row;
      }
      if (best == 0) return;
      const auto flag = static_cast<std::uint8_t>(1U << bit);
      for (std::size_t b = 0; b < n; ++b)
        if (pair(best_row, b)) roles_[kBehind][b] |= flag;
      for (std::size_t a = 0; a < n; ++a) {
        if (!contains(a, best_row)) continue;
        roles_[kBefore][a] |= flag;
        for (std::size_t b = 0; b < n; ++b)
          if (pair(best_row, b)) covered[a * n + b] = true;
      }
    }
  }

  // `bytes` holds the 64 bytes at text[at], and two in front and one behind.
  std::uint64_t word(std::string_view text, std::size_t at, const char* bytes) const {
    Words words;
    std::uint64_t leads = 0;
#if defined(__x86_64__)
    if (path_ == Path::avx512) {
      std::uint64_t mask = 0;
      if (ascii_avx512(bytes, words, leads, mask)) return mask;
      const std::uint64_t parted = beyond_ascii(text, at, bytes, leads, words);
      return cuts_avx512(words) | parted;
    }
    if (path_ == Path::avx2) {
      const bool ascii = ascii_avx2(bytes, words, leads);
      const std::uint64_t parted = ascii ? 0 : beyond_ascii(text, at, bytes, leads, words);
      return cuts_avx2(words) | parted;
    }
#endif
    const bool ascii = ascii_portable(bytes, words, leads);
    const std::uint64_t parted = ascii ? 0 : beyond_ascii(text, at, bytes, leads, words);
    return cuts_portable(words) | parted;
  }

  // Fill in what characters beyond ASCII say, where there is 0 so far. PERF: only in the roles of text beside a cut; a
  // relation of three characters has its further ones in ASCII, or loses a cut. Returns the cuts inside pieces.
  std::uint64_t beyond_ascii(std::string_view text, std::size_t at, const char* bytes, std::uint64_t leads,
                             Words& words) const {
    // The character that began before this word and ends in it, or in front of it.
    std::size_t end = 0;  // where the character before ends, if it is beyond ASCII
    while (end < 4 && is_continuation(bytes[end])) ++end;
    std::uint32_t before = 0;
    std::uint8_t number_before = 0;
    bool beside = at > 0 && static_cast<unsigned char>(*(bytes + end - 1)) >= 0x80;
    if (beside) {
      before = utf8_decode(text.data() + utf8_before(text, at + end));
      number_before = classes_->of(before);
      ends(number_before, end, words);
    }
    std::uint64_t parted = 0;
    for (std::uint64_t rest = leads; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      const std::uint32_t here = utf8_decode(text.data() + at + i);
      const std::uint8_t number = classes_->of(here);
      words[kBehind][i] = roles_[kBehind][number];
      words[kBackBehind][i] = roles_[kBackBehind][number];
      if (i > 0) words[kOnNext][i - 1] = roles_[kOnNext][number];
      if (beside && end == i && seamless_ != nullptr && seamless_[number_before * classes_->count() + number] != 0 &&
          !crossings_->possible(text.data() + at + i, before, here))
        parted |= std::uint64_t{1} << i;
      before = here;
      number_before = number;
      beside = true;
      end = i + utf8_width(bytes[i]);
      if (end < kWordBytes) ends(number, end, words);
    }
    return parted;
  }

  void ends(std::uint8_t number, std::size_t end, Words& words) const {
    words[kBefore][end] = roles_[kBefore][number];
    words[kOnBefore][end] = roles_[kOnBefore][number];
  }

  // These three fill in what ASCII characters say; `leads` are the bytes that begin others. True where there are none.
  bool ascii_portable(const char* bytes, Words& words, std::uint64_t& leads) const {
    bool all = true;
    for (std::size_t role = 0; role < kRoles; ++role)
      for (std::size_t i = 0; i < kWordBytes; ++i) {
        const auto byte = static_cast<unsigned char>(*(bytes + i + kReach[role]));
        words[role][i] = byte < 0x80 ? ascii_[role][byte] : std::uint8_t{0};
        all = all && byte < 0x80;
      }
    for (std::size_t i = 0; i < kWordBytes; ++i)
      leads |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i]) >= 0xC0) << i;
    return all;
  }

  static std::uint64_t cuts_portable(const Words& words) {
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < kWordBytes; ++i) {
      const auto of = [&](Role role) { return words[role][i]; };
      const int cut = (of(kBefore) & of(kBehind)) | (of(kOnBefore) & of(kOnBehind) & of(kOnNext)) |
                      (of(kBackPrevious) & of(kBackBefore) & of(kBackBehind));
      mask |= static_cast<std::uint64_t>(cut != 0) << i;
    }
    return mask;
  }

#if defined(__x86_64__)
  // SAFETY, in all of these: the 64 bytes, the two in front and the one behind are the caller's to read; every load and
  // store is an unaligned one.
  struct Said512 {
    __m512i of[kRoles];
  };

  // Of a word that is all ASCII, sets `mask` at once and leaves `words` alone.
  __attribute__((target("avx512f,avx512bw,avx512vbmi"))) bool ascii_avx512(const char* bytes, Words& words,
                                                                           std::uint64_t& leads,
                                                                           std::uint64_t& mask) const {
    Said512 said;
    const __m512i text[4] = {_mm512_loadu_si512(bytes - 2), _mm512_loadu_si512(bytes - 1),
                             _mm512_loadu_si512(bytes), _mm512_loadu_si512(bytes + 1)};
    for (std::size_t role = 0; role < kRoles; ++role)
      said.of[role] = _mm512_permutex2var_epi8(_mm512_loadu_si512(ascii_[role].data()),
                                            text[static_cast<std::size_t>(kReach[role] + 2)],
                                            _mm512_loadu_si512(ascii_[role].data() + 64));
    const __m512i any = _mm512_or_si512(_mm512_or_si512(text[0], text[1]), _mm512_or_si512(text[2], text[3]));
    if (_mm512_movepi8_mask(any) == 0) {
      mask = cuts_of(said);
      return true;
    }
    for (std::size_t role = 0; role < kRoles; ++role) {
      const __mmask64 ascii = ~_mm512_movepi8_mask(text[static_cast<std::size_t>(kReach[role] + 2)]);
      _mm512_storeu_si512(words[role].data(), _mm512_maskz_mov_epi8(ascii, said.of[role]));
    }
    leads = _mm512_cmpge_epu8_mask(text[2], _mm512_set1_epi8(static_cast<char>(0xC0)));
    return false;
  }

  __attribute__((target("avx512f,avx512bw"))) static std::uint64_t cuts_of(const Said512& said) {
    const __m512i* of = said.of;
    const __m512i pair = _mm512_and_si512(of[kBefore], of[kBehind]);
    const __m512i on = _mm512_and_si512(_mm512_and_si512(of[kOnBefore], of[kOnBehind]), of[kOnNext]);
    const __m512i back = _mm512_and_si512(_mm512_and_si512(of[kBackPrevious], of[kBackBefore]), of[kBackBehind]);
    const __m512i cut = _mm512_or_si512(pair, _mm512_or_si512(on, back));
    return _mm512_test_epi8_mask(cut, cut);
  }

  __attribute__((target("avx512f,avx512bw"))) static std::uint64_t cuts_avx512(const Words& words) {
    Said512 said;
    for (std::size_t role = 0; role < kRoles; ++role) said.of[role] = _mm512_loadu_si512(words[role].data());
    return cuts_of(said);
  }

  __attribute__((target("avx2"))) static __m256i lookup_avx2(const std::uint8_t* table, __m256i bytes) {
    // PERF: eight 16-byte table lookups, one for each high nibble; bytes beyond ASCII match none and give 0.
    const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi8(0x0F));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(0x0F));
    __m256i found = _mm256_setzero_si256();
    for (int row = 0; row < 8; ++row) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * row));
      const __m256i looked_up = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(part), low);
      const __m256i match = _mm256_cmpeq_epi8(high, _mm256_set1_epi8(static_cast<char>(row)));
      found = _mm256_or_si256(found, _mm256_and_si256(match, looked_up));
    }
    return found;
  }

  static __m256i* vector(std::uint8_t* bytes) { return reinterpret_cast<__m256i*>(bytes); }
  static const __m256i* vector(const std::uint8_t* bytes) { return reinterpret_cast<const __m256i*>(bytes); }
  static const __m256i* vector(const char* bytes) { return reinterpret_cast<const __m256i*>(bytes); }

  __attribute__((target("avx2"))) bool ascii_avx2(const char* bytes, Words& words, std::uint64_t& leads) const {
    int high = 0;
    for (std::size_t half = 0; half < kWordBytes; half += 32) {
      for (std::size_t role = 0; role < kRoles; ++role) {
        const __m256i text = _mm256_loadu_si256(vector(bytes + half + kReach[role]));
        high |= _mm256_movemask_epi8(text);
        _mm256_storeu_si256(vector(words[role].data() + half), lookup_avx2(ascii_[role].data(), text));
      }
      // At least 0xC0: unsigned, so by the maximum.
      const __m256i here = _mm256_loadu_si256(vector(bytes + half));
      const __m256i lead = _mm256_cmpeq_epi8(_mm256_max_epu8(here, _mm256_set1_epi8(static_cast<char>(0xC0))), here);
      leads |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(lead))) << half;
    }
    return high == 0;
  }

  __attribute__((target("avx2"))) static std::uint64_t cuts_avx2(const Words& words) {
    std::uint64_t mask = 0;
    for (std::size_t half = 0; half < kWordBytes; half += 32) {
      const auto said = [&](Role role) __attribute__((target("avx2"))) {
        return _mm256_loadu_si256(vector(words[role].data() + half));
      };
      const __m256i pair = _mm256_and_si256(said(kBefore), said(kBehind));
      const __m256i on = _mm256_and_si256(_mm256_and_si256(said(kOnBefore), said(kOnBehind)), said(kOnNext));
      const __m256i back =
          _mm256_and_si256(_mm256_and_si256(said(kBackPrevious), said(kBackBefore)), said(kBackBehind));
      const __m256i cut = _mm256_or_si256(pair, _mm256_or_si256(on, back));
      const __m256i none = _mm256_cmpeq_epi8(cut, _mm256_setzero_si256());
      mask |= static_cast<std::uint64_t>(~static_cast<std::uint32_t>(_mm256_movemask_epi8(none))) << half;
    }
    return mask;
  }
#endif

  const Classes* classes_;
  const std::uint8_t* seamless_;
  const Crossings* crossings_;
  Path path_;
  std::array<std::array<std::uint8_t, 256>, kRoles> roles_{};  // what each class says in each role
  std::array<std::array<std::uint8_t, 128>, kRoles> ascii_{};  // the same, of each ASCII character
};

}  // namespace tokseam
