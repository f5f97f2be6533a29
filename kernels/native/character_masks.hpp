// As cut_masks.hpp, for BPE over the characters of whole segments: where no token joins two characters.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "characters.hpp"
#include "utf8.hpp"

namespace tokseam {

class CharacterMasks {
 public:
  // PERF: of two ASCII characters, which most are, the answer is a bit of a small matrix.
  explicit CharacterMasks(const Characters& characters) : characters_(&characters) {
    for (std::uint32_t before = 0; before < kAscii; ++before)
      for (std::uint32_t here = 0; here < kAscii; ++here)
        ascii_[before][here / 64] |= static_cast<std::uint64_t>(characters.cut_between(before, here)) << here % 64;
  }

  bool is_cut(std::string_view text, std::size_t at) const {
    if (at == 0 || is_continuation(text[at])) return false;
    return characters_->cut_between(utf8_decode(text.data() + utf8_before(text, at)), utf8_decode(text.data() + at));
  }

  // Two characters always decide.
  bool is_pair(std::string_view text, std::size_t at) const { return is_cut(text, at); }

  // Bit i of the answer: the text may be cut at at + i, where 0 < at + i < text.size(). `at` is a multiple of 64.
  std::uint64_t at(std::string_view text, std::size_t at) const {
    const std::size_t end = std::min(text.size(), at + 64);
    std::size_t place = at;
    while (place < end && is_continuation(text[place])) ++place;
    if (place == end) return 0;
    std::uint64_t mask = 0;
    std::uint32_t before = 0;
    if (place == 0) {
      before = utf8_decode(text.data());
      place = utf8_width(text[0]);
    } else {
      before = utf8_decode(text.data() + utf8_before(text, place));
    }
    while (place < end) {
      const auto byte = static_cast<unsigned char>(text[place]);
      const std::uint32_t here = byte < kAscii ? byte : utf8_decode(text.data() + place);
      const bool cut = (before | here) < kAscii ? (ascii_[before][here / 64] >> here % 64 & 1) != 0
                                                : characters_->cut_between(before, here);
      mask |= static_cast<std::uint64_t>(cut) << (place - at);
      before = here;
      place += utf8_width(text[place]);
    }
    return mask;
  }

 private:
  static constexpr std::uint32_t kAscii = 128;

  const Characters* characters_;
  std::array<std::array<std::uint64_t, 2>, kAscii> ascii_{};
};

}  // namespace tokseam
