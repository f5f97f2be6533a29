// From the tables that kernels/compile/tables.py hands over to the image that an encoder stands on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "automaton.hpp"
#include "bpe.hpp"
#include "characters.hpp"
#include "classes.hpp"
#include "close_numbers.hpp"
#include "crossings.hpp"
#include "encoder.hpp"
#include "image.hpp"
#include "normalization.hpp"
#include "spellings.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"
#include "whole_characters.hpp"

namespace tokseam {

struct ClassTables {  // see Classes::write
  std::vector<std::uint8_t> class_of, pairs, suspect;
  // Cuts for encoding alone (cut_masks.hpp): by pair, and 3 rows of bits by class, whatever fenced literals rule out.
  // Empty: `pairs`, and no others.
  std::vector<std::uint8_t> segment_pairs = {}, seamless = {}, looking_on = {}, looking_back = {};
};

struct StageTable {  // see Automaton::write
  std::vector<std::uint16_t> transitions;
  std::size_t states = 0;
  Behavior behavior = Behavior::isolated;
};

struct AddedLiteral {
  std::string content;  // as it is looked for: normalized where it is looked for in normalized text
  AddedTokens::Token token;
  bool normalized;
  bool fenced = false;  // segment_pairs and the other cuts for encoding count on literal_fences.hpp
};

struct EncoderTables {
  ClassTables classes = {};
  std::vector<StageTable> stages = {};
  std::vector<StageTable> byte_stages = {};              // behind the others, on the bytes of each piece
  std::array<std::uint8_t, 256> byte_classes = {};       // the classes that those know
  std::vector<Normalization::Tables> normalizations = {};  // in order, each on what the one before made
  std::optional<Characters::Tables> characters = {};
  std::vector<AddedLiteral> added_tokens = {};
  std::vector<std::uint32_t> space_characters = {}, word_characters = {};
  std::string_view vocabulary_bytes = {};             // all entries, one behind the other
  std::vector<std::uint32_t> vocabulary_ends = {};  // where each ends in vocabulary_bytes
  std::vector<std::uint32_t> vocabulary_ids = {};
  std::vector<std::uint32_t> merges = {};  // left, right, rank, merged id; repeated
  std::array<std::uint32_t, 256> byte_ids = {};
  bool space_in_front = false;      // every stretch between literals gets a space, unless it begins with one
  bool whole_pieces_first = false;  // a piece that is a vocabulary entry becomes it without any merge
};

namespace detail {

// Of each entry: whether its own merges end in its id.
inline std::vector<bool> merges_end_in_it(const Bpe& bpe, std::span<const Vocabulary::Entry> entries) {
  constexpr std::size_t kTogether = 1024;
  std::vector<bool> made;
  std::vector<std::string_view> pieces;
  std::vector<std::size_t> starts;
  std::vector<std::uint32_t> ids, counts, work, own;
  for (; !entries.empty(); entries = entries.subspan(std::min(entries.size(), kTogether))) {
    const auto some = entries.first(std::min(entries.size(), kTogether));
    pieces.clear();
    starts.clear();
    std::size_t end = 0;
    for (const Vocabulary::Entry& entry : some) {
      if (entry.bytes.size() > MergeLanes::kMostSymbols) continue;
      pieces.push_back(entry.bytes);
      starts.push_back(end);
      end += entry.bytes.size();
    }
    ids.resize(end + 1);
    counts.resize(pieces.size());
    bpe.merge_all(pieces, starts, ids.data(), counts.data());
    std::size_t k = 0;
    for (const Vocabulary::Entry& entry : some) {
      if (entry.bytes.size() > MergeLanes::kMostSymbols) {
        own.clear();
        bpe.append(entry.bytes, work, own);
        made.push_back(own.size() == 1 && own[0] == entry.id);
      } else {
        made.push_back(counts[k] == 1 && ids[starts[k]] == entry.id);
        ++k;
      }
    }
  }
  return made;
}

// The entries that a piece may be looked up as, and how long each id is: in bytes, or in characters where those are
// the symbols.
inline void write_vocabulary(ImageWriter& writer, const EncoderTables& tables) {
  if (tables.vocabulary_ends.size() != tables.vocabulary_ids.size() ||
      (!tables.vocabulary_ends.empty() && tables.vocabulary_ends.back() > tables.vocabulary_bytes.size()))
    throw std::invalid_argument("vocabulary tables of the wrong size");
  std::vector<Vocabulary::Entry> entries, whole, asked;
  std::vector<std::string_view> all, whole_only;
  std::vector<std::uint32_t> lengths;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tables.vocabulary_ids.size(); ++i) {
    const std::size_t end = tables.vocabulary_ends[i];
    if (end < begin) throw std::invalid_argument("vocabulary entries out of order");
    const Vocabulary::Entry entry{tables.vocabulary_bytes.substr(begin, end - begin), tables.vocabulary_ids[i]};
    begin = end;
    if (entry.id == kNoId) throw std::invalid_argument("an id that is none");
    if (entry.id >= lengths.size()) lengths.resize(std::size_t{entry.id} + 1, 0);
    lengths[entry.id] =
        static_cast<std::uint32_t>(tables.characters ? utf8::count_code_points(entry.bytes) : entry.bytes.size());
    all.push_back(entry.bytes);
    entries.push_back(entry);
    // Without whole_pieces_first, an entry may be looked up whole only where its own merges end in it.
    if (tables.whole_pieces_first) whole.push_back(entry);
    if (!tables.whole_pieces_first || Crossings::is_asked_about(entry.bytes)) asked.push_back(entry);
  }
  const Image image = writer.finish();
  const Bpe bpe(image);
  const std::vector<bool> made = merges_end_in_it(bpe, asked);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (made[i] && !tables.whole_pieces_first) whole.push_back(asked[i]);
    if (!made[i] && tables.whole_pieces_first) whole_only.push_back(asked[i].bytes);
  }
  Vocabulary::write(writer, whole);
  if (!tables.characters) {
    Crossings::write(writer, all, whole_only, !tables.normalizations.empty(), tables.byte_ids);
    if (bpe.merges().every_byte()) WholeCharacters::write(writer, bpe.merges(), entries, tables.merges);
  }
  CloseNumbers::write(writer, Section::lengths, lengths);
}

// What each id most likely stands for in a text; sessions compare (spellings.hpp).
inline void write_spellings(ImageWriter& writer, const EncoderTables& tables) {
  std::map<std::uint32_t, std::string> texts;  // of equal ids the first one counts
  Spellings::Marker marker;
  if (tables.characters) {
    for (std::size_t byte = 0; byte < tables.characters->byte_tokens.size(); ++byte)
      if (tables.characters->byte_tokens[byte] != kNoId)
        texts.emplace(tables.characters->byte_tokens[byte], std::string(1, static_cast<char>(byte)));
    if (tables.characters->replaced < 0x80) {
      utf8_append(marker.replacement, tables.characters->replacement);
      marker.replaced = static_cast<char>(tables.characters->replaced);
    }
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tables.vocabulary_ids.size(); ++i) {
    const std::size_t end = tables.vocabulary_ends[i];
    std::string text(tables.vocabulary_bytes.substr(begin, end - begin));
    begin = end;
    if (!marker.replacement.empty())
      for (std::size_t at = text.find(marker.replacement); at != text.npos; at = text.find(marker.replacement, at + 1))
        text.replace(at, marker.replacement.size(), 1, marker.replaced);
    texts.emplace(tables.vocabulary_ids[i], std::move(text));
  }
  for (const AddedLiteral& literal : tables.added_tokens) texts.emplace(literal.token.id, literal.content);
  const Image image = writer.finish();
  Spellings::write(writer, texts, Vocabulary(image), marker);
}

inline void write_stages(ImageWriter& writer, Section section, const std::vector<StageTable>& stages,
                         std::size_t classes) {
  for (std::uint32_t index = 0; index < stages.size(); ++index) {
    const StageTable& stage = stages[index];
    if (stage.transitions.size() != stage.states * (classes + 1))
      throw std::invalid_argument("an automaton of the wrong size");
    Automaton::write(writer, section, index, stage.transitions.data(), stage.states, classes, stage.behavior);
  }
}

inline void write_further_cuts(ImageWriter& writer, const ClassTables& tables, std::size_t classes) {
  const auto add = [&](Section section, const std::vector<std::uint8_t>& given, std::size_t size) {
    if (!given.empty() && given.size() != size) throw std::invalid_argument("class tables of the wrong size");
    writer.add(section, given.empty() ? std::vector<std::uint8_t>(size, 0) : given);
  };
  add(Section::segment_pairs, tables.segment_pairs.empty() ? tables.pairs : tables.segment_pairs, classes * classes);
  add(Section::seamless, tables.seamless, classes * classes);
  add(Section::looking_on, tables.looking_on, 3 * classes);
  add(Section::looking_back, tables.looking_back, 3 * classes);
}

// A bit for each id: whether its entry, as a segment of a text, is just that id. Asked of the encoder itself.
inline void write_whole_segments(ImageWriter& writer, const EncoderTables& tables) {
  const Encoder encoder(writer.finish());
  std::vector<std::uint64_t> bits;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tables.vocabulary_ids.size(); ++i) {
    const std::size_t end = tables.vocabulary_ends[i];
    const std::uint32_t id = tables.vocabulary_ids[i];
    if (id / 64 >= bits.size()) bits.resize(id / 64 + 1, 0);
    if (encoder.whole_as_segment(tables.vocabulary_bytes.substr(begin, end - begin), id))
      bits[id / 64] |= std::uint64_t{1} << id % 64;
    begin = end;
  }
  writer.add(Section::whole_segments, bits);
}

}  // namespace detail

// Builds the image. Throws std::invalid_argument for tables that do not fit together.
inline Image build_image(const EncoderTables& tables) {
  const std::size_t classes = tables.classes.suspect.size();
  if (tables.classes.class_of.size() != 0x110000 || tables.classes.pairs.size() != classes * classes || classes == 0 ||
      classes > Classes::kMaxClasses)
    throw std::invalid_argument("class tables of the wrong size");
  ImageWriter writer;
  Bpe::write(writer, tables.merges, tables.byte_ids, tables.characters ? &*tables.characters : nullptr);
  detail::write_vocabulary(writer, tables);
  detail::write_spellings(writer, tables);
  Classes::write(writer, classes, tables.classes.class_of.data(), tables.classes.pairs.data(),
                 tables.classes.suspect.data());
  detail::write_further_cuts(writer, tables.classes, classes);
  detail::write_stages(writer, Section::stages, tables.stages, classes);
  std::size_t byte_classes = 0;
  for (const std::uint8_t number : tables.byte_classes)
    if (byte_classes <= number) byte_classes = std::size_t{1} + number;
  writer.add(Section::byte_classes, std::span<const std::uint8_t>(tables.byte_classes));
  detail::write_stages(writer, Section::byte_stages, tables.byte_stages, byte_classes);
  for (std::uint32_t index = 0; index < tables.normalizations.size(); ++index)
    Normalization::write(writer, index, tables.normalizations[index]);
  std::vector<std::pair<std::string_view, AddedTokens::Token>> raw, normalized, fenced;
  for (const AddedLiteral& literal : tables.added_tokens) {
    (literal.normalized ? normalized : raw).push_back({literal.content, literal.token});
    if (literal.fenced) fenced.push_back({literal.content, literal.token});
  }
  AddedTokens::write(writer, kRawLiterals, raw);
  AddedTokens::write(writer, kNormalizedLiterals, normalized);
  AddedTokens::write(writer, kFencedLiterals, fenced);
  Surroundings::write(writer, tables.space_characters, tables.word_characters);
  writer.add(Section::settings, std::vector<std::uint32_t>{tables.space_in_front});
  if (!tables.characters) detail::write_whole_segments(writer, tables);
  return writer.finish();
}

}  // namespace tokseam
