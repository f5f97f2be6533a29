// A normal form, or a change of case, of one cluster: the characters from one that nothing in front can reach to the
// next such one (kernels/README.md, claim 18). The same algorithm as normalization.hpp's, over the same sections of an
// image, in bounded room and by one thread.
#pragma once

#include "lookup.hpp"
#include "types.hpp"
#include "utf8.hpp"

namespace tokseam::device {

struct NormalForm {
  // The most code points that a cluster may decompose to; and so the most bytes of its text, since each character
  // decomposes to one at least, and takes four bytes at most.
  static constexpr u32 kMostPoints = 64;
  static constexpr u32 kMostBytes = 4 * kMostPoints;

  // What is known of a character by itself: it belongs to the cluster in front; it changes where it stands alone.
  static constexpr u8 kJoins = 1, kChanges = 2;
  static constexpr u32 kBlockSize = 256;

  // Unicode 3.12.
  static constexpr u32 kHangul = 0xAC00, kHangulEnd = 0xD7A4, kL = 0x1100, kV = 0x1161, kT = 0x11A7;
  static constexpr u32 kLCount = 19, kVCount = 21, kTCount = 28;

  // A decomposed code point, with its order above it.
  static constexpr u32 kOrderShift = 21, kPoint = (u32{1} << kOrderShift) - 1;
  static constexpr u32 kMostOrder = 0xFFFFFFFF >> kOrderShift;

  const u16* index;  // by point / kBlockSize: which block
  const u8* blocks;  // the distinct blocks of kinds
  KeyMap numbers;    // a character -> the number of its decomposition ...
  const u32* ends;   // ... which lies between two of these
  const u32* decomposition;
  KeyMap orders;
  KeyMap composites;  // first << 32 | second
  u32 hangul_decomposes, hangul_composes;

  TOKSEAM_DEVICE u8 kind(u32 point) const {
    return blocks[static_cast<u64>(index[point / kBlockSize]) * kBlockSize + point % kBlockSize];
  }

  // Whether Hangul's arithmetic may compose this one with what stands in front of it.
  TOKSEAM_DEVICE static bool hangul_second(u32 point) {
    return (point >= kV && point < kV + kVCount) || (point > kT && point < kT + kTCount);
  }

  // The normal form of a cluster of `size` bytes: `points` gets its code points (room for kMostPoints), and the answer
  // is how many. kNone32 where it is no valid UTF-8, or decomposes to more.
  TOKSEAM_DEVICE u32 normalize(const u8* text, u64 size, u32* points) const {
    u32 count = 0;
    for (u64 at = 0; at < size;) {
      const u32 width = utf8_valid_width(text + at, size - at);
      if (width == 0) return kNone32;
      const u32 point = utf8_decode(text + at);
      at += width;
      if (hangul_decomposes != 0 && point >= kHangul && point < kHangulEnd) {
        const u32 syllable = point - kHangul, last = syllable % kTCount;
        if (!put(points, count, kL + syllable / (kVCount * kTCount)) ||
            !put(points, count, kV + syllable % (kVCount * kTCount) / kTCount) ||
            (last != 0 && !put(points, count, kT + last)))
          return kNone32;
        continue;
      }
      const u32 number = numbers.find(point);
      if (number == kNone32) {
        if (!put(points, count, point)) return kNone32;
        continue;
      }
      for (u32 i = ends[number]; i < ends[number + 1]; ++i)
        if (!put(points, count, decomposition[i])) return kNone32;
    }
    return compose(points, count);
  }

 private:
  // What does not join has order 0: most characters need no look into the map.
  TOKSEAM_DEVICE u32 order(u32 point) const {
    if ((kind(point) & kJoins) == 0) return 0;
    const u32 found = orders.find(point);
    return found == kNone32 ? 0 : found;
  }

  // Puts a code point behind the others; a mark before those of its run that have a higher order.
  TOKSEAM_DEVICE bool put(u32* points, u32& count, u32 point) const {
    if (count == kMostPoints) return false;
    const u32 own = order(point);
    u32 at = count++;
    for (; own != 0 && at > 0 && points[at - 1] >> kOrderShift > own; --at) points[at] = points[at - 1];
    points[at] = own << kOrderShift | point;
    return true;
  }

  // Composes in place, and takes the orders away; answers how many are left.
  TOKSEAM_DEVICE u32 compose(u32* points, u32 count) const {
    u32 made = 0, starter = kNone32, last_order = 0;
    for (u32 i = 0; i < count; ++i) {
      const u32 point = points[i] & kPoint, own = points[i] >> kOrderShift;
      if (starter != kNone32 && (last_order < own || (last_order == 0 && made - 1 == starter))) {
        const u32 composite = composite_of(points[starter], point);
        if (composite != 0) {
          points[starter] = composite;
          continue;
        }
      }
      if (own == 0) starter = made;
      last_order = own;
      points[made++] = point;
    }
    return made;
  }

  // The composite of a pair, or 0.
  TOKSEAM_DEVICE u32 composite_of(u32 first, u32 second) const {
    if (hangul_composes != 0) {
      if (first >= kL && first < kL + kLCount && second >= kV && second < kV + kVCount)
        return kHangul + ((first - kL) * kVCount + (second - kV)) * kTCount;
      if (first >= kHangul && first < kHangulEnd && (first - kHangul) % kTCount == 0 && second > kT &&
          second < kT + kTCount)
        return first + (second - kT);
    }
    const u32 found = composites.find(static_cast<u64>(first) << 32 | second);
    return found == kNone32 ? 0 : found;
  }
};

}  // namespace tokseam::device
