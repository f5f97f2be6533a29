// Merging from whole characters, and parting pieces between them, against merging from bytes one pair at a time: small
// vocabularies with tokens that lie across characters, and ranks in any order.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"
#include "encoder.hpp"
#include "encoder_image.hpp"
#include "toy_merges.hpp"

namespace {

using namespace tokseam;
using tokseam::test::Case;

// They share first, middle and last bytes.
constexpr std::array<std::string_view, 9> kCharacters = {"a",      "b",      "\u0430", "\u0431",     "\u0470",
                                                         "\u4e00", "\u4e01", "\u4e40", "\U0001F600"};

struct Toy {
  std::vector<std::string> tokens;  // by id
  std::vector<std::uint32_t> quads;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> merges;
};

// Whether some text has `bytes` in it.
bool occurs(std::string_view bytes) {
  static const std::string all = [] {
    std::string text;
    for (const auto a : kCharacters)
      for (const auto b : kCharacters)
        for (const auto c : kCharacters) text.append(a).append(b).append(c);
    return text;
  }();
  return all.find(bytes) != std::string::npos;
}

Toy draw_toy(std::mt19937& random) {
  Toy toy;
  for (std::uint32_t byte = 0; byte < 256; ++byte) toy.tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<std::uint32_t> useful;
  for (const std::string_view character : kCharacters)
    for (const char byte : character) useful.push_back(static_cast<unsigned char>(byte));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  const std::size_t wanted = 5 + random() % 40;
  // Most characters are tokens in most vocabularies.
  const auto add = [&](std::uint32_t left, std::uint32_t right) {
    const std::string made = toy.tokens[left] + toy.tokens[right];
    if (made.size() > 8 || !occurs(made) || toy.merges.contains({left, right})) return kNoId;
    const auto known = std::ranges::find(toy.tokens, made);
    const auto id = static_cast<std::uint32_t>(known - toy.tokens.begin());
    if (known == toy.tokens.end()) toy.tokens.push_back(made);
    toy.merges[{left, right}] = {0, id};
    pairs.emplace_back(left, right);
    useful.push_back(id);
    return id;
  };
  for (const std::string_view character : kCharacters) {
    if (random() % 4 == 0) continue;
    auto left = static_cast<std::uint32_t>(static_cast<unsigned char>(character[0]));
    for (const char byte : character.substr(1)) {
      const std::uint32_t made = add(left, static_cast<unsigned char>(byte));
      if (made != kNoId) left = made;
      else left = static_cast<std::uint32_t>(std::ranges::find(toy.tokens, toy.tokens[left] + byte) - toy.tokens.begin());
    }
  }
  for (std::size_t tries = 0; tries < wanted * 20 && pairs.size() < wanted; ++tries)
    add(useful[random() % useful.size()], useful[random() % useful.size()]);
  // In the order in which they were made, or in any.
  std::vector<std::uint32_t> ranks(pairs.size());
  for (std::uint32_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
  const std::size_t swaps = random() % 3 == 0 ? pairs.size() * 2 : random() % 3;
  for (std::size_t i = 0; i < swaps; ++i) std::swap(ranks[random() % ranks.size()], ranks[random() % ranks.size()]);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto& [rank, id] = toy.merges[pairs[i]];
    rank = ranks[i];
    toy.quads.insert(toy.quads.end(), {pairs[i].first, pairs[i].second, rank, id});
  }
  return toy;
}

Image image_of(const Toy& toy) {
  constexpr std::uint16_t m = Automaton::kMatch;
  EncoderTables tables;
  tables.classes = {std::vector<std::uint8_t>(0x110000, 0), {0}, {0}};
  tables.classes.seamless = {1};
  tables.stages = {{{0, 0, 2, 0, 2 | m, m}, 3}};  // a text is one piece
  std::string bytes;
  for (std::uint32_t id = 0; id < toy.tokens.size(); ++id) {
    bytes += toy.tokens[id];
    tables.vocabulary_ends.push_back(static_cast<std::uint32_t>(bytes.size()));
    tables.vocabulary_ids.push_back(id);
  }
  tables.vocabulary_bytes = bytes;
  for (std::uint32_t byte = 0; byte < 256; ++byte) tables.byte_ids[byte] = byte;
  tables.merges = toy.quads;
  return build_image(tables);
}

std::vector<std::uint32_t> by_definition(const Toy& toy, std::string_view text) {
  std::vector<std::uint32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return test::by_definition(toy.merges, ids);
}

void test_as_by_bytes() {
  std::mt19937 random(23);
  std::size_t whole = 0, refused = 0, parts = 0;
  for (int round = 0; round < 1500; ++round) {
    const Toy toy = draw_toy(random);
    const Image image = image_of(toy);
    const Encoder encoder(image);
    const WholeCharacters characters(image);
    for (int texts = 0; texts < 30; ++texts) {
      std::string text;
      for (std::size_t n = 1 + random() % (texts == 0 ? 60 : 9); n > 0; --n) text += kCharacters[random() % 9];
      std::vector<std::uint32_t> ids;
      std::vector<std::size_t> marks;
      encoder.encode(text, {}, {}, ids, marks);
      CHECK(ids == by_definition(toy, text), text);
      for (std::size_t at = 0; at < text.size(); at += utf8_width(text[at])) {
        const std::size_t width = utf8_width(text[at]);
        if (width == 1) continue;
        const bool alone = characters.at(std::string_view(text).substr(at, width), 0, width) != kNoId;
        const bool here = characters.at(text, at, width) != kNoId;
        CHECK(alone || !here, "a neighbour makes no character one token");
        whole += here;
        refused += !alone;
        parts += alone && !here;
      }
    }
  }
  CHECK(whole > 20'000 && refused > 20'000 && parts > 2'000, "all that can be is seen");
}

}  // namespace

int main() { return tokseam::test::run({{"as by bytes", test_as_by_bytes}}); }
