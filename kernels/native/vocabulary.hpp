// From the bytes of a whole piece to its id: a flat hash table in an image.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "avx512.hpp"
#include "device/lookup.hpp"
#include "hash.hpp"
#include "image.hpp"

namespace tokseam {

constexpr std::uint32_t kNoId = 0xFFFFFFFF;

class Vocabulary {
 public:
  struct Entry {
    std::string_view bytes;
    std::uint32_t id;
  };

  // Of equal keys the first one counts. Throws std::invalid_argument for more of them than offsets can reach.
  static void write(ImageWriter& writer, std::span<const Entry> entries) {
    std::uint32_t max_id = 1;
    std::size_t most = 0;
    for (const Entry& entry : entries) {
      max_id = std::max(max_id, entry.id);
      most += entry.bytes.size() + 2 * sizeof(std::uint32_t);
    }
    const int id_bits = static_cast<int>(std::bit_width(max_id)), offset_bits = static_cast<int>(std::bit_width(most));
    if (id_bits > kMaxIdBits || offset_bits > kMaxOffsetBits)
      throw std::invalid_argument("vocabulary: too large for its table");
    std::vector<std::uint32_t> slots(entries.size() + entries.size() * 2 / 3 + 2, kFree);
    std::vector<char> stored;
    stored.reserve(most);  // so that it stays where it is
    device::Vocabulary made{slots.data(), reinterpret_cast<const std::uint8_t*>(stored.data()), slots.size(), 0,
                            static_cast<std::uint32_t>(id_bits), static_cast<std::uint32_t>(offset_bits)};
    for (const Entry& entry : entries) {
      made.stored_bytes = stored.size();
      const std::uint64_t hash = hash_bytes(entry.bytes);
      if (made.find(reinterpret_cast<const std::uint8_t*>(entry.bytes.data()), entry.bytes.size(), hash) != kNoId)
        continue;
      std::size_t at = place_of(hash, slots.size());
      while (slots[at] != kFree) at = at + 1 == slots.size() ? 0 : at + 1;
      slots[at] = made.slot_of(hash, stored.size());
      const auto length = static_cast<std::uint32_t>(entry.bytes.size());
      append(stored, std::min(length, made.long_length()) << made.id_bits | entry.id);
      if (length >= made.long_length()) append(stored, length);
      stored.insert(stored.end(), entry.bytes.begin(), entry.bytes.end());
    }
    writer.add(Section::vocabulary_settings,
               std::vector<std::uint32_t>{made.id_bits, made.offset_bits});
    writer.add(Section::vocabulary_slots, slots);
    writer.add(Section::vocabulary_entries, stored);
  }

  explicit Vocabulary(const Image& image) {
    const auto slots = image.get<std::uint32_t>(Section::vocabulary_slots);
    const auto stored = image.get<std::uint8_t>(Section::vocabulary_entries);
    const auto settings = image.get_sized<std::uint32_t>(Section::vocabulary_settings, 2);
    Image::require(settings[0] > 0 && settings[0] <= kMaxIdBits && settings[1] <= kMaxOffsetBits,
                   Section::vocabulary_settings);
    table_ = {slots.data(), stored.data(), slots.size(), stored.size(), settings[0], settings[1]};
    bool ends = false;
    for (const std::uint32_t slot : slots) ends = ends || slot == kFree;
    Image::require(ends, Section::vocabulary_slots);
  }

  std::uint32_t find(std::string_view bytes) const { return find(bytes, hash_bytes(bytes)); }

  // For code that both sides run.
  const device::Vocabulary& table() const { return table_; }

  // visit(bytes, id) of each entry, in the order in which they were written, while it returns true. Returns where it
  // stopped: what to begin at to go on.
  template <class Visit>
  std::size_t for_each(Visit&& visit, std::size_t begin = 0) const {
    // SAFETY: an image may lie about how long its entries are.
    constexpr std::size_t kWord = sizeof(std::uint32_t);
    const std::size_t end = table_.stored_bytes;
    std::size_t at = begin;
    while (at + kWord <= end) {
      const std::uint32_t id = table_.head(at) & ((std::uint32_t{1} << table_.id_bits) - 1);
      std::size_t length = table_.head(at) >> table_.id_bits;
      at += kWord;
      if (length == table_.long_length()) {
        if (at + kWord > end) return end;
        length = table_.head(at);
        at += kWord;
      }
      if (length > end - at) return end;
      const std::string_view entry(reinterpret_cast<const char*>(table_.stored) + at, length);
      at += length;
      if (!visit(entry, id)) return at;
    }
    return end;
  }

  // Bytes of the longest entry.
  std::uint32_t longest() const {
    std::size_t longest = 0;
    for_each([&](std::string_view entry, std::uint32_t) {
      longest = std::max(longest, entry.size());
      return true;
    });
    return static_cast<std::uint32_t>(longest);
  }

  // ids[i] becomes the id of keys[i]. PERF: a look-up waits for memory twice; here many wait together.
  void find_all(std::span<const std::string_view> keys, std::uint32_t* ids) const { find_all(keys, ids, best_path()); }

  enum class Path { portable, avx512 };
  static Path best_path() {
#if defined(TOKSEAM_AVX512)
    if (has_avx512()) return Path::avx512;
#endif
    return Path::portable;
  }

  void find_all(std::span<const std::string_view> keys, std::uint32_t* ids, Path path) const {
    for (; !keys.empty(); keys = keys.subspan(std::min(keys.size(), kTogether))) {
      const std::size_t count = std::min(keys.size(), kTogether);
      Together some;
      for (std::size_t i = 0; i < count; ++i) {
        some.hashes[i] = hash_bytes(keys[i]);
        __builtin_prefetch(table_.slots + place_of(some.hashes[i], table_.size));
      }
#if defined(TOKSEAM_AVX512)
      if (path == Path::avx512)
        find_likely_avx512(some, count);
      else
#endif
        find_likely(some, count);
      std::fill_n(ids, count, kNoId);
      for (std::size_t k = 0; k < some.likely; ++k) {
        const std::size_t i = some.which[k];
        const auto* key = reinterpret_cast<const std::uint8_t*>(keys[i].data());
        ids[i] = table_.is(some.offsets[k], key, keys[i].size()) ? table_.id_at(some.offsets[k])
                                                                 : find(keys[i], some.hashes[i]);
      }
      ids += count;
    }
  }

 private:
  static constexpr std::size_t kTogether = 32;

  // Keys that are looked up together, by number: the ones that a tag in the table speaks for, and the offset of its
  // entry: there the key is, if it is anywhere, but for few; the others are in no entry.
  struct Together {
    std::array<std::uint64_t, kTogether> hashes;
    std::array<std::uint8_t, kTogether> which;
    std::array<std::uint64_t, kTogether> offsets;
    std::size_t likely = 0;
    // PERF: no branch on whether one is.
    void add(std::size_t i, std::uint64_t offset, bool is_likely) {
      which[likely] = static_cast<std::uint8_t>(i);
      offsets[likely] = offset;
      likely += is_likely;
    }
  };

  void find_likely(Together& some, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t tag = table_.slot_of(some.hashes[i], 0);
      for (std::size_t at = place_of(some.hashes[i], table_.size);; at = at + 1 == table_.size ? 0 : at + 1) {
        const std::uint32_t found = table_.slots[at];
        if (found == kFree) break;
        if ((found ^ tag) >> table_.offset_bits != 0) continue;
        add_likely(some, i, table_.offset_of(found), true);
        break;
      }
    }
  }

#if defined(TOKSEAM_AVX512)
  // PERF: eight slots at once, so no guess at how far a search goes.
  TOKSEAM_AVX512_ENTRY void find_likely_avx512(Together& some, std::size_t count) const {
    constexpr std::size_t kWidth = 8;
    const __m256i free = _mm256_set1_epi32(-1);
    const __m256i tagged = _mm256_set1_epi32(static_cast<int>(std::uint32_t{1} << table_.offset_bits));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = place_of(some.hashes[i], table_.size);
      // SAFETY: all eight lie in the table. Where it comes round, the key itself is looked for.
      if (at + kWidth > table_.size) [[unlikely]] {
        add_likely(some, i, table_.stored_bytes, true);
        continue;
      }
      const __m256i slots = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table_.slots + at));
      const __m256i tag = _mm256_set1_epi32(static_cast<int>(table_.slot_of(some.hashes[i], 0)));
      const unsigned frees = _mm256_cmpeq_epi32_mask(slots, free);
      const unsigned hits = _mm256_cmplt_epu32_mask(_mm256_xor_si256(slots, tag), tagged) & ~frees;
      const unsigned ends = hits | frees;
      if (ends == 0) [[unlikely]] {
        add_likely(some, i, table_.stored_bytes, true);
        continue;
      }
      const std::uint32_t found = table_.slots[at + static_cast<std::size_t>(std::countr_zero(ends))];
      add_likely(some, i, table_.offset_of(found), (hits & ends & (0 - ends)) != 0);
    }
  }
#endif

  // PERF: inlined always, or GCC drops the prefetch (merges.hpp).
  [[gnu::always_inline]] void add_likely(Together& some, std::size_t i, std::uint64_t offset, bool is_likely) const {
    __builtin_prefetch(table_.stored + std::min(offset, table_.stored_bytes));
    some.add(i, offset, is_likely);
  }

  std::uint32_t find(std::string_view bytes, std::uint64_t hash) const {
    return table_.find(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), hash);
  }

  static constexpr std::uint32_t kFree = device::Vocabulary::kFree;
  static constexpr int kMaxIdBits = 31;
  static constexpr int kMaxOffsetBits = 28;  // leaves a few bits of the hash

  static void append(std::vector<char>& stored, std::uint32_t word) {
    std::array<char, sizeof(word)> bytes;
    std::memcpy(bytes.data(), &word, sizeof(word));
    stored.insert(stored.end(), bytes.begin(), bytes.end());
  }

  // Slots: at most three fifths full, so every probe ends. Entries: one behind the other; a word with the id and, above
  // it, the length; where that is long, the length in a word of its own; the bytes. PERF: what a lookup needs lies
  // together.
  device::Vocabulary table_;
};

}  // namespace tokseam
