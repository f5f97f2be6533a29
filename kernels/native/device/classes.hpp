// The class of a character, and which pairs of classes are synchronizing (kernels/README.md, claim 4): plain pointers
// into tables that classes.hpp wrote and checked.
#pragma once

#include "types.hpp"

namespace tokseam::device {

struct Classes {
  static constexpr u32 kBlockSize = 256;

  const u16* index;   // by point / kBlockSize: which block
  const u8* blocks;   // the distinct blocks of classes
  const u8* pairs;    // [a * count + b] != 0: synchronizing
  const u8* suspect;  // by class: normalization may change such a character, or what stands before it
  u32 count;

  // The class that stands for the inner bytes of a character in a class buffer.
  TOKSEAM_DEVICE u8 inner() const { return static_cast<u8>(count); }

  TOKSEAM_DEVICE u8 of(u32 point) const {
    return blocks[static_cast<u64>(index[point / kBlockSize]) * kBlockSize + point % kBlockSize];
  }

  TOKSEAM_DEVICE bool synchronizing(u8 a, u8 b) const { return pairs[static_cast<u64>(a) * count + b] != 0; }
};

}  // namespace tokseam::device
