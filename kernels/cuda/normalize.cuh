// From the text as it is to its normal form, where a chain normalizes: clusters (kernels/README.md, claim 18), their
// sizes, and, behind the prefix sums of those (compact.cuh), their bytes, with where each comes from.
//
// A place in the raw text is given doubled: that of a byte which stays is twice its own, that of the first byte of what
// a cluster becomes twice the cluster's begin, and that of its other bytes one more. So places rise, and nothing inside
// what was changed has the place of any character.
#pragma once

#include "chain.cuh"
#include "compact.cuh"
#include "text.cuh"

namespace tokseam::cuda {

// A cluster begins where a span does.
__device__ inline void raw_borders(const Chain& chain) {
  const Buffers& b = chain.buffers;
  for (u32 span = thread_index(); span < b.totals[kSpans]; span += thread_count())
    if (b.raw_begin[span] != b.raw_begin[span + 1]) set_bit(b.cluster_bits, b.raw_begin[span]);
}

// And at each character that nothing in front can reach. A warp takes 32 bytes at a time.
__device__ inline void mark_clusters(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const NormalForm& form = chain.tables.form;
  const u8* text = raw(b.raw_text);
  const u32 bytes = b.totals[kRaw];
  for (u32 word = warp_index(); word * 32 < bytes; word += warp_count()) {
    const u32 place = word * 32 + lane_index();
    bool first = false;
    if (place < bytes) {
      const u32 width = checked_width(text, b.cluster_bits, place, bytes);
      if (width == 0) flag(chain, b.raw_begin, place, kBadText);
      else first = !continues(text[place]) && (form.kind(utf8_decode(text + place)) & NormalForm::kJoins) == 0;
    }
    const u32 begins = __ballot_sync(kAllLanes, first);
    // As in classify: bits of the same word are read by other warps, and these change no answer there.
    if (lane_index() == 0 && begins != 0) atomicOr(at(b.cluster_bits, word), begins);
  }
}

// What becomes of a cluster: `size` bytes. They are its own where `kept`, and the code points of its normal form else.
struct Outcome {
  u32 size, count;
  bool kept;
};

// That of the cluster that begins at `place`. One that is too long for a thread flags its document, and becomes nothing;
// so its end is looked for no further than a thread has room.
__device__ inline Outcome normalized(const Chain& chain, u32 place, u32* points) {
  const Buffers& b = chain.buffers;
  const NormalForm& form = chain.tables.form;
  const u8* text = raw(b.raw_text) + place;
  const u32 bytes = b.totals[kRaw];
  const u32 limit = bytes - place > NormalForm::kMostBytes ? place + NormalForm::kMostBytes + 1 : bytes;
  const u32 end = next_set(b.cluster_bits, place + 1, limit);
  if (utf8_valid_width(text, end - place) == end - place && (form.kind(utf8_decode(text)) & NormalForm::kChanges) == 0)
    return {end - place, 0, true};
  const u32 count = form.normalize(text, end - place, points);
  if (count == kNone32) {
    flag(chain, b.raw_begin, place, kLongCluster);
    return {0, 0, false};
  }
  u32 size = 0;
  for (u32 i = 0; i < count; ++i) size += utf8_size(points[i]);
  return {size, count, false};
}

// The bytes that the clusters of each word become. A warp a word, a thread a cluster.
__device__ inline void measure_clusters(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const u32 bytes = b.totals[kRaw];
  u32 points[NormalForm::kMostPoints];
  for (u32 word = warp_index(); word * 32 <= bytes; word += warp_count()) {
    const u32 place = word * 32 + lane_index();
    const u32 size = place < bytes && bit(b.cluster_bits, place) ? normalized(chain, place, points).size : 0;
    const u32 upto = scan_in_warp(size);
    if (lane_index() == kWarpThreads - 1) b.ranks[word] = upto;
  }
}

// The normal form, while `ranks` is of its bytes, and four zero bytes behind it.
__device__ inline void write_clusters(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const u32 bytes = b.totals[kRaw];
  u32 points[NormalForm::kMostPoints];
  for (u32 word = warp_index(); word * 32 < bytes; word += warp_count()) {
    const u32 place = word * 32 + lane_index();
    Outcome one{0, 0, true};
    if (place < bytes && bit(b.cluster_bits, place)) one = normalized(chain, place, points);
    u32 to = scan_in_warp(one.size) - one.size + b.ranks[word];
    if (one.kept) {
      for (u32 i = 0; i < one.size; ++i) {
        b.text[to + i] = b.raw_text[place + i];
        b.places[to + i] = 2 * (place + i);
      }
      continue;
    }
    u32 origin = 2 * place;
    for (u32 k = 0; k < one.count; ++k) {
      const u32 size = utf8_size(points[k]);
      for (u32 i = 0; i < size; ++i) {
        b.text[to] = utf8_byte(points[k], size, i);
        b.places[to++] = origin;
        origin = 2 * place + 1;
      }
    }
  }
  if (thread_index() == 0 && b.totals[kRefused] == 0)
    for (u32 i = 0; i < 4; ++i) b.text[b.totals[kBytes] + i] = 0;
}

// Where spans begin in the normal form: at the first byte that comes from there or from behind it.
__device__ inline void place_spans(const Chain& chain) {
  const Buffers& b = chain.buffers;
  if (b.totals[kRefused] != 0) return;
  for (u32 span = thread_index(); span <= b.totals[kSpans]; span += thread_count()) {
    const u32 place = 2 * b.raw_begin[span];
    u32 low = 0, high = b.totals[kBytes];
    while (low < high) {
      const u32 middle = low + (high - low) / 2;
      if (b.places[middle] < place) low = middle + 1;
      else high = middle;
    }
    b.span_begin[span] = low;
  }
}

// Where pieces come from, and the text's end.
__device__ inline void report_places(const Chain& chain) {
  const Buffers& b = chain.buffers;
  if (b.totals[kRefused] != 0) return;
  const u32 pieces = b.totals[kStretches];
  for (u32 i = thread_index(); i <= pieces; i += thread_count())
    b.piece_places[i] = i < pieces ? b.places[b.starts[i]] : 2 * b.totals[kRaw];
}

}  // namespace tokseam::cuda
