// What the kernels of one launch share: the buffers, the counts that stay on the device, and what can be said of a
// document. Sizes and the order of launches are plan.py's.
#pragma once

#include "portable.cuh"

namespace tokseam::cuda {

// A stretch longer than this is scanned by tiles of so many bytes, not by one thread.
constexpr u32 kTileBytes = 256;
// Tiles that are chained as one.
constexpr u32 kTilesPerSuper = 64;
// The longest pieces that one thread merges, and that a warp does as one of its small regions.
constexpr u32 kThreadBytes = 32, kWarpBytes = 128;
// A longer piece than this is merged in windows of so many bytes. PERF: a multiple of 2^8 and of 3, so that in a run of
// one character of up to four bytes, or of tokens of 2^k of them, windows end where tokens do.
constexpr u32 kWindowBytes = 768;
// Room for a window whose ends are moved to where characters begin.
constexpr u32 kRegionBytes = 800;
// Words of a bitmap that one block counts.
constexpr u32 kWordsPerBlock = 1024;

// Buffers of a launch, in this order: (type, name). plan.py has the same list, with their sizes.
#define TOKSEAM_BUFFERS(X)                                                                                         \
  /* in: the batch */                                                                                              \
  X(const u32, given)          /* bytes, spans, documents */                                                       \
  X(u8, text)                  /* the spans' bytes, and four zero bytes */                                         \
  X(u32, span_begin)           /* where each begins, and where the last one ends */                                \
  X(const u32, span_id)        /* of a literal: one byte stands for it. Else kNone32 */                            \
  X(const u32, document_span)  /* each document's first span, and how many there are */                            \
  X(const u8, raw_text)        /* where the chain normalizes: what comes in, in place of text and span_begin */    \
  X(const u32, raw_begin)                                                                                          \
  /* out */                                                                                                        \
  X(u32, totals)               /* see Total */                                                                     \
  X(u32, ids)                                                                                                      \
  X(u32, starts)               /* where each piece begins, and where the last one ends */                          \
  X(u32, piece_ids)            /* how many ids stand before each piece, and all of them */                         \
  X(u32, piece_places)         /* where the chain normalizes: where each piece comes from, see normalize.cuh */    \
  X(u32, document_ids)         /* the same for documents */                                                        \
  X(u32, document_pieces)                                                                                          \
  X(u32, document_flags)       /* see Flag */                                                                      \
  /* between kernels; bitmaps have a bit a byte of the text */                                                     \
  X(u32, cluster_bits)         /* a cluster of the raw text begins */                                              \
  X(u32, places)               /* a byte of the text: where it comes from */                                       \
  X(u8, classes)                                                                                                   \
  X(u32, start_bits)           /* a stretch begins: in the end, a piece */                                         \
  X(u32, closed_bits)          /* at a stretch's begin: it is a literal, or dropped */                             \
  X(u32, token_bits)           /* a token begins */                                                                \
  X(u32, symbols)              /* its id, where it begins */                                                       \
  X(u32, ranks)                /* of a bitmap: bits set before each word; of clusters: bytes of their normal forms */ \
  X(u32, block_sums)           /* the same for blocks of words */                                                  \
  X(u32, long_begin)           /* stretches for tiles */                                                           \
  X(u32, long_end)                                                                                                 \
  X(u32, long_tile)            /* the first tile of each */                                                        \
  X(u32, long_super)           /* the first super-tile of each */                                                  \
  X(u32, tile_long)            /* whose tile */                                                                    \
  X(u32, tile_maps)            /* tile * states + state: see tiles.cuh */                                          \
  X(u32, tile_rests)           /* the same */                                                                      \
  X(u32, tile_entries)                                                                                             \
  X(u32, super_long)                                                                                               \
  X(u32, super_states)         /* super * states + state */                                                        \
  X(u32, super_lasts)          /* the same */                                                                      \
  X(u32, super_rests)          /* the same */                                                                      \
  X(u32, super_exits)          /* super * kTileBytes + place in its first tile */                                  \
  X(u32, super_entries)                                                                                            \
  X(u32, steps)                /* a byte of the text: where the next attempt begins, see tiles.cuh */              \
  X(u32, exits)                                                                                                    \
  X(u32, short_pieces)         /* pieces to merge, by length */                                                    \
  X(u32, middle_pieces)                                                                                            \
  X(u32, large_pieces)                                                                                             \
  X(u32, giant_pieces)                                                                                             \
  X(u32, giant_window)         /* the first window of each */                                                      \
  X(u32, giant_unsettled)                                                                                          \
  X(u32, window_giant)         /* whose window */

// Whether a launch of a kernel is of a chain that normalizes: its `which`.
constexpr u32 kNormalizing = 1;

struct Buffers {
#define TOKSEAM_BUFFER(type, name) Buffer<type> name;
  TOKSEAM_BUFFERS(TOKSEAM_BUFFER)
#undef TOKSEAM_BUFFER
};

// All that a kernel is handed, by value. `capacity`: bytes, spans and documents that the buffers have room for.
struct Chain {
  Tables tables;
  Buffers buffers;
  u32 capacity_bytes, capacity_spans, capacity_documents;
};

#if defined(TOKSEAM_TABLES_BYTES)
// The host's compiler lays the tables out, and another one reads them.
static_assert(sizeof(Tables) == TOKSEAM_TABLES_BYTES, "the host's compiler lays the tables out otherwise");
#endif

// Counts that stay on the device.
enum Total : u32 {
  kBytes,
  kSpans,
  kDocuments,
  kStretches,  // of the stage at hand; in the end, pieces
  kIds,
  kLong,
  kTiles,
  kSupers,
  kShort,
  kMiddle,
  kLarge,
  kGiant,
  kWindows,
  kRefused,  // 1: the batch does not fit the buffers, and nothing was done
  // Where the chain normalizes: bytes of the raw text, and of its normal form, also of one that does not fit.
  kRaw,
  kNormalized,
  kTotals,
};

// Why a document's ids are not to be used; the host encodes it by other means.
enum Flag : u32 {
  kBadText = 1,    // it is no valid UTF-8
  kSuspect = 2,    // normalization may change it
  kUnsettled = 4,  // a piece without an end whose windows could not be joined in bounded time
  kLongCluster = 8,  // more code points belong together than a thread has room for
};

// ---- bitmaps ----

__device__ inline bool bit(const Buffer<u32>& bits, u32 i) { return (bits[i / 32] >> i % 32 & 1) != 0; }
__device__ inline void set_bit(const Buffer<u32>& bits, u32 i) { atomicOr(at(bits, i / 32), u32{1} << i % 32); }

// How many bits are set before place i; `ranks` is of that bitmap, which has a word behind the last byte's.
__device__ inline u32 rank(const Buffer<u32>& ranks, const Buffer<u32>& bits, u32 i) {
  return ranks[i / 32] + count_bits(bits[i / 32] & bits_below(i % 32));
}

// The first set bit in [from, end), or `end`.
__device__ inline u32 next_set(const Buffer<u32>& bits, u32 from, u32 end) {
  for (u32 at = from; at < end; at = (at / 32 + 1) * 32) {
    const u32 word = bits[at / 32] & bits_from(at % 32);
    if (word != 0) {
      const u32 found = at / 32 * 32 + lowest_bit(word);
      return found < end ? found : end;
    }
  }
  return end;
}

// The last set bit in [begin, end), or kNone32.
__device__ inline u32 last_set(const Buffer<u32>& bits, u32 begin, u32 end) {
  for (u32 stop = end; stop > begin;) {
    const u32 word = (stop - 1) / 32;
    const u32 found = bits[word] & (stop % 32 == 0 ? kAllLanes : bits_below(stop % 32));
    if (found != 0) {
      const u32 place = word * 32 + highest_bit(found);
      return place >= begin ? place : kNone32;
    }
    stop = word * 32;
  }
  return kNone32;
}

// ---- documents ----

// The document that holds the byte at `place`, which some document does. `begins`: of spans, in the same text.
template <class Begins>
__device__ inline u32 document_of(const Chain& chain, const Begins& begins, u32 place) {
  const Buffers& b = chain.buffers;
  u32 low = 0, high = b.totals[kDocuments];  // the last document that begins at `place` or before it is in [low, high)
  while (high - low > 1) {
    const u32 middle = low + (high - low) / 2;
    if (begins[b.document_span[middle]] <= place) low = middle;
    else high = middle;
  }
  return low;
}

template <class Begins>
__device__ inline void flag(const Chain& chain, const Begins& begins, u32 place, Flag what) {
  const u32 document = document_of(chain, begins, place);
  if ((chain.buffers.document_flags[document] & what) == 0)
    atomicOr(at(chain.buffers.document_flags, document), static_cast<u32>(what));
}

}  // namespace tokseam::cuda
