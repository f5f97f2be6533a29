// One splitting stage: a leftmost-first DFA run over a class buffer (classes.hpp). Built by
// kernels/compile/automaton.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "classes.hpp"

namespace tokseam {

class Automaton {
 public:
  static constexpr std::uint16_t kMatch = 0x8000;  // in a transition: the attempt matches before this class is consumed
  static constexpr std::uint16_t kState = 0x7FFF;
  static constexpr std::uint16_t kDead = 0;
  static constexpr std::uint16_t kStart = 1;

  // transitions: states rows of classes + 1 columns, the last one for the end of the text.
  // Throws std::invalid_argument for a table that a text could lead out of.
  // Stored with one more column, before the end's: the inner bytes of a character, which change nothing.
  Automaton(const std::uint16_t* transitions, std::size_t states, std::size_t classes) : stride_(classes + 2) {
    if (states <= kStart) throw std::invalid_argument("automaton: no start state");
    table_.reserve(states * stride_);
    for (std::size_t state = 0; state < states; ++state) {
      const std::uint16_t* row = transitions + state * (classes + 1);
      for (std::size_t column = 0; column <= classes; ++column)
        if ((row[column] & kState) >= states) throw std::invalid_argument("automaton: a state that is none");
      if ((row[classes] & kState) != kDead) throw std::invalid_argument("automaton: it goes on behind the end");
      table_.insert(table_.end(), row, row + classes);
      table_.push_back(static_cast<std::uint16_t>(state));
      table_.push_back(row[classes]);
    }
  }

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
  std::size_t stride_;
  std::vector<std::uint16_t> table_;
};

// Split [begin, end) by the stages from `stage` on and hand each piece to `piece(begin, end)`, in order.
template <class Piece>
void split(const std::vector<Automaton>& stages, std::size_t stage, const Classes& table, const std::uint8_t* classes,
           std::size_t begin, std::size_t end, Piece&& piece) {
  if (stage == stages.size()) {
    piece(begin, end);
    return;
  }
  std::size_t gap = begin;  // where text that no match has covered yet begins: it survives as one piece
  for (std::size_t at = begin; at < end;) {
    const std::size_t stop = stages[stage].match(classes, at, end);
    if (stop == kNone) {
      do {
        ++at;
      } while (at < end && classes[at] == table.inner());
      continue;
    }
    if (gap < at) split(stages, stage + 1, table, classes, gap, at, piece);
    split(stages, stage + 1, table, classes, at, stop, piece);
    at = gap = stop;
  }
  if (gap < end) split(stages, stage + 1, table, classes, gap, end, piece);
}

}  // namespace tokseam
