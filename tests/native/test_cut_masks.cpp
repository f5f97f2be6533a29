// The masks of cuts against the definition of a cut, on every path that this processor has, at every alignment.
#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "classes.hpp"
#include "crossings.hpp"
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
      const CutMasks masks(classes, tables.pairs.data(), tables.on.data(), tables.back.data(), nullptr, nullptr, path);
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

// Classes of all widths of characters, in runs of every length; more of them than a path's registers hold, or fewer.
std::vector<std::uint8_t> draw_classes(std::mt19937& random, std::size_t count) {
  std::vector<std::uint8_t> table(0x110000);
  for (std::size_t point = 0; point < table.size();) {
    const auto number = static_cast<std::uint8_t>(random() % count);
    const std::size_t run = point < 0x80 ? 1 : 1 + random() % (random() % 4 == 0 ? 3000 : 5);
    for (const std::size_t end = std::min(table.size(), point + run); point < end; ++point) table[point] = number;
  }
  return table;
}

const std::string kChinese =
    "\u5929\u5730\u7384\u9ec4\uff0c\u5b87\u5b99\u6d2a\u8352\u3002"
    "\u65e5\u6708\u76c8\u6603\uff0c\u8fb0\u5bbf\u5217\u5f20\u3002"
    "\u5bd2\u6765\u6691\u5f80\uff0c\u79cb\u6536\u51ac\u85cf\u3002"
    "\u95f0\u4f59\u6210\u5c81\uff0c\u5f8b\u5415\u8c03\u9633\u3002"
    "\u4e91\u817e\u81f4\u96e8\uff0c\u9732\u7ed3\u4e3a\u971c\u3002"
    "GPU \u7684 3 \u4e2a\u6838\u5fc3\uff08CUDA\uff09\u5df2\u5c31\u7eea\u3002\n";

// Characters of every width and of few kinds, so that the pairs of them come again.
std::string draw_text(std::mt19937& random, std::size_t characters) {
  static constexpr std::uint32_t kPoints[] = {'a',    'b',    ' ',    '.',    '\n',   0x7F,   0x80,    0xE9,    0x416,
                                              0x7FF,  0x800,  0xE01,  0x3002, 0x4E00, 0x4E01, 0x9FFF,  0xD7FF,  0xE000,
                                              0xFF0C, 0xFFFF, 0x10000, 0x1F600, 0x1F468, 0x10FFFF};
  const std::size_t ascii = random() % 4, first = random() % 2 == 0 ? 0 : 6;
  std::string text;
  for (; characters > 0; --characters) {
    if (random() % 4 < ascii) text += static_cast<char>('a' + random() % 4);
    else if (random() % 16 == 0) utf8_append(text, 0x3000 + static_cast<std::uint32_t>(random() % 0x6000));
    else utf8_append(text, kPoints[first + random() % (std::size(kPoints) - first)]);
  }
  return text;
}

// All masks of a text by the plain definition of what lies between characters beyond ASCII, and by each path.
void test_paths_agree() {
  std::mt19937 random(11);
  std::size_t cuts = 0, joined = 0, lost = 0;
  for (int round = 0; round < 480; ++round) {
    const std::size_t count = round % 8 == 0 ? 65 + random() % 189 : 1 + random() % 64;
    std::vector<std::uint8_t> pairs(count * count), seamless(count * count), on(3 * count), back(3 * count);
    for (auto& one : pairs) one = random() % 16 == 0;
    for (auto& one : seamless) one = random() % 4 != 0;
    for (auto* rows : {&on, &back})
      for (auto& one : *rows) one = static_cast<std::uint8_t>(random() & random());
    const std::string drawn = round % 3 == 0 ? kChinese + kChinese + kChinese : draw_text(random, random() % 400);
    // Often such that a word begins where ASCII ends; and in memory that ends where the text does, for ASan.
    const std::string in_front(random() % 3 == 0 ? 64 * (random() % 3) : random() % 64, 'a');
    std::vector<char> bytes(in_front.begin(), in_front.end());
    bytes.insert(bytes.end(), drawn.begin(), drawn.end());
    bytes.shrink_to_fit();
    const std::string_view text(bytes.data(), bytes.size());
    // Entries are stretches of the text, some of which begin or end inside a character.
    std::vector<std::string> entries;
    for (std::size_t i = round % 5 == 0 ? 0 : random() % 40; i > 0 && !text.empty(); --i)
      entries.emplace_back(text.substr(random() % text.size(), 1 + random() % 9));
    const std::vector<std::string_view> views(entries.begin(), entries.end());
    const auto whole_only = std::span(views).first(round % 7 == 0 ? views.size() / 2 : 0);
    ImageWriter writer;
    const std::vector<std::uint8_t> suspect(count);
    Classes::write(writer, count, draw_classes(random, count).data(), pairs.data(), suspect.data());
    // Where a byte that a text may hold has no symbol, what stands around it merges: no place inside a piece is a cut.
    std::array<std::uint32_t, 256> byte_ids{};
    const bool drops = round % 11 == 0;
    for (const std::size_t never : {0xC0, 0xC1, 0xF5, 0xFF}) byte_ids[never] = kNoId;
    if (drops) byte_ids[std::array{0x03, 0x7F, 0x80, 0xBF, 0xC2, 0xF1, 0xF4}[random() % 7]] = kNoId;
    Crossings::write(writer, views, whole_only, false, byte_ids);
    const Image image = writer.finish();
    const Classes classes(image);
    const Crossings crossings(image);
    std::vector<std::vector<std::uint64_t>> masks;
    for (const CutMasks::Path path : paths()) {
      const CutMasks one(classes, pairs.data(), on.data(), back.data(), seamless.data(), &crossings, path);
      masks.emplace_back();
      for (std::size_t at = 0; at < text.size(); at += CutMasks::kWordBytes) masks.back().push_back(one.at(text, at));
      CHECK(masks.back() == masks.front(), "a path by itself, in round " + std::to_string(round));
    }
    std::vector<bool> crossed(text.size() + 1);
    for (const std::string& entry : entries)
      for (std::size_t at = text.find(entry); at != std::string::npos; at = text.find(entry, at + 1))
        for (std::size_t inside = at + 1; inside < at + entry.size(); ++inside) crossed[inside] = true;
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (is_continuation(text[at])) continue;
      const std::uint32_t before = utf8_decode(text.data() + utf8_before(text, at));
      const std::uint32_t behind = utf8_decode(text.data() + at);
      if (before < 0x80 || behind < 0x80) continue;
      const std::size_t pair = classes.of(before) * count + classes.of(behind);
      const bool found = masks.front()[at / 64] >> at % 64 & 1;
      const auto edge = [&](std::string_view entry) {
        return entry.starts_with(text.substr(at, utf8_width(text[at]))) ||
               entry.ends_with(text.substr(utf8_before(text, at), at - utf8_before(text, at)));
      };
      if (pairs[pair] != 0) continue;
      CHECK(!found || !drops, "a cut where dropped bytes may be near");
      if (drops) continue;
      CHECK(!found || seamless[pair] != 0, "a cut that is none");
      CHECK(!found || !crossed[at], "a cut that a merge crosses");
      cuts += found;
      joined += seamless[pair] != 0 && crossed[at];
      lost += seamless[pair] != 0 && !crossed[at] && !found && std::ranges::none_of(whole_only, edge);
    }
  }
  CHECK(cuts > 5'000 && joined > 500, "too few to tell");
  CHECK(lost * 10 < cuts, "cuts that are lost: " + std::to_string(lost) + " of " + std::to_string(cuts));
}

// Where the rectangles do not cover a cut (Kimi K2's classes need more than eight), a session's cuts get marks all the
// same.
void test_cuts_that_no_mask_shows_are_marked() {
  struct NoMasks {
    std::uint64_t at(std::string_view, std::size_t) const { return 0; }
    bool is_pair(std::string_view, std::size_t) const { return false; }
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
  ImageWriter writer;
  AddedTokens::write(writer, kFencedLiterals, {});
  const Image image = writer.finish();
  const AddedTokens none(image, kFencedLiterals);
  SegmentEncoder(NoMasks{}, none, false, cache, false, resolve, parts).encode(text, 0, cuts, marks.data(), ids);
  CHECK(ids.size() == cuts.size() + 1, "a segment between any two cuts");
  for (std::size_t k = 0; k < cuts.size(); ++k) CHECK(marks[k] == k + 1, "a mark that is missing, or wrong");
}

}  // namespace

int main() { return tokseam::test::run({{"masks are the definition", test_masks_are_the_definition},
                              {"paths agree", test_paths_agree},
                              {"cuts that no mask shows are marked", test_cuts_that_no_mask_shows_are_marked}}); }
