// Threads that help with one piece of work at a time, and wait for the next in between: a started one would cost a text
// of a million characters some hundredths of its time, and begin with nothing of its own at hand.
// Bounded, and nobody depends on them: whoever asks works along, and is done when the work is, whether one came or not.
// A helper is kept off the core that whoever asks is on. Without that, a scheduler may well put the one that it wakes
// right there, to wait for the end of what it was to help with.
// Not here: how work is parted; each call takes of it what is left (parallel.hpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif

namespace tokseam {

// A thread as the system knows it.
inline long this_thread_id() {
#if defined(__linux__)
  return ::syscall(SYS_gettid);
#else
  return 0;
#endif
}

// The cores that a thread may run on, where the system tells.
class AllowedCores {
 public:
  static AllowedCores of_this_thread() {
    AllowedCores cores;
#if defined(__linux__)
    cores.known_ = ::sched_getaffinity(0, sizeof(cores.set_), &cores.set_) == 0;
#endif
    return cores;
  }

  // But for the one that this thread is on, if there are others.
  AllowedCores beside_this_thread() const {
    AllowedCores others = *this;
#if defined(__linux__)
    const int here = known_ ? ::sched_getcpu() : -1;
    if (here >= 0 && CPU_COUNT(&set_) > 1) CPU_CLR(static_cast<std::size_t>(here), &others.set_);
#endif
    return others;
  }

  // Have a thread of this process run on them.
  void give_to([[maybe_unused]] long thread) const {
#if defined(__linux__)
    if (known_) ::sched_setaffinity(static_cast<::pid_t>(thread), sizeof(set_), &set_);
#endif
  }

  bool operator==(const AllowedCores& other) const {
#if defined(__linux__)
    return known_ == other.known_ && CPU_EQUAL(&set_, &other.set_);
#else
    return known_ == other.known_;
#endif
  }

 private:
#if defined(__linux__)
  cpu_set_t set_{};
#endif
  bool known_ = false;
};

class Helpers {
 public:
  static constexpr std::size_t kMost = 64;

  // Those of this process: a fork has none of its parent's threads, nor may it look at what their locks guard. Never
  // destroyed, as they wait for ever.
  static Helpers& of_process() {
    static std::atomic<Helpers*> current{nullptr};
    Helpers* present = current.load(std::memory_order_acquire);
    if (present != nullptr && present->process_ == process_id()) return *present;
    auto* mine = new Helpers(present);
    if (current.compare_exchange_strong(present, mine, std::memory_order_acq_rel)) return *mine;
    delete mine;  // another thread of this process was first
    return *present;
  }

  // Calls here() on this thread and there() on at most `count` others, and returns when all that began have ended. An
  // other one may begin late or never, so whatever there is to do, here() must do what is left of it.
  template <class Here, class There>
  void run(std::size_t count, const Here& here, const There& there) {
    static_assert(noexcept(here()) && noexcept(there()), "nobody would catch it");
    if (count == 0) return here();
    Job job{[](const void* task) noexcept { (*static_cast<const There*>(task))(); }, &there, count, 0,
            AllowedCores::of_this_thread().beside_this_thread()};
    {
      const std::lock_guard guard(mutex_);
      jobs_.push_back(&job);
      for (std::size_t i = 0; i < count && !waiting_.empty(); ++i) call_one(job.cores);
      start_missing();
    }
    here();
    watch([&] { return job.running.load(std::memory_order_relaxed) == 0; });
    std::unique_lock guard(mutex_);
    if (job.wanted > 0) std::erase(jobs_, &job);
    done_.wait(guard, [&] { return job.running == 0; });
  }

  // How many threads there are: those that wait or are about to, and all.
  std::size_t idle() const {
    const std::lock_guard guard(mutex_);
    return idle_;
  }
  std::size_t count() const {
    const std::lock_guard guard(mutex_);
    return count_;
  }

 private:
  static constexpr int kMostLooks = 2000;  // 30 to 100 us, by processor

  // What somebody waits for, who keeps it. Guarded by mutex_, but `running` may be looked at.
  struct Job {
    void (*call)(const void*) noexcept;
    const void* work;
    std::size_t wanted;   // threads that may still join in; with none it is not in jobs_ ...
    std::atomic<std::size_t> running;  // ... and those that have
    AllowedCores cores;   // of whoever asks, but for the one that he is on
  };

  // What a helper keeps. Guarded by mutex_.
  struct Helper {
    const long thread = this_thread_id();
    AllowedCores cores = AllowedCores::of_this_thread();
    bool called = false;
    std::condition_variable call;
  };

  // Looks for a moment whether something is so. PERF: to sleep and be woken takes longer than others mostly need to end
  // what is left.
  template <class Done>
  static void watch(const Done& done) {
    for (int looks = 0; looks < kMostLooks && !done(); ++looks) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
  }

  void call_one(const AllowedCores& cores) {
    Helper& helper = *waiting_.back();
    waiting_.pop_back();
    if (helper.cores != cores) cores.give_to(helper.thread);
    helper.cores = cores;
    helper.called = true;
    helper.call.notify_one();
  }

  explicit Helpers(Helpers* of_parent) : of_parent_(of_parent) {}

  static long process_id() {
#if defined(__unix__) || defined(__APPLE__)
    return ::getpid();
#else
    return 0;
#endif
  }

  // More threads, if those that wait are fewer than those that are wanted.
  void start_missing() {
    std::size_t wanted = 0;
    for (const Job* job : jobs_) wanted += job->wanted;
    for (; idle_ < wanted && count_ < kMost; ++idle_, ++count_) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (...) {
        return;  // the system has no thread to give, or no memory for one: fewer help
      }
    }
  }

  void serve() {
    Helper self;
    std::unique_lock guard(mutex_);
    for (;;) {
      while (!jobs_.empty()) help(self, guard);
      self.called = false;
      waiting_.push_back(&self);  // within the capacity, so it never throws
      self.call.wait(guard, [&] { return self.called; });
    }
  }

  void help(Helper& self, std::unique_lock<std::mutex>& guard) {
    --idle_;
    Job& job = *jobs_.front();
    if (--job.wanted == 0) jobs_.pop_front();
    ++job.running;
    const AllowedCores cores = job.cores;
    const bool moves = self.cores != cores;
    self.cores = cores;
    guard.unlock();
    if (moves) cores.give_to(self.thread);
    job.call(job.work);
    guard.lock();
    ++idle_;
    if (--job.running == 0) done_.notify_all();  // from here on the job may be gone
  }

  const long process_ = process_id();
  Helpers* const of_parent_;  // left alone, but not lost
  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable done_;
  std::deque<Job*> jobs_;
  std::vector<Helper*> waiting_ = [] {
    std::vector<Helper*> none;
    none.reserve(kMost);
    return none;
  }();
  std::size_t idle_ = 0, count_ = 0;  // threads that wait or are about to; all
};

}  // namespace tokseam
