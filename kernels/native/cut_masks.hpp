// Where a text may be cut, 64 bytes of it at a time, as bit masks: what parts a fresh text into segments.
//
// Cuts are at synchronizing pairs, and where three characters decide (kernels/README.md, claims 4 and 12). Which pairs
// of classes are synchronizing is a Boolean matrix. It is covered here by at most eight rectangles (a set of classes
// before the cut, a set behind it); likewise the two relations of three. Each rectangle is a bit, which every class has
// or not in each place beside a cut, and has where the rectangle does not look at that place. So a place is a cut where
// the bytes of the four characters around it share a bit: four table lookups and three `and`s for 32 or 64 bytes at
// once and each eight rectangles. A relation that eight do not cover loses some cuts, never gains one.
// Not here: what the cuts are used for (segments.hpp), the search for single ones (cuts.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
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
    cover_pairs();
    cover(looking_on, {kBefore, kBehind, kNext});
    cover(looking_back, {kPrevious, kBefore, kBehind});
    for (Group& group : groups_)
      for (std::size_t place = 0; place < kPlaces; ++place)
        for (std::uint32_t byte = 0; byte < 0x80; ++byte) group.ascii[place][byte] = group.of[place][classes.of(byte)];
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
  // The characters around a cut.
  enum Place : std::size_t { kPrevious, kBefore, kBehind, kNext, kPlaces };
  // How far from the cut the byte is of an ASCII character there.
  static constexpr std::array<std::ptrdiff_t, kPlaces> kReach{-2, -1, 0, 1};

  // Eight rectangles, a bit for each.
  struct Group {
    std::array<std::array<std::uint8_t, 256>, kPlaces> of{};     // what each class says in each place
    std::array<std::array<std::uint8_t, 128>, kPlaces> ascii{};  // the same, of each ASCII character
    // What a character beyond ASCII says in the places further off: the rectangles that do not look there.
    std::array<std::uint8_t, kPlaces> unknown{};
  };
  static constexpr std::size_t kGroups = 3;
  using Bits = std::array<std::uint8_t, kWordBytes>;
  using Words = std::array<std::array<Bits, kPlaces>, kGroups>;  // what is said of each of the 64 places for a cut

  // 1 where text[at] begins a character that the pair alone makes a cut.
  std::uint64_t pair_at(std::string_view text, std::size_t at) const {
    if (at == 0 || is_continuation(text[at])) return 0;
    const std::uint8_t before = classes_->of(utf8_decode(text.data() + utf8_before(text, at)));
    return classes_->synchronizing(before, classes_->of(utf8_decode(text.data() + at)));
  }

  // Adds the rectangle that says nothing yet about any class in the places given, all in the others.
  void add_rectangle(std::initializer_list<Place> looked_at) {
    const std::size_t number = rectangles_++;
    used_ = number / 8 + 1;
    const auto flag = static_cast<std::uint8_t>(1U << number % 8);
    Group& group = groups_[number / 8];
    for (std::size_t place = 0; place < kPlaces; ++place) {
      if (std::ranges::find(looked_at, place) != looked_at.end()) continue;
      for (std::uint8_t& said : group.of[place]) said |= flag;
      group.unknown[place] |= flag;
    }
  }
  void say(Place place, std::size_t number) {
    groups_[(rectangles_ - 1) / 8].of[place][number] |= static_cast<std::uint8_t>(1U << (rectangles_ - 1) % 8);
  }

  // A relation of three characters: a row of classes for each place, a bit for each rectangle.
  void cover(const std::uint8_t* rows, std::initializer_list<Place> places) {
    const std::size_t n = classes_->count();
    for (unsigned bit = 0; bit < 8; ++bit) {
      const auto has = [&](std::size_t row, std::size_t number) { return (rows[row * n + number] >> bit & 1) != 0; };
      const auto any = [&](std::size_t row) {
        for (std::size_t number = 0; number < n; ++number)
          if (has(row, number)) return true;
        return false;
      };
      if (!any(0) || !any(1) || !any(2)) continue;
      add_rectangle(places);
      std::size_t row = 0;
      for (const Place place : places) {
        for (std::size_t number = 0; number < n; ++number)
          if (has(row, number)) say(place, number);
        ++row;
      }
    }
  }

  void cover_pairs() {
    const std::size_t n = classes_->count();
    const auto pair = [&](std::size_t a, std::size_t b) {
      return classes_->synchronizing(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b));
    };
    std::vector<bool> covered(n * n);
    for (std::size_t count = 0; count < 8; ++count) {
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
      add_rectangle({kBefore, kBehind});
      for (std::size_t b = 0; b < n; ++b)
        if (pair(best_row, b)) say(kBehind, b);
      for (std::size_t a = 0; a < n; ++a) {
        if (!contains(a, best_row)) continue;
        say(kBefore, a);
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

  // Fill in what characters beyond ASCII say, which is nothing so far. PERF: only in the places beside a cut, and behind
  // an ASCII character; a relation of three characters has its further ones in ASCII, or loses a cut. Returns the cuts
  // inside pieces.
  std::uint64_t beyond_ascii(std::string_view text, std::size_t at, const char* bytes, std::uint64_t leads,
                             Words& words) const {
    // The character that began before this word and ends in it, or in front of it.
    std::size_t end = 0;  // where the character before ends, if it is beyond ASCII
    while (end < 4 && is_continuation(bytes[end])) ++end;
    std::uint32_t before = 0;
    const std::uint8_t* seamless = nullptr;  // the row of the character before
    if (at > 0 && static_cast<unsigned char>(*(bytes + end - 1)) >= 0x80) {
      before = utf8_decode(text.data() + utf8_before(text, at + end));
      const std::uint8_t number = classes_->of(before);
      seamless = seamless_row(number);
      say(kBefore, number, end, words);
    } else {
      end = kWordBytes;
    }
    std::uint64_t parted = 0;
    for (std::uint64_t rest = leads; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      const std::uint32_t point = utf8_decode(text.data() + at + i);
      const std::uint8_t number = classes_->of(point);
      say(kBehind, number, i, words);
      if (end == i) {
        const bool apart = seamless != nullptr && seamless[number] != 0 && !crossings_->possible(text, at + i, before, point);
        parted |= static_cast<std::uint64_t>(apart) << i;
      } else if (i > 0) {
        say(kNext, number, i - 1, words);
      }
      before = point;
      seamless = seamless_row(number);
      end = i + utf8_width(bytes[i]);
      if (end < kWordBytes) say(kBefore, number, end, words);
    }
    return parted;
  }

  const std::uint8_t* seamless_row(std::uint8_t number) const {
    return seamless_ == nullptr ? nullptr : seamless_ + number * classes_->count();
  }

  void say(Place place, std::uint8_t number, std::size_t at, Words& words) const {
    for (std::size_t group = 0; group < used_; ++group) words[group][place][at] = groups_[group].of[place][number];
  }

  // These three fill in what ASCII characters say; `leads` are the bytes that begin others. True where there are none.
  bool ascii_portable(const char* bytes, Words& words, std::uint64_t& leads) const {
    bool all = true;
    for (std::size_t place = 0; place < kPlaces; ++place)
      for (std::size_t i = 0; i < kWordBytes; ++i) {
        const auto byte = static_cast<unsigned char>(*(bytes + i + kReach[place]));
        all = all && byte < 0x80;
        for (std::size_t group = 0; group < used_; ++group)
          words[group][place][i] = byte < 0x80 ? groups_[group].ascii[place][byte] : groups_[group].unknown[place];
      }
    for (std::size_t i = 0; i < kWordBytes; ++i)
      leads |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i]) >= 0xC0) << i;
    return all;
  }

  std::uint64_t cuts_portable(const Words& words) const {
    std::uint64_t mask = 0;
    for (std::size_t group = 0; group < used_; ++group)
      for (std::size_t i = 0; i < kWordBytes; ++i) {
        const auto& said = words[group];
        const int cut = said[kPrevious][i] & said[kBefore][i] & said[kBehind][i] & said[kNext][i];
        mask |= static_cast<std::uint64_t>(cut != 0) << i;
      }
    return mask;
  }

#if defined(__x86_64__)
  // SAFETY, in all of these: the 64 bytes, the two in front and the one behind are the caller's to read; every load and
  // store is an unaligned one.

  // Of a word that is all ASCII, sets `mask` at once and leaves `words` alone.
  __attribute__((target("avx512f,avx512bw,avx512vbmi"))) bool ascii_avx512(const char* bytes, Words& words,
                                                                           std::uint64_t& leads,
                                                                           std::uint64_t& mask) const {
    // PERF: by name, not in an array: else they go through memory.
    const __m512i previous = _mm512_loadu_si512(bytes - 2), before = _mm512_loadu_si512(bytes - 1),
                  behind = _mm512_loadu_si512(bytes), next = _mm512_loadu_si512(bytes + 1);
    const __m512i any = _mm512_or_si512(_mm512_or_si512(previous, before), _mm512_or_si512(behind, next));
    const bool all = _mm512_movepi8_mask(any) == 0;
    for (std::size_t number = 0; number < used_; ++number) {
      const Group& group = groups_[number];
      const Said512 said{lookup_avx512(group, kPrevious, previous), lookup_avx512(group, kBefore, before),
                         lookup_avx512(group, kBehind, behind), lookup_avx512(group, kNext, next)};
      if (all) {
        mask |= cuts_of(said);
        continue;
      }
      store_avx512(group, kPrevious, previous, said.previous, words[number]);
      store_avx512(group, kBefore, before, said.before, words[number]);
      store_avx512(group, kBehind, behind, said.behind, words[number]);
      store_avx512(group, kNext, next, said.next, words[number]);
    }
    leads = _mm512_cmpge_epu8_mask(behind, _mm512_set1_epi8(static_cast<char>(0xC0)));
    return all;
  }

  struct Said512 {
    __m512i previous, before, behind, next;
  };

  __attribute__((target("avx512f,avx512bw,avx512vbmi"), always_inline)) static __m512i lookup_avx512(
      const Group& group, Place place, const __m512i& text) {
    const std::uint8_t* table = group.ascii[place].data();
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(table), text, _mm512_loadu_si512(table + 64));
  }

  __attribute__((target("avx512f,avx512bw"), always_inline)) static void store_avx512(
      const Group& group, Place place, const __m512i& text, const __m512i& said, std::array<Bits, kPlaces>& words) {
    const __m512i unknown = _mm512_set1_epi8(static_cast<char>(group.unknown[place]));
    _mm512_storeu_si512(words[place].data(), _mm512_mask_mov_epi8(said, _mm512_movepi8_mask(text), unknown));
  }

  __attribute__((target("avx512f,avx512bw"), always_inline)) static std::uint64_t cuts_of(const Said512& said) {
    return _mm512_test_epi8_mask(_mm512_and_si512(said.before, said.behind),
                                 _mm512_and_si512(said.previous, said.next));
  }

  __attribute__((target("avx512f,avx512bw"))) std::uint64_t cuts_avx512(const Words& words) const {
    std::uint64_t mask = 0;
    for (std::size_t group = 0; group < used_; ++group) {
      const std::array<Bits, kPlaces>& said = words[group];
      mask |= cuts_of({_mm512_loadu_si512(said[kPrevious].data()), _mm512_loadu_si512(said[kBefore].data()),
                       _mm512_loadu_si512(said[kBehind].data()), _mm512_loadu_si512(said[kNext].data())});
    }
    return mask;
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
      for (std::size_t place = 0; place < kPlaces; ++place) {
        const __m256i text = _mm256_loadu_si256(vector(bytes + half + kReach[place]));
        high |= _mm256_movemask_epi8(text);
        for (std::size_t number = 0; number < used_; ++number) {
          const Group& group = groups_[number];
          const __m256i unknown = _mm256_set1_epi8(static_cast<char>(group.unknown[place]));
          const __m256i said = _mm256_blendv_epi8(lookup_avx2(group.ascii[place].data(), text), unknown, text);
          _mm256_storeu_si256(vector(words[number][place].data() + half), said);
        }
      }
      // At least 0xC0: unsigned, so by the maximum.
      const __m256i here = _mm256_loadu_si256(vector(bytes + half));
      const __m256i lead = _mm256_cmpeq_epi8(_mm256_max_epu8(here, _mm256_set1_epi8(static_cast<char>(0xC0))), here);
      leads |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(lead))) << half;
    }
    return high == 0;
  }

  __attribute__((target("avx2"))) std::uint64_t cuts_avx2(const Words& words) const {
    std::uint64_t mask = 0;
    for (std::size_t group = 0; group < used_; ++group)
      for (std::size_t half = 0; half < kWordBytes; half += 32) {
        const auto said = [&](Place place) __attribute__((target("avx2"))) {
          return _mm256_loadu_si256(vector(words[group][place].data() + half));
        };
        const __m256i cut = _mm256_and_si256(_mm256_and_si256(said(kPrevious), said(kBefore)),
                                             _mm256_and_si256(said(kBehind), said(kNext)));
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
  std::array<Group, kGroups> groups_{};
  std::size_t rectangles_ = 0, used_ = 0;  // used_: groups that have any
};

}  // namespace tokseam
