// One splitting stage: a leftmost-first DFA over a class buffer, and how its matches part a stretch. The tables are
// automaton.hpp's, which checked them: no class leads out of them, and the end's column always ends an attempt.
#pragma once

#include "types.hpp"

namespace tokseam::device {

// What becomes of a match and of the gaps beside it; the reference's SplitDelimiterBehavior. ('Contiguous' is compiled as a
// repeat.) Text that is dropped belongs to no piece.
enum class Behavior : u8 { isolated, merged_with_previous, merged_with_next, matches_dropped, gaps_dropped };

struct Stage {
  static constexpr u16 kMatch = 0x8000;  // in a transition: the attempt matches before this class is consumed
  static constexpr u16 kState = 0x7FFF;
  static constexpr u16 kDead = 0;
  static constexpr u16 kStart = 1;
  static constexpr u64 kNoMatch = ~u64{0};

  const u16* table;  // `states` rows of `stride` columns: the classes, the inner bytes of a character, the end
  u32 stride;
  u32 states;
  Behavior behavior;

  TOKSEAM_DEVICE u16 entry(u32 state, u32 column) const { return table[static_cast<u64>(state) * stride + column]; }
  TOKSEAM_DEVICE u16 entry_at_end(u32 state) const { return entry(state, stride - 1); }

  // The end of the match that starts at `begin`, or kNoMatch. `end` is where the lookahead sees the end of the text.
  TOKSEAM_DEVICE u64 match(const u8* classes, u64 begin, u64 end) const {
    u64 last = kNoMatch;
    u32 state = kStart;
    for (u64 at = begin;; ++at) {
      const u16 next = at < end ? entry(state, classes[at]) : entry_at_end(state);
      if (next & kMatch) last = at;
      state = next & kState;
      if (state == kDead) return last;  // the end's column always leads here
    }
  }

  // Part [begin, end): piece(begin, end, kept) for each part, in order; what is not kept is dropped. `inner` is the
  // class of the inner bytes of a character.
  template <class Piece>
  TOKSEAM_DEVICE void split(const u8* classes, u8 inner, u64 begin, u64 end, Piece&& piece) const {
    const auto part = [&](u64 from, u64 to, bool kept) {
      if (from < to) piece(from, to, kept);
    };
    u64 open = begin;  // where what is not handed on yet begins ...
    u64 gap = begin;   // ... and where its part that no match covers begins, which survives without one
    for (u64 at = begin; at < end;) {
      const u64 stop = match(classes, at, end);
      if (stop == kNoMatch) {
        do {
          ++at;
        } while (at < end && classes[at] == inner);
        continue;
      }
      switch (behavior) {
        case Behavior::isolated:
          part(gap, at, true);
          part(at, stop, true);
          open = stop;
          break;
        case Behavior::merged_with_previous:  // a gap takes the match behind it along
          part(gap, stop, true);
          open = stop;
          break;
        case Behavior::merged_with_next:  // a match waits for the gap behind it
          part(open, at, true);
          open = at;
          break;
        case Behavior::matches_dropped:
          part(gap, at, true);
          part(at, stop, false);
          open = stop;
          break;
        case Behavior::gaps_dropped:
          part(gap, at, false);
          part(at, stop, true);
          open = stop;
          break;
      }
      at = gap = stop;
    }
    part(open, end, behavior != Behavior::gaps_dropped);
  }
};

}  // namespace tokseam::device
