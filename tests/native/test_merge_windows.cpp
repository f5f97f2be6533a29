// Windows and lanes against the heap, and the heap against the definition, on vocabularies whose ranks are in any order.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"
#include "image.hpp"
#include "merge_windows.hpp"
#include "merges.hpp"

namespace {

using namespace tokseam;
using tokseam::test::Case;

using Ids = std::vector<std::uint32_t>;

struct Toy {
  Image image;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> pairs;
};

// Tokens over an alphabet of `letters`, each made of two others; `ordered`: of earlier ones only, by rank.
Toy draw_toy(std::mt19937& random, std::uint32_t letters, bool ordered) {
  std::vector<std::size_t> lengths(letters, 1);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> pairs;
  const std::size_t wanted = 1 + random() % 30;
  while (pairs.size() < wanted) {
    const auto draw = [&] { return static_cast<std::uint32_t>(random() % lengths.size()); };
    const std::uint32_t left = draw(), right = draw();
    if (pairs.contains({left, right})) continue;
    if (lengths[left] + lengths[right] > 40) continue;
    pairs[{left, right}] = {static_cast<std::uint32_t>(pairs.size()), static_cast<std::uint32_t>(lengths.size())};
    lengths.push_back(lengths[left] + lengths[right]);
  }
  std::vector<std::uint32_t> ranks(pairs.size());
  for (std::uint32_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
  if (!ordered) std::ranges::shuffle(ranks, random);
  Ids quads, byte_ids(256);
  for (auto& [pair, made] : pairs) {
    made.first = ranks[made.first];
    quads.insert(quads.end(), {pair.first, pair.second, made.first, made.second});
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) byte_ids[byte] = byte % letters;
  ImageWriter writer;
  Merges::write(writer, quads, byte_ids);
  writer.add(Section::byte_ids, byte_ids);
  return {writer.finish(), pairs};
}

Ids by_heap(const Merges& merges, const Ids& symbols) {
  Ids ids;
  std::size_t covered = 0;
  merges.apply(symbols, [&](std::uint32_t id, std::size_t count) {
    ids.push_back(id);
    covered += count;
  });
  CHECK(covered == symbols.size(), "tokens cover the symbols");
  return ids;
}

Ids by_definition(const Toy& toy, Ids ids) {
  for (;;) {
    std::uint32_t best = kNoRank, made = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto pair = toy.pairs.find({ids[i], ids[i + 1]});
      if (pair == toy.pairs.end() || pair->second.first >= best) continue;
      best = pair->second.first, made = pair->second.second, at = i;
    }
    if (best == kNoRank) return ids;
    ids[at] = made;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

void test_windows() {
  std::mt19937 random(31);
  for (int round = 0; round < 4000; ++round) {
    const auto letters = static_cast<std::uint32_t>(1 + random() % 4);
    const Toy toy = draw_toy(random, letters, random() % 2 == 0);
    const Merges merges(toy.image);
    Ids symbols;
    // Random, of a period, or a period with a few changes.
    const std::size_t size = random() % 3 == 0 ? random() % 130 : random() % (round % 50 == 0 ? 20'000 : 1'500);
    const std::size_t period = 1 + random() % (random() % 2 == 0 ? 7 : 400);
    while (symbols.size() < size)
      symbols.push_back(symbols.size() >= period && random() % 50 != 0
                            ? symbols[symbols.size() - period]
                            : static_cast<std::uint32_t>(random() % letters));
    Ids ids{99};
    MergeWindows(merges).apply(symbols, ids);
    Ids expected = by_heap(merges, symbols);
    if (size < 130) CHECK(expected == by_definition(toy, symbols), "the heap");
    expected.insert(expected.begin(), 99);
    CHECK(ids == expected, "windows");
  }
}

}  // namespace

int main() { return tokseam::test::run({{"windows", test_windows}}); }
