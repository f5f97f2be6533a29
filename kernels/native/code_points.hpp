// Counting and finding code points in valid UTF-8, by the bytes that do not continue a character.
// Validates nothing: that is done once, where text enters the engine.
#pragma once

#include <cstddef>
#include <string_view>

namespace tokseam::utf8 {

// True where a code point starts, that is for any byte but 10xxxxxx.
constexpr bool starts_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

// PERF: no early exit and no branch, so that the compiler turns the loop into vector compares.
inline std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += static_cast<std::size_t>(starts_code_point(byte));
  return count;
}

// Bytes counted before looking closer: the vector loop above does the way, a byte loop only the last block.
inline constexpr std::size_t kCountBlockBytes = 256;

// The byte offset of code point `n` of `text`; text.size() where the text has no more than n.
inline std::size_t offset_of_code_point(std::string_view text, std::size_t n) {
  std::size_t at = 0;
  while (text.size() - at >= kCountBlockBytes) {
    const std::size_t in_block = count_code_points(text.substr(at, kCountBlockBytes));
    if (in_block > n) break;
    n -= in_block;
    at += kCountBlockBytes;
  }
  for (; at < text.size(); ++at) {
    if (!starts_code_point(text[at])) continue;
    if (n == 0) return at;
    --n;
  }
  return text.size();
}

// The nearest code point boundary that is not left of `at`. The text's end is one.
inline std::size_t boundary_at_or_after(std::string_view text, std::size_t at) {
  while (at < text.size() && !starts_code_point(text[at])) ++at;
  return at < text.size() ? at : text.size();
}

// The nearest code point boundary that is not right of `at`, for at < text.size().
inline std::size_t boundary_at_or_before(std::string_view text, std::size_t at) {
  while (at > 0 && !starts_code_point(text[at])) --at;
  return at;
}

// Whether `text` is valid UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
inline bool valid(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char lead = byte(at);
    const std::size_t width = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (width == 0 || text.size() - at < width) return false;
    for (std::size_t i = 1; i < width; ++i)
      if (starts_code_point(text[at + i])) return false;
    if (width > 2) {
      const unsigned char second = byte(at + 1);
      if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0)) return false;
      if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return false;
    }
    at += width;
  }
  return true;
}

}  // namespace tokseam::utf8
