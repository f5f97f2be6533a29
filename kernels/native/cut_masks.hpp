// Where a text may be cut, 64 bytes of it at a time, as bit masks: what parts a fresh text into segments.
//
// Cuts are at synchronizing pairs, and where three characters decide (kernels/README.md, claims 4 and 12): at places
// that lie in one of the rectangles of cut_rectangles.hpp, which are looked up for 32 or 64 bytes at once; and inside
// pieces where no merge crosses (claim 13), which is asked of each two characters beyond ASCII that meet.
// Here are the path for any processor and the one for AVX2; cut_masks_avx512.hpp has another. All give the same masks.
// Not here: what the cuts are used for (segments.hpp), the search for single ones (cuts.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "avx512.hpp"
#include "classes.hpp"
#include "crossings.hpp"
#include "cut_masks_avx512.hpp"
#include "cut_rectangles.hpp"
#include "cut_tables.hpp"
#include "utf8.hpp"

namespace tokseam {

class CutMasks {
 public:
  static constexpr std::size_t kWordBytes = 64;  // bytes of text that one mask tells about

  enum class Path { portable, avx2, avx512 };

  // The quickest one on this processor.
  static Path best_path() {
#if defined(__x86_64__)
    if (has_avx512()) return Path::avx512;
    if (AsciiClasses::has_avx2()) return Path::avx2;
#endif
    return Path::portable;
  }

  // As CutTables takes them. More classes than the path for AVX-512 knows go by the one for AVX2.
  CutMasks(const Classes& classes, const std::uint8_t* pairs, const std::uint8_t* looking_on,
           const std::uint8_t* looking_back, const std::uint8_t* seamless = nullptr,
           const Crossings* crossings = nullptr, Path path = best_path())
      : tables_(classes, pairs, looking_on, looking_back, seamless, crossings),
        path_(path == Path::avx512 && classes.count() > CutTables::kMatrixClasses ? Path::avx2 : path) {}

  // Whether a session may cut there.
  bool is_cut(std::string_view text, std::size_t at) const {
    if (at == 0 || is_continuation(text[at])) return false;
    const auto [before, behind] = pair_at(text, at);
    return tables_.classes->synchronizing(before, behind);
  }

  // Whether the pair alone makes a cut there, be it for encoding alone.
  bool is_pair(std::string_view text, std::size_t at) const { return cut_at(text, at) != 0; }

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
    if (rest <= kWordBytes) mask &= ~(std::uint64_t{1} << (size - 1)) | cut_at(text, at + size - 1) << (size - 1);
    if (size < kWordBytes) mask &= (std::uint64_t{1} << size) - 1;
    if (at == 0) {
      mask &= ~std::uint64_t{1};
      if (size > 1) mask &= ~std::uint64_t{2} | cut_at(text, 1) << 1;
    }
    return mask;
  }

 private:
  using Group = CutRectangles::Group;
  using Place = CutRectangles::Place;
  static constexpr Place kPrevious = Place::kPrevious, kBefore = Place::kBefore, kBehind = Place::kBehind,
                         kNext = Place::kNext;
  static constexpr std::size_t kPlaces = CutRectangles::kPlaces;
  static constexpr auto kReach = CutRectangles::kReach;

  using Bits = std::array<std::uint8_t, kWordBytes>;
  using Words = std::array<std::array<Bits, kPlaces>, CutRectangles::kGroups>;  // what is said of each of the 64 places

  // The classes of the characters that meet there.
  std::pair<std::uint8_t, std::uint8_t> pair_at(std::string_view text, std::size_t at) const {
    const Classes& classes = *tables_.classes;
    return {classes.of(utf8_decode(text.data() + utf8_before(text, at))), classes.of(utf8_decode(text.data() + at))};
  }

  // 1 where text[at] begins a character that the pair alone makes a cut.
  std::uint64_t cut_at(std::string_view text, std::size_t at) const {
    if (at == 0 || is_continuation(text[at])) return 0;
    const auto [before, behind] = pair_at(text, at);
    return tables_.pairs[before * tables_.classes->count() + behind] != 0;
  }

  // `bytes` holds the 64 bytes at text[at], and two in front and one behind.
  std::uint64_t word(std::string_view text, std::size_t at, const char* bytes) const {
#if defined(TOKSEAM_AVX512)
    if (path_ == Path::avx512) return CutMasksAvx512::word(tables_, text, at, bytes);
#endif
#if defined(__x86_64__)
    if (path_ == Path::avx2) return word_avx2(text, at, bytes);
#endif
    return word_portable(text, at, bytes);
  }

  // Returns the cuts between characters beyond ASCII, and fills in what they say beside ASCII characters, which is
  // nothing so far. PERF: of the places further off only the one behind an ASCII character; a relation of three
  // characters has its further ones in ASCII, or loses a cut.
  // say(place, class, i): such a character is there, as seen from byte i.
  template <class Say>
  std::uint64_t beyond_ascii(std::string_view text, std::size_t at, const char* bytes, std::uint64_t leads,
                             Say say) const {
    const Classes& classes = *tables_.classes;
    const std::size_t count = classes.count();
    const CutTables::Fate* const fates = tables_.fates.data();
    // The character before: at first the one that began before this word and ends in it, or in front of it.
    std::uint32_t before = 0;
    std::uint8_t number_before = 0;
    std::size_t end = 0;  // where it ends, if it is beyond ASCII
    while (end < 4 && is_continuation(bytes[end])) ++end;
    if (at > 0 && is_beyond_ascii(*(bytes + end - 1))) {
      before = utf8_decode(text.data() + utf8_before(text, at + end));
      number_before = classes.of(before);
    } else {
      end = kWordBytes;
    }
    std::uint64_t mask = 0;
    for (std::uint64_t rest = leads; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      const std::uint32_t point = utf8_decode(text.data() + at + i);
      const std::uint8_t number = classes.of(point);
      if (end == i) {
        const CutTables::Fate fate = fates[number_before * count + number];
        const bool cut = fate == CutTables::Fate::cut || (fate == CutTables::Fate::seamless &&
                                                          !tables_.crossings->possible(text, at + i, before, point));
        mask |= static_cast<std::uint64_t>(cut) << i;
      } else {
        if (end < kWordBytes) say(kBefore, number_before, end);
        say(kBehind, number, i);
        if (i > 0) say(kNext, number, i - 1);
      }
      before = point;
      number_before = number;
      end = i + utf8_width(bytes[i]);
    }
    if (end < kWordBytes) say(kBefore, number_before, end);
    return mask;
  }

  // PERF: where no ASCII character is in the word, or in front of it, nobody asks for what is said.
  std::uint64_t without_ascii(std::string_view text, std::size_t at, const char* bytes, std::uint64_t leads) const {
    return beyond_ascii(text, at, bytes, leads, [](Place, std::uint8_t, std::size_t) {});
  }

  static bool is_beyond_ascii(char byte) { return static_cast<unsigned char>(byte) >= 0x80; }

  // A bit for each of eight bytes whose highest bit is set.
  static std::uint64_t high_bits(std::uint64_t bytes) {
    if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap64(bytes);
    return (bytes >> 7 & kEachByte) * 0x0102040810204080 >> 56;
  }
  static constexpr std::uint64_t kEachByte = 0x0101010101010101;

  std::uint64_t word_portable(std::string_view text, std::size_t at, const char* bytes) const {
    const std::span<const Group> groups = tables_.rectangles.groups();
    constexpr std::uint64_t kHighBits = kEachByte << 7;
    std::uint64_t any = detail::load8(bytes - 2) | detail::load8(bytes + kWordBytes - 7), all = kHighBits, leads = 0;
    for (std::size_t i = 0; i < kWordBytes; i += 8) {
      const std::uint64_t eight = detail::load8(bytes + i);
      any |= eight;
      all &= eight;
      leads |= high_bits(eight & (eight & ~kHighBits) << 1) << i;
    }
    if (all == kHighBits && is_beyond_ascii(*(bytes - 1))) return without_ascii(text, at, bytes, leads);
    // What the character of each byte says, as Group::packed.
    constexpr std::size_t kInFront = 2, kBytes = kInFront + kWordBytes + 1;
    std::array<std::array<std::uint32_t, kBytes>, CutRectangles::kGroups> said;
    for (std::size_t number = 0; number < groups.size(); ++number)
      for (std::size_t i = 0; i < kBytes; ++i)
        said[number][i] = groups[number].packed[static_cast<unsigned char>(*(bytes - kInFront + i))];
    std::uint64_t mask = 0;
    if ((any & kHighBits) != 0)
      mask = beyond_ascii(text, at, bytes, leads, [&](Place place, std::uint8_t number, std::size_t i) {
        for (std::size_t group = 0; group < groups.size(); ++group) {
          std::uint32_t& byte = said[group][kInFront + i + static_cast<std::size_t>(kReach[place])];
          byte = (byte & ~(0xFFU << 8 * place)) | std::uint32_t{groups[group].of[place][number]} << 8 * place;
        }
      });
    for (std::size_t number = 0; number < groups.size(); ++number)
      for (std::size_t i = 0; i < kWordBytes; ++i) {
        const std::uint32_t* const here = said[number].data() + kInFront + i;
        const std::uint32_t cut = here[kReach[kPrevious]] & here[kReach[kBefore]] >> 8 * kBefore &
                                  here[kReach[kBehind]] >> 8 * kBehind & here[kReach[kNext]] >> 8 * kNext & 0xFF;
        mask |= static_cast<std::uint64_t>(cut != 0) << i;
      }
    return mask;
  }

#if defined(__x86_64__)
  // SAFETY, in all of these: the 64 bytes, the two in front and the one behind are the caller's to read; every load and
  // store is an unaligned one.

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

  __attribute__((target("avx2"))) std::uint64_t word_avx2(std::string_view text, std::size_t at,
                                                          const char* bytes) const {
    const std::uint64_t leads = at_least_avx2(bytes, 0xC0), high = at_least_avx2(bytes, 0x80);
    if (high == ~std::uint64_t{0} && is_beyond_ascii(*(bytes - 1))) return without_ascii(text, at, bytes, leads);
    Words words;
    const bool ascii = ascii_avx2(bytes, words);
    const auto say = [&](Place place, std::uint8_t number, std::size_t i) {
      const std::span<const Group> groups = tables_.rectangles.groups();
      for (std::size_t group = 0; group < groups.size(); ++group)
        words[group][place][i] = groups[group].of[place][number];
    };
    const std::uint64_t beyond = ascii ? 0 : beyond_ascii(text, at, bytes, leads, say);
    return cuts_avx2(words) | beyond;
  }

  // The bytes of at least `least`, by the maximum, for they have no sign.
  __attribute__((target("avx2"))) static std::uint64_t at_least_avx2(const char* bytes, unsigned least) {
    const __m256i all = _mm256_set1_epi8(static_cast<char>(least));
    std::uint64_t mask = 0;
    for (std::size_t half = 0; half < kWordBytes; half += 32) {
      const __m256i text = _mm256_loadu_si256(vector(bytes + half));
      const __m256i found = _mm256_cmpeq_epi8(_mm256_max_epu8(text, all), text);
      mask |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(found))) << half;
    }
    return mask;
  }

  // Fills in what ASCII characters say. True where there are no others.
  __attribute__((target("avx2"))) bool ascii_avx2(const char* bytes, Words& words) const {
    const std::span<const Group> groups = tables_.rectangles.groups();
    int high = 0;
    for (std::size_t half = 0; half < kWordBytes; half += 32) {
      for (std::size_t place = 0; place < kPlaces; ++place) {
        const __m256i text = _mm256_loadu_si256(vector(bytes + half + kReach[place]));
        high |= _mm256_movemask_epi8(text);
        for (std::size_t number = 0; number < groups.size(); ++number) {
          const Group& group = groups[number];
          const __m256i unknown = _mm256_set1_epi8(static_cast<char>(group.unknown[place]));
          const __m256i said = _mm256_blendv_epi8(lookup_avx2(group.bytes[place].data(), text), unknown, text);
          _mm256_storeu_si256(vector(words[number][place].data() + half), said);
        }
      }
    }
    return high == 0;
  }

  __attribute__((target("avx2"))) std::uint64_t cuts_avx2(const Words& words) const {
    std::uint64_t mask = 0;
    for (std::size_t group = 0; group < tables_.rectangles.groups().size(); ++group)
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

  CutTables tables_;
  Path path_;
};

}  // namespace tokseam
