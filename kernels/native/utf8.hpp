// UTF-8 that is known to be valid, for host code: step, decode (device/utf8.hpp), append (code_points.hpp counts).
// Nothing here validates; texts are checked before they come in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "code_points.hpp"
#include "device/utf8.hpp"

namespace tokseam {

inline bool is_ascii(char byte) { return static_cast<signed char>(byte) >= 0; }
inline bool is_continuation(char byte) { return !utf8::starts_code_point(byte); }

// Bytes of the character that starts with `lead`.
inline std::size_t utf8_width(char lead) { return device::utf8_width(static_cast<std::uint8_t>(lead)); }

// The code point that starts at text[at].
inline std::uint32_t utf8_decode(const char* text) {
  return device::utf8_decode(reinterpret_cast<const std::uint8_t*>(text));
}

// Whether UTF-8 has a form for it.
constexpr bool is_code_point(std::uint32_t point) { return point < 0xD800 || (point >= 0xE000 && point < 0x110000); }

inline void utf8_append(std::string& out, std::uint32_t point) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0U | point >> 6), put(0x80U | (point & 0x3FU));
  } else if (point < 0x10000) {
    put(0xE0U | point >> 12), put(0x80U | (point >> 6 & 0x3FU)), put(0x80U | (point & 0x3FU));
  } else {
    put(0xF0U | point >> 18), put(0x80U | (point >> 12 & 0x3FU)), put(0x80U | (point >> 6 & 0x3FU)),
        put(0x80U | (point & 0x3FU));
  }
}

// Where the character that ends before text[at] starts; at > 0.
inline std::size_t utf8_before(std::string_view text, std::size_t at) {
  do {
    --at;
  } while (is_continuation(text[at]));
  return at;
}

}  // namespace tokseam
