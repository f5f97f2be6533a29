// A mutex for what outlives a call: a process that forks while another thread holds it leaves its child able to take it,
// and what it guards whole. The child has none of its parent's threads, so nobody there would ever give it back.
// Before a fork all of them are taken, in the order of a list, and after it given back, by parent and child alike.
// So whoever holds one may wait for no other, make or drop none, and wait for nothing that the forking thread may hold
// (Python's lock).
// Not here: locks of one call's own, which no child looks at (parallel.hpp), and threads (helpers.hpp).
#pragma once

#include <mutex>
#include <new>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace tokseam {

class ForkSafeMutex {
 public:
  ForkSafeMutex() {
    Registry& all = registry();
    const std::lock_guard guard(all.mutex);
    next_ = all.first;
    if (next_ != nullptr) next_->before_ = this;
    all.first = this;
  }
  ~ForkSafeMutex() {
    Registry& all = registry();
    const std::lock_guard guard(all.mutex);
    (before_ != nullptr ? before_->next_ : all.first) = next_;
    if (next_ != nullptr) next_->before_ = before_;
  }
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Makes what the first one would make. For whoever can say that no fork finds it half made.
  static void prepare() { registry(); }

 private:
  struct Registry {
    std::mutex mutex;  // guards what follows, and the links
    ForkSafeMutex* first = nullptr;
  };

  static Registry& registry() {
    static Registry* const all = make_registry();  // never destroyed, as a fork may come at any time
    return *all;
  }
  static Registry* make_registry() {
    auto* all = new Registry;
#if defined(__unix__) || defined(__APPLE__)
    if (::pthread_atfork(take_all, give_back_all, give_back_all) != 0) throw std::bad_alloc();
#endif
    return all;
  }
  static void take_all() {
    registry().mutex.lock();
    for (ForkSafeMutex* one = registry().first; one != nullptr; one = one->next_) one->lock();
  }
  static void give_back_all() {
    for (ForkSafeMutex* one = registry().first; one != nullptr; one = one->next_) one->unlock();
    registry().mutex.unlock();
  }

  std::mutex mutex_;
  ForkSafeMutex *before_ = nullptr, *next_ = nullptr;
};

}  // namespace tokseam
