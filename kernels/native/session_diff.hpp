// What a session's text and a Python str share at their ends, compared chunk by chunk: neither is copied or converted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chunk_tree.hpp"
#include "textdiff.hpp"
#include "utf8.hpp"

namespace tokseam {

namespace detail {

// How many code points a chunk, of `chars` of them, and the units from `units` on share at their starts, up to `n`.
template <class Unit>
std::size_t shared_forward(std::string_view chunk, std::size_t chars, const Unit* units, std::size_t n) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(chunk.data());
  if (chars == chunk.size()) return equal_units_forward(bytes, units, n);
  std::size_t at = 0;
  for (std::size_t i = 0; i < n; ++i, at += utf8_width(chunk[at]))
    if (utf8_decode(chunk.data() + at) != static_cast<std::uint32_t>(units[i])) return i;
  return n;
}

// The same at their ends: `units_end` is one past the last.
template <class Unit>
std::size_t shared_backward(std::string_view chunk, std::size_t chars, const Unit* units_end, std::size_t n) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(chunk.data());
  if (chars == chunk.size()) return equal_units_backward(bytes + chunk.size(), units_end, n);
  std::size_t at = chunk.size();
  for (std::size_t i = 0; i < n; ++i) {
    at = utf8_before(chunk, at);
    if (utf8_decode(chunk.data() + at) != static_cast<std::uint32_t>(*(units_end - 1 - i))) return i;
  }
  return n;
}

}  // namespace detail

// The longest common prefix, then the longest common suffix of what is left, in code points.
inline SharedEnds shared_ends(const ChunkTree& chunks, const CodePoints& text) {
  SharedEnds ends{0, 0};
  const std::size_t shorter = std::min(chunks.sums().chars, text.length);
  detail::with_units(text, [&](const auto* units) {
    chunks.walk([&](const Chunk& chunk) {
      const std::size_t n = std::min(chunk.sums().chars, shorter - ends.prefix);
      const std::size_t same = detail::shared_forward(chunk.text(), chunk.sums().chars, units + ends.prefix, n);
      ends.prefix += same;
      return same == chunk.sums().chars;
    });
    const auto* end = units + text.length;
    const std::size_t rest = shorter - ends.prefix;
    chunks.walk_back([&](const Chunk& chunk) {
      const std::size_t n = std::min(chunk.sums().chars, rest - ends.suffix);
      const std::size_t same =
          detail::shared_backward(chunk.text(), chunk.sums().chars, end - static_cast<std::ptrdiff_t>(ends.suffix), n);
      ends.suffix += same;
      return same == chunk.sums().chars;
    });
  });
  return ends;
}

}  // namespace tokseam
