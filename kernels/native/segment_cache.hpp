// Ids of segments that were encoded before. A segment lies between two synchronizing positions, so its ids depend on
// its bytes alone (kernels/README.md, claims 4 and 12): what is kept here is true in every text, for ever, and what is
// thrown out costs time only. Bounded: tables and rings of fixed size, each entry half a cache line or two of them; that
// of short segments grows with what is kept, to a bound.
// Not here: how a segment is encoded. One thread at a time; SegmentCaches hands them out.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fork_safe_mutex.hpp"
#include "hash.hpp"
#include "piece_ends.hpp"
#include "zeroed_array.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tokseam {

class SegmentCache {
 public:
  static constexpr std::size_t kKeyBytes = 16;
  static constexpr std::size_t kShortBytes = kKeyBytes - 1;  // a short segment and its length fill a key
  static constexpr std::size_t kLongBytes = 112;  // a long one fills two cache lines with its ids
  static constexpr std::size_t kHugeBytes = 4096;  // longer ones (ruled lines, indentation) lie in a ring; beyond: never
  static constexpr std::size_t kInlineIds = 3;    // that an entry holds itself; more are in a ring
  static constexpr std::size_t kMaxIds = kHugeBytes;  // of a segment that is kept: nearly every one has fewer

  // What is told apart beside the bytes.
  static constexpr std::uint64_t kSplitSpecial = 16;  // with the literals of special tokens as text

  // A short segment's bytes, zeros, and in the last byte its length with the mode's bits; or a hash of a longer one,
  // which is no short one's key. PERF: in one register, for of what a segment costs, stores are the most.
  using Words = std::uint64_t __attribute__((vector_size(16)));
  struct Key {
    Words words;
    static Key of_long(std::uint64_t hash) { return {Words{hash, ~std::uint64_t{0}}}; }
    bool is_long() const { return words[1] == ~std::uint64_t{0}; }
    std::uint64_t hash() const {
      if (is_long()) return words[0];
      const Words mixed = words ^ Words{kOdd1, kOdd2};
      return detail::mix(mixed[0], mixed[1]);
    }
    friend bool operator==(const Key& one, const Key& other) {
#if defined(__SSE2__)
      return _mm_movemask_epi8(_mm_cmpeq_epi8(reinterpret_cast<__m128i>(one.words),
                                              reinterpret_cast<__m128i>(other.words))) == 0xFFFF;
#else
      const Words differs = one.words ^ other.words;
      return (differs[0] | differs[1]) == 0;
#endif
    }
  };
  static constexpr Key kNoKey{Words{0, 0}};  // no segment has length 0

  // The ids: `count` of them, in place or, of more than kInlineIds, in the ring from position `ids` on.
  struct Ids {
    std::array<std::uint32_t, kInlineIds> ids{};
    std::uint32_t count = 0;
  };

  struct Entry {
    Key key = kNoKey;
    Ids ids;
  };
  static_assert(sizeof(Entry) == 32);

  // What of kKeyBytes is kept, and what is put into the last byte. PERF: from a table by size: no branch on the size,
  // which no processor can guess.
  struct Frame {
    Words mask, end;
  };
  static const Frame* frames(std::uint64_t mode) { return kFrames.data() + mode; }

  // At `text`, kKeyBytes may be read.
  [[gnu::always_inline]] static Key key_of(const char* text, const Frame& frame) {
    Words words;
    std::memcpy(&words, text, sizeof(words));
    return {(words & frame.mask) | frame.end};
  }

  // Where short segments are, until it grows.
  struct Sets {
    Entry* entries;
    int shift;
    Entry* of(const Key& key) const {
      const Words mixed = key.words ^ Words{kOdd1, kOdd2};
      return entries + 2 * (detail::mix(mixed[0], mixed[1]) >> shift);
    }
    // PERF: inlined always, or GCC drops it (merges.hpp).
    [[gnu::always_inline]] static void prefetch(const Entry* set) { __builtin_prefetch(set); }
  };
  Sets sets() { return {short_.get(), 64 - short_bits_}; }

  // Of a set of two; null where it is not kept.
  static const Entry* find(const Key& key, Entry* set) {
    if (set[0].key == key) [[likely]] return set;
    if (set[1].key != key) return nullptr;
    // PERF: in front it is found next time, where the processor expects it; and behind is what was used longest ago.
    std::swap(set[0], set[1]);
    return set;
  }

  // What its set had no room for; null where it is not kept. PERF: a set that three segments share misses each of them
  // when a text comes again, the one used longest ago being the next: a sixth of all, in a table that is about to grow.
  [[gnu::always_inline]] const Entry* find_aside(const Key& key, const Entry* set) {
    const std::size_t number = block_of(set);
    return aside_[number] ? find_in_block(key, number) : nullptr;
  }

  // Aside: whether what there is no room for then is put aside. Else it is thrown out.
  void keep(const Key& key, Entry* pair, std::span<const std::uint32_t> ids, bool aside) {
    if (ids.size() > kMaxIds) return;
    if (aside && pair[1].key != kNoKey) put_aside(pair);
    pair[1] = pair[0];  // the one used last stays
    pair[0] = {key, put(ids)};
    ++kept_;
  }

  // So that all that was kept finds room, up to a bound: sets are others then.
  void grow() {
    while (4 * kept_ >= std::size_t{3} << short_bits_ && short_bits_ < kMostShortBits) {
      aside_.reset();
      // A block becomes the two at twice its place; from the last one on, none is overwritten that is still to be moved.
      for (std::size_t number = (std::size_t{1} << short_bits_++) / kBlockSets; number-- > 0;) part_block(number);
    }
  }

  // A segment of one id that text is likely to hold.
  struct Seed {
    Key key;
    Entry* set;
    std::uint32_t id;
  };
  [[gnu::always_inline]] Seed seed_of(std::string_view segment, std::uint64_t mode, std::uint32_t id) {
    std::array<char, kKeyBytes> copy{};
    std::memcpy(copy.data(), segment.data(), segment.size());
    const Key key = key_of(copy.data(), frames(mode)[segment.size()]);
    Entry* set = sets().of(key);
    Sets::prefetch(set);
    return {key, set, id};
  }
  // Keep it where there is still room.
  void keep(const Seed& seed) {
    for (Entry* entry : {seed.set, seed.set + 1}) {
      if (entry->key == seed.key) return;
      if (entry->key != kNoKey) continue;
      *entry = {seed.key, {{seed.id}, 1}};
      ++kept_;
      return;
    }
  }
  // Up to where seeds of this mode were given (vocabulary.hpp).
  std::size_t& seeded_to(std::uint64_t mode) { return seeded_to_[mode != 0]; }

  // Beside the ids: what the pieces of new segments are found by.
  PieceEnds& piece_ends() { return piece_ends_; }

  // Large texts come: most of the tables will be there anyhow.
  void expect_much() {
    short_.in_large_pages();
    long_.in_large_pages();
    ring_.in_large_pages();
  }

  // The ids of an entry that does not hold them itself; empty where the ring has come round since.
  std::span<const std::uint32_t> in_ring(const Ids& ids) const {
    const std::uint64_t at = std::uint64_t{ids.ids[1]} << 32 | ids.ids[0];
    if (ring_end_ - at > kRingIds) return {};
    return {ring_.get() + at % kRingIds, ids.count};
  }

  struct LongEntry {
    std::array<char, kLongBytes> bytes{};
    Ids ids;
  };
  static_assert(sizeof(LongEntry) == 128);

  // Segments of kShortBytes + 1 to kLongBytes bytes.
  LongEntry& long_slot(std::uint64_t hash) { return long_[hash >> (64 - kLongBits)]; }
  [[gnu::always_inline]] void prefetch_long(std::uint64_t hash) const {
    const char* entry = long_[hash >> (64 - kLongBits)].bytes.data();
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + 64);
  }

  static bool holds(const LongEntry& entry, std::string_view segment, std::uint64_t mode) {
    return entry.ids.count >> 16 == (segment.size() | mode << 8) &&
           std::memcmp(entry.bytes.data(), segment.data(), segment.size()) == 0;
  }

  // The entry's ids without what `keep` put beside their count.
  static Ids ids_of(const LongEntry& entry) {
    Ids ids = entry.ids;
    ids.count &= 0xFFFF;
    return ids;
  }

  void keep(LongEntry& entry, std::string_view segment, std::uint64_t mode, std::span<const std::uint32_t> ids) {
    if (ids.size() > kMaxIds) return;
    std::memcpy(entry.bytes.data(), segment.data(), segment.size());
    entry.ids = put(ids);
    entry.ids.count |= static_cast<std::uint32_t>(segment.size() | mode << 8) << 16;
  }

  // Append the ids of a segment of more than kLongBytes from here, or make them by make(), which appends them to `ids`,
  // and keep them.
  template <class Make>
  void through(std::string_view segment, std::uint64_t mode, std::vector<std::uint32_t>& ids, Make&& make) {
    if (segment.size() > kHugeBytes) return make();
    const std::size_t before = ids.size();
    const std::uint64_t hash = hash_bytes(segment) ^ mode;
    HugeEntry& entry = huge_[hash >> (64 - kHugeBits)];
    if (holds(entry, segment, hash, mode) && append(entry.ids, ids)) return;
    make();
    keep(entry, segment, hash, mode, std::span(ids).subspan(before));
  }

  // False where the ids are not there any more.
  bool append(const Ids& kept, std::vector<std::uint32_t>& ids) const {
    if (kept.count <= kInlineIds) {
      ids.insert(ids.end(), kept.ids.begin(), kept.ids.begin() + kept.count);
      return true;
    }
    const std::span<const std::uint32_t> ring = in_ring(kept);
    ids.insert(ids.end(), ring.begin(), ring.end());
    return !ring.empty();
  }

 private:
  static constexpr int kFirstShortBits = 16, kMostShortBits = 18;  // sets of two entries: 4 to 16 MiB
  static constexpr std::size_t kBlockSets = 4, kBlockEntries = 2 * kBlockSets;  // sets side by side: they help out
  static constexpr std::size_t kMostBlocks = (std::size_t{1} << kMostShortBits) / kBlockSets;

  std::size_t block_of(const Entry* set) const { return static_cast<std::size_t>(set - short_.get()) / kBlockEntries; }
  std::span<Entry, kBlockEntries> block(std::size_t number) {
    return std::span<Entry, kBlockEntries>(short_.get() + number * kBlockEntries, kBlockEntries);
  }

  [[gnu::noinline]] const Entry* find_in_block(const Key& key, std::size_t number) {
    for (const Entry& entry : block(number))
      if (entry.key == key) return &entry;
    aside_.reset(number);  // it is another text's, most likely: not looked for again
    return nullptr;
  }

  // The last entry of a set, behind in one of the other sets of its block. PERF: in whichever, so as not to wait for
  // what is there; if it drives out what is still used, that comes again, and so to another one.
  void put_aside(const Entry* set) {
    const std::size_t number = block_of(set);
    const std::span<Entry, kBlockEntries> all = block(number);
    const std::size_t own = static_cast<std::size_t>(set - all.data()) / 2;
    all[2 * ((own + 1 + kept_ % (kBlockSets - 1)) % kBlockSets) + 1] = set[1];
    aside_.set(number);
  }

  // Of a table of half as many sets.
  void part_block(std::size_t number) {
    std::array<Entry, kBlockEntries> all;
    std::ranges::copy(block(number), all.begin());
    std::ranges::fill(block(2 * number), Entry{});
    std::ranges::fill(block(2 * number + 1), Entry{});
    std::size_t left = 0;
    for (const Entry& entry : all) {
      if (entry.key == kNoKey) continue;
      Entry* pair = sets().of(entry.key);
      if (pair[0].key == kNoKey)
        pair[0] = entry;
      else if (pair[1].key == kNoKey)
        pair[1] = entry;
      else
        all[left++] = entry;
    }
    // They are no more than a block has room for.
    for (const Entry& entry : std::span(all).first(left)) {
      const std::size_t home = block_of(sets().of(entry.key));
      *std::ranges::find(block(home), kNoKey, &Entry::key) = entry;
      aside_.set(home);
    }
  }

  struct HugeEntry {
    std::uint64_t hash;
    std::uint64_t at;    // where its bytes are in their ring
    std::uint32_t size;  // 0: there is none
    std::uint32_t mode;
    Ids ids;
  };

  bool holds(const HugeEntry& entry, std::string_view segment, std::uint64_t hash, std::uint64_t mode) const {
    return entry.hash == hash && entry.size == segment.size() && entry.mode == mode &&
           bytes_end_ - entry.at <= kRingBytes &&
           std::memcmp(bytes_.get() + entry.at % kRingBytes, segment.data(), segment.size()) == 0;
  }

  void keep(HugeEntry& entry, std::string_view segment, std::uint64_t hash, std::uint64_t mode,
            std::span<const std::uint32_t> ids) {
    if (ids.size() > kMaxIds) return;
    if (kRingBytes - bytes_end_ % kRingBytes < segment.size()) bytes_end_ += kRingBytes - bytes_end_ % kRingBytes;
    std::memcpy(bytes_.get() + bytes_end_ % kRingBytes, segment.data(), segment.size());
    entry = {hash, bytes_end_, static_cast<std::uint32_t>(segment.size()), static_cast<std::uint32_t>(mode), put(ids)};
    bytes_end_ += segment.size();
  }

  static constexpr int kHugeBits = 12;                           // 192 KiB
  static constexpr std::size_t kRingBytes = std::size_t{1} << 21;  // 2 MiB
  static constexpr int kLongBits = 14;   // 2 MiB

  // By mode and size.
  static constexpr std::array<Frame, 2 * kSplitSpecial> kFrames = [] {
    std::array<Frame, 2 * kSplitSpecial> frames{};
    for (std::uint64_t told = 0; told < frames.size(); ++told) {
      const std::uint64_t bits = 8 * (told % kSplitSpecial);
      const auto ones = [](std::uint64_t count) { return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1; };
      frames[told] = {Words{ones(bits), ones(bits > 64 ? bits - 64 : 0)}, Words{0, told << 56}};
    }
    return frames;
  }();

  static constexpr std::size_t kRingIds = std::size_t{1} << 19;  // 2 MiB

  Ids put(std::span<const std::uint32_t> ids) {
    Ids kept;
    kept.count = static_cast<std::uint32_t>(ids.size());
    if (ids.size() <= kInlineIds) {
      std::copy(ids.begin(), ids.end(), kept.ids.begin());
      return kept;
    }
    // No run of ids lies across the ring's seam.
    if (kRingIds - ring_end_ % kRingIds < ids.size()) ring_end_ += kRingIds - ring_end_ % kRingIds;
    std::copy(ids.begin(), ids.end(), ring_.get() + ring_end_ % kRingIds);
    kept.ids[0] = static_cast<std::uint32_t>(ring_end_);
    kept.ids[1] = static_cast<std::uint32_t>(ring_end_ >> 32);
    ring_end_ += ids.size();
    return kept;
  }

  ZeroedArray<Entry> short_{std::size_t{2} << kMostShortBits};  // of which the sets in front are in use
  int short_bits_ = kFirstShortBits;
  std::size_t kept_ = 0;  // entries of it that were kept, ever
  ZeroedArray<LongEntry> long_{std::size_t{1} << kLongBits};
  ZeroedArray<std::uint32_t> ring_{kRingIds};
  ZeroedArray<HugeEntry> huge_{std::size_t{1} << kHugeBits};
  ZeroedArray<char> bytes_{kRingBytes};
  std::uint64_t bytes_end_ = 0;  // bytes ever put there, and what was left out at the seam
  std::array<std::size_t, 2> seeded_to_{};
  PieceEnds piece_ends_;
  std::uint64_t ring_end_ = 0;  // ids ever put there, and what was left out at the seam
  std::bitset<kMostBlocks> aside_;  // blocks in which an entry may lie in another set than its own
};

// Lends each call a cache, so that any number of threads may encode at once. At most kKept wait for the next call.
class SegmentCaches {
 public:
  class Lease {
   public:
    Lease(SegmentCaches& owner, std::unique_ptr<SegmentCache> cache) : owner_(owner), cache_(std::move(cache)) {}
    ~Lease() { owner_.take_back(std::move(cache_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    SegmentCache& operator*() const { return *cache_; }

   private:
    SegmentCaches& owner_;
    std::unique_ptr<SegmentCache> cache_;
  };

  // Drop what waits for the next call.
  void clear() {
    const std::lock_guard guard(mutex_);
    idle_.clear();
  }

  Lease lend() {
    {
      const std::lock_guard guard(mutex_);
      if (!idle_.empty()) {
        auto cache = std::move(idle_.back());
        idle_.pop_back();
        return Lease(*this, std::move(cache));
      }
    }
    return Lease(*this, std::make_unique<SegmentCache>());
  }

 private:
  static constexpr std::size_t kKept = 8;

  void take_back(std::unique_ptr<SegmentCache> cache) noexcept {
    const std::lock_guard guard(mutex_);
    if (idle_.size() < kKept) idle_.push_back(std::move(cache));  // within the capacity, so it never throws
  }

  ForkSafeMutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<SegmentCache>> idle_ = [] {
    std::vector<std::unique_ptr<SegmentCache>> none;
    none.reserve(kKept);
    return none;
  }();
};

}  // namespace tokseam
