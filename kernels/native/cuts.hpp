// The search for synchronizing positions, which depend on the two characters that meet and on nothing else.
// What a character is reduced to, and which pairs are a cut, is the caller's (classes.hpp, characters.hpp).
#pragma once

#include <cstddef>
#include <string_view>

#include "utf8.hpp"

namespace tokseam {

// No such position; also 'no match' and the like, elsewhere.
constexpr std::size_t kNone = std::string_view::npos;

// First position p with from <= p < text.size() and p > 0 where cut(key(character before), key(character at)), or kNone.
template <class Key, class Cut>
std::size_t find_next_cut(std::string_view text, std::size_t from, Key&& key, Cut&& cut) {
  if (from == 0) from = 1;
  while (from < text.size() && is_continuation(text[from])) ++from;
  if (from >= text.size()) return kNone;
  auto before = key(utf8_decode(text.data() + utf8_before(text, from)));
  for (std::size_t at = from; at < text.size(); at += utf8_width(text[at])) {
    const auto here = key(utf8_decode(text.data() + at));
    if (cut(before, here)) return at;
    before = here;
  }
  return kNone;
}

// Last such position with 0 < p <= upto and p < text.size(), or kNone.
template <class Key, class Cut>
std::size_t find_last_cut(std::string_view text, std::size_t upto, Key&& key, Cut&& cut) {
  if (text.empty()) return kNone;
  std::size_t at = upto < text.size() ? upto : text.size() - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  auto here = key(utf8_decode(text.data() + at));
  while (at > 0) {
    const std::size_t previous = utf8_before(text, at);
    const auto before = key(utf8_decode(text.data() + previous));
    if (cut(before, here)) return at;
    here = before;
    at = previous;
  }
  return kNone;
}

}  // namespace tokseam
