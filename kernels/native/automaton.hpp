// One splitting stage: a leftmost-first DFA run over a class buffer (classes.hpp). Built by
// kernels/compile/automaton.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "classes.hpp"
#include "image.hpp"

namespace tokseam {

// What becomes of a match and of the gaps beside it; the reference's SplitDelimiterBehavior. ('Contiguous' is compiled as a
// repeat.) Text that is dropped belongs to no piece.
enum class Behavior : std::uint8_t { isolated, merged_with_previous, merged_with_next, matches_dropped, gaps_dropped };
inline constexpr int kBehaviors = 5;

class Automaton {
 public:
  static constexpr std::uint16_t kMatch = 0x8000;  // in a transition: the attempt matches before this class is consumed
  static constexpr std::uint16_t kState = 0x7FFF;
  static constexpr std::uint16_t kDead = 0;
  static constexpr std::uint16_t kStart = 1;

  // transitions: states rows of classes + 1 columns, the last one for the end of the text.
  // Throws std::invalid_argument for a table that a text could lead out of.
  // Stored with one more column, before the end's: the inner bytes of a character, which change nothing.
  static void write(ImageWriter& writer, Section section, std::uint32_t index, const std::uint16_t* transitions,
                    std::size_t states, std::size_t classes, Behavior behavior) {
    if (states <= kStart) throw std::invalid_argument("automaton: no start state");
    std::vector<std::uint16_t> stored{static_cast<std::uint16_t>(classes), static_cast<std::uint16_t>(behavior)};
    stored.reserve(kSettings + states * (classes + 2));
    for (std::size_t state = 0; state < states; ++state) {
      const std::uint16_t* row = transitions + state * (classes + 1);
      for (std::size_t column = 0; column <= classes; ++column)
        if ((row[column] & kState) >= states) throw std::invalid_argument("automaton: a state that is none");
      if ((row[classes] & kState) != kDead) throw std::invalid_argument("automaton: it goes on behind the end");
      stored.insert(stored.end(), row, row + classes);
      stored.push_back(static_cast<std::uint16_t>(state));
      stored.push_back(row[classes]);
    }
    writer.add(section, stored, index);
  }

  // All stages of a section, in order.
  static std::vector<Automaton> read_all(const Image& image, Section section, std::size_t classes) {
    std::vector<Automaton> stages;
    for (std::uint32_t index = 0; image.has(section, index); ++index)
      stages.push_back({image, section, index, classes});
    return stages;
  }

  // classes: how many numbers a class buffer for it may hold, besides the inner one.
  Automaton(const Image& image, Section section, std::uint32_t index, std::size_t classes) : stride_(classes + 2) {
    const auto stored = image.get<std::uint16_t>(section, index);
    Image::require(stored.size() >= kSettings && stored[0] == classes && stored[1] < kBehaviors, section);
    behavior_ = static_cast<Behavior>(stored[1]);
    table_ = stored.subspan(kSettings);
    const std::size_t states = table_.size() / stride_;
    Image::require(states > kStart && table_.size() % stride_ == 0, section);
    for (std::size_t i = 0; i < table_.size(); ++i) {
      Image::require((table_[i] & kState) < states, section);
      if (i % stride_ == classes + 1) Image::require((table_[i] & kState) == kDead, section);
      // An empty match would never move on.
      if (i / stride_ == kStart) Image::require((table_[i] & kMatch) == 0, section);
    }
  }

  Behavior behavior() const { return behavior_; }

  // The end of the match that starts at `begin`, or kNone. `end` is where the lookahead sees the end of the text.
  std::size_t match(const std::uint8_t* classes, std::size_t begin, std::size_t end) const {
    std::size_t last = kNone;
    std::uint16_t state = kStart;
    for (std::size_t at = begin;; ++at) {
      const std::size_t column = at < end ? classes[at] : stride_ - 1;
      const std::uint16_t entry = table_[state * stride_ + column];
      if (entry & kMatch) last = at;
      state = entry & kState;
      if (state == kDead) return last;  // the end's column always leads here
    }
  }

 private:
  static constexpr std::size_t kSettings = 2;  // in front of the table: classes, behavior

  std::size_t stride_;
  Behavior behavior_;
  std::span<const std::uint16_t> table_;
};

// Split [begin, end) by the stages from `stage` on and hand each piece to `piece(begin, end)`, in order. `inner` is the
// class of the inner bytes of a character.
template <class Piece>
void split(const std::vector<Automaton>& stages, std::size_t stage, std::uint8_t inner, const std::uint8_t* classes,
           std::size_t begin, std::size_t end, Piece&& piece) {
  if (stage == stages.size()) {
    piece(begin, end);
    return;
  }
  const Automaton& automaton = stages[stage];
  const auto emit = [&](std::size_t from, std::size_t to) {
    if (from < to) split(stages, stage + 1, inner, classes, from, to, piece);
  };
  std::size_t open = begin;  // where what is not handed on yet begins ...
  std::size_t gap = begin;   // ... and where its part that no match covers begins, which survives without one
  for (std::size_t at = begin; at < end;) {
    const std::size_t stop = automaton.match(classes, at, end);
    if (stop == kNone) {
      do {
        ++at;
      } while (at < end && classes[at] == inner);
      continue;
    }
    switch (automaton.behavior()) {
      case Behavior::isolated:
        emit(gap, at);
        emit(at, stop);
        open = stop;
        break;
      case Behavior::merged_with_previous:  // a gap takes the match behind it along
        emit(gap, stop);
        open = stop;
        break;
      case Behavior::merged_with_next:  // a match waits for the gap behind it
        emit(open, at);
        open = at;
        break;
      case Behavior::matches_dropped:
        emit(gap, at);
        open = stop;
        break;
      case Behavior::gaps_dropped:
        emit(at, stop);
        open = stop;
        break;
    }
    at = gap = stop;
  }
  if (automaton.behavior() != Behavior::gaps_dropped) emit(open, end);
}

}  // namespace tokseam
