// Pieces of at most 64 symbols, merged side by side on processors with AVX-512: symbols and ranks lie in one to four
// registers each, and the search for a pair reads eight slots of the table at once. So hardly any branch depends on the
// text, where linked_lanes.hpp guesses wrongly at every merge. Both come to the same ids.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "avx512.hpp"
#include "lane_loop.hpp"
#include "linked_lanes.hpp"
#include "merges.hpp"

#if defined(TOKSEAM_AVX512)

namespace tokseam {

class VectorLanes {
  static constexpr std::size_t kWidth = 16;  // symbols or ranks in a register
  using Table = device::Merges;

  struct Search {
    std::uint64_t at;      // begins at this slot of the table, ...
    std::uint64_t wanted;  // ... for one that holds this above its rank; all ones: for none
  };

 public:
  static constexpr std::size_t kMostSymbols = 64;
  static constexpr std::size_t kLanes = 16;

  static bool supported() { return has_avx512(); }

  // The symbols that are left stand side by side, and one at either end that merges with none; ranks[i] is that of the
  // pair that symbol i begins. PERF: small, so that all lanes lie in the nearest cache.
  struct Lane {
    alignas(64) std::array<std::uint32_t, kWidth + kMostSymbols + kWidth> room;
    alignas(64) std::array<std::uint32_t, kMostSymbols + kWidth> ranks;
    std::uint64_t begins;         // bits: those of the first symbols that the ones that are left begin with
    std::size_t size, piece;      // size: the first symbols
    std::uint64_t merged;         // a bit: the place of the last merge, if there was one, ...
    Search of_merged, of_before;  // ... and the pairs that it made
    std::size_t registers;        // that the ranks fill

    std::uint32_t* symbols() { return room.data() + kWidth; }
    const std::uint32_t* symbols() const { return room.data() + kWidth; }

    // visit(id, symbols that it is made of) of what the piece became, in order.
    template <class Visit>
    void each(Visit&& visit) const {
      const std::uint32_t* symbol = symbols();
      for (std::uint64_t left = begins; left != 0;) {
        const auto begin = static_cast<std::size_t>(std::countr_zero(left));
        left &= left - 1;
        const std::size_t end = left != 0 ? static_cast<std::size_t>(std::countr_zero(left)) : size;
        visit(*symbol++, end - begin);
      }
    }
  };

  explicit VectorLanes(const Merges& merges) : table_(merges.table()), bytes_(merges.byte_tables()) {}

  // A piece of at most kMostSymbols.
  TOKSEAM_AVX512_ENTRY void begin(Lane& lane, std::span<const std::uint32_t> symbols) const {
    std::ranges::copy(symbols, lane.symbols());
    std::array<Search, kMostSymbols> searches;
    for (std::size_t k = 0; k + 1 < symbols.size(); ++k) {
      searches[k] = search(table_, symbols[k], symbols[k + 1]);
      prefetch(table_, searches[k]);
    }
    for (std::size_t k = 0; k + 1 < symbols.size(); ++k)
      lane.ranks[k] = static_cast<std::uint32_t>(_mm_cvtsi128_si32(find(table_, searches[k])));
    make_ready(lane, symbols.size());
  }

  // The same of ASCII, where every byte has a symbol.
  TOKSEAM_AVX512_ENTRY void begin_ascii(Lane& lane, std::string_view piece) const {
    const __m512i none = _mm512_set1_epi32(-1);
    for (std::size_t at = 0; at < piece.size(); at += kWidth) {
      const auto rest = static_cast<unsigned>(piece.size() - at);
      const auto some = static_cast<__mmask16>(_bzhi_u32(0xFFFF, rest));
      const auto pairs = static_cast<__mmask16>(_bzhi_u32(0xFFFF, rest - 1));
      const __m512i left = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, piece.data() + at));
      const __m512i right = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(pairs, piece.data() + at + 1));
      const __m512i both = _mm512_or_si512(_mm512_slli_epi32(left, 8), right);
      _mm512_store_si512(lane.symbols() + at, _mm512_mask_i32gather_epi32(none, some, left, bytes_.ids, 4));
      _mm512_store_si512(lane.ranks.data() + at, _mm512_mask_i32gather_epi32(none, pairs, both, bytes_.ranks, 4));
    }
    make_ready(lane, piece.size());
  }

  // As MergeLanes::run, for the pieces that are mine(i).
  template <class Mine, class Start, class Done>
  TOKSEAM_AVX512_ENTRY void run(std::size_t pieces, Mine&& mine, Start&& start, Done&& done) {
    loop_lanes(*this, room_, pieces, mine, start, done);
  }

  // Looks up what the merge before made, and does the next one. False where none is left.
  TOKSEAM_AVX512_ENTRY bool step(Lane& lane) const {
    if (lane.registers == 1) [[likely]] return step_in<1>(table_, lane);
    return lane.registers == 2 ? step_in<2>(table_, lane) : step_in<4>(table_, lane);
  }

 private:
  static constexpr std::size_t kSlots = 8;  // of the table, that are looked at together

  // Where symbols and ranks are filled in.
  TOKSEAM_AVX512_ENTRY static void make_ready(Lane& lane, std::size_t size) {
    lane.size = size;
    lane.registers = size <= kWidth ? 1 : size <= 2 * kWidth ? 2 : 4;
    const __m512i none = _mm512_set1_epi32(-1);
    for (std::size_t at = size / kWidth * kWidth; at < lane.registers * kWidth; at += kWidth) {
      const std::size_t rest = std::max(size, at) - at;  // of the symbols
      _mm512_mask_store_epi32(lane.symbols() + at, static_cast<__mmask16>(0xFFFFU << rest), none);
      _mm512_mask_store_epi32(lane.ranks.data() + at, static_cast<__mmask16>(0x1FFFFU << rest >> 1), none);
    }
    if (size > 0) lane.ranks[size - 1] = kNoRank;
    lane.symbols()[lane.registers * kWidth] = lane.symbols()[-1] = kNoId;
    lane.begins = size == 0 ? 0 : ~std::uint64_t{0} >> (kMostSymbols - size);
    lane.merged = 0;
    lane.of_merged = lane.of_before = {0, ~std::uint64_t{0}};
  }

  [[gnu::always_inline]] static Search search(const Table& table, std::uint32_t left, std::uint32_t right) {
    const std::uint64_t hash = table.hash_of(left, right);
    // An end merges with none. PERF: no branch.
    const std::uint64_t none = (left | right) >> table.id_bits != 0 ? ~std::uint64_t{0} : 0;
    return {place_of(hash, table.places), table.low_bits(hash) | none};
  }

  [[gnu::always_inline]] static void prefetch(const Table& table, const Search& search) {
    const std::uint8_t* slots = table.slots + search.at * Table::kSlotBytes;
    __builtin_prefetch(slots);
    __builtin_prefetch(slots + kSlots * Table::kSlotBytes - 1);
  }

  // In the lowest 32 bits: the rank, or kNoRank.
  TOKSEAM_AVX512 static __m128i find(const Table& table, const Search& search) {
    // Each slot in a word of its own.
    const __m512i apart =
        _mm512_set_epi64(0x00002F2E2D2C2B2A, 0x0000292827262524, 0x0000232221201F1E, 0x00001D1C1B1A1918,
                         0x0000171615141312, 0x000011100F0E0D0C, 0x00000B0A09080706, 0x0000050403020100);
    constexpr __mmask64 kBytes = 0x3F3F3F3F3F3F3F3F;
    constexpr std::uint64_t kReadSlots = (64 + Table::kSlotBytes - 1) / Table::kSlotBytes;
    for (std::uint64_t at = search.at;; at += kSlots) {
      // SAFETY: the 64 bytes from slot `at` on lie in the table.
      if (at + kReadSlots > table.places) [[unlikely]]
        return _mm_cvtsi32_si128(static_cast<int>(find_singly(table, search, at)));
      const __m512i slots =
          _mm512_maskz_permutexvar_epi8(kBytes, apart, _mm512_loadu_si512(table.slots + at * Table::kSlotBytes));
      const __m512i beside = _mm512_xor_si512(slots, _mm512_set1_epi64(static_cast<long long>(search.wanted)));
      // A pair whose low bits are all ones looks for what a free slot looks like.
      const unsigned free =
          _mm512_cmpeq_epi64_mask(slots, _mm512_set1_epi64(static_cast<long long>(Table::kFree)));
      const unsigned hits =
          _mm512_cmple_epu64_mask(beside, _mm512_set1_epi64(static_cast<long long>(table.rank_mask))) & ~free;
      const unsigned ends = hits | free;
      if (ends == 0) [[unlikely]] continue;
      // PERF: no branch on whether there is such a pair.
      const auto found = static_cast<__mmask8>(hits & ends & (0 - ends));
      return _mm512_castsi512_si128(_mm512_mask_compress_epi64(_mm512_set1_epi32(-1), found, beside));
    }
  }

  // Where the table comes round.
  [[gnu::noinline]] static std::uint32_t find_singly(const Table& table, const Search& search, std::uint64_t at) {
    for (;; at = at + 1 == table.places ? 0 : at + 1) {
      const std::uint64_t slot = table.slot_at(at);
      if (slot == Table::kFree) return kNoRank;
      if ((slot ^ search.wanted) <= table.rank_mask) return static_cast<std::uint32_t>(slot ^ search.wanted);
    }
  }

  template <std::size_t kRegisters>
  TOKSEAM_AVX512 static bool step_in(const Table& table, Lane& lane) {
    const __m128i of_merged = find(table, lane.of_merged), of_before = find(table, lane.of_before);
    __m512i ranks[kRegisters];
    for (std::size_t r = 0; r < kRegisters; ++r) {
      ranks[r] = _mm512_load_si512(lane.ranks.data() + r * kWidth);
      const auto at_merged = static_cast<__mmask16>(lane.merged >> r * kWidth);
      const auto at_before = static_cast<__mmask16>(lane.merged >> 1 >> r * kWidth);
      ranks[r] = _mm512_mask_broadcastd_epi32(ranks[r], at_merged, of_merged);
      ranks[r] = _mm512_mask_broadcastd_epi32(ranks[r], at_before, of_before);
    }
    // PERF: in every place of a register, so that it need not come back from another kind of them.
    __m512i least = ranks[0];
    for (std::size_t r = 1; r < kRegisters; ++r) least = _mm512_min_epu32(least, ranks[r]);
    least = _mm512_min_epu32(least, _mm512_shuffle_i32x4(least, least, _MM_SHUFFLE(1, 0, 3, 2)));
    least = _mm512_min_epu32(least, _mm512_shuffle_i32x4(least, least, _MM_SHUFFLE(2, 3, 0, 1)));
    least = _mm512_min_epu32(least, _mm512_shuffle_epi32(least, _MM_PERM_BADC));
    least = _mm512_min_epu32(least, _mm512_shuffle_epi32(least, _MM_PERM_CDAB));
    const auto best = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm512_castsi512_si128(least)));
    if (best == kNoRank) return false;
    std::uint64_t at_best = 0;
    for (std::size_t r = 0; r < kRegisters; ++r)
      at_best |= std::uint64_t{_mm512_cmpeq_epi32_mask(ranks[r], least)} << r * kWidth;

    const auto merged = static_cast<std::size_t>(std::countr_zero(at_best));  // the leftmost
    const std::uint32_t made = table.made(best);
    lane.of_before = search(table, lane.symbols()[merged - 1], made);
    lane.of_merged = search(table, made, lane.symbols()[merged + 2]);
    prefetch(table, lane.of_before);
    prefetch(table, lane.of_merged);
    lane.merged = std::uint64_t{1} << merged;
    lane.begins &= ~_pdep_u64(std::uint64_t{2} << merged, lane.begins);

    // Those behind move up by one.
    const __m512i none = _mm512_set1_epi32(-1), places = _mm512_load_si512(kPlaces.data());
    __m512i symbols[kRegisters];
    for (std::size_t r = 0; r < kRegisters; ++r) symbols[r] = _mm512_load_si512(lane.symbols() + r * kWidth);
    for (std::size_t r = 0; r < kRegisters; ++r) {
      const auto here = static_cast<int>(merged) - static_cast<int>(r * kWidth);
      const __mmask16 behind = _mm512_cmpgt_epi32_mask(places, _mm512_set1_epi32(here));
      const __m512i from = _mm512_mask_add_epi32(places, behind, places, _mm512_set1_epi32(1));
      const bool last = r + 1 == kRegisters;
      const std::size_t next = last ? r : r + 1;
      _mm512_store_si512(lane.ranks.data() + r * kWidth,
                         _mm512_permutex2var_epi32(ranks[r], from, last ? none : ranks[next]));
      const __m512i moved = _mm512_permutex2var_epi32(symbols[r], from, last ? none : symbols[next]);
      const auto at = static_cast<__mmask16>(lane.merged >> r * kWidth);
      _mm512_store_si512(lane.symbols() + r * kWidth, _mm512_mask_set1_epi32(moved, at, static_cast<int>(made)));
    }
    return true;
  }

  alignas(64) static constexpr std::array<std::uint32_t, kWidth> kPlaces = [] {
    std::array<std::uint32_t, kWidth> places{};
    for (std::uint32_t i = 0; i < kWidth; ++i) places[i] = i;
    return places;
  }();

  Table table_;
  Merges::ByteTables bytes_;
  std::array<Lane, kLanes> room_;
};

}  // namespace tokseam

#else

namespace tokseam {

class VectorLanes : public LinkedLanes {
 public:
  using LinkedLanes::LinkedLanes;
  static bool supported() { return false; }
};

}  // namespace tokseam

#endif
