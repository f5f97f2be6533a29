// BPE without a pre-tokenizer, over characters (SentencePiece-style: Llama 2, Gemma): a whole segment is one piece.
//
// What makes it fast and local is a corollary of how merges work: a merge that crosses the place between characters x
// and y makes a token in which x and y stand side by side. So where no token that merges can make has them so, nothing
// ever crosses (kernels/README.md, claim 8), and the piece may be encoded in parts, and cut.
// Not here: the merging itself (merges.hpp), added tokens (added_tokens.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuts.hpp"
#include "flat_map.hpp"
#include "image.hpp"
#include "pair_sieve.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

namespace tokseam {

class Characters {
 public:
  // When a marker is put in front of a segment.
  enum class Prefix : std::uint8_t {
    never,
    always,               // whatever it starts with
    unless_there,         // unless it starts with the marker
    first_unless_there,   // the same, and only at the start of the whole text
  };

  struct Tables {
    std::uint32_t replaced, replacement;  // a character of the text that becomes another (the space, the marker)
    std::uint32_t marker;                 // what `prefix` puts in front
    Prefix prefix;
    bool split_at_marker;                 // a piece begins at each marker, in place of one piece a segment
    std::vector<std::uint64_t> joined;    // first << 32 | second: pairs that some token holds side by side
    std::vector<std::uint32_t> never_after;   // no cut behind these: a literal may end, or begin what looks around
    std::vector<std::uint32_t> never_before;  // no cut in front of these
    std::vector<std::uint32_t> characters, character_ids;
    std::array<std::uint32_t, 256> byte_tokens;  // ids of <0x00> to <0xFF>, kNoId where there is none
  };

  static void write(ImageWriter& writer, const Tables& tables) {
    const auto keys = [](const std::vector<std::uint32_t>& points) {
      return std::vector<std::uint64_t>(points.begin(), points.end());
    };
    std::vector<std::uint64_t> spelled;
    std::vector<std::uint32_t> bytes;
    for (std::uint32_t byte = 0; byte < 256; ++byte)
      if (tables.byte_tokens[byte] != kNoId) spelled.push_back(tables.byte_tokens[byte]), bytes.push_back(byte);
    writer.add(Section::character_settings,
               std::vector<std::uint32_t>{tables.replaced, tables.replacement, tables.marker,
                                          static_cast<std::uint32_t>(tables.prefix), tables.split_at_marker});
    PairSieve::write(writer, Section::joined, tables.joined);
    FlatSet::write(writer, Section::never_after, keys(tables.never_after));
    FlatSet::write(writer, Section::never_before, keys(tables.never_before));
    FlatMap::write(writer, Section::characters, Section::character_ids, keys(tables.characters), tables.character_ids);
    writer.add(Section::byte_tokens, std::span<const std::uint32_t>(tables.byte_tokens));
    FlatMap::write(writer, Section::byte_token_ids, Section::byte_token_bytes, spelled, bytes);
  }

  explicit Characters(const Image& image)
      : joined_(image, Section::joined),
        never_after_(image, Section::never_after),
        never_before_(image, Section::never_before),
        character_ids_(image, Section::characters, Section::character_ids),
        byte_tokens_(image.get_sized<std::uint32_t>(Section::byte_tokens, 256)),
        byte_of_(image, Section::byte_token_ids, Section::byte_token_bytes) {
    const auto settings = image.get_sized<std::uint32_t>(Section::character_settings, 5);
    replaced_ = settings[0], replacement_ = settings[1], marker_ = settings[2];
    Image::require(settings[3] <= static_cast<std::uint32_t>(Prefix::first_unless_there), Section::character_settings);
    prefix_ = static_cast<Prefix>(settings[3]);
    split_at_marker_ = settings[4] != 0;
    Image::require((replaced_ == kNoId || is_code_point(replacement_)) &&
                       (prefix_ == Prefix::never || is_code_point(marker_)),
                   Section::character_settings);
    for (const std::uint32_t byte : byte_of_.values()) Image::require(byte < 256, Section::byte_token_bytes);
  }

  // See cuts.hpp.
  std::size_t next_cut(std::string_view text, std::size_t from) const {
    return find_next_cut(text, from, [this](auto point) { return normal(point); },
                         [this](auto a, auto b) { return cut(a, b); });
  }
  std::size_t last_cut(std::string_view text, std::size_t upto) const {
    return find_last_cut(text, upto, [this](auto point) { return normal(point); },
                         [this](auto a, auto b) { return cut(a, b); });
  }

  // Whether a text may be cut between these two characters of it.
  bool cut_between(std::uint32_t before, std::uint32_t here) const { return cut(normal(before), normal(here)); }

  // Whether something may be put in front of a text.
  bool prefixes() const { return prefix_ != Prefix::never; }

  // The segment as the model sees it. `at_text_start`: it begins the whole text; `continued`: it goes on from a cut, so
  // nothing is put in front. `cuts` (byte positions) move along. Sets `prefixed` when a marker was put in front.
  std::string normalized(std::string_view raw, bool at_text_start, bool continued, std::vector<std::size_t>& cuts,
                         bool& prefixed) const {
    std::string out;
    out.reserve(raw.size() + raw.size() / 2);
    const std::uint32_t first = normal(utf8_decode(raw.data()));
    prefixed = !continued && (prefix_ == Prefix::always || (prefix_ == Prefix::unless_there && first != marker_) ||
                              (prefix_ == Prefix::first_unless_there && at_text_start && first != marker_));
    if (prefixed) utf8_append(out, marker_);
    std::size_t cut = 0;
    for (std::size_t at = 0; at < raw.size();) {
      for (; cut < cuts.size() && cuts[cut] <= at; ++cut) cuts[cut] = out.size();
      const std::size_t width = utf8_width(raw[at]);
      const std::uint32_t point = utf8_decode(raw.data() + at);
      if (point == replaced_)
        utf8_append(out, replacement_);
      else
        out.append(raw.substr(at, width));
      at += width;
    }
    return out;
  }

  // Split [begin, end) of a normalized segment: piece(begin) where a piece begins, part(begin, end) for each stretch that
  // no merge leaves.
  template <class Piece, class Part>
  void split(std::string_view text, std::size_t begin, std::size_t end, Piece&& piece, Part&& part) const {
    if (begin == end) return;
    piece(begin);
    std::size_t start = begin;
    std::uint32_t before = utf8_decode(text.data() + begin);
    for (std::size_t at = begin + utf8_width(text[begin]); at < end; at += utf8_width(text[at])) {
      const std::uint32_t here = utf8_decode(text.data() + at);
      const bool new_piece = split_at_marker_ && here == marker_;
      if (new_piece || !joined(before, here)) {
        part(start, at);
        start = at;
        if (new_piece) piece(at);
      }
      before = here;
    }
    part(start, end);
  }

  // What merging starts from: each character's id, or its bytes' where the vocabulary lacks it.
  void symbols(std::string_view part, std::vector<std::uint32_t>& out) const {
    out.clear();
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t width = utf8_width(part[at]);
      const std::uint32_t id = character_ids_.find(utf8_decode(part.data() + at), kNoId);
      if (id != kNoId) {
        out.push_back(id);
      } else {
        for (std::size_t i = 0; i < width; ++i)
          out.push_back(byte_tokens_[static_cast<unsigned char>(part[at + i])]);
      }
      at += width;
    }
  }

  // The byte that an id stands for, or kNone: then it stands for whole characters.
  std::size_t byte_of(std::uint32_t id) const {
    const std::uint32_t byte = byte_of_.find(id, kNoId);
    return byte == kNoId ? kNone : byte;
  }

 private:
  std::uint32_t normal(std::uint32_t point) const { return point == replaced_ ? replacement_ : point; }

  bool joined(std::uint32_t before, std::uint32_t here) const {
    return joined_.may_contain(PairSieve::key(before, here));
  }
  bool cut(std::uint32_t before, std::uint32_t here) const {
    return !joined(before, here) && !never_after_.contains(before) && !never_before_.contains(here);
  }

  std::uint32_t replaced_, replacement_, marker_;
  Prefix prefix_;
  bool split_at_marker_;
  PairSieve joined_;
  FlatSet never_after_, never_before_;
  FlatMap character_ids_;
  std::span<const std::uint32_t> byte_tokens_;
  FlatMap byte_of_;
};

}  // namespace tokseam
