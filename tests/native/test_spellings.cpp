// What ids are spelled as, against plain strings; room that is kept to; ids that spell something else.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "toy_spellings.hpp"

namespace tokseam::test {
namespace {

using Ids = std::vector<std::uint32_t>;
using Texts = ToySpellings::Texts;

std::string random_text(std::mt19937& random, std::size_t most) {
  std::string text(random() % (most + 1), ' ');
  for (char& byte : text) byte = static_cast<char>(random() % 256);
  return text;
}

// Lengths around what is copied at once, and far beyond; ids far apart.
Texts random_texts(std::mt19937& random, std::size_t count) {
  Texts texts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::uint32_t>(random() % (random() % 3 == 0 ? 900'000 : 500));
    const std::size_t most = random() % 20 == 0 ? Spellings::kLongest : random() % 4 == 0 ? 70 : 18;
    texts[id] = random_text(random, most);
  }
  return texts;
}

std::string written(const Spellings& spellings, const Ids& ids, std::size_t most) {
  // Of the exact size, so that a write past it is seen.
  const auto room = std::make_unique<char[]>(most + Spellings::kBeyond);
  const std::size_t size = spellings.write(ids, room.get(), most);
  return {room.get(), size};
}

void against_strings() {
  std::mt19937 random(31);
  for (int round = 0; round < 60; ++round) {
    const Texts texts = random_texts(random, 1 + random() % 400);
    const ToySpellings toy(texts);
    Ids known;
    for (const auto& [id, text] : texts) known.push_back(id);
    for (int draw = 0; draw < 40; ++draw) {
      Ids ids;
      std::string want;
      for (std::size_t n = random() % 50; n > 0; --n) {
        ids.push_back(random() % 30 == 0 ? static_cast<std::uint32_t>(random()) : known[random() % known.size()]);
        const auto text = texts.find(ids.back());
        if (text != texts.end()) want += text->second;
      }
      CHECK(written(toy.spellings(), ids, want.size()) == want, "what they spell");
      CHECK(toy.spellings().spells(ids, want), "and know");
      if (want.empty()) continue;
      std::string other = want;
      const std::size_t at = random() % want.size();
      other[at] = static_cast<char>(other[at] ^ 1);
      CHECK(!toy.spellings().spells(ids, other), "no other text");
      CHECK(!toy.spellings().spells(ids, want.substr(1)) && !toy.spellings().spells(ids, want + "a"), "nor length");
    }
  }
}

void a_room_is_kept_to() {
  const std::string longest(Spellings::kLongest, 'x');
  const ToySpellings toy({{1, longest}, {2, longest}, {3, longest}});
  const Ids ids(1000, 1), apart(1000, 2);
  for (const std::size_t most : {std::size_t{0}, std::size_t{1}, Spellings::kLongest, std::size_t{5000}}) {
    CHECK(written(toy.spellings(), ids, most).size() > most, "it says that there is more");
    CHECK(written(toy.spellings(), apart, most).size() > most, "and of what lies apart");
    CHECK(!toy.spellings().spells(ids, std::string(most, 'x')), "so they spell no text of that size");
  }
}

void too_long_is_missing() {
  const ToySpellings toy({{1, std::string(Spellings::kLongest + 1, 'x')}, {2, std::string(5000, 'y')}, {3, "z"}});
  CHECK(written(toy.spellings(), {1, 2, 3}, 100) == "z", "what is too long has no spelling");
}

void markers() {
  const std::string mark = "\xE2\x96\x81";
  const Texts entries = {{1, mark + "the"}, {2, mark}, {3, mark + mark}, {4, "a" + mark + "b"}, {5, "\xE2\x96"}, {6, "x"},
                         {7, mark + "of course"}, {8, "\xE2\x96\x82"}};
  const Texts texts = {{1, " the"}, {2, " "}, {3, "  "}, {4, "a b"}, {5, "\xE2\x96"}, {6, "x"}, {7, " of course"},
                       {8, "\xE2\x96\x82"}, {9, "<0x0A>"}, {10, mark}};
  const ToySpellings toy(texts, entries, {mark, ' '});
  std::mt19937 random(32);
  for (int draw = 0; draw < 2000; ++draw) {
    Ids ids;
    std::string want;
    for (std::size_t n = random() % 20; n > 0; --n) {
      ids.push_back(static_cast<std::uint32_t>(1 + random() % 10));
      want += texts.at(ids.back());
    }
    CHECK(written(toy.spellings(), ids, want.size()) == want, "with markers");
  }
}

// A vocabulary in no order of ids: what lies too far from the base of its block is kept apart.
void out_of_order() {
  std::mt19937 random(33);
  std::vector<std::uint32_t> order;
  for (std::uint32_t id = 0; id < 3000; ++id) order.push_back(id);
  std::ranges::shuffle(order, random);
  Texts texts;
  std::vector<std::string> bytes;
  for (const std::uint32_t id : order) bytes.push_back(texts[id] = "entry " + std::string(60, 'e') + std::to_string(id));
  std::vector<Vocabulary::Entry> stored;
  for (std::size_t k = 0; k < order.size(); ++k) stored.push_back({bytes[k], order[k]});
  ImageWriter writer;
  Vocabulary::write(writer, stored);
  const Image first = writer.finish();
  Spellings::write(writer, texts, Vocabulary(first), {});
  const Image image = writer.finish();
  CHECK(!image.get<std::uint32_t>(Section::spelling_apart_ids).empty(), "some are apart");
  CHECK(image.get<std::uint32_t>(Section::spelling_apart_ids).size() < texts.size(), "and some are not");
  const Vocabulary vocabulary(image);
  const Spellings spellings(image, vocabulary);
  for (const auto& [id, text] : texts) CHECK(spellings.spells(Ids{id}, text), text);
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"against strings", against_strings},
      {"a room is kept to", a_room_is_kept_to},
      {"too long is missing", too_long_is_missing},
      {"markers", markers},
      {"out of order", out_of_order},
  });
}
