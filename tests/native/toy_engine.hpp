// A small engine with real context sensitivity, for the session's tests.
//
// Its pieces are those of the pattern
//     SPECIAL | ␠?L+ | D{1,3} | ␠?O+ | ␠+(?!\S) | ␠+
// with L letters, D digits, O all others, ␠ the space. How digits fall into threes and which space goes where depends on
// what stands left or right. Inside a piece it merges by rank. A position is synchronizing where a letter meets a space:
// the letters end there whatever follows, and the space begins a piece whatever stands before. Long stretches without
// spaces have no such position, and "12 34" has none at all. A text that does not go on from a cut gets an id in front.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "toy_spellings.hpp"

namespace tokseam::test {

class ToyEngine {
 public:
  static constexpr std::string_view kSpecial = "<|x|>";
  static constexpr std::uint32_t kSpecialId = 1000;
  static constexpr std::uint32_t kPrefixId = 1001;

  ToyEngine() {
    const std::vector<std::pair<std::string, std::string>> merges = {
        {"a", "b"},   {"b", "a"},  {"ab", "ab"}, {" ", "a"},   {" ", "ab"},         {"ba", "c"},
        {"1", "2"},   {"2", "1"},  {"12", "3"},  {" ", " "},   {"  ", "  "},        {"\xC3", "\xA9"},
        {"!", "!"},   {" ", "!"},  {"!!", "?"},  {" a", "ba"}, {"\xC3\xA9", "a"},   {"c", "\xC3\xA9"},
        {"ab", "c"},  {"c", "ab"}, {"<", "|"},   {"|", ">"},   {"\xE4\xB8", "\x96"}, {"\xE4", "\xB8"},
    };
    for (std::uint32_t byte = 0; byte < 256; ++byte) ids_[std::string(1, static_cast<char>(byte))] = byte;
    std::uint32_t next = 256;
    for (const auto& [left, right] : merges)
      if (!ids_.contains(left + right)) ids_[left + right] = next++;
    merges_.resize(ids_.size() * ids_.size());
    std::uint32_t rank = 0;
    for (const auto& [left, right] : merges) {
      Merge& merge = merge_of(ids_.at(left), ids_.at(right));
      if (merge.rank == kNoRank) merge = {rank++, ids_.at(left + right)};
    }
    spellings_.emplace(texts());
  }

  // By id, what it stands for in a text. The id in front stands for nothing.
  ToySpellings::Texts texts() const {
    ToySpellings::Texts texts = {{kSpecialId, std::string(kSpecial)}};
    for (const auto& [text, id] : ids_) texts.emplace(id, text);
    return texts;
  }

  const Spellings& spellings() const { return spellings_->spellings(); }

  std::size_t next_cut(std::string_view text, std::size_t from) const {
    for (std::size_t at = from == 0 ? 1 : from; at < text.size(); ++at)
      if (is_cut(text, at)) return at;
    return kNoCut;
  }

  std::size_t last_cut(std::string_view text, std::size_t upto) const {
    if (text.empty()) return kNoCut;
    for (std::size_t at = upto < text.size() ? upto : text.size() - 1; at > 0; --at)
      if (is_cut(text, at)) return at;
    return kNoCut;
  }

  void encode(std::string_view text, EncodeMode mode, std::span<const std::size_t> cuts,
              std::vector<std::uint32_t>& ids, std::vector<std::size_t>& marks) const {
    bytes_encoded.fetch_add(text.size(), std::memory_order_relaxed);
    calls.fetch_add(1, std::memory_order_relaxed);
    const std::size_t base = ids.size();
    if (!mode.continued && !text.empty()) ids.push_back(kPrefixId);
    std::size_t next = 0;  // index of the first cut without a mark
    std::size_t special = mode.split_special ? text.size() : find_special(text, 0);  // the first one not left of `at`
    for (std::size_t at = 0; at < text.size();) {
      if (special < at) special = find_special(text, at);
      for (; next < cuts.size() && cuts[next] <= at; ++next)
        marks.push_back(cuts[next] == at ? ids.size() - base : kNoMark);
      if (at == special) {
        ids.push_back(kSpecialId);
        at += kSpecial.size();
        continue;
      }
      // The literals are cut out first: no match and no lookahead goes past the segment's end.
      const std::size_t end = piece_end(text.substr(0, special), at);
      merge(text.substr(at, end - at), ids);
      at = end;
    }
    for (; next < cuts.size(); ++next) marks.push_back(kNoMark);
  }

  std::vector<std::uint32_t> encode_all(std::string_view text, bool split_special = false) const {
    std::vector<std::uint32_t> ids;
    std::vector<std::size_t> marks;
    encode(text, {.split_special = split_special}, {}, ids, marks);
    return ids;
  }

  // What was handed to encode() so far. Atomic, since sessions on two threads may share the engine.
  mutable std::atomic<std::size_t> bytes_encoded{0};
  mutable std::atomic<std::size_t> calls{0};

 protected:
  enum class Kind { letter, digit, space, other };

  static constexpr std::uint32_t kNoRank = static_cast<std::uint32_t>(-1);

  struct Merge {
    std::uint32_t rank = kNoRank;  // lower goes first; kNoRank for a pair that does not merge
    std::uint32_t id = 0;          // what the pair becomes
  };

  // The kind of the character that the byte at `at` begins. Two- and three-byte characters are letters, four-byte ones
  // others; a continuation byte has its character's kind.
  static Kind kind_at(std::string_view text, std::size_t at) {
    while (at > 0 && !utf8::starts_code_point(text[at])) --at;
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == ' ') return Kind::space;
    if (byte >= '0' && byte <= '9') return Kind::digit;
    if ((byte >= 'a' && byte <= 'z') || (byte >= 0xC0 && byte < 0xF0)) return Kind::letter;
    return Kind::other;
  }

  static bool is_cut(std::string_view text, std::size_t at) {
    return text[at] == ' ' && kind_at(text, at - 1) == Kind::letter;
  }

 private:
  static std::size_t run_end(std::string_view text, std::size_t at, Kind kind) {
    while (at < text.size() && kind_at(text, at) == kind) ++at;
    return at;
  }

  static std::size_t find_special(std::string_view text, std::size_t at) {
    return std::min(text.find(kSpecial, at), text.size());
  }

  static std::size_t piece_end(std::string_view text, std::size_t at) {
    switch (kind_at(text, at)) {
      case Kind::letter: return run_end(text, at, Kind::letter);
      case Kind::other: return run_end(text, at, Kind::other);
      case Kind::digit: return run_end(text.substr(0, at + 3), at, Kind::digit);
      case Kind::space: break;
    }
    const std::size_t end = run_end(text, at, Kind::space);
    if (end == text.size()) return end;
    if (end - at > 1) return end - 1;
    const Kind next = kind_at(text, end);
    return next == Kind::digit ? end : run_end(text, end, next);
  }

  Merge& merge_of(std::uint32_t left, std::uint32_t right) { return merges_[left * ids_.size() + right]; }

  void merge(std::string_view piece, std::vector<std::uint32_t>& ids) const {
    const std::size_t base = ids.size();
    for (const char byte : piece) ids.push_back(static_cast<unsigned char>(byte));
    while (true) {
      std::size_t best = ids.size();
      Merge found;
      for (std::size_t i = base; i + 1 < ids.size(); ++i) {
        const Merge& pair = merges_[ids[i] * ids_.size() + ids[i + 1]];
        if (pair.rank < found.rank) {
          best = i;
          found = pair;
        }
      }
      if (best == ids.size()) return;
      ids[best] = found.id;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }

  std::map<std::string, std::uint32_t> ids_;  // of each byte and each result of a merge; one id, one string
  std::vector<Merge> merges_;                 // of each pair of ids, row by row
  std::optional<ToySpellings> spellings_;     // of all ids; always there
};

}  // namespace tokseam::test
