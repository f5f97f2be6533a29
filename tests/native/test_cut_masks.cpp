// The masks of cuts against the definition of a cut, on every path that this processor has, at every alignment.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "classes.hpp"
#include "cut_masks.hpp"
#include "image.hpp"
#include "segments.hpp"

namespace {

using namespace tokseam;
using tokseam::test::Case;

constexpr std::size_t kClasses = 5;

// Classes of a to d and of a few characters of every width, the rest in the last one.
std::vector<std::uint8_t> class_table() {
  std::vector<std::uint8_t> table(0x110000, 4);
  table['a'] = table[0xE9] = 0;
  table['b'] = table[0x4E00] = 1;
  table['c'] = table[0x1F600] = 2;
  table['d'] = 3;
  return table;
}
constexpr const char* kAlphabet[] = {"a", "b", "c", "d", "e", "\u00e9", "\u4e00", "\U0001F600", "\u0416"};

struct Tables {
  std::vector<std::uint8_t> pairs, on, back;
};

// Three-character relations of one rectangle each, and pairs of at most three distinct rows: covered in full.
Tables draw_tables(std::mt19937& random) {
  const auto bit = [&] { return static_cast<std::uint8_t>(random() % 2); };
  Tables tables{std::vector<std::uint8_t>(kClasses * kClasses), std::vector<std::uint8_t>(3 * kClasses),
                std::vector<std::uint8_t>(3 * kClasses)};
  std::vector<std::uint8_t> rows(3 * kClasses);
  for (auto& one : rows) one = bit();
  for (std::size_t a = 0; a < kClasses; ++a) {
    const std::size_t row = random() % 3;
    for (std::size_t b = 0; b < kClasses; ++b) tables.pairs[a * kClasses + b] = rows[row * kClasses + b];
  }
  for (auto& one : tables.on) one = bit();
  for (auto& one : tables.back) one = bit();
  return tables;
}

std::vector<CutMasks::Path> paths() {
  std::vector<CutMasks::Path> all{CutMasks::Path::portable};
  if (AsciiClasses::has_avx2()) all.push_back(CutMasks::Path::avx2);
  if (CutMasks::best_path() == CutMasks::Path::avx512) all.push_back(CutMasks::Path::avx512);
  return all;
}

void test_masks_are_the_definition() {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const Tables tables = draw_tables(random);
    const std::vector<std::uint8_t> suspect(kClasses, 0);
    ImageWriter writer;
    Classes::write(writer, kClasses, class_table().data(), tables.pairs.data(), suspect.data());
    const Image image = writer.finish();
    const Classes classes(image);
    // Mostly ASCII in one round, mixed in another.
    const std::size_t kinds = round % 2 == 0 ? 5 : std::size(kAlphabet);
    std::string text;
    for (std::size_t left = random() % 300; left > 0; --left)
      text += kAlphabet[round % 3 == 0 && random() % 20 ? random() % 5 : random() % kinds];
    struct Character {
      std::size_t at;
      std::uint8_t number;
      bool ascii;
    };
    std::vector<Character> characters;
    for (std::size_t at = 0; at < text.size(); at += utf8_width(text[at])) {
      const std::uint32_t point = utf8_decode(text.data() + at);
      characters.push_back({at, classes.of(point), point < 0x80});
    }
    for (const CutMasks::Path path : paths()) {
      const CutMasks masks(classes, tables.on.data(), tables.back.data(), nullptr, nullptr, path);
      for (std::size_t word = 0; word < text.size(); word += 64) {
        std::uint64_t mask = masks.at(text, word);
        for (std::size_t i = 0; i < characters.size(); ++i) {
          const auto [at, here, ascii] = characters[i];
          if (at < word || at >= word + 64) continue;
          const bool found = mask >> (at - word) & 1;
          mask &= ~(std::uint64_t{1} << (at - word));
          if (i == 0) {
            CHECK(!found, "a cut where the text begins");
            continue;
          }
          const std::uint8_t before = characters[i - 1].number;
          const bool pair = tables.pairs[before * kClasses + here] != 0;
          const auto three = [](const std::vector<std::uint8_t>& bits, std::uint8_t a, std::uint8_t b, std::uint8_t c) {
            return (bits[a] & bits[kClasses + b] & bits[2 * kClasses + c]) != 0;
          };
          const bool on = i + 1 < characters.size() && three(tables.on, before, here, characters[i + 1].number);
          const bool back = i > 1 && three(tables.back, characters[i - 2].number, before, here);
          CHECK(!found || pair || on || back, "a cut that is none");
          // The cuts of pairs are all found, and of triples those in ASCII that no word's end parts.
          const bool inside = at > word + 1 && at + 2 < word + 64 && ascii && i > 1 && i + 1 < characters.size() &&
                              characters[i - 1].ascii && characters[i - 2].ascii && characters[i + 1].ascii;
          CHECK(found || !pair, "a pair that is missed");
          CHECK(found || !inside || !(on || back), "a triple that is missed");
        }
        CHECK(mask == 0, "a cut inside a character or behind the text");
      }
    }
  }
}

// Where the rectangles do not cover a cut (Kimi K2's classes need more than eight), a session's cuts get marks all the
// same.
void test_cuts_that_no_mask_shows_are_marked() {
  struct NoMasks {
    std::uint64_t at(std::string_view, std::size_t) const { return 0; }
    bool is_cut(std::string_view text, std::size_t at) const { return text[at] == ' '; }
  };
  struct Resolve {
    std::vector<std::uint32_t> made;
    std::vector<std::size_t> made_ends;
    void encode(std::string_view segment, std::vector<std::uint32_t>& ids) const {
      ids.push_back(static_cast<std::uint32_t>(segment.size()));
    }
    void resolve(std::span<const std::string_view> segments) {
      made.clear();
      made_ends.clear();
      for (const std::string_view segment : segments) {
        encode(segment, made);
        made_ends.push_back(made.size());
      }
    }
    std::span<const std::uint32_t> ids() const { return made; }
    std::span<const std::size_t> ends() const { return made_ends; }
  } resolve;
  const auto parts = [](std::string_view text, std::size_t at) { return text[at] == ' '; };
  std::string text;
  for (int word = 0; word < 60; ++word) text += std::string(static_cast<std::size_t>(word % 7), 'a') + ' ';
  std::vector<std::size_t> cuts;
  for (std::size_t at = 1; at < text.size(); ++at)
    if (text[at] == ' ' && at % 3 != 0) cuts.push_back(at);
  std::vector<std::size_t> marks(cuts.size(), kNoMark);
  std::vector<std::uint32_t> ids;
  SegmentCache cache;
  SegmentEncoder(NoMasks{}, cache, false, resolve, parts).encode(text, 0, cuts, marks.data(), ids);
  CHECK(ids.size() == cuts.size() + 1, "a segment between any two cuts");
  for (std::size_t k = 0; k < cuts.size(); ++k) CHECK(marks[k] == k + 1, "a mark that is missing, or wrong");
}

}  // namespace

int main() { return tokseam::test::run({{"masks are the definition", test_masks_are_the_definition},
                              {"cuts that no mask shows are marked", test_cuts_that_no_mask_shows_are_marked}}); }
