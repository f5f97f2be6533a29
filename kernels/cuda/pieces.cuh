// From pieces to ids: literals, whole pieces, and who merges the rest; in the end, what each document has.
#pragma once

#include "chain.cuh"

namespace tokseam::cuda {

__device__ inline void put_token(const Chain& chain, u32 place, u32 id) {
  chain.buffers.symbols[place] = id;
  set_bit(chain.buffers.token_bits, place);
}

// The tokens that stand for literals.
__device__ inline void put_literals(const Chain& chain) {
  const Buffers& b = chain.buffers;
  for (u32 span = thread_index(); span < b.totals[kSpans]; span += thread_count())
    if (b.span_id[span] != kNone32) put_token(chain, b.span_begin[span], b.span_id[span]);
}

// Appends `piece` of each lane that wants it. All lanes.
// PERF: one atomic operation a warp: those of one count come one after the other, and many pieces are no entries.
__device__ inline void append(const Chain& chain, Total total, const Buffer<u32>& pieces, u32 piece, bool wanted) {
  const u32 lanes = __ballot_sync(kAllLanes, wanted);
  if (lanes == 0) return;
  const u32 first = lowest_bit(lanes);
  u32 number = 0;
  if (lane_index() == first) number = atomicAdd(at(chain.buffers.totals, total), count_bits(lanes));
  number = __shfl_sync(kAllLanes, number, first);
  if (wanted) pieces[number + count_bits(lanes & bits_below(lane_index()))] = piece;
}

// Whole pieces first; the others wait for those who merge, by length. A warp takes 32 pieces at a time.
__device__ inline void look_up(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const Vocabulary& whole = chain.tables.whole;
  for (u32 group = warp_index(); group * kWarpThreads < b.totals[kStretches]; group += warp_count()) {
    const u32 piece = group * kWarpThreads + lane_index();
    u32 length = 0;  // 0: nobody need merge it
    if (piece < b.totals[kStretches]) {
      const u32 begin = b.starts[piece];
      if (!bit(b.closed_bits, begin)) {
        length = b.starts[piece + 1] - begin;
        const u8* key = raw(b.text) + begin;
        const u32 id = length <= chain.tables.longest ? whole.find(key, length, hash_bytes(key, length)) : kNone32;
        if (id != kNone32) {
          put_token(chain, begin, id);
          length = 0;
        }
      }
    }
    append(chain, kShort, b.short_pieces, piece, length > 0 && length <= kThreadBytes);
    append(chain, kMiddle, b.middle_pieces, piece, length > kThreadBytes && length <= kWarpBytes);
    append(chain, kLarge, b.large_pieces, piece, length > kWarpBytes && length <= kWindowBytes);
    if (length > kWindowBytes) {
      const u32 number = atomicAdd(at(b.totals, kGiant), 1U);
      b.giant_pieces[number] = piece;
      b.giant_window[number] = atomicAdd(at(b.totals, kWindows), (length + kWindowBytes - 1) / kWindowBytes);
      b.giant_unsettled[number] = 0;
    }
  }
}

// Where each document's pieces begin, while `ranks` is of the pieces.
__device__ inline void report_pieces(const Chain& chain) {
  const Buffers& b = chain.buffers;
  const u32 documents = b.totals[kDocuments];
  if (b.totals[kRefused] != 0) return;
  for (u32 i = thread_index(); i <= documents; i += thread_count())
    b.document_pieces[i] = rank(b.ranks, b.start_bits, b.span_begin[b.document_span[i]]);
}

// Where each document's and each piece's ids begin, while `ranks` is of the tokens.
__device__ inline void report_ids(const Chain& chain) {
  const Buffers& b = chain.buffers;
  if (b.totals[kRefused] != 0) return;
  for (u32 i = thread_index(); i <= b.totals[kDocuments]; i += thread_count())
    b.document_ids[i] = rank(b.ranks, b.token_bits, b.span_begin[b.document_span[i]]);
  for (u32 i = thread_index(); i <= b.totals[kStretches]; i += thread_count())
    b.piece_ids[i] = rank(b.ranks, b.token_bits, b.starts[i]);
}

}  // namespace tokseam::cuda
