// What a session's chunks and a stored str share at their ends, against the same of two strings of code points.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "session_diff.hpp"
#include "toy_spellings.hpp"

namespace tokseam::test {
namespace {

using Points = std::vector<std::uint32_t>;

const Points kPoints = {'a', 'b', 0xE9, 0x0161, 0x6161, 0xFFFD, 0x10061, 0x1F661};

// A token for each point.
const ToySpellings& toy() {
  static const ToySpellings made = [] {
    ToySpellings::Texts texts;
    for (const std::uint32_t point : kPoints) utf8_append(texts[point], point);
    return ToySpellings(texts);
  }();
  return made;
}

// Code points in chunks of random sizes, some of which keep no text.
ChunkTree chunked(const Points& points, std::size_t most, std::mt19937& random) {
  std::vector<Ref<Chunk>> chunks;
  std::string text;
  Points ids;
  std::size_t left = 1 + random() % most;
  const auto close = [&] {
    const bool spelled = random() % 2 == 0;
    chunks.push_back(
        Chunk::make(text, ids, {}, Chunk::Ids::narrow, spelled ? Chunk::Text::spelled : Chunk::Text::kept));
    text.clear();
    ids.clear();
    left = 1 + random() % most;
  };
  for (const std::uint32_t point : points) {
    utf8_append(text, point);
    ids.push_back(point);
    if (--left == 0) close();
  }
  if (!text.empty()) close();
  return ChunkTree::build(chunks);
}

template <class Unit>
void check_pair(const Points& kept, const Points& given, std::size_t most, std::mt19937& random) {
  const std::vector<Unit> units(given.begin(), given.end());  // of the exact size, so that a read past it is seen
  const SharedEnds got = shared_ends(chunked(kept, most, random), toy().spellings(),
                                     CodePoints{units.data(), units.size(), static_cast<int>(sizeof(Unit))});
  const CodePoints wide_kept{kept.data(), kept.size(), 4}, wide_given{given.data(), given.size(), 4};
  const SharedEnds want = shared_ends(wide_kept, wide_given);
  CHECK(got.prefix == want.prefix && got.suffix == want.suffix,
        "prefix " + std::to_string(got.prefix) + " for " + std::to_string(want.prefix) + ", suffix " +
            std::to_string(got.suffix) + " for " + std::to_string(want.suffix));
}

template <class Unit>
void every_width(std::size_t length, std::size_t most, int rounds) {
  std::mt19937 random(9);
  const std::size_t fit = sizeof(Unit) == 1 ? 3 : sizeof(Unit) == 2 ? 6 : 8;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t kinds = random() % 2 == 0 ? 2 : fit;  // half of the texts are ASCII
    Points given(random() % (length + 1));
    // Runs of ASCII among the others, as mixed text has them.
    std::size_t run = 0;
    for (std::uint32_t& point : given) {
      if (run == 0 && random() % 8 == 0) run = random() % 60;
      point = kPoints[random() % (run > 0 ? 2 : kinds)];
      run -= run > 0;
    }
    Points kept = given;
    const std::size_t at = random() % (kept.size() + 1);
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at),
               kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.size(), at + random() % 4)));
    for (std::size_t n = random() % 4; n > 0; --n)
      kept.insert(kept.begin() + static_cast<std::ptrdiff_t>(at), kPoints[random() % kPoints.size()]);
    check_pair<Unit>(kept, given, most, random);
    check_pair<Unit>(given, given, most, random);
    check_pair<Unit>({}, given, most, random);
  }
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"one byte a unit", [] { every_width<std::uint8_t>(40, 9, 3000); }},
      {"two bytes a unit", [] { every_width<std::uint16_t>(40, 9, 3000); }},
      {"four bytes a unit", [] { every_width<std::uint32_t>(40, 9, 3000); }},
      {"long texts, one byte a unit", [] { every_width<std::uint8_t>(20000, 6000, 40); }},
      {"long texts, two bytes a unit", [] { every_width<std::uint16_t>(2000, 600, 200); }},
      {"long texts, four bytes a unit", [] { every_width<std::uint32_t>(2000, 600, 200); }},
  });
}
