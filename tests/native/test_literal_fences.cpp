// Fences around literals against their definition, over literals and texts of few characters: literals inside others,
// across others and across the borders of words.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "check.hpp"
#include "image.hpp"
#include "literal_fences.hpp"

namespace {

using namespace tokseam;

constexpr std::size_t kReach = 4;  // bytes of the longest character

std::string draw(std::mt19937& random, std::size_t size) {
  std::string text;
  for (; size > 0; --size) text.push_back("ab<"[random() % 3]);
  return text;
}

void test_against_the_definition() {
  std::mt19937 random(5);
  std::size_t fenced = 0, free = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> literals;
    for (std::size_t count = random() % 4; count > 0; --count) {
      const std::size_t size = random() % 8 == 0 ? random() % 150 : random() % 6;
      literals.push_back('<' + draw(random, size));
    }
    // Mostly what is no literal, of which some is inside of one.
    std::string text;
    for (std::size_t count = random() % 12; count > 0; --count) {
      text += std::string(random() % 40, 'a') + draw(random, random() % 4);
      if (!literals.empty() && random() % 2 == 0) text += literals[random() % literals.size()];
    }
    std::vector<std::pair<std::string_view, AddedTokens::Token>> tokens;
    for (std::size_t i = 0; i < literals.size(); ++i)
      tokens.push_back({literals[i], {.id = static_cast<std::uint32_t>(i)}});
    ImageWriter writer;
    AddedTokens::write(writer, kFencedLiterals, tokens);
    const Image image = writer.finish();
    const AddedTokens added(image, kFencedLiterals);

    std::vector<bool> expected(text.size() + 200);
    for (const std::string& literal : literals)
      for (std::size_t at = text.find(literal); at != std::string::npos; at = text.find(literal, at + 1))
        for (std::size_t place = at - std::min(at, kReach); place <= at + literal.size() + kReach; ++place)
          if (place != at) expected[place] = true;

    LiteralFences fences(added, text, 0);
    for (std::size_t word = 0; word < text.size(); word += 64) {
      const std::uint64_t mask = fences.at(word);
      for (std::size_t i = 0; i < 64 && word + i < text.size(); ++i) {
        CHECK((mask >> i & 1) == expected[word + i], "place " + std::to_string(word + i) + " of " + text);
        ++(expected[word + i] ? fenced : free);
      }
    }
  }
  CHECK(fenced > 10'000 && free > 10'000, "both kinds of places");
}

}  // namespace

int main() { return tokseam::test::run({{"against the definition", test_against_the_definition}}); }
