// Many short pieces merged side by side. What merging costs is waiting for the table of pairs: while one piece waits,
// the others go on. How a lane is stepped: vector_lanes.hpp, linked_lanes.hpp.
#pragma once

#include <cstddef>

#include "linked_lanes.hpp"
#include "merges.hpp"
#include "vector_lanes.hpp"

namespace tokseam {

class MergeLanes {
 public:
  static constexpr std::size_t kMostSymbols = LinkedLanes::kMostSymbols;  // of a piece

  enum class Path { portable, vectors };

  // The quickest one on this processor.
  static Path best_path() { return VectorLanes::supported() ? Path::vectors : Path::portable; }

  explicit MergeLanes(const Merges& merges, Path path = best_path())
      : linked_(merges), vectors_(merges), use_vectors_(path == Path::vectors) {}

  // For each i < pieces, in any order: size(i) <= kMostSymbols is how many symbols piece i has at most; start(i, lane)
  // calls one of lane.symbols(symbols) and lane.ascii(bytes); done(i, result) is handed what it becomes, of which
  // result.each(visit) tells visit(id, symbols that it is made of), in order.
  template <class Size, class Start, class Done>
  void run(std::size_t pieces, Size&& size, Start&& start, Done&& done) {
    const auto is_short = [&](std::size_t i) { return use_vectors_ && size(i) <= VectorLanes::kMostSymbols; };
    if (use_vectors_) vectors_.run(pieces, is_short, start, done);
    linked_.run(pieces, [&](std::size_t i) { return !is_short(i); }, start, done);
  }

 private:
  LinkedLanes linked_;
  VectorLanes vectors_;
  bool use_vectors_;
};

}  // namespace tokseam
