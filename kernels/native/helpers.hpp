// Threads that help with one piece of work at a time, and wait for the next in between: a started one would cost a text
// of a million characters some hundredths of its time, and begin with nothing of its own at hand.
// Bounded, and nobody depends on them: whoever asks works along, and is done when the work is, whether one came or not.
// Not here: how work is parted; each call takes of it what is left (parallel.hpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace tokseam {

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

  void take_over() const {
#if defined(__linux__)
    if (known_) ::sched_setaffinity(0, sizeof(set_), &set_);
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
            AllowedCores::of_this_thread()};
    {
      const std::lock_guard guard(mutex_);
      jobs_.push_back(&job);
      start_missing();
    }
    if (count == 1)
      called_.notify_one();
    else
      called_.notify_all();
    here();
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
  // What somebody waits for, who keeps it. Guarded by mutex_.
  struct Job {
    void (*call)(const void*) noexcept;
    const void* work;
    std::size_t wanted;   // threads that may still join in; with none it is not in jobs_ ...
    std::size_t running;  // ... and those that have
    AllowedCores cores;   // of whoever asks
  };

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
    AllowedCores cores = AllowedCores::of_this_thread();
    std::unique_lock guard(mutex_);
    for (;;) {
      called_.wait(guard, [&] { return !jobs_.empty(); });
      --idle_;
      Job& job = *jobs_.front();
      if (--job.wanted == 0) jobs_.pop_front();
      ++job.running;
      guard.unlock();
      if (job.cores != cores) {
        job.cores.take_over();
        cores = job.cores;
      }
      job.call(job.work);
      guard.lock();
      ++idle_;
      if (--job.running == 0) done_.notify_all();  // from here on the job may be gone
    }
  }

  const long process_ = process_id();
  Helpers* const of_parent_;  // left alone, but not lost
  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable called_, done_;
  std::deque<Job*> jobs_;
  std::size_t idle_ = 0, count_ = 0;  // threads that wait or are about to; all
};

}  // namespace tokseam
