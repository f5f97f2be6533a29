// From bytes to classes and to the stretches that may be scanned side by side: borders of spans, validity of UTF-8,
// what a normalizer may change, synchronizing positions. Every byte by itself.
#pragma once

#include "chain.cuh"
#include "device/utf8.hpp"

namespace tokseam::cuda {

// Empty bitmaps and counts. A batch that does not fit is refused here: the others see no bytes of it. Where the chain
// normalizes, the text is not there yet, and may become as large as the capacity.
__device__ inline void begin(const Chain& chain, u32 which) {
  const Buffers& b = chain.buffers;
  const u32 bytes = b.given[0], spans = b.given[1], documents = b.given[2];
  const bool fits =
      bytes <= chain.capacity_bytes && spans <= chain.capacity_spans && documents <= chain.capacity_documents;
  if (thread_index() == 0) {
    for (u32 i = 0; i < kTotals; ++i) b.totals[i] = 0;
    b.totals[which == kNormalizing ? kRaw : kBytes] = fits ? bytes : 0;
    b.totals[kSpans] = fits ? spans : 0;
    b.totals[kDocuments] = fits ? documents : 0;
    b.totals[kRefused] = fits ? 0 : 1;
  }
  // Of no bytes there is a word too, whose bits would be listed.
  const u32 most = !fits ? 0 : which == kNormalizing ? chain.capacity_bytes : bytes;
  for (u32 word = thread_index(); word <= most / 32; word += thread_count()) {
    b.start_bits[word] = b.closed_bits[word] = b.token_bits[word] = 0;
    if (which == kNormalizing) b.cluster_bits[word] = 0;
  }
  for (u32 document = thread_index(); document < (fits ? documents : 0); document += thread_count())
    b.document_flags[document] = 0;
}

// A stretch begins where a span does.
__device__ inline void borders(const Chain& chain) {
  const Buffers& b = chain.buffers;
  for (u32 span = thread_index(); span < b.totals[kSpans]; span += thread_count()) {
    const u32 place = b.span_begin[span];
    if (place == b.span_begin[span + 1]) continue;
    set_bit(b.start_bits, place);
    if (b.span_id[span] != kNone32) set_bit(b.closed_bits, place);
  }
}

// The code point that ends before `place`, which is not the text's begin; valid text only.
__device__ inline u32 point_before(const u8* text, u32 place) {
  u32 before = place - 1;
  for (u32 i = 0; i < 3 && before > 0 && continues(text[before]); ++i) --before;
  return utf8_decode(text + before);
}

// The width of the character that starts at `place`, if it is valid and lies in one span; else 0. What else it says of a
// byte that continues a character: whether one that lies in the same span covers it. `begins`: a bit where a span begins,
// and perhaps where other valid characters do.
__device__ inline u32 checked_width(const u8* text, const Buffer<u32>& begins, u32 place, u32 bytes) {
  if (continues(text[place])) {
    u32 lead = place;
    for (u32 i = 0; i < 3 && lead > 0 && continues(text[lead]) && !bit(begins, lead); ++i) --lead;
    const u32 width = utf8_valid_width(text + lead, bytes - lead);
    return width > place - lead ? width : 0;
  }
  const u32 width = utf8_valid_width(text + place, bytes - place);
  if (width > 1 && next_set(begins, place + 1, place + width) != place + width) return 0;
  return width;
}

// Fills the class buffer, and marks synchronizing positions as begins of stretches. A warp takes 32 bytes at a time.
// Where the chain normalizes, the text is a normal form, and what is suspect in it stays.
__device__ inline void classify(const Chain& chain, u32 which) {
  const Buffers& b = chain.buffers;
  const Classes& classes = chain.tables.classes;
  const u8* text = raw(b.text);
  const u32 bytes = b.totals[kBytes];
  for (u32 word = warp_index(); word * 32 < bytes; word += warp_count()) {
    const u32 place = word * 32 + lane_index();
    bool cut = false;
    if (place < bytes) {
      u8 number = classes.inner();
      const u32 width = checked_width(text, b.start_bits, place, bytes);
      if (width == 0) flag(chain, b.span_begin, place, kBadText);
      if (width != 0 && !continues(text[place])) {
        number = classes.of(utf8_decode(text + place));
        if (which != kNormalizing && classes.suspect[number] != 0 && !bit(b.closed_bits, place))
          flag(chain, b.span_begin, place, kSuspect);
        if (place > 0 && !bit(b.start_bits, place) && checked_width(text, b.start_bits, place - 1, bytes) != 0)
          cut = classes.synchronizing(classes.of(point_before(text, place)), number);
      }
      b.classes[place] = number;
    }
    const u32 cuts = __ballot_sync(kAllLanes, cut);
    // Bits of the same word are read by other warps, as borders; a cut is none, and changes no answer there.
    if (lane_index() == 0 && cuts != 0) atomicOr(at(b.start_bits, word), cuts);
  }
}

// The same for BPE over characters: a stretch begins where no merge crosses (claim 8), or a piece does.
__device__ inline void classify_characters(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const Tables& tables = chain.tables;
  const u8* text = raw(b.text);
  const u32 bytes = b.totals[kBytes];
  for (u32 word = warp_index(); word * 32 < bytes; word += warp_count()) {
    const u32 place = word * 32 + lane_index();
    bool cut = false;
    if (place < bytes) {
      const u32 width = checked_width(text, b.start_bits, place, bytes);
      if (width == 0) flag(chain, b.span_begin, place, kBadText);
      if (width != 0 && place > 0 && !continues(text[place]) && !bit(b.start_bits, place) &&
          checked_width(text, b.start_bits, place - 1, bytes) != 0) {
        const u32 here = utf8_decode(text + place);
        cut = (tables.split_at_marker != 0 && here == tables.marker) ||
              !tables.joined.may_contain(PairSieve::key(point_before(text, place), here));
      }
    }
    const u32 cuts = __ballot_sync(kAllLanes, cut);
    if (lane_index() == 0 && cuts != 0) atomicOr(at(b.start_bits, word), cuts);
  }
}

// Classes of bytes, for the stages behind ByteLevel.
__device__ inline void classify_bytes(const Chain& chain) {
  const Buffers& b = chain.buffers;
  for (u32 place = thread_index(); place < b.totals[kBytes]; place += thread_count())
    b.classes[place] = chain.tables.byte_classes[b.text[place]];
}

}  // namespace tokseam::cuda
