// Where a cut that classes allow may not be, for a literal of an added token is there: inside it, and beside it, where
// a stage does not see all the characters that decide. Looked up in the text itself, so that a literal costs cuts only
// where it stands, and not wherever two characters of such classes meet (kernels/README.md, claim 19).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "added_tokens.hpp"

namespace tokseam {

class LiteralFences {
 public:
  static constexpr std::size_t kWordBytes = 64;

  // For the text from `start` on, where no literal lies across. Both must outlive it.
  LiteralFences(const AddedTokens& literals, std::string_view text, std::size_t start)
      : literals_(literals), text_(text) {
    look_from(start);
  }

  // Bit i of the answer: no cut at at + i. Asked in order, for multiples of 64.
  std::uint64_t at(std::size_t at) {
    if (found_.begin >= at + kWordBytes + kReach && fenced_to_ <= at) [[likely]] return 0;
    std::uint64_t mask = below(at, fenced_to_);
    while (found_.begin < at + kWordBytes + kReach) {
      const std::size_t begin = found_.begin;
      mask |= below(at, begin) & ~below(at, begin - std::min(begin, kReach));
      if (begin >= at + kWordBytes) break;  // the next word's
      // Where it begins there may be a cut: all of it is on one side.
      const std::size_t end = found_.end + kReach + 1;
      mask |= below(at, end) & ~below(at, begin + 1);
      fenced_to_ = std::max(fenced_to_, end);
      look_from(begin + 1);  // others may begin inside it
    }
    return mask;
  }

 private:
  // Of the characters that a cut depends on, one may lie between the cut and the literal.
  static constexpr std::size_t kReach = 4;

  // The places before `end`.
  static std::uint64_t below(std::size_t at, std::size_t end) {
    if (end <= at) return 0;
    return end - at >= kWordBytes ? ~std::uint64_t{0} : (std::uint64_t{1} << (end - at)) - 1;
  }

  void look_from(std::size_t from) {
    found_ = literals_.empty() ? AddedTokens::Found{} : literals_.find(text_, from);
  }

  const AddedTokens& literals_;
  std::string_view text_;
  AddedTokens::Found found_;    // the first that is not behind us, begin == kNone if there is none
  std::size_t fenced_to_ = 0;   // of those that are
};

}  // namespace tokseam
