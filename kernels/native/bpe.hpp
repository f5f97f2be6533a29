// What a piece becomes without looking it up whole: its smallest symbols, merged.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "characters.hpp"
#include "image.hpp"
#include "merge_lanes.hpp"
#include "merge_windows.hpp"
#include "merges.hpp"
#include "vocabulary.hpp"
#include "whole_characters.hpp"

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
    if (image.has(Section::whole_character_index)) whole_characters_.emplace(image);
    Image::require(!whole_characters_ || (merges_.every_byte() && !characters_), Section::whole_character_index);
  }

  const Merges& merges() const { return merges_; }

  // BPE over the characters of whole segments, in place of stages and bytes.
  const std::optional<Characters>& characters() const { return characters_; }

  // Appends the ids of `piece`. `work` is room to work in.
  void append(std::string_view piece, std::vector<std::uint32_t>& work, std::vector<std::uint32_t>& ids) const {
    start_symbols(piece, work);
    if (work.size() > MergeLanes::kMostSymbols) return MergeWindows(merges_).apply(work, ids);
    MergeLanes(merges_).run(
        1, [&](std::size_t) { return work.size(); }, [&](std::size_t, const auto& lane) { lane.symbols(work); },
        [&](std::size_t, const auto& result) {
          result.each([&](std::uint32_t id, std::size_t) { ids.push_back(id); });
        });
  }

  // Of many pieces of at most MergeLanes::kMostSymbols bytes: ids[starts[i] ..] and counts[i] become those of
  // pieces[i], at most one id a byte.
  void merge_all(std::span<const std::string_view> pieces, std::span<const std::size_t> starts, std::uint32_t* ids,
                 std::uint32_t* counts) const {
    thread_local std::vector<std::uint32_t> kept_work;
    std::vector<std::uint32_t>& work = kept_work;  // PERF: in a shared library a thread's own is far away: found once
    const bool bytes = !characters_ && merges_.every_byte();
    MergeLanes(merges_).run(
        pieces.size(), [&](std::size_t i) { return pieces[i].size(); },
        [&](std::size_t i, const auto& lane) {
          if (bytes && is_ascii(pieces[i])) return lane.ascii(pieces[i]);
          start_symbols(pieces[i], work);
          lane.symbols(work);
        },
        [&](std::size_t i, const auto& result) {
          std::uint32_t* to = ids + starts[i];
          result.each([&](std::uint32_t id, std::size_t) { *to++ = id; });
          counts[i] = static_cast<std::uint32_t>(to - (ids + starts[i]));
        });
  }

 private:
  // What merging a piece starts from.
  void start_symbols(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
    if (characters_) return characters_->symbols(piece, symbols);
    if (!whole_characters_) return merges_.symbols(piece, symbols);
    symbols.clear();
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t width = WholeCharacters::width_at(piece, at);
      const std::uint32_t id = width > 1 ? whole_characters_->at(piece, at, width) : kNoId;
      if (id != kNoId) {
        symbols.push_back(id);
        at += width;
      } else {
        symbols.push_back(merges_.byte_id(static_cast<unsigned char>(piece[at++])));
      }
    }
  }

  static bool is_ascii(std::string_view piece) {
    return std::ranges::none_of(piece, [](char byte) { return static_cast<unsigned char>(byte) >= 0x80; });
  }

  Merges merges_;
  std::optional<Characters> characters_;
  std::optional<WholeCharacters> whole_characters_;  // of bytes, where every byte has a symbol
};

}  // namespace tokseam
