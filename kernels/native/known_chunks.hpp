// Ids of large chunks of text that came more than once: the same system prompt, the same file, the whole text again.
// Recognised by hash, or as the one that came behind another last time, and then byte by byte. A chunk lies between two
// synchronizing positions, so its ids depend on its bytes alone (kernels/README.md, claims 4 and 8), wherever it
// stands. Bounded: the longest unused go first.
// Not here: where texts are parted (text_parts.hpp), and how a chunk is encoded (fresh_text.hpp). Any number of threads
// at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fork_safe_mutex.hpp"
#include "hash.hpp"

namespace tokseam {

class KnownChunks {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{1} << 25;  // 32 MiB

  // A synchronizing position inside a chunk, in bytes, and how many ids stand before it.
  struct Mark {
    std::size_t at, ids;
  };

  struct Chunk {
    std::uint64_t hash, mode;
    std::vector<char> text;
    std::vector<std::uint32_t> ids;
    std::vector<Mark> marks;  // they ascend
    std::string_view view() const { return {text.data(), text.size()}; }
    std::size_t bytes() const {
      return sizeof(Chunk) + text.size() + ids.size() * sizeof(std::uint32_t) + marks.size() * sizeof(Mark);
    }
  };
  // Null: not known. Lives on while it is held, whatever is forgotten.
  using Found = std::shared_ptr<const Chunk>;

  explicit KnownChunks(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // mode: what is told apart beside the bytes.
  static std::uint64_t hash_of(std::string_view text, std::uint64_t mode) { return hash_long(text) ^ mode * kOdd2; }

  // 0: nothing is kept, and nothing recognised.
  void set_most_bytes(std::size_t most_bytes) {
    const std::lock_guard guard(mutex_);
    most_bytes_ = most_bytes;
    make_room(0);
    if (most_bytes == 0) seen_.reset();
  }
  void clear() {
    const std::lock_guard guard(mutex_);
    entries_.clear();
    order_.clear();
    bytes_ = 0;
    seen_.reset();
  }
  bool enabled() const {
    const std::lock_guard guard(mutex_);
    return most_bytes_ > 0;
  }
  std::size_t bytes() const {
    const std::lock_guard guard(mutex_);
    return bytes_;
  }

  Found find(std::uint64_t hash, std::string_view text, std::uint64_t mode) {
    Found found;
    {
      const std::lock_guard guard(mutex_);
      const auto entry = entries_.find(hash);
      if (entry == entries_.end()) return nullptr;
      found = entry->second->chunk;
    }
    return found->mode == mode && found->view() == text ? found : nullptr;
  }

  // Puts into `run` what came behind the chunk of this hash last time, what came behind that, and so on. Returns how
  // many; the rest of `run` stays as it is. A link is a hash: what was forgotten is not found, what took its place is.
  std::size_t behind(std::uint64_t hash, std::span<Found> run) const {
    const std::lock_guard guard(mutex_);
    auto entry = entries_.find(hash);
    std::size_t count = 0;
    for (; count < run.size() && entry != entries_.end() && entry->second->linked; ++count) {
      entry = entries_.find(entry->second->next);
      if (entry == entries_.end()) break;
      run[count] = entry->second->chunk;
      __builtin_prefetch(run[count].get());
    }
    return count;
  }

  // Told of a text's chunks by their hashes, in order: those that are kept are the latest used now, and linked.
  void came(std::span<const std::uint64_t> hashes) {
    const std::lock_guard guard(mutex_);
    Entry* before = nullptr;
    for (const std::uint64_t hash : hashes) {
      const auto entry = entries_.find(hash);
      if (before != nullptr && entry != entries_.end()) before->next = hash, before->linked = true;
      before = nullptr;
      if (entry == entries_.end()) continue;
      order_.splice(order_.begin(), order_, entry->second);
      before = &*entry->second;
    }
  }

  // Whether a chunk of this hash was asked about before, as far as is remembered. PERF: a chunk is kept when it comes
  // for the second time, so that text which never comes again costs no copy.
  bool seen(std::uint64_t hash) {
    const std::lock_guard guard(mutex_);
    if (!seen_) seen_ = std::make_unique<Seen>();
    std::uint32_t& place = (*seen_)[hash >> (64 - kSeenBits)];
    const auto mark = static_cast<std::uint32_t>(hash) | 1U;
    if (place == mark) return true;
    place = mark;
    return false;
  }

  void keep(std::uint64_t hash, std::string_view text, std::uint64_t mode, std::span<const std::uint32_t> ids,
            std::span<const Mark> marks) {
    auto chunk = std::make_shared<const Chunk>(
        Chunk{hash, mode, {text.begin(), text.end()}, {ids.begin(), ids.end()}, {marks.begin(), marks.end()}});
    const std::lock_guard guard(mutex_);
    if (chunk->bytes() > most_bytes_) return;
    forget(hash);
    make_room(chunk->bytes());
    bytes_ += chunk->bytes();
    order_.push_front({std::move(chunk)});
    entries_[hash] = order_.begin();
  }

 private:
  struct Entry {
    Found chunk;
    std::uint64_t next = 0;  // the hash of the chunk that came behind it last time ...
    bool linked = false;     // ... if one did
  };
  static constexpr int kSeenBits = 14;
  using Seen = std::array<std::uint32_t, std::size_t{1} << kSeenBits>;

  // PERF: four chains, so that it runs at the speed of memory.
  static std::uint64_t hash_long(std::string_view text) {
    constexpr std::size_t kStride = 64;
    std::array<std::uint64_t, 4> sums{kOdd1, kOdd2, kOdd1 ^ text.size(), kOdd2 ^ text.size()};
    std::size_t at = 0;
    for (; at + kStride <= text.size(); at += kStride)
      for (std::size_t lane = 0; lane < sums.size(); ++lane) {
        const char* p = text.data() + at + 16 * lane;
        sums[lane] = detail::mix(detail::load8(p) ^ sums[lane], detail::load8(p + 8) ^ kOdd1);
      }
    std::uint64_t hash = hash_bytes(text.substr(at));
    for (const std::uint64_t sum : sums) hash = detail::mix(hash ^ sum, kOdd2);
    return hash;
  }

  void forget(std::uint64_t hash) {
    const auto entry = entries_.find(hash);
    if (entry == entries_.end()) return;
    bytes_ -= entry->second->chunk->bytes();
    order_.erase(entry->second);
    entries_.erase(entry);
  }
  void make_room(std::size_t bytes) {
    while (!order_.empty() && bytes_ + bytes > most_bytes_) forget(order_.back().chunk->hash);
  }

  mutable ForkSafeMutex mutex_;  // guards what follows
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;   // of all that is kept
  std::list<Entry> order_;  // the latest used first
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> entries_;
  std::unique_ptr<Seen> seen_;  // by hash: what was asked about last
};

}  // namespace tokseam
