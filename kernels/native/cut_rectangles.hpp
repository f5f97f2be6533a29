// The cuts of a tokenizer as rectangles, for masks of them (cut_masks.hpp).
//
// Which pairs of classes are cuts is a Boolean matrix. It is covered here by at most eight rectangles (a set
// of classes before the cut, a set behind it); likewise the two relations of three. Each rectangle is a bit, which
// every class has or not in each place beside a cut, and has where the rectangle does not look at that place. So a
// place is a cut where what the four characters around it say shares a bit. A relation that eight do not cover loses
// some cuts, never gains one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "classes.hpp"

namespace tokseam {

class CutRectangles {
 public:
  // The characters around a cut. Every rectangle looks at the two beside it.
  enum Place : std::size_t { kPrevious, kBefore, kBehind, kNext, kPlaces };
  // How far from the cut the byte is of an ASCII character there.
  static constexpr std::array<std::ptrdiff_t, kPlaces> kReach{-2, -1, 0, 1};

  // Eight rectangles, a bit for each.
  struct Group {
    // What each class says in each place, and each ASCII character.
    std::array<std::array<std::uint8_t, 256>, kPlaces> of{}, bytes{};
    // What any other byte says, in `bytes` too: the rectangles that do not look there.
    std::array<std::uint8_t, kPlaces> unknown{};
    // `bytes` for all places at once, each in eight bits more than the place before.
    std::array<std::uint32_t, 256> packed{};
  };
  static constexpr std::size_t kGroups = 3;

  // pairs: a byte for each pair of classes, not 0 where it is a cut. looking_on, looking_back: three rows of classes.count() bytes each, a bit for each rectangle of a relation of three
  // characters (kernels/compile/contexts.py).
  CutRectangles(const Classes& classes, const std::uint8_t* pairs, const std::uint8_t* looking_on,
                const std::uint8_t* looking_back) {
    cover_pairs(classes.count(), pairs);
    cover(classes.count(), looking_on, {kBefore, kBehind, kNext});
    cover(classes.count(), looking_back, {kPrevious, kBefore, kBehind});
    for (Group& group : groups_)
      for (std::size_t place = 0; place < kPlaces; ++place)
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
          const std::uint8_t said = byte < 0x80 ? group.of[place][classes.of(byte)] : group.unknown[place];
          group.bytes[place][byte] = said;
          group.packed[byte] |= std::uint32_t{said} << 8 * place;
        }
  }

  // Those that have any.
  std::span<const Group> groups() const { return {groups_.data(), used_}; }

  // Whether a place is in one between two characters beyond ASCII of these classes, whatever is around them.
  bool hold_beyond_ascii(std::size_t before, std::size_t behind) const {
    return std::ranges::any_of(groups(), [&](const Group& group) {
      return (group.of[kBefore][before] & group.of[kBehind][behind] & group.unknown[kPrevious] &
              group.unknown[kNext]) != 0;
    });
  }

 private:
  // Adds the rectangle that says nothing yet about any class in the places given, all in the others.
  void add_rectangle(std::initializer_list<Place> looked_at) {
    const std::size_t number = rectangles_++;
    used_ = number / 8 + 1;
    const auto flag = static_cast<std::uint8_t>(1U << number % 8);
    Group& group = groups_[number / 8];
    for (std::size_t place = 0; place < kPlaces; ++place) {
      if (std::ranges::find(looked_at, place) != looked_at.end()) continue;
      for (std::uint8_t& said : group.of[place]) said |= flag;
      group.unknown[place] |= flag;
    }
  }
  void say(Place place, std::size_t number) {
    groups_[(rectangles_ - 1) / 8].of[place][number] |= static_cast<std::uint8_t>(1U << (rectangles_ - 1) % 8);
  }

  // A relation of three characters: a row of classes for each place, a bit for each rectangle.
  void cover(std::size_t n, const std::uint8_t* rows, std::initializer_list<Place> places) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const auto has = [&](std::size_t row, std::size_t number) { return (rows[row * n + number] >> bit & 1) != 0; };
      const auto any = [&](std::size_t row) {
        for (std::size_t number = 0; number < n; ++number)
          if (has(row, number)) return true;
        return false;
      };
      if (!any(0) || !any(1) || !any(2)) continue;
      add_rectangle(places);
      std::size_t row = 0;
      for (const Place place : places) {
        for (std::size_t number = 0; number < n; ++number)
          if (has(row, number)) say(place, number);
        ++row;
      }
    }
  }

  void cover_pairs(std::size_t n, const std::uint8_t* pairs) {
    const auto pair = [&](std::size_t a, std::size_t b) { return pairs[a * n + b] != 0; };
    std::vector<bool> covered(n * n);
    for (std::size_t count = 0; count < 8; ++count) {
      // The rectangle of each row: its columns, and all rows that have these columns too. Take what covers most.
      std::size_t best = 0, best_row = 0;
      const auto contains = [&](std::size_t outer, std::size_t inner) {
        for (std::size_t b = 0; b < n; ++b)
          if (pair(inner, b) && !pair(outer, b)) return false;
        return true;
      };
      for (std::size_t row = 0; row < n; ++row) {
        std::size_t gain = 0;
        for (std::size_t a = 0; a < n; ++a) {
          if (!contains(a, row)) continue;
          for (std::size_t b = 0; b < n; ++b) gain += pair(row, b) && !covered[a * n + b];
        }
        if (gain > best) best = gain, best_row = row;
      }
      if (best == 0) return;
      add_rectangle({kBefore, kBehind});
      for (std::size_t b = 0; b < n; ++b)
        if (pair(best_row, b)) say(kBehind, b);
      for (std::size_t a = 0; a < n; ++a) {
        if (!contains(a, best_row)) continue;
        say(kBefore, a);
        for (std::size_t b = 0; b < n; ++b)
          if (pair(best_row, b)) covered[a * n + b] = true;
      }
    }
  }

  std::array<Group, kGroups> groups_{};
  std::size_t rectangles_ = 0, used_ = 0;  // used_: groups that have any
};

}  // namespace tokseam
