// What a piece becomes without looking it up whole: its smallest symbols, merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "characters.hpp"
#include "image.hpp"
#include "merges.hpp"
#include "vocabulary.hpp"

namespace tokseam {

class Bpe {
 public:
  // characters: null where symbols are bytes. byte_ids: kNoId where the vocabulary lacks the byte, and the reference
  // drops it.
  static void write(ImageWriter& writer, std::span<const std::uint32_t> merges, std::span<const std::uint32_t> byte_ids,
                    const Characters::Tables* characters) {
    Merges::write(writer, merges, byte_ids);
    writer.add(Section::byte_ids, byte_ids);
    if (characters != nullptr) Characters::write(writer, *characters);
  }

  explicit Bpe(const Image& image) : merges_(image) {
    if (image.has(Section::character_settings)) characters_.emplace(image);
  }

  // BPE over the characters of whole segments, in place of stages and bytes.
  const std::optional<Characters>& characters() const { return characters_; }

  // Puts the ids of `piece` in place of what `symbols` held.
  void merged(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
    std::vector<std::uint32_t> work;
    symbols.clear();
    append(piece, work, symbols);
  }

  // Appends the ids of `piece`. `work` is room to work in; `memo` is kept for this table, or null.
  void append(std::string_view piece, std::vector<std::uint32_t>& work, std::vector<std::uint32_t>& ids,
              PairMemo* memo = nullptr) const {
    if (!characters_) return merges_.apply_bytes(piece, work, ids, memo);
    characters_->symbols(piece, work);
    merges_.apply(work);
    ids.insert(ids.end(), work.begin(), work.end());
  }

 private:
  Merges merges_;
  std::optional<Characters> characters_;
};

}  // namespace tokseam
