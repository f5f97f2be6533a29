// Which characters merging may start from, in place of their bytes: those that are one token, become it before anything
// is merged with any part of them, and are merged further later only (kernels/README.md, claim 14). Most text beyond
// ASCII consists of them, and has two or three times as many bytes to merge.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "code_points.hpp"
#include "image.hpp"
#include "merges.hpp"
#include "parted_entries.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

namespace tokseam {

class WholeCharacters {
 public:
  // entries: all that merges can make. quads: as Merges::write has them; `merges` is made of them.
  static void write(ImageWriter& writer, const Merges& merges, std::span<const Vocabulary::Entry> entries,
                    std::span<const std::uint32_t> quads) {
    std::unordered_map<std::uint32_t, std::uint32_t> used;  // by id: the lowest rank of a merge that it takes part in
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (const Vocabulary::Entry& entry : entries)
      if (is_character(entry.bytes)) used.emplace(entry.id, kNoRank);
    for (std::size_t i = 0; i + 3 < quads.size(); i += 4)
      for (const std::uint32_t part : {quads[i], quads[i + 1]})
        if (const auto one = used.find(part); one != used.end()) one->second = std::min(one->second, quads[i + 2]);
    for (const Vocabulary::Entry& entry : entries)
      if (is_character(entry.bytes) && becomes(merges, entry, used[entry.id]))
        found.emplace_back(utf8_decode(entry.bytes.data()), entry.id);

    std::vector<std::uint16_t> index(kBlocks, 0);
    std::vector<std::uint32_t> blocks(kBlockSize, kNoId);  // the first one is that of blocks without any
    for (const auto& [point, id] : found) {
      std::uint16_t& block = index[point / kBlockSize];
      if (block == 0) {
        block = static_cast<std::uint16_t>(blocks.size() / kBlockSize);
        blocks.resize(blocks.size() + kBlockSize, kNoId);
      }
      blocks[std::size_t{block} * kBlockSize + point % kBlockSize] = id;
    }
    writer.add(Section::whole_character_index, index);
    writer.add(Section::whole_character_blocks, blocks);
  }

  explicit WholeCharacters(const Image& image)
      : index_(image.get_sized<std::uint16_t>(Section::whole_character_index, kBlocks)),
        blocks_(image.get<std::uint32_t>(Section::whole_character_blocks)),
        parted_(image) {
    for (const std::uint16_t block : index_)
      Image::require((block + std::size_t{1}) * kBlockSize <= blocks_.size(), Section::whole_character_index);
  }

  // The id of the character of `width` bytes at piece[at], if merging may start from it there, else kNoId.
  std::uint32_t at(std::string_view piece, std::size_t at, std::size_t width) const {
    const std::uint32_t id = find(utf8_decode(piece.data() + at));
    if (id == kNoId) return kNoId;
    if (at > 0 && parted_.cross(piece, at)) return kNoId;
    if (at + width < piece.size() && parted_.cross(piece, at + width)) return kNoId;
    return id;
  }

  // Bytes of the character at piece[at], 0 where none lies there whole: stages over bytes may part one.
  static std::size_t width_at(std::string_view piece, std::size_t at) {
    if (is_continuation(piece[at])) return 0;
    const std::size_t width = utf8_width(piece[at]);
    if (width > piece.size() - at) return 0;
    for (std::size_t i = 1; i < width; ++i)
      if (!is_continuation(piece[at + i])) return 0;
    return width;
  }

 private:
  static constexpr std::size_t kBlockSize = 64;
  static constexpr std::size_t kBlocks = 0x110000 / kBlockSize;

  static bool is_character(std::string_view entry) {
    return entry.size() > 1 && entry.size() <= 4 && width_at(entry, 0) == entry.size() && utf8::valid(entry);
  }

  // Whether the bytes of an entry, merged by themselves, become it by merges that all rank below `used`.
  static bool becomes(const Merges& merges, const Vocabulary::Entry& entry, std::uint32_t used) {
    std::vector<std::uint32_t> symbols;
    merges.symbols(entry.bytes, symbols);
    if (symbols.size() != entry.bytes.size()) return false;
    while (symbols.size() > 1) {
      std::uint32_t best = kNoRank;
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        const std::uint32_t rank = merges.find(symbols[i], symbols[i + 1]);
        if (rank < best) best = rank, at = i;
      }
      if (best == kNoRank || best >= used) return false;
      symbols[at] = merges.merged(best);
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return symbols[0] == entry.id;
  }

  std::uint32_t find(std::uint32_t point) const {
    return blocks_[std::size_t{index_[point / kBlockSize]} * kBlockSize + point % kBlockSize];
  }

  std::span<const std::uint16_t> index_;
  std::span<const std::uint32_t> blocks_;
  PartedEntries parted_;
};

}  // namespace tokseam
