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

    // Of the occurrences that begin at one place the longest counts: what it leaves free no shorter one needs.
    const bool space_in_front = random() % 2 == 0;
    std::vector<bool> inside(text.size() + 200), beside(text.size() + 200);
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::size_t size = 0;
      for (const std::string& literal : literals)
        if (text.compare(at, literal.size(), literal) == 0) size = std::max(size, literal.size());
      if (size == 0) continue;
      const std::size_t end = at + size;
      for (std::size_t place = at + 1; place < end; ++place) inside[place] = true;
      if (space_in_front) inside[end] = true;
      if (at > 0) beside[at - 1] = true;
      beside[end + 1] = true;
    }

    LiteralFences fences(added, text, 0, space_in_front);
    for (std::size_t word = 0; word < text.size(); word += 64) {
      const LiteralFences::Word mask = fences.at(word);
      for (std::size_t i = 0; i < 64 && word + i < text.size(); ++i) {
        CHECK((mask.inside >> i & 1) == inside[word + i], "inside: " + std::to_string(word + i) + " of " + text);
        CHECK((mask.beside >> i & 1) == beside[word + i], "beside: " + std::to_string(word + i) + " of " + text);
        ++(inside[word + i] || beside[word + i] ? fenced : free);
      }
    }
  }
  CHECK(fenced > 10'000 && free > 10'000, "both kinds of places");
}

}  // namespace

int main() { return tokseam::test::run({{"against the definition", test_against_the_definition}}); }
