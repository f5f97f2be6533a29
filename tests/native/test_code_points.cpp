// code_points.hpp against a walk that decodes.
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "code_points.hpp"

namespace tokseam::test {
namespace {

void agrees_with_a_walk() {
  std::mt19937 random(1);
  const std::vector<std::string> characters = {"a", "\x7F", "\xC3\xA9", "\xE4\xB8\x96", "\xF0\x9F\x98\x80"};
  for (std::size_t length = 0; length < 700; length += 1 + length / 16) {
    std::string text;
    std::vector<std::size_t> offsets;  // of each code point, and the end
    for (std::size_t i = 0; i < length; ++i) {
      offsets.push_back(text.size());
      text += characters[random() % characters.size()];
    }
    offsets.push_back(text.size());
    CHECK(utf8::count_code_points(text) == length, "a text of " + std::to_string(length));
    for (std::size_t n = 0; n <= length; ++n)
      CHECK(utf8::offset_of_code_point(text, n) == offsets[n], "code point " + std::to_string(n));
    CHECK(utf8::offset_of_code_point(text, length + 5) == text.size(), "past the end");
    std::size_t next = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (offsets[next] < at) ++next;
      CHECK(utf8::boundary_at_or_after(text, at) == offsets[next], "boundary after " + std::to_string(at));
      const std::size_t before = offsets[next] == at ? at : offsets[next - 1];
      CHECK(utf8::boundary_at_or_before(text, at) == before, "boundary before " + std::to_string(at));
    }
  }
}

void counts_of_long_texts() {
  // One kind of character throughout: what counts in lanes of a byte must add them up before they overflow.
  for (const std::string& character : {std::string("a"), std::string("\xC3\xA9"), std::string("\xF0\x9F\x98\x80")}) {
    std::string text;
    for (std::size_t length = 1; length <= 10'000; ++length) {
      text += character;
      if (length % 97 != 0 && length % 4080 > 20) continue;
      CHECK(utf8::count_code_points(text) == length, "a text of " + std::to_string(length));
    }
  }
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"code points agree with a walk", agrees_with_a_walk},
      {"counts of long texts", counts_of_long_texts},
  });
}
