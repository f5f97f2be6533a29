// Windows against the heap, on vocabularies whose ranks are in any order.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "merge_windows.hpp"
#include "merges.hpp"
#include "toy_merges.hpp"

namespace {

using namespace tokseam;
using namespace tokseam::test;

void test_windows() {
  std::mt19937 random(31);
  for (int round = 0; round < 4000; ++round) {
    const auto letters = static_cast<std::uint32_t>(1 + random() % 4);
    const ToyMerges toy = draw_merges(random, letters, random() % 2 == 0);
    const Merges merges(toy.image);
    Ids symbols;
    // Random, of a period, or a period with a few changes.
    const std::size_t size = random() % 3 == 0 ? random() % 130 : random() % (round % 50 == 0 ? 20'000 : 1'500);
    const std::size_t period = 1 + random() % (random() % 2 == 0 ? 7 : 400);
    const bool changes = random() % 3 != 0;  // without, windows are alike where the period goes into them
    while (symbols.size() < size)
      symbols.push_back(symbols.size() >= period && (!changes || random() % 50 != 0)
                            ? symbols[symbols.size() - period]
                            : static_cast<std::uint32_t>(random() % letters));
    Ids ids{99};
    MergeWindows(merges).apply(symbols, ids);
    Ids expected = by_heap(merges, symbols);
    if (size < 130) CHECK(expected == by_definition(toy.pairs, symbols), "the heap");
    expected.insert(expected.begin(), 99);
    CHECK(ids == expected, "windows");
  }
}

}  // namespace

int main() { return tokseam::test::run({{"windows", test_windows}}); }
