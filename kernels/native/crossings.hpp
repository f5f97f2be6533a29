// Between which characters no merge ever crosses, for BPE over bytes: a merge that crosses the place between x and y
// makes an entry that holds the end of x and the beginning of y side by side. Where the vocabulary has none, a piece
// may be parted there (kernels/README.md, claims 8 and 13). Characters beyond ASCII only: of the others nearly all
// pairs stand in some entry. Where a byte of a text may have no symbol, it is dropped and what stood around it merges:
// then any place may be crossed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "avx512.hpp"
#include "image.hpp"
#include "merges.hpp"
#include "pair_sieve.hpp"
#include "parted_entries.hpp"
#include "utf8.hpp"

namespace tokseam {

class Crossings {
 public:
  // entries: all that pieces and merges can become. whole_only: the ones of them that a whole piece becomes though its
  // merges would not: a part of a piece must not be looked up as one, so none may begin or end as they do.
  // normalized: as PartedEntries has it. byte_ids: the symbol of each byte, kNoId where there is none.
  static void write(ImageWriter& writer, std::span<const std::string_view> entries,
                    std::span<const std::string_view> whole_only, bool normalized,
                    std::span<const std::uint32_t> byte_ids) {
    if (drops_text(byte_ids)) {
      PairSieve::write(writer, Section::crossed, {});
      PairSieve::write(writer, Section::crossed_edges, {});
      const std::vector<std::string> meetings = all_meetings();
      const std::vector<std::string_view> every_place(meetings.begin(), meetings.end());
      return PartedEntries::write(writer, every_place, normalized);
    }
    std::vector<std::uint64_t> pairs, edges;
    for (const std::string_view entry : entries)
      for (std::size_t at = 1; at < entry.size(); ++at) {
        if (!is_lead(entry[at]) || !is_beyond_ascii(entry[at - 1])) continue;
        std::size_t before = at - 1;
        while (before > 0 && is_continuation(entry[before])) --before;
        const bool whole_before = is_lead(entry[before]) && before + utf8_width(entry[before]) == at;
        // A part of a character is PartedEntries' matter.
        if (whole_before && at + utf8_width(entry[at]) <= entry.size() &&
            utf8::valid(entry.substr(before, at - before)) && utf8::valid(entry.substr(at, utf8_width(entry[at]))))
          pairs.push_back(PairSieve::key(utf8_decode(entry.data() + before), utf8_decode(entry.data() + at)));
      }
    for (const std::string_view entry : whole_only) {
      if (!utf8::valid(entry) || entry.empty()) continue;  // no part is one
      edges.push_back(PairSieve::key(kEdge, utf8_decode(entry.data())));
      edges.push_back(PairSieve::key(utf8_decode(entry.data() + utf8_before(entry, entry.size())), kEdge));
    }
    PairSieve::write(writer, Section::crossed, pairs);
    PairSieve::write(writer, Section::crossed_edges, edges);
    PartedEntries::write(writer, entries, normalized);
  }

  // Whether it makes a difference that an entry is one of whole_only: one that begins or ends beyond ASCII.
  static bool is_asked_about(std::string_view entry) {
    return !entry.empty() && (is_beyond_ascii(entry.front()) || is_beyond_ascii(entry.back()));
  }

  explicit Crossings(const Image& image)
      : pairs_(image, Section::crossed),
        edges_(image, Section::crossed_edges),
        parted_(image) {}

  // Whether a merge may cross text[at], between `before` and `behind`, both beyond ASCII.
  __attribute__((always_inline)) bool possible(std::string_view text, std::size_t at, std::uint32_t before,
                                               std::uint32_t behind) const {
    // PERF: no branch on what differs from character to character.
    const bool parts = parted_.cross(text, at);
    const bool pair = pairs_.may_contain(PairSieve::key(before, behind));
    const bool edge = !edges_.empty() && (edges_.may_contain(PairSieve::key(before, kEdge)) ||
                                          edges_.may_contain(PairSieve::key(kEdge, behind)));
    return parts | pair | edge;
  }

#if defined(TOKSEAM_AVX512)
  // Sixteen characters each; a bit for each of `lanes` where the sieves do not rule out that a merge crosses. The other
  // part of the question is parted().
  TOKSEAM_AVX512 __mmask16 possible(__m512i before, __m512i behind, __mmask16 lanes) const {
    const __mmask16 pairs = pairs_.may_contain(before, behind, lanes);
    if (edges_.empty()) return pairs;
    const __m512i edge = _mm512_set1_epi32(static_cast<int>(kEdge));
    return pairs | edges_.may_contain(before, edge, lanes) | edges_.may_contain(edge, behind, lanes);
  }
#endif

  const PartedEntries& parted() const { return parted_; }

 private:
  static constexpr std::uint32_t kEdge = 0xFFFFFFFF;  // no code point

  // Whether a byte that valid UTF-8 may hold has no symbol.
  static bool drops_text(std::span<const std::uint32_t> byte_ids) {
    const auto missing = [&](std::size_t first, std::size_t last) {
      return std::ranges::count(byte_ids.subspan(first, last - first + 1), kNoId) > 0;
    };
    return missing(0x00, 0xBF) || missing(0xC2, 0xF4);
  }

  // What two characters beyond ASCII may have where they meet: the last byte of the one and the first of the other.
  static std::vector<std::string> all_meetings() {
    std::vector<std::string> meetings;
    for (int last = 0x80; last <= 0xBF; ++last)
      for (int lead = 0xC2; lead <= 0xF4; ++lead) meetings.push_back({static_cast<char>(last), static_cast<char>(lead)});
    return meetings;
  }

  static bool is_beyond_ascii(char byte) { return static_cast<unsigned char>(byte) >= 0x80; }
  static bool is_lead(char byte) { return static_cast<unsigned char>(byte) >= 0xC0; }

  PairSieve pairs_, edges_;
  PartedEntries parted_;
};

}  // namespace tokseam
