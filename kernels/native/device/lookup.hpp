// Probes of the flat tables: a whole piece's id, a pair's rank, sets and maps of characters. Plain pointers into
// sections that vocabulary.hpp, merges.hpp, close_numbers.hpp, flat_map.hpp and pair_sieve.hpp write and check, where
// it stands how each table is laid out: every probe ends at a free slot.
#pragma once

#include "hash.hpp"
#include "types.hpp"

namespace tokseam::device {

TOKSEAM_DEVICE inline bool equal_bytes(const u8* a, const u8* b, u64 length) {
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
  for (u64 i = 0; i < length; ++i)
    if (a[i] != b[i]) return false;
  return true;
#else
  return std::memcmp(a, b, length) == 0;
#endif
}

struct Vocabulary {
  static constexpr u32 kFree = 0xFFFFFFFF;

  const u32* slots;
  const u8* stored;  // the entries
  u64 size;          // slots
  u64 stored_bytes;
  u32 id_bits, offset_bits;

  TOKSEAM_DEVICE u32 find(const u8* key, u64 length, u64 hash) const {
    const u32 tag = slot_of(hash, 0);
    for (u64 at = place_of(hash, size);;) {
      const u32 found = slots[at];
      if (found == kFree) return kNone32;
      if ((found ^ tag) >> offset_bits == 0 && is(offset_of(found), key, length))
        return id_at(offset_of(found));
      if (++at == size) at = 0;
    }
  }

  // A slot: the offset of its entry, and above it as much of the low bits of its hash as there is room for.
  TOKSEAM_DEVICE u32 slot_of(u64 hash, u64 offset) const {
    return static_cast<u32>(hash) << offset_bits | static_cast<u32>(offset);
  }
  TOKSEAM_DEVICE u64 offset_of(u32 slot) const { return slot & ((u32{1} << offset_bits) - 1); }

  TOKSEAM_DEVICE u32 id_at(u64 offset) const { return head(offset) & ((u32{1} << id_bits) - 1); }

  // The word that an entry begins with.
  TOKSEAM_DEVICE u32 head(u64 offset) const { return static_cast<u32>(load4(stored + offset)); }

  // A length that has a word of its own, and all longer ones.
  TOKSEAM_DEVICE u32 long_length() const { return 0xFFFFFFFF >> id_bits; }

  // Whether the entry at `offset` is `key`.
  TOKSEAM_DEVICE bool is(u64 offset, const u8* key, u64 key_length) const {
    // SAFETY: an image may lie about where its entries are and how long, so both are held against where it ends.
    constexpr u64 kWord = sizeof(u32);
    if (offset + kWord > stored_bytes) return false;
    u64 at = offset + kWord;
    const u32 length = head(offset) >> id_bits;
    if (length == long_length()) {
      if (at + kWord > stored_bytes || head(at) != key_length) return false;
      at += kWord;
    } else if (length != key_length) {
      return false;
    }
    return key_length <= stored_bytes - at && equal_bytes(stored + at, key, key_length);
  }
};

// An array of numbers, most of which lie close to their neighbours.
struct CloseNumbers {
  static constexpr u64 kBlock = 64;
  static constexpr u8 kFar = 0xFF;

  const u8* offsets;  // from the base of its block; kFar: see `far`
  const u32* bases;
  const u64* far;  // place << 32 | number, in order
  u64 far_count;

  // PERF: inlined always: a call between two steps of a merge has all its registers written to memory.
  TOKSEAM_DEVICE_INLINE u32 at(u64 i) const {
    const u8 offset = offsets[i];
    if (offset == kFar) [[unlikely]] return far_at(i);
    return bases[i / kBlock] + offset;
  }

  TOKSEAM_DEVICE u32 far_at(u64 i) const {
    u64 low = 0, high = far_count;  // the first that is not below place i
    while (low < high) {
      const u64 middle = low + (high - low) / 2;
      if (far[middle] < i << 32) low = middle + 1;
      else high = middle;
    }
    return low == far_count ? 0 : static_cast<u32>(far[low]);
  }
};

struct Merges {
  static constexpr u64 kSlotBytes = 6;
  static constexpr u64 kFree = (u64{1} << 8 * kSlotBytes) - 1;

  const u8* slots;  // with 2 bytes behind the last one
  u64 places;
  u64 rank_mask;
  u32 rank_bits, id_bits, left_shift, right_shift;
  CloseNumbers merged;  // by rank

  TOKSEAM_DEVICE static Merges layout(const u8* slots, u64 places, u32 rank_bits, u32 id_bits) {
    return {slots, places, (u64{1} << rank_bits) - 1, rank_bits, id_bits, 64 - id_bits, 64 - 2 * id_bits, {}};
  }

  // The rank of a pair, or kNone32.
  TOKSEAM_DEVICE u32 find(u32 left, u32 right) const {
    if ((left | right) >> id_bits != 0) return kNone32;
    const u64 hash = hash_of(left, right), wanted = low_bits(hash);
    for (u64 at = place_of(hash, places);;) {
      const u64 slot = slot_at(at);
      if (slot == kFree) return kNone32;
      if ((slot ^ wanted) <= rank_mask) return static_cast<u32>(slot ^ wanted);
      if (++at == places) at = 0;
    }
  }

  // The token that the merge of this rank, which is one, makes.
  TOKSEAM_DEVICE u32 made(u32 rank) const { return merged.at(rank); }

  // One to one: the two ids stand at the upper end of the word, and an odd factor has an inverse.
  TOKSEAM_DEVICE u64 hash_of(u32 left, u32 right) const {
    return (static_cast<u64>(left) << left_shift | static_cast<u64>(right) << right_shift) * kOdd1;
  }
  // What of a hash lies in a slot, above the rank.
  TOKSEAM_DEVICE u64 low_bits(u64 hash) const { return hash >> right_shift << rank_bits & kFree; }

  // SAFETY: at < places.
  TOKSEAM_DEVICE u64 slot_at(u64 at) const {
    const u8* slot = slots + at * kSlotBytes;
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
    const u16* words = reinterpret_cast<const u16*>(slot);  // slots begin on even addresses
    return static_cast<u64>(words[0]) | static_cast<u64>(words[1]) << 16 | static_cast<u64>(words[2]) << 32;
#else
    return load8(slot) & kFree;
#endif
  }
};

struct KeySet {
  static constexpr u64 kFree = ~u64{0};

  const u64* slots;
  u64 size;

  // Its place, or kFree.
  TOKSEAM_DEVICE u64 place(u64 key) const {
    for (u64 at = place_of(key * kOdd1, size);;) {
      if (slots[at] == key) return at;
      if (slots[at] == kFree) return kFree;
      if (++at == size) at = 0;
    }
  }
  TOKSEAM_DEVICE bool contains(u64 key) const { return place(key) != kFree; }
};

struct KeyMap {
  KeySet keys;
  const u32* values;

  // The value of `key`, or kNone32.
  TOKSEAM_DEVICE u32 find(u64 key) const {
    const u64 at = keys.place(key);
    return at == KeySet::kFree ? kNone32 : values[at];
  }
};

// Pairs of characters; grants some that it does not hold.
struct PairSieve {
  static constexpr u32 kWordBits = 32;

  const u32* words;
  u32 size;

  TOKSEAM_DEVICE static u64 key(u32 before, u32 behind) { return static_cast<u64>(before) << 32 | behind; }
  // PERF: multiplications of 32 bits alone, of which a vector does sixteen at once (pair_sieve.hpp).
  static constexpr u32 kBefore = 0x9E3779B1, kBehind = 0x85EBCA77, kAgain = 0xC2B2AE3D;
  static constexpr u32 kFold = 15;
  TOKSEAM_DEVICE static u32 hash_of(u64 key) {
    return static_cast<u32>(key >> 32) * kBefore + static_cast<u32>(key) * kBehind;
  }
  // The word is by the high bits of the hash; which of its bits, by what becomes of the hash multiplied once more.
  TOKSEAM_DEVICE static u64 place_of(u32 hash, u32 size) { return static_cast<u64>(hash) * size >> 32; }
  // By which bits of that: five for each of the four bits.
  static constexpr u32 kFirst = 27, kSecond = 22, kThird = 17, kFourth = 12;
  TOKSEAM_DEVICE static u32 bits_of(u32 hash) {
    const u32 again = (hash ^ hash >> kFold) * kAgain;
    return bit(again >> kFirst) | bit(again >> kSecond) | bit(again >> kThird) | bit(again >> kFourth);
  }

  TOKSEAM_DEVICE bool may_contain(u64 key) const {
    const u32 hash = hash_of(key), bits = bits_of(hash);
    return (words[place_of(hash, size)] & bits) == bits;
  }

 private:
  TOKSEAM_DEVICE static u32 bit(u32 number) { return u32{1} << number % kWordBits; }
};

}  // namespace tokseam::device
