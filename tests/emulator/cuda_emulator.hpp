// CUDA's thread model on the host, for tests: a grid of blocks of warps, shared memory, barriers, shuffles, ballots and
// atomics. Every thread of a block is a fiber; blocks run one after the other, in an order that `seed` shuffles.
//
// What it refuses, by name and place: a barrier or a warp operation that not all threads it waits for arrive at, or that
// they reach at different places; an access outside a shared array or a buffer; a read of shared memory that nobody
// wrote; and two accesses of one shared value by different threads, one of them a write, with no barrier between.
// What it does not see: races between blocks, or between threads over global memory; memory ordering; the clock.
// Limits: one-dimensional grids, x86-64 or whatever has ucontext, one launch at a time a process.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "fiber.hpp"

namespace emulator {

using Place = std::source_location;

inline std::string at(const Place& place) {
  const std::string file = place.file_name();
  return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(place.line());
}

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxThreads = 1024;

struct Index {
  unsigned x = 0;
};

enum class Wait : std::uint8_t { begin, none, block, warp, done };

struct Thread {
  unsigned number = 0;
  unsigned fiber = 0;  // that it runs in, once it has begun
  Wait wait = Wait::begin;
  unsigned mask = 0;           // of the warp operation it waits in
  std::uint64_t value = 0;     // what it brings to it
  const char* operation = "";
  Place place;
};

struct Warp {
  std::array<std::uint64_t, kWarp> values{};  // what each lane brought to the last operation
  unsigned syncs = 0;                         // __syncwarp so far
  unsigned folded = 0, answer = 0;            // the lanes whose values were folded to an answer since, if any
};

class SharedBase;

// The block that runs now.
struct Block {
  Index index, size, grid;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<SharedBase*> shared;
  unsigned barriers = 0;  // __syncthreads so far
  std::string failure;
};

inline Block block;
inline Thread* current = nullptr;

// Stop the launch: the fiber that calls this is left where it is.
[[noreturn]] inline void fail(const std::string& what) {
  block.failure = what + " (block " + std::to_string(block.index.x) + ", thread " + std::to_string(current->number) + ")";
  fiber::leave_for_good();
}

inline void wait(Wait kind, const char* operation, unsigned mask, std::uint64_t value, const Place& place) {
  current->wait = kind;
  current->operation = operation;
  current->mask = mask;
  current->value = value;
  current->place = place;
  Thread* self = current;
  fiber::yield();
  current = self;
}

inline unsigned lane() { return current->number % kWarp; }
inline Warp& warp() { return block.warps[current->number / kWarp]; }

// ---- shared memory ----

class SharedBase {
 public:
  virtual ~SharedBase() = default;
  virtual void forget() = 0;
};

// Who touched a value last, so that another one can tell whether anything lies between.
struct Touch {
  enum class Who : std::uint8_t { nobody, one_thread, one_warp, several_warps };

  Who who = Who::nobody;
  bool atomic = false;
  std::uint16_t thread = 0;
  std::uint32_t barriers = 0, syncs = 0;

  static Touch now(bool as_atomic) {
    return {Who::one_thread, as_atomic, static_cast<std::uint16_t>(current->number), block.barriers, warp().syncs};
  }
  // Whether an access now is certain to come behind this one.
  bool before_now() const {
    if (who == Who::nobody || barriers != block.barriers) return true;
    if (who == Who::one_thread && thread == current->number) return true;
    return who != Who::several_warps && thread / kWarp == current->number / kWarp && syncs != warp().syncs;
  }
  // This and one of now, which it is not certain to come before.
  Touch with_now() const {
    Touch both = now(atomic);
    both.who = who != Who::several_warps && thread / kWarp == current->number / kWarp ? Who::one_warp : Who::several_warps;
    return both;
  }
};

template <class T>
class SharedArray : public SharedBase {
 public:
  SharedArray(std::size_t size, const char* name) : name_(name), values_(size), writes_(size), reads_(size) {}

  void forget() override {
    std::memset(static_cast<void*>(values_.data()), 0xDB, values_.size() * sizeof(T));
    std::fill(writes_.begin(), writes_.end(), Touch{});
    std::fill(reads_.begin(), reads_.end(), Touch{});
  }

  T& read(std::size_t i, const Place& place) {
    check(i, place);
    if (writes_[i].who == Touch::Who::nobody) fail(named(i) + " is read, and nobody wrote it, at " + at(place));
    if (!writes_[i].before_now()) fail("a race: " + named(i) + " is read with no barrier since it was written, at " + at(place));
    reads_[i] = reads_[i].before_now() ? Touch::now(false) : reads_[i].with_now();
    return values_[i];
  }
  T& write(std::size_t i, bool atomic, const Place& place) {
    check(i, place);
    const bool both_atomic = atomic && writes_[i].atomic;
    if ((!writes_[i].before_now() && !both_atomic) || !reads_[i].before_now())
      fail("a race: " + named(i) + " is written with no barrier since another thread used it, at " + at(place));
    if (atomic && writes_[i].who == Touch::Who::nobody) fail(named(i) + " is updated, and nobody wrote it, at " + at(place));
    writes_[i] = Touch::now(atomic);
    return values_[i];
  }

 private:
  void check(std::size_t i, const Place& place) const {
    if (i >= values_.size())
      fail("outside shared memory: " + named(i) + " of " + std::to_string(values_.size()) + ", at " + at(place));
  }
  std::string named(std::size_t i) const { return std::string(name_) + "[" + std::to_string(i) + "]"; }

  const char* name_;
  std::vector<T> values_;
  std::vector<Touch> writes_, reads_;
};

// One value of a shared array, at the place in the source that names it.
template <class T>
class SharedValue {
 public:
  SharedValue(SharedArray<T>& array, std::size_t i, const Place& place) : array_(array), i_(i), place_(place) {}
  operator T() const { return array_.read(i_, place_); }
  T operator=(T value) const { return array_.write(i_, false, place_) = value; }
  T operator=(const SharedValue& other) const { return *this = static_cast<T>(other); }
  T operator|=(T value) const { return *this = static_cast<T>(static_cast<T>(*this) | value); }
  T operator&=(T value) const { return *this = static_cast<T>(static_cast<T>(*this) & value); }
  T operator+=(T value) const { return *this = static_cast<T>(static_cast<T>(*this) + value); }
  T& atomic() const { return array_.write(i_, true, place_); }

 private:
  SharedArray<T>& array_;
  std::size_t i_;
  Place place_;
};

// A pointer into a shared array. Indexing takes the caller's line along.
template <class T>
class Shared {
 public:
  struct Position {  // so that an index carries where it was written
    std::size_t i;
    Place place;
    template <class I>
    Position(I index, const Place& where = Place::current()) : i(static_cast<std::size_t>(index)), place(where) {}
  };
  Shared(SharedArray<T>& array, std::size_t begin = 0) : array_(&array), begin_(begin) {}
  SharedValue<T> operator[](Position position) const { return {*array_, begin_ + position.i, position.place}; }
  Shared operator+(std::size_t offset) const { return {*array_, begin_ + offset}; }

 private:
  SharedArray<T>* array_;
  std::size_t begin_;
};

template <class T>
SharedArray<T>& shared_array(std::unique_ptr<SharedArray<T>>& kept, std::size_t size, const char* name) {
  if (!kept) kept = std::make_unique<SharedArray<T>>(size, name);
  if (std::find(block.shared.begin(), block.shared.end(), kept.get()) == block.shared.end()) {
    kept->forget();
    block.shared.push_back(kept.get());
  }
  return *kept;
}

// ---- global memory ----

// A buffer that knows its size.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(T* data, std::size_t size, const char* name) : data_(data), size_(size), name_(name) {}
  struct Position {
    std::size_t i;
    Place place;
    template <class I>
    Position(I index, const Place& where = Place::current()) : i(static_cast<std::size_t>(index)), place(where) {}
  };
  T& operator[](Position position) const {
    if (position.i >= size_)
      fail("outside a buffer: " + std::string(name_) + "[" + std::to_string(position.i) + "] of " +
           std::to_string(size_) + ", at " + at(position.place));
    return data_[position.i];
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  const char* name_ = "";
};

// ---- warp operations ----

// Every lane of the mask brings a value; the answer is all of them.
inline const std::array<std::uint64_t, kWarp>& exchange(const char* operation, unsigned mask, std::uint64_t value,
                                                        const Place& place) {
  wait(Wait::warp, operation, mask, value, place);
  return warp().values;
}

// What the lanes of the mask brought to the last operation comes to: found by the first of them that asks.
template <class Fold>
unsigned folded(unsigned mask, unsigned answer, const Fold& fold) {
  Warp& own = warp();
  if (own.folded != mask) {
    for (unsigned k = 0; k < kWarp; ++k)
      if ((mask >> k & 1) != 0) answer = fold(answer, k, own.values[k]);
    own.folded = mask;
    own.answer = answer;
  }
  return own.answer;
}

template <class T>
std::uint64_t as_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T as_value(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// ---- launching ----

inline void fail_outside(const Thread& thread, const std::string& why) {
  block.failure = "a divergent " + std::string(thread.operation) + " at " + at(thread.place) + ": " + why + " (block " +
                  std::to_string(block.index.x) + ", thread " + std::to_string(thread.number) + ")";
}

inline bool same_operation(const Thread& one, const Thread& other) {
  return one.place.line() == other.place.line() &&
         (one.operation == other.operation || std::strcmp(one.operation, other.operation) == 0);
}

// The threads of a block that runs, and the fibers that they run in. A fiber begins one thread after the other, and stays
// with the first that has to wait: most threads of most kernels never do, and need no fiber of their own.
template <class Kernel>
class Run {
 public:
  Run(const Kernel& kernel, bool backwards) : kernel_(kernel), backwards_(backwards) {
    const unsigned threads = block.size.x;
    for (unsigned i = threads; i > 0; --i) free_.push_back(i - 1);
  }

  unsigned done() const { return done_; }

  // Begins the threads of a warp that have not begun, and goes on with those that may.
  void go_on(unsigned first, unsigned end) {
    first_ = first, end_ = end;
    for (step_ = 0; step_ < end - first; ++step_) {
      current = &at(step_);
      if (current->wait == Wait::begin) {
        fiber_ = free_.back();
        free_.pop_back();
        fiber::prepare(fiber_, [](void* self) { static_cast<Run*>(self)->begin_threads(); }, this);
        if (fiber::resume(fiber_)) free_.push_back(fiber_);
      } else if (current->wait == Wait::none) {
        const unsigned own = current->fiber;
        if (fiber::resume(own)) free_.push_back(own);
      }
      if (!block.failure.empty()) return;
    }
  }

 private:
  Thread& at(unsigned step) const { return block.threads[backwards_ ? end_ - 1 - step : first_ + step]; }

  // In a fiber: the thread at hand to its end, then those behind it that have not begun.
  void begin_threads() {
    for (;;) {
      current->fiber = fiber_;
      current->wait = Wait::none;
      kernel_();
      current->wait = Wait::done;
      ++done_;
      if (step_ + 1 >= end_ - first_ || at(step_ + 1).wait != Wait::begin) return;
      current = &at(++step_);
    }
  }

  const Kernel& kernel_;
  bool backwards_;
  std::vector<unsigned> free_;
  unsigned first_ = 0, end_ = 0, step_ = 0, fiber_ = 0, done_ = 0;
};

template <class Kernel>
void run_block(const Kernel& kernel, bool backwards) {
  const unsigned threads = block.size.x, warps = (threads + kWarp - 1) / kWarp;
  block.threads.assign(threads, Thread{});
  block.warps.assign(warps, Warp{});
  block.shared.clear();
  block.barriers = 0;
  for (unsigned i = 0; i < threads; ++i) block.threads[i].number = i;
  Run run(kernel, backwards);
  while (run.done() < threads) {
    for (unsigned turn = 0; turn < warps; ++turn) {
      const unsigned w = backwards ? warps - 1 - turn : turn;
      const unsigned first = w * kWarp, end = std::min(threads, first + kWarp);
      for (bool stirred = true; stirred;) {
        run.go_on(first, end);
        if (!block.failure.empty()) return;
        // All of the warp wait, or are done: let those go on that are complete.
        stirred = false;
        for (unsigned i = first; i < end; ++i) {
          Thread& thread = block.threads[i];
          if (thread.wait != Wait::warp) continue;
          current = &thread;
          unsigned present = 0;
          for (unsigned k = first; k < end; ++k) {
            const Thread& other = block.threads[k];
            if (other.wait == Wait::warp && other.mask == thread.mask && (other.mask >> (k - first) & 1) != 0) present |= 1U << (k - first);
          }
          const unsigned wanted = thread.mask;
          if ((wanted >> (i - first) & 1) == 0) return fail_outside(thread, "its own lane is not in the mask");
          if (present != wanted) return fail_outside(thread, "not all lanes of the mask arrive");
          for (unsigned k = first; k < end; ++k) {
            Thread& other = block.threads[k];
            if ((wanted >> (k - first) & 1) == 0) continue;
            if (!same_operation(other, thread))
              return fail_outside(thread, "others are at " + std::string(other.operation) + ", " + at(other.place));
            block.warps[w].values[k - first] = other.value;
          }
          for (unsigned k = first; k < end; ++k)
            if ((wanted >> (k - first) & 1) != 0) block.threads[k].wait = Wait::none;
          block.warps[w].folded = 0;
          if (std::strcmp(thread.operation, "__syncwarp") == 0) ++block.warps[w].syncs;
          stirred = true;
        }
      }
    }
    if (run.done() == threads) break;
    const Thread& waiting = *std::find_if(block.threads.begin(), block.threads.end(),
                                          [](const Thread& thread) { return thread.wait == Wait::block; });
    current = const_cast<Thread*>(&waiting);
    for (const Thread& other : block.threads) {
      if (other.wait == Wait::done)
        return fail_outside(waiting, "thread " + std::to_string(other.number) + " has ended");
      if (other.place.line() != waiting.place.line())
        return fail_outside(waiting, "thread " + std::to_string(other.number) + " is at " + at(other.place));
    }
    ++block.barriers;
    for (Thread& thread : block.threads) thread.wait = Wait::none;
  }
}

// Runs the kernel's grid; returns what went wrong, or nothing. `seed` shuffles the blocks, and turns the threads of
// some of them around.
template <class Kernel>
std::string launch(unsigned grid, unsigned threads, std::uint64_t seed, const Kernel& kernel) {
  if (threads == 0 || threads > kMaxThreads || grid == 0) return "a launch of no or too many threads";
  fiber::provide(threads);
  block.failure.clear();
  block.size = {threads};
  block.grid = {grid};
  std::vector<unsigned> order(grid);
  for (unsigned i = 0; i < grid; ++i) order[i] = i;
  std::uint64_t state = seed * 2 + 1;
  const auto random = [&state] { return (state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 33; };
  if (seed != 0)
    for (unsigned i = grid; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  for (const unsigned number : order) {
    block.index = {number};
    run_block(kernel, seed != 0 && random() % 2 == 0);
    if (!block.failure.empty()) break;
  }
  current = nullptr;
  return block.failure;
}

}  // namespace emulator

// ---- CUDA's own names ----

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define threadIdx (emulator::Index{emulator::current->number})
#define blockIdx (emulator::block.index)
#define blockDim (emulator::block.size)
#define gridDim (emulator::block.grid)

inline void __syncthreads(const emulator::Place& place = emulator::Place::current()) {
  emulator::wait(emulator::Wait::block, "__syncthreads", 0, 0, place);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFF, const emulator::Place& place = emulator::Place::current()) {
  emulator::exchange("__syncwarp", mask, 0, place);
}
inline unsigned __ballot_sync(unsigned mask, bool vote, const emulator::Place& place = emulator::Place::current()) {
  emulator::exchange("__ballot_sync", mask, vote, place);
  return emulator::folded(mask, 0, [](unsigned bits, unsigned lane, std::uint64_t value) {
    return value != 0 ? bits | 1U << lane : bits;
  });
}
inline bool __any_sync(unsigned mask, bool vote, const emulator::Place& place = emulator::Place::current()) {
  return __ballot_sync(mask, vote, place) != 0;
}
inline bool __all_sync(unsigned mask, bool vote, const emulator::Place& place = emulator::Place::current()) {
  return __ballot_sync(mask, vote, place) == mask;
}
template <class T>
T __shfl_sync(unsigned mask, T value, unsigned from, const emulator::Place& place = emulator::Place::current()) {
  return emulator::as_value<T>(emulator::exchange("__shfl_sync", mask, emulator::as_bits(value), place)[from % 32]);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, const emulator::Place& place = emulator::Place::current()) {
  const auto& values = emulator::exchange("__shfl_up_sync", mask, emulator::as_bits(value), place);
  return emulator::lane() >= by ? emulator::as_value<T>(values[emulator::lane() - by]) : value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned with, const emulator::Place& place = emulator::Place::current()) {
  return emulator::as_value<T>(
      emulator::exchange("__shfl_xor_sync", mask, emulator::as_bits(value), place)[emulator::lane() ^ with]);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value,
                                  const emulator::Place& place = emulator::Place::current()) {
  emulator::exchange("__reduce_min_sync", mask, value, place);
  return emulator::folded(mask, ~0U, [](unsigned least, unsigned, std::uint64_t one) {
    return std::min(least, static_cast<unsigned>(one));
  });
}

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = static_cast<T>(old + value);
  return old;
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = old | value;
  return old;
}
template <class T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = old & value;
  return old;
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = std::max(old, value);
  return old;
}

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __ffs(unsigned value) { return value == 0 ? 0 : std::countr_zero(value) + 1; }
inline int __clz(unsigned value) { return std::countl_zero(value); }
