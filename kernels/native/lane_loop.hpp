// The loop that linked_lanes.hpp and vector_lanes.hpp step their lanes in.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

namespace tokseam {

// Kind: a Lane has `piece`; begin(lane, ...) starts one; step(lane) does its next merge, and is false where none is
// left. Of the pieces for which mine(i): start(i, Begin) calls one of its symbols() and ascii(), done(i, lane) is
// handed what has ended. PERF: inlined always, so that it is compiled for the processor that its caller is for.
template <class Kind, std::size_t kLanes, class Mine, class Start, class Done>
[[gnu::always_inline]] inline void loop_lanes(const Kind& kind, std::array<typename Kind::Lane, kLanes>& room,
                                              std::size_t pieces, Mine&& mine, Start&& start, Done&& done) {
  using Lane = Kind::Lane;
  std::array<Lane*, kLanes> lanes;
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = &room[i];
  std::size_t next = 0, active = 0;
  const auto find_next = [&] {
    while (next < pieces && !mine(next)) ++next;
    return next < pieces;
  };
  const auto begin_next = [&](Lane& lane) {
    lane.piece = next++;
    start(lane.piece, typename Kind::Begin{kind, lane});
  };
  for (; active < kLanes && find_next(); ++active) begin_next(*lanes[active]);
  while (active > 0) {
    for (std::size_t i = 0; i < active;) {
      Lane& lane = *lanes[i];
      if (kind.step(lane)) [[likely]] {
        ++i;
        continue;
      }
      done(lane.piece, std::as_const(lane));
      if (find_next())
        begin_next(lane);
      else
        std::swap(lanes[i], lanes[--active]);
    }
  }
}

}  // namespace tokseam
