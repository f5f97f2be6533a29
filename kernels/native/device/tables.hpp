// All tables of a tokenizer as a kernel is handed them: by value, with pointers into one copy of its image.
#pragma once

#include "classes.hpp"
#include "lookup.hpp"
#include "normal_form.hpp"
#include "stage.hpp"
#include "types.hpp"

namespace tokseam::device {

struct Tables {
  // A tokenizer with more stages is not for the device (device_tables.hpp says so).
  static constexpr u32 kMaxStages = 12;
  // Every byte counts by itself in the byte stages; no class has this number.
  static constexpr u8 kNoInner = 0xFF;

  Classes classes;
  Stage stages[kMaxStages];  // those over characters, then those over bytes
  const u8* byte_classes;    // what the latter know of a byte
  u32 stage_count, byte_stage_count;

  Vocabulary whole;
  u32 longest;  // bytes of the longest piece that `whole` holds

  Merges merges;
  u32 rising;             // every merge ranks behind all that make its parts; see merge.cuh
  const u32* byte_ids;    // by byte: its symbol, kNone32 where it has none
  const u32* byte_pairs;  // by two bytes: the rank of their symbols' pair

  // BPE over characters, in place of stages and bytes.
  u32 by_characters;
  PairSieve joined;  // characters that some token holds side by side, and a few more
  u32 marker;        // with split_at_marker: a piece begins at each
  u32 split_at_marker;
  KeyMap character_ids;
  const u32* byte_tokens;

  NormalForm form;  // of a tokenizer that the device normalizes for (device_form.hpp); else nobody looks at it
};

}  // namespace tokseam::device
