// The loop that linked_lanes.hpp and vector_lanes.hpp step their lanes in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace tokseam {

// Starts a lane, for whoever knows what its piece consists of.
template <class Kind>
struct LaneStart {
  const Kind& kind;
  Kind::Lane& lane;
  void symbols(std::span<const std::uint32_t> symbols) const { kind.begin(lane, symbols); }
  // Where every byte has a symbol.
  void ascii(std::string_view piece) const { kind.begin_ascii(lane, piece); }
};

// Kind: a Lane has `piece`; begin(lane, symbols) and begin_ascii(lane, bytes) start one; step(lane) does its next merge,
// and is false where none is left. Of the pieces for which mine(i): start(i, LaneStart) starts its lane, done(i, lane) is
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
    start(lane.piece, LaneStart<Kind>{kind, lane});
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
