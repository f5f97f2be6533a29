// Small tables of merges whose ranks are in any order, and two other ways to what symbols become: the heap, and the
// definition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"
#include "image.hpp"
#include "merges.hpp"

namespace tokseam::test {

using Ids = std::vector<std::uint32_t>;

struct ToyMerges {
  Image image;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> pairs;
};

// Tokens over an alphabet of `letters`, each made of two others; `ordered`: of earlier ones only, by rank.
inline ToyMerges draw_merges(std::mt19937& random, std::uint32_t letters, bool ordered, std::size_t most_pairs = 30) {
  std::vector<std::size_t> lengths(letters, 1);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> pairs;
  const std::size_t wanted = 1 + random() % most_pairs;
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

inline Ids by_heap(const Merges& merges, const Ids& symbols) {
  Ids ids;
  std::size_t covered = 0;
  merges.apply(symbols, [&](std::uint32_t id, std::size_t count) {
    ids.push_back(id);
    covered += count;
  });
  CHECK(covered == symbols.size(), "tokens cover the symbols");
  return ids;
}

// By pair: the rank, and the token that it makes.
using PairTable = std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>>;

inline Ids by_definition(const PairTable& pairs, Ids ids) {
  for (;;) {
    std::uint32_t best = kNoRank, made = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto pair = pairs.find({ids[i], ids[i + 1]});
      if (pair == pairs.end() || pair->second.first >= best) continue;
      best = pair->second.first, made = pair->second.second, at = i;
    }
    if (best == kNoRank) return ids;
    ids[at] = made;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace tokseam::test
