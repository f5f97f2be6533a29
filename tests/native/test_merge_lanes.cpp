// Lanes of both kinds against the heap and the definition: pieces of every length, many at once, from symbols and from
// ASCII, over tables small and large, whose ranks are in any order.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "merge_lanes.hpp"
#include "merges.hpp"
#include "toy_merges.hpp"

namespace {

using namespace tokseam;
using namespace tokseam::test;

std::vector<MergeLanes::Path> paths() {
  std::vector<MergeLanes::Path> paths{MergeLanes::Path::portable};
  if (MergeLanes::best_path() != paths[0]) paths.push_back(MergeLanes::best_path());
  return paths;
}

std::size_t draw_size(std::mt19937& random) {
  constexpr std::size_t kEdges[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 254, 255, 256};
  switch (random() % 4) {
    case 0: return kEdges[random() % std::size(kEdges)];
    case 1: return random() % (MergeLanes::kMostSymbols + 1);
    default: return random() % 20;
  }
}

void test_lanes() {
  std::mt19937 random(32);
  for (int round = 0; round < 3000; ++round) {
    const auto letters = static_cast<std::uint32_t>(1 + random() % 6);
    const ToyMerges toy = draw_merges(random, letters, random() % 2 == 0, random() % 4 == 0 ? 1500 : 40);
    const Merges merges(toy.image);
    std::vector<std::string> pieces(random() % 60);
    for (std::string& piece : pieces)
      for (std::size_t left = draw_size(random); left > 0; --left) piece.push_back(static_cast<char>(random() % 128));
    std::vector<Ids> expected;
    const auto symbols_of = [&](const std::string& piece) {
      Ids symbols;
      merges.symbols(piece, symbols);
      return symbols;
    };
    for (const std::string& piece : pieces) {
      const Ids symbols = symbols_of(piece);
      expected.push_back(by_heap(merges, symbols));
      if (symbols.size() < 40) CHECK(expected.back() == by_definition(toy.pairs, symbols), "the heap");
    }
    const bool ascii = random() % 2 == 0;
    for (const MergeLanes::Path path : paths()) {
      MergeLanes lanes(merges, path);
      for (int again = 0; again < 2; ++again) {  // a lane is used many times
        std::vector<Ids> made(pieces.size(), Ids{77});
        std::size_t counted = 0, bytes = 0;
        lanes.run(
            pieces.size(), [&](std::size_t i) { return pieces[i].size(); },
            [&](std::size_t i, const auto& lane) {
              if (ascii) return lane.ascii(pieces[i]);
              lane.symbols(symbols_of(pieces[i]));
            },
            [&](std::size_t i, const auto& result) {
              made[i].clear();
              result.each([&](std::uint32_t id, std::size_t count) {
                made[i].push_back(id);
                counted += count;
              });
              bytes += pieces[i].size();
            });
        for (std::size_t i = 0; i < pieces.size(); ++i) CHECK(made[i] == expected[i], "what a piece becomes");
        CHECK(counted == bytes, "tokens cover the symbols");
      }
    }
  }
}

// How many symbols each id is made of, and in which order: from the strings that ids stand for.
void test_counts() {
  std::mt19937 random(33);
  for (int round = 0; round < 300; ++round) {
    const ToyMerges toy = draw_merges(random, 2, round % 2 == 0);
    const Merges merges(toy.image);
    std::vector<std::size_t> lengths(2 + toy.pairs.size(), 1);
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [pair, made] : toy.pairs) {
        const std::size_t length = lengths[pair.first] + lengths[pair.second];
        changed = changed || lengths[made.second] != length;
        lengths[made.second] = length;
      }
    }
    Ids symbols(draw_size(random));
    for (std::uint32_t& symbol : symbols) symbol = static_cast<std::uint32_t>(random() % 2);
    for (const MergeLanes::Path path : paths())
      MergeLanes(merges, path).run(
          1, [&](std::size_t) { return symbols.size(); }, [&](std::size_t, const auto& lane) { lane.symbols(symbols); },
          [&](std::size_t, const auto& result) {
            result.each([&](std::uint32_t id, std::size_t count) { CHECK(count == lengths[id], "its symbols"); });
          });
  }
}

// Pairs that look for what a free slot looks like: the low bits of their hash, which a slot holds, are all ones. Few do,
// and no text drawn at random holds one.
void test_pairs_like_a_free_slot() {
  std::mt19937 random(34);
  std::uint64_t inverse = kOdd1;  // modulo 2^64, by Newton's steps
  for (int step = 0; step < 6; ++step) inverse *= 2 - kOdd1 * inverse;
  for (const int id_bits : {16, 17, 18, 20}) {
    const auto most = (std::uint32_t{1} << id_bits) - 1;
    const std::uint32_t most_rank = id_bits < 20 ? std::uint32_t{1} << id_bits : std::uint32_t{1} << 12;
    Ids quads{most, most, most_rank, 0}, byte_ids(256);
    for (std::uint32_t rank = 0; rank < 300; ++rank)
      quads.insert(quads.end(), {static_cast<std::uint32_t>(random() % most), static_cast<std::uint32_t>(random() % most),
                                 rank, static_cast<std::uint32_t>(random() % most)});
    for (std::uint32_t byte = 0; byte < 256; ++byte) byte_ids[byte] = byte;
    ImageWriter writer;
    Merges::write(writer, quads, byte_ids);
    writer.add(Section::byte_ids, byte_ids);
    const Image image = writer.finish();
    const Merges merges(image);
    const device::Merges& table = merges.table();
    const int kept_bits = static_cast<int>(8 * device::Merges::kSlotBytes - table.rank_bits);
    std::size_t like = 0;
    for (int round = 0; round < 2000; ++round) {
      // The hash's upper bits are any; so is, where all of it lies in the slot, nothing.
      const std::uint64_t ones = (std::uint64_t{1} << kept_bits) - 1, all = (std::uint64_t{1} << 2 * id_bits) - 1;
      const std::uint64_t hash = ((std::uint64_t{random()} << 32 | random()) << kept_bits | ones) & all;
      const std::uint64_t pair = hash * inverse & all;
      const Ids symbols{static_cast<std::uint32_t>(pair >> id_bits), static_cast<std::uint32_t>(pair & most)};
      const std::uint64_t wanted = table.low_bits(table.hash_of(symbols[0], symbols[1]));
      like += (wanted | table.rank_mask) == device::Merges::kFree;
      const Ids expected = by_heap(merges, symbols);
      for (const MergeLanes::Path path : paths()) {
        Ids made;
        MergeLanes(merges, path).run(
            1, [&](std::size_t) { return symbols.size(); },
            [&](std::size_t, const auto& lane) { lane.symbols(symbols); },
            [&](std::size_t, const auto& result) {
              result.each([&](std::uint32_t id, std::size_t) { made.push_back(id); });
            });
        CHECK(made == expected, "a free slot is no pair's");
      }
    }
    CHECK(2 * id_bits < kept_bits || like == 2000, "they look like one");
  }
}

}  // namespace

int main() { return tokseam::test::run({{"lanes", test_lanes},
                             {"counts", test_counts},
                             {"pairs like a free slot", test_pairs_like_a_free_slot}}); }
