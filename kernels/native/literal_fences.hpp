// Where a cut that classes allow may not be, for a literal of an added token is there. Looked up in the text itself, so
// that a literal costs cuts only where it stands, and not wherever two characters of such classes meet
// (kernels/README.md, claim 19). Masks look at a third character only across one of a single byte (cut_masks.hpp): so
// one place on either side is enough.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "added_tokens.hpp"

namespace tokseam {

class LiteralFences {
 public:
  static constexpr std::size_t kWordBytes = 64;

  // Bit i: of the place at + i.
  struct Word {
    std::uint64_t inside = 0;  // a literal lies across, or goes in front of what gets something else in front
    std::uint64_t beside = 0;  // the third character that may have decided is a literal's: the pair alone must
  };

  // For the text from `start` on, where no literal lies across. Both must outlive it. space_in_front: what follows a
  // literal gets something in front, so a text is not cut between the two.
  LiteralFences(const AddedTokens& literals, std::string_view text, std::size_t start, bool space_in_front)
      : literals_(literals), text_(text), behind_(space_in_front ? 1 : 0) {
    look_from(start);
  }

  // Asked in order, for multiples of 64.
  Word at(std::size_t at) {
    if (found_.begin > at + kWordBytes && inside_to_ <= at && beside_.empty()) [[likely]] return {};
    Word word{below(at, inside_to_)};
    while (found_.begin <= at + kWordBytes) {
      const std::size_t begin = found_.begin, end = found_.end;
      if (begin > 0) word.beside |= one(at, begin - 1);
      if (begin == at + kWordBytes) break;  // the next word's
      // Where it begins there may be a cut: all of it is on one side.
      word.inside |= below(at, end + behind_) & ~below(at, begin + 1);
      inside_to_ = std::max(inside_to_, end + behind_);
      beside_.push_back(end + 1);
      look_from(begin + 1);  // others may begin inside it
    }
    for (const std::size_t place : beside_) word.beside |= one(at, place);
    std::erase_if(beside_, [&](std::size_t place) { return place < at + kWordBytes; });
    return word;
  }

 private:
  // The places before `end`.
  static std::uint64_t below(std::size_t at, std::size_t end) {
    if (end <= at) return 0;
    return end - at >= kWordBytes ? ~std::uint64_t{0} : (std::uint64_t{1} << (end - at)) - 1;
  }
  static std::uint64_t one(std::size_t at, std::size_t place) {
    return place < at || place - at >= kWordBytes ? 0 : std::uint64_t{1} << (place - at);
  }

  void look_from(std::size_t from) {
    found_ = literals_.empty() ? AddedTokens::Found{} : literals_.find(text_, from);
  }

  const AddedTokens& literals_;
  std::string_view text_;
  std::size_t behind_;
  AddedTokens::Found found_;          // the first that is not behind us, begin == kNone if there is none
  std::size_t inside_to_ = 0;         // of those that are, ...
  std::vector<std::size_t> beside_;  // ... and the places behind them that are not
};

}  // namespace tokseam
