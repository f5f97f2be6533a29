// UTF-8, a character at a time: width, code point, validity.
#pragma once

#include "types.hpp"

namespace tokseam::device {

TOKSEAM_DEVICE inline bool continues(u8 byte) { return (byte & 0xC0U) == 0x80U; }

// Bytes of the character that starts with `lead`, in valid UTF-8.
TOKSEAM_DEVICE inline u32 utf8_width(u8 lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// The code point that starts at `text`.
// SAFETY: the text is valid UTF-8, so all the bytes that the lead byte announces are there.
TOKSEAM_DEVICE inline u32 utf8_decode(const u8* text) {
  const u32 b0 = text[0];
  if (b0 < 0x80) return b0;
  if (b0 < 0xE0) return (b0 & 0x1FU) << 6 | (text[1] & 0x3FU);
  if (b0 < 0xF0) return (b0 & 0x0FU) << 12 | (text[1] & 0x3FU) << 6 | (text[2] & 0x3FU);
  return (b0 & 0x07U) << 18 | (text[1] & 0x3FU) << 12 | (text[2] & 0x3FU) << 6 | (text[3] & 0x3FU);
}

// Bytes of a code point, and each of them.
TOKSEAM_DEVICE inline u32 utf8_size(u32 point) { return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4; }
TOKSEAM_DEVICE inline u8 utf8_byte(u32 point, u32 size, u32 i) {
  if (size == 1) return static_cast<u8>(point);
  const u32 bits = point >> 6 * (size - 1 - i);
  return static_cast<u8>(i == 0 ? (0xF00U >> size & 0xFFU) | bits : 0x80U | (bits & 0x3FU));
}

// Bytes of the valid character that starts at `text`, of which `size` bytes are there; 0 where none does: a byte that
// starts no character, an overlong form, a surrogate, or one above U+10FFFF.
TOKSEAM_DEVICE inline u32 utf8_valid_width(const u8* text, u64 size) {
  const u8 lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const u32 width = utf8_width(lead);
  if (size < width) return 0;
  for (u32 i = 1; i < width; ++i)
    if (!continues(text[i])) return 0;
  const u8 second = text[1];
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0)) return 0;
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return 0;
  return width;
}

}  // namespace tokseam::device
