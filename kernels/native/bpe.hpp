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
    Merges::write(writer, merges);
    writer.add(Section::byte_ids, byte_ids);
    if (characters != nullptr) Characters::write(writer, *characters);
  }

  explicit Bpe(const Image& image) : merges_(image), byte_ids_(image.get_sized<std::uint32_t>(Section::byte_ids, 256)) {
    if (image.has(Section::character_settings)) characters_.emplace(image);
  }

  // BPE over the characters of whole segments, in place of stages and bytes.
  const std::optional<Characters>& characters() const { return characters_; }

  // Puts the ids of `piece` in place of what `symbols` held.
  void merged(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
    if (characters_) {
      characters_->symbols(piece, symbols);
    } else {
      symbols.clear();
      for (const char byte : piece) {
        const std::uint32_t id = byte_ids_[static_cast<unsigned char>(byte)];
        if (id != kNoId) symbols.push_back(id);
      }
    }
    merges_.apply(symbols);
  }

 private:
  Merges merges_;
  std::span<const std::uint32_t> byte_ids_;
  std::optional<Characters> characters_;
};

}  // namespace tokseam
