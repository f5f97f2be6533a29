// Memory of large texts and answers that is kept for the next one: what comes fresh from the system costs a fault a page,
// a third of a millisecond for a million ids. Bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fork_safe_mutex.hpp"

namespace tokseam {

// Vectors to fill and hand out, which come back when nobody looks at them any more. Any thread may ask.
template <class T>
class KeptVectors {
 public:
  static constexpr std::size_t kLeastBytes = std::size_t{1} << 17;  // a smaller one costs nothing new
  static constexpr std::size_t kMostBytes = std::size_t{1} << 25;   // of all that are kept

  // An empty one with room for `count`; with room for some times more at most, so that nobody holds much for little.
  std::vector<T> take(std::size_t count) {
    std::vector<T> taken;
    if (count * sizeof(T) >= kLeastBytes) {
      const std::lock_guard guard(mutex_);
      for (auto one = kept_.begin(); one != kept_.end(); ++one) {
        if (one->capacity() < count || one->capacity() > kMostSlack * count) continue;
        taken = std::move(*one);
        bytes_ -= taken.capacity() * sizeof(T);
        kept_.erase(one);
        break;
      }
    }
    taken.reserve(count);
    return taken;
  }

  // What is too small to be worth it, or too much, is let go.
  void give_back(std::vector<T> used) noexcept {
    const std::size_t bytes = used.capacity() * sizeof(T);
    if (bytes < kLeastBytes) return;
    used.clear();
    const std::lock_guard guard(mutex_);
    if (kept_.size() == kept_.capacity() || bytes_ + bytes > kMostBytes) return;
    bytes_ += bytes;
    kept_.push_back(std::move(used));  // within the capacity, so it never throws
  }

 private:
  static constexpr std::size_t kMostKept = 8, kMostSlack = 4;

  ForkSafeMutex mutex_;  // guards what follows
  std::size_t bytes_ = 0;  // of all that are kept
  std::vector<std::vector<T>> kept_ = [] {
    std::vector<std::vector<T>> none;
    none.reserve(kMostKept);
    return none;
  }();
};

// What answers were made of, for the next ones. Never destroyed: an array of Python's may outlive all else.
inline KeptVectors<std::uint32_t>& kept_ids() {
  static auto* kept = new KeptVectors<std::uint32_t>;
  return *kept;
}

// A thread's own room for a text, of any bytes at first.
class KeptRoom {
 public:
  explicit KeptRoom(std::size_t bytes) : room_(std::exchange(kept(), {})) {
    if (room_.bytes < bytes) room_ = {std::make_unique_for_overwrite<char[]>(bytes), bytes};
  }
  ~KeptRoom() {
    if (room_.bytes <= kMostBytes && room_.bytes > kept().bytes) kept() = std::move(room_);
  }
  KeptRoom(const KeptRoom&) = delete;
  KeptRoom& operator=(const KeptRoom&) = delete;

  char* data() { return room_.data.get(); }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 24;

  struct Room {
    std::unique_ptr<char[]> data;
    std::size_t bytes = 0;
  };

  static Room& kept() {
    static thread_local Room room;
    return room;
  }

  Room room_;
};

}  // namespace tokseam
