// A child takes every mutex that its parent's threads used, and finds whole what they guard.
// (Nothing here allocates in threads that run while the process forks: the sanitizers' allocator is not made for that.)
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "fork_safe_mutex.hpp"

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

using namespace tokseam;

namespace {

// A number kept twice, which whoever holds the mutex changes in two steps.
struct Guarded {
  ForkSafeMutex mutex;
  volatile std::size_t once = 0, again = 0;

  void change() {
    const std::lock_guard guard(mutex);
    once = once + 1;
    for (int i = 0; i < 200; ++i) again = again;
    again = again + 1;
  }
  bool whole() {
    const std::lock_guard guard(mutex);
    return once == again;
  }
};

#if defined(__unix__)
// Calls look() in a child of this process; whether it returned true, and in time.
template <class Look>
bool in_a_child(const Look& look) {
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(20);
    ::_exit(look() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Starts threads that call work(number) until it goes out of scope.
class Busy {
 public:
  template <class Work>
  Busy(std::size_t count, const Work& work) {
    for (std::size_t number = 0; number < count; ++number)
      threads_.emplace_back([this, work, number] {
        while (!stop_.load()) work(number);
      });
  }
  ~Busy() {
    stop_.store(true);
    for (std::thread& one : threads_) one.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

constexpr int kForks = 200;

void test_a_child_takes_what_a_thread_held() {
  std::array<Guarded, 3> guarded;
  const Busy busy(3, [&](std::size_t number) { guarded[number].change(); });
  for (int i = 0; i < kForks; ++i)
    CHECK(in_a_child([&] {
            bool whole = true;
            for (Guarded& one : guarded) {
              whole &= one.whole();
              one.change();
            }
            return whole;
          }),
          "fork " + std::to_string(i));
}

void test_mutexes_may_come_and_go_meanwhile() {
  Guarded lasting;
  const Busy busy(3, [&](std::size_t number) {
    std::array<std::optional<Guarded>, 4> some;
    for (std::size_t i = 0; i < some.size(); ++i) some[(i + number) % some.size()].emplace().change();
    some[number].reset();
    lasting.change();
  });
  for (int i = 0; i < kForks; ++i)
    CHECK(in_a_child([&] {
            Guarded another;
            another.change();
            return another.whole() && lasting.whole();
          }),
          "fork " + std::to_string(i));
}

void test_children_have_children() {
  Guarded guarded;
  const Busy busy(1, [&](std::size_t) { guarded.change(); });
  for (int i = 0; i < kForks / 10; ++i)
    CHECK(in_a_child([&] { return in_a_child([&] { return guarded.whole(); }) && guarded.whole(); }),
          "fork " + std::to_string(i));
}

void test_threads_that_fork_at_the_same_time() {
  Guarded guarded;
  std::atomic<int> failed{0}, left{kForks};
  {
    const Busy busy(2, [&](std::size_t) {
      if (left.fetch_sub(1) > 0 && !in_a_child([&] { return guarded.whole(); })) failed.fetch_add(1);
      guarded.change();
    });
    while (left.load() > 0) guarded.change();
  }
  CHECK(failed.load() == 0, std::to_string(failed.load()) + " children");
}
#endif

}  // namespace

int main() {
#if defined(__unix__)
  return tokseam::test::run({
      {"a child takes what a thread held", test_a_child_takes_what_a_thread_held},
      {"mutexes may come and go meanwhile", test_mutexes_may_come_and_go_meanwhile},
      {"children have children", test_children_have_children},
      {"threads that fork at the same time", test_threads_that_fork_at_the_same_time},
  });
#else
  return 0;
#endif
}
