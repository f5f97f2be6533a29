// What the session tests share: limits that put chunk edges everywhere, texts to draw, and reading a session back.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "session.hpp"
#include "toy_engine.hpp"

namespace tokseam::test {

// Chunks of a few bytes: every edit then stands at, beside or across a cut.
struct TinyLimits {
  static constexpr std::size_t kTargetBytes = 8;
  static constexpr std::size_t kMinBytes = 4;
  static constexpr std::size_t kLongBytes = 32;
  static constexpr std::size_t kMarkBytes = 4;
  static constexpr std::size_t kTailBytes = 2;
  static constexpr std::size_t kOverlapMaxBytes = 32;
  static constexpr std::size_t kTokenBytes = 0;  // every text that its ids spell
  static constexpr std::size_t kSpelledTargetBytes = 6;
};

// Chunks of a few words, each with many marks: every edit then stands at, beside or across some.
struct ManyMarks {
  static constexpr std::size_t kTargetBytes = 40;
  static constexpr std::size_t kMinBytes = 12;
  static constexpr std::size_t kLongBytes = 100;
  static constexpr std::size_t kMarkBytes = 2;
  static constexpr std::size_t kTailBytes = 1;
  static constexpr std::size_t kOverlapMaxBytes = 24;
  static constexpr std::size_t kTokenBytes = 9;  // some chunks keep their text, some do not
  static constexpr std::size_t kSpelledTargetBytes = 24;
};

using Ids = std::vector<std::uint32_t>;

template <class S>
std::string text_of(const S& session) {
  std::string text(session.bytes(), '?');
  session.copy_text(text.data());
  return text;
}

template <class S>
Ids ids_of(const S& session) {
  Ids ids(session.id_count());
  session.copy_ids(ids.data());
  return ids;
}

inline void apply_splice(const Splice& splice, Ids& ids) {
  CHECK(splice.start <= splice.stop && splice.stop <= ids.size(), "the splice lies inside the ids");
  const auto at = ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(splice.start),
                            ids.begin() + static_cast<std::ptrdiff_t>(splice.stop));
  ids.insert(at, splice.ids.begin(), splice.ids.end());
}

// Draws texts of up to `max_chars` code points. Each comes in one of some manners, so that stretches with many
// synchronizing positions, with few, and with none alternate.
inline std::string draw_text(std::mt19937& random, std::size_t max_chars) {
  static const std::vector<std::vector<std::string>> manners = {
      {"a", "b", "c", " ", "ab", "\xC3\xA9"},                                     // words
      {"a", "b", " ", "1", "2", "3", "!", "?", "<", "|", "x", ">", "<|x|>"},      // all sorts
      {"1", "2", "3", " "},                                                       // no position at all
      {"a", " ", "  ", "    "},                                                   // mostly spaces
      {"\xE4\xB8\x96", "\xF0\x9F\x98\x80", "\xC3\xA9", " ", "a"},                 // many bytes a character
      {"a", "b", "c"},                                                            // one long word
  };
  const auto& manner = manners[random() % manners.size()];
  std::string text;
  for (std::size_t n = random() % (max_chars + 1); n > 0; --n) text += manner[random() % manner.size()];
  return text;
}

}  // namespace tokseam::test
