// What the fuzz targets share: reading numbers and valid texts out of arbitrary bytes, and failing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace tokseam::fuzz {

// Stops the program: libFuzzer, or whoever runs the standalone one, keeps the input.
#define FUZZ_CHECK(condition)                                                                             \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      std::cerr << __FILE__ << ':' << __LINE__ << ": not true: " #condition << std::endl;                 \
      std::abort();                                                                                       \
    }                                                                                                     \
  } while (false)

// Reads what it is asked for, and zeros behind the end.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool empty() const { return at_ == size_; }
  std::uint8_t byte() { return empty() ? std::uint8_t{0} : data_[at_++]; }

  // A text of up to `most` characters. One byte chooses the manner: parts that tokenizers mind, or any code points.
  std::string text(std::size_t most) {
    static const std::vector<std::string> parts = {
        "a", "b", "c", "ab", "aab", " ", "  ", "1", "12", "3", "!", "?", "<", "s", ">", "<s>", "<s>9", "<|x|>", "<|x",
        "|", "\xC3\xA9", "\xE4\xB8\x80", "\xE4\xB8\x96", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\n",
        std::string(1, '\0'), "\x7F"};
    const bool any = (byte() & 3) == 3;
    std::string out;
    for (std::size_t n = byte() % (most + 1); n > 0 && !empty(); --n) {
      if (any) {
        append(out, (static_cast<std::uint32_t>(byte()) << 16 | static_cast<std::uint32_t>(byte()) << 8 | byte()) %
                        0x110000);
      } else {
        out += parts[byte() % parts.size()];
      }
    }
    return out;
  }

 private:
  static void append(std::string& out, std::uint32_t point) {
    if (point >= 0xD800 && point < 0xE000) point -= 0xD800;  // no text holds a surrogate
    const auto put = [&](std::uint32_t bits) { out.push_back(static_cast<char>(bits)); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xC0 | point >> 6), put(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
      put(0xE0 | point >> 12), put(0x80 | (point >> 6 & 0x3F)), put(0x80 | (point & 0x3F));
    } else {
      put(0xF0 | point >> 18), put(0x80 | (point >> 12 & 0x3F)), put(0x80 | (point >> 6 & 0x3F)),
          put(0x80 | (point & 0x3F));
    }
  }

  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace tokseam::fuzz
