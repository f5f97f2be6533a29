// Probes of the flat tables: a whole piece's id, a pair's rank, sets and maps of characters. Plain pointers into
// sections that vocabulary.hpp, merges.hpp and flat_map.hpp wrote and checked: every probe ends at a free slot.
#pragma once

#include "hash.hpp"
#include "types.hpp"

namespace tokseam::device {

struct Vocabulary {
  static constexpr u32 kFree = 0xFFFFFFFF;
  struct Entry {
    u32 begin;  // in the bytes; the entry ends where the next one begins
    u32 id;
  };

  const u32* slots;
  const Entry* entries;
  const u8* bytes;
  u64 size;  // slots
  u32 bits;  // of an entry's number in a slot; above it stands a part of its hash

  TOKSEAM_DEVICE u32 find(const u8* piece, u64 length) const {
    const u64 hash = hash_bytes(piece, length);
    const u32 tag = static_cast<u32>(hash) << bits;
    for (u64 at = place_of(hash, size);;) {
      const u32 slot = slots[at];
      if (slot == kFree) return kNone32;
      if ((slot ^ tag) >> bits == 0) {
        const Entry* entry = entries + (slot & ((u32{1} << bits) - 1));
        if (entry[1].begin - entry[0].begin == length && equal(bytes + entry[0].begin, piece, length))
          return entry->id;
      }
      if (++at == size) at = 0;
    }
  }

 private:
  TOKSEAM_DEVICE static bool equal(const u8* a, const u8* b, u64 length) {
    for (u64 i = 0; i < length; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }
};

struct Merges {
  static constexpr u64 kFree = ~u64{0};

  const u64* slots;   // key << rank_bits | rank
  const u32* merged;  // by rank
  u64 size;           // slots
  u32 rank_bits, id_bits;

  // The rank of a pair, or kNone32.
  TOKSEAM_DEVICE u32 find(u32 left, u32 right) const {
    if ((left | right) >> id_bits != 0) return kNone32;
    const u64 key = static_cast<u64>(left) << id_bits | right;
    for (u64 at = place_of(key * kOdd1, size);;) {
      const u64 slot = slots[at];
      if (slot >> rank_bits == key) return static_cast<u32>(slot & ((u64{1} << rank_bits) - 1));
      if (slot == kFree) return kNone32;
      if (++at == size) at = 0;
    }
  }
  TOKSEAM_DEVICE u32 made(u32 rank) const { return merged[rank]; }
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

}  // namespace tokseam::device
