// What a session's text and a Python str share at their ends, compared chunk by chunk: neither is copied or converted,
// but for chunks that keep no text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "chunk_text.hpp"
#include "chunk_tree.hpp"
#include "textdiff.hpp"
#include "utf8.hpp"

namespace tokseam {

namespace detail {

// Characters of ASCII that are compared together in a text that has others too.
inline constexpr std::size_t kRun = 16;

// Whether the kRun bytes from `bytes` on are all ASCII, and the same as the units.
template <class Unit>
bool equal_ascii(const char* bytes, const Unit* units) {
  std::uint32_t different = 0, all = 0;
  for (std::size_t i = 0; i < kRun; ++i) {
    const std::uint32_t byte = static_cast<std::uint8_t>(bytes[i]);
    all |= byte;
    different |= byte ^ static_cast<std::uint32_t>(units[i]);
  }
  return (different | (all & 0x80)) == 0;
}

// How many code points a chunk, of `chars` of them, and the units from `units` on share at their starts, up to `n`.
// PERF: mixed text is mostly runs of ASCII; behind a character that is none comes another one as a rule.
template <class Unit>
std::size_t shared_forward(std::string_view chunk, std::size_t chars, const Unit* units, std::size_t n) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(chunk.data());
  if (chars == chunk.size()) return equal_units_forward(bytes, units, n);
  std::size_t at = 0;
  for (std::size_t i = 0; i < n;) {
    while (n - i >= kRun && chunk.size() - at >= kRun && equal_ascii(chunk.data() + at, units + i))
      i += kRun, at += kRun;
    do {
      if (i == n) return n;
      if (utf8_decode(chunk.data() + at) != static_cast<std::uint32_t>(units[i])) return i;
      at += utf8_width(chunk[at]);
      ++i;
    } while (at < chunk.size() && !is_ascii(chunk[at]));
  }
  return n;
}

// The same at their ends: `units_end` is one past the last.
template <class Unit>
std::size_t shared_backward(std::string_view chunk, std::size_t chars, const Unit* units_end, std::size_t n) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(chunk.data());
  if (chars == chunk.size()) return equal_units_backward(bytes + chunk.size(), units_end, n);
  std::size_t at = chunk.size();
  for (std::size_t i = 0; i < n;) {
    while (n - i >= kRun && at >= kRun && equal_ascii(chunk.data() + at - kRun, units_end - i - kRun))
      i += kRun, at -= kRun;
    do {
      if (i == n) return n;
      at = utf8_before(chunk, at);
      if (utf8_decode(chunk.data() + at) != static_cast<std::uint32_t>(*(units_end - 1 - i))) return i;
      ++i;
    } while (at > 0 && !is_ascii(chunk[at - 1]));
  }
  return n;
}

// Walks the chunks forward or back until f answers false, some chunks behind the tree's own walk.
// PERF: chunks lie anywhere in memory. What is to be compared next is called for while f is at work: first the header,
// which says where the text begins, or the ids that spell it, then the first lines of those; from there on the processor
// sees the pattern itself.
template <bool Forward, class F>
void ahead(const ChunkTree& chunks, F&& f) {
  constexpr std::size_t kDepth = 4, kTextDepth = 2, kLines = 8, kLineBytes = 64;
  std::array<const Chunk*, kDepth> coming{};  // a ring: the chunk `i` of the walk stands at i % kDepth until f has it
  std::size_t taken = 0;
  std::size_t done = 0;
  bool going = true;
  const auto fetch_text = [&](const Chunk& chunk) {
    const std::span<const std::byte> source = chunk.text_source();
    const std::size_t some = std::min(source.size(), kLines * kLineBytes);
    const bool from_begin = Forward || !chunk.keeps_text();  // ids spell from the first one on
    const std::byte* from = from_begin ? source.data() : source.data() + source.size() - some;
    for (std::size_t at = 0; at < some; at += kLineBytes) __builtin_prefetch(from + at);
  };
  const auto next = [&] {
    if (done + kTextDepth < taken) fetch_text(*coming[(done + kTextDepth) % kDepth]);
    going = f(*coming[done % kDepth]);
    ++done;
    return going;
  };
  const auto take = [&](const Chunk& chunk) {
    __builtin_prefetch(&chunk);
    if (taken - done == kDepth && !next()) return false;
    coming[taken++ % kDepth] = &chunk;
    return true;
  };
  if constexpr (Forward) {
    chunks.walk(take);
  } else {
    chunks.walk_back(take);
  }
  while (going && done < taken) next();
}

}  // namespace detail

// The longest common prefix, then the longest common suffix of what is left, in code points. `spellings`: those of the
// session's engine.
inline SharedEnds shared_ends(const ChunkTree& chunks, const Spellings& spellings, const CodePoints& text) {
  SharedEnds ends{0, 0};
  ChunkTexts texts(spellings);
  const std::size_t shorter = std::min(chunks.sums().chars, text.length);
  detail::with_units(text, [&](const auto* units) {
    detail::ahead<true>(chunks, [&](const Chunk& chunk) {
      const std::size_t n = std::min(chunk.sums().chars, shorter - ends.prefix);
      const std::size_t same = detail::shared_forward(texts.of(chunk), chunk.sums().chars, units + ends.prefix, n);
      ends.prefix += same;
      return same == chunk.sums().chars;
    });
    const auto* end = units + text.length;
    const std::size_t rest = shorter - ends.prefix;
    detail::ahead<false>(chunks, [&](const Chunk& chunk) {
      const std::size_t n = std::min(chunk.sums().chars, rest - ends.suffix);
      const std::size_t same =
          detail::shared_backward(texts.of(chunk), chunk.sums().chars, end - static_cast<std::ptrdiff_t>(ends.suffix), n);
      ends.suffix += same;
      return same == chunk.sums().chars;
    });
  });
  return ends;
}

}  // namespace tokseam
