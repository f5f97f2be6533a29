// What the masks of cuts are looked up in, on every path (cut_masks.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bit_matrix.hpp"
#include "classes.hpp"
#include "crossings.hpp"
#include "cut_rectangles.hpp"

namespace tokseam {

struct CutTables {
  // So many classes there may be for `seamless`.
  static constexpr std::size_t kMatrixClasses = BitMatrix::kSize;

  // What is known of two classes, of characters beyond ASCII that meet.
  enum class Fate : std::uint8_t { nothing, cut, seamless };

  const Classes* classes;
  const std::uint8_t* pairs;  // [a * count + b]: not 0 where the pair alone is a cut
  CutRectangles rectangles;
  const Crossings* crossings;  // where merges may cross, which decides between what is seamless
  std::vector<Fate> fates;     // [a * count + b]
  BitMatrix seamless;          // where a piece may be parted if no merge crosses

  // pairs, looking_on, looking_back: as CutRectangles takes them. seamless: a byte for each pair of classes; null: nowhere.
  CutTables(const Classes& classes_, const std::uint8_t* pairs_, const std::uint8_t* looking_on,
            const std::uint8_t* looking_back, const std::uint8_t* seamless_, const Crossings* crossings_)
      : classes(&classes_),
        pairs(pairs_),
        rectangles(classes_, pairs_, looking_on, looking_back),
        crossings(crossings_),
        fates(classes_.count() * classes_.count()) {
    const std::size_t n = classes->count();
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) {
        const bool parts = seamless_ != nullptr && seamless_[a * n + b] != 0;
        if (parts && n <= kMatrixClasses) seamless.set(a, b);
        fates[a * n + b] = rectangles.hold_beyond_ascii(a, b) ? Fate::cut : parts ? Fate::seamless : Fate::nothing;
      }
  }
};

}  // namespace tokseam
