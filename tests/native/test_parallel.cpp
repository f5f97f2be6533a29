// A text encoded on several threads is the text encoded on one; who helps, how many, and what becomes of them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "helpers.hpp"
#include "parallel.hpp"
#include "toy_engine.hpp"

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace tokseam;
using tokseam::test::ToyEngine;

namespace {

std::string draw_text(std::mt19937& random, std::size_t bytes) {
  static const std::vector<std::string> parts{"ab", "a ", "ba c", "<|x|>", "  ", "12", "\u00E9", "\u4E16 ", "!!", "c ab"};
  std::string text;
  while (text.size() < bytes) text += parts[random() % parts.size()];
  return text;
}

std::vector<std::uint32_t> plain(const ToyEngine& engine, const std::string& text, EncodeMode mode) {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> marks;
  engine.encode(text, mode, {}, ids, marks);
  return ids;
}

void check_threads(const ToyEngine& engine, const std::string& text) {
  for (const EncodeMode mode : {EncodeMode{false, false}, EncodeMode{true, true}})
    for (const std::size_t threads : {0, 1, 2, 3, 8, 100}) {
      std::vector<std::uint32_t> ids{7}, expected = plain(engine, text, mode);
      expected.insert(expected.begin(), 7);
      encode_parallel(engine, text, mode, threads, ids);
      CHECK(ids == expected, std::to_string(text.size()) + " bytes on " + std::to_string(threads) + " threads");
    }
}

// Each mark is that of one thread; whoever begins at a cut knows it to be a boundary, where another may not look.
void test_marks_are_those_of_one_thread() {
  std::mt19937 random(11);
  const ToyEngine engine;
  for (int round = 0; round < 60; ++round) {
    const std::string text = draw_text(random, 1 + random() % 500'000);
    std::vector<std::size_t> cuts;
    const std::size_t apart = round % 3 == 0 ? 1 : 1 + random() % 20'000;
    for (std::size_t at = 1; at < text.size();) {
      at = engine.next_cut(text, utf8::boundary_at_or_after(text, at));
      if (at == kNoCut) break;
      cuts.push_back(at);
      at += apart;
    }
    const EncodeMode mode{round % 2 == 0, round % 4 == 0};
    std::vector<std::uint32_t> expected;
    std::vector<std::size_t> expected_marks;
    engine.encode(text, mode, cuts, expected, expected_marks);
    for (const std::size_t threads : {1, 2, 5}) {
      std::vector<std::uint32_t> ids{7, 7};
      std::vector<std::size_t> marks{99};
      encode_parallel(engine, text, mode, threads, cuts, ids, marks);
      CHECK(std::vector(ids.begin() + 2, ids.end()) == expected, "ids");
      CHECK(marks.size() == cuts.size(), "one for each cut");
      for (std::size_t k = 0; k < cuts.size(); ++k)
        CHECK(marks[k] == expected_marks[k] ||
                  (expected_marks[k] == kNoMark && marks[k] == plain(engine, text.substr(0, cuts[k]), mode).size()),
              "mark " + std::to_string(k) + " on " + std::to_string(threads) + " threads");
    }
  }
}

void test_threads_change_nothing() {
  std::mt19937 random(5);
  const ToyEngine engine;
  for (const std::size_t size : {0, 1, 1'000, 65'535, 131'072, 140'000, 300'000, 900'000})
    check_threads(engine, size == 0 ? "" : draw_text(random, size));
}

void test_long_stretches_without_cuts() {
  std::mt19937 random(6);
  const ToyEngine engine;
  const std::string digits(200'000, '1'), words = draw_text(random, 100'000);
  check_threads(engine, digits);
  check_threads(engine, digits + words);
  check_threads(engine, words + digits);
  check_threads(engine, digits + " ab ab" + digits + words + digits);
}

// Every byte is in just one part, whoever takes from which end.
void test_parts_meet() {
  std::mt19937 random(7);
  const ToyEngine engine;
  for (int round = 0; round < 200; ++round) {
    std::string text = draw_text(random, 1 + random() % (round % 2 == 0 ? 400'000 : 40'000));
    if (round % 4 == 0) text.insert(engine.next_cut(text, 0) % text.size(), std::string(random() % 200'000, '1'));
    detail::RestOfText<ToyEngine> rest(engine, text, 1 + random() % 4);
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (;;) {
      const bool in_front = random() % 2 == 0, first = random() % 3 == 0;
      const auto [begin, end] = in_front ? rest.take_front(first) : rest.take_back(first);
      if (begin == end) break;
      parts.emplace_back(begin, end);
    }
    std::ranges::sort(parts);
    std::size_t at = 0;
    for (const auto& [begin, end] : parts) {
      CHECK(begin == at && end > begin, "parts meet");
      CHECK(begin == 0 || engine.next_cut(text, begin) == begin, "where they may");
      at = end;
    }
    CHECK(at == text.size(), "all is taken");
    CHECK(parts.size() < 60, "parts are not crumbs: " + std::to_string(parts.size()));
  }
}

struct FailingEngine : ToyEngine {
  std::size_t fails_from;
  mutable std::atomic<int> failed{0};
  explicit FailingEngine(std::size_t from) : fails_from(from) {}
  void encode(std::string_view text, EncodeMode mode, std::span<const std::size_t> cuts,
              std::vector<std::uint32_t>& ids, std::vector<std::size_t>& marks) const {
    if (calls.load() >= fails_from) {
      ++failed;
      throw std::runtime_error("planted");
    }
    ToyEngine::encode(text, mode, cuts, ids, marks);
  }
};

void test_what_is_thrown_arrives_once() {
  std::mt19937 random(8);
  const std::string text = draw_text(random, 600'000);
  for (const std::size_t from : {0, 1, 3, 6}) {
    const FailingEngine engine(from);
    std::vector<std::uint32_t> ids;
    std::string said;
    try {
      encode_parallel(engine, text, {}, 3, ids);
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    CHECK(said == "planted", "call " + std::to_string(from));
    CHECK(engine.failed <= 3, "nobody goes on");
  }
}

// Waits for `done`, which other threads bring about, for some seconds at most.
template <class Done>
bool soon(const Done& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void test_helpers_come_back() {
  Helpers& helpers = Helpers::of_process();
  std::atomic<int> came{0};
  // Here, the work is done when all have come; so they do come.
  const auto there = [&]() noexcept { ++came; };
  for (int turn = 1; turn <= 20; ++turn) {
    const auto here = [&]() noexcept { soon([&] { return came == 3 * turn; }); };
    helpers.run(3, here, there);
    CHECK(came == 3 * turn, "three helped");
  }
  CHECK(soon([&] { return helpers.idle() == helpers.count(); }), "all wait for the next");
  const std::size_t count = helpers.count();
  CHECK(count >= 3 && count <= Helpers::kMost, "no more than were asked for, nor than there may be");
  const auto nothing = []() noexcept {};
  for (int turn = 0; turn < 20; ++turn) {
    helpers.run(3, nothing, nothing);
    CHECK(soon([&] { return helpers.idle() == helpers.count(); }), "");
  }
  CHECK(helpers.count() == count, "those that wait are called first");
  helpers.run(10'000, nothing, nothing);
  CHECK(helpers.count() <= Helpers::kMost, "bounded");
}

// Nobody waits for a helper that did not begin: all are busy here, and the work within the work is done all the same.
void test_work_within_work() {
  Helpers& helpers = Helpers::of_process();
  std::atomic<int> inner{0};
  const auto nothing = []() noexcept {};
  const auto work = [&]() noexcept {
    const auto here = [&]() noexcept { ++inner; };
    for (int turn = 0; turn < 50; ++turn) helpers.run(Helpers::kMost, here, nothing);
  };
  helpers.run(Helpers::kMost, work, work);
  CHECK(inner >= 50 && inner % 50 == 0, "");
}

void test_many_ask_at_once() {
  std::mt19937 random(9);
  const ToyEngine engine;
  const std::string text = draw_text(random, 300'000);
  const std::vector<std::uint32_t> expected = plain(engine, text, {});
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&] {
        for (int turn = 0; turn < 5; ++turn) {
          std::vector<std::uint32_t> ids;
          encode_parallel(engine, text, {}, 3, ids);
          wrong += ids != expected;
        }
      });
  }
  CHECK(wrong == 0, "");
}

// ThreadSanitizer does not let a fork start threads.
#if defined(__unix__) && !defined(__SANITIZE_THREAD__)
#define TOKSEAM_FORKS 1
#endif

#if defined(TOKSEAM_FORKS)
// A fork has none of the threads, and starts its own.
void test_a_fork_has_its_own() {
  std::mt19937 random(10);
  const ToyEngine engine;
  const std::string text = draw_text(random, 300'000);
  const std::vector<std::uint32_t> expected = plain(engine, text, {});
  const auto right = [&] {
    std::vector<std::uint32_t> ids;
    encode_parallel(engine, text, {}, 3, ids);
    return ids == expected;
  };
  CHECK(right(), "before");
  Helpers* const of_parent = &Helpers::of_process();
  const pid_t child = ::fork();
  CHECK(child >= 0, "a fork");
  if (child == 0) {
    ::alarm(60);  // ends it if it hangs
    const bool fine = &Helpers::of_process() != of_parent && right() && right() && Helpers::of_process().count() > 0;
    ::_exit(fine ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child, "it ended");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "with the right ids, on threads of its own");
  CHECK(&Helpers::of_process() == of_parent && right(), "and the parent goes on");
}
#endif

#if defined(__linux__)
// A helper runs where whoever asks may run.
void test_helpers_keep_to_the_cores() {
  cpu_set_t all;
  CHECK(::sched_getaffinity(0, sizeof(all), &all) == 0, "");
  std::vector<std::size_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  for (const std::size_t core : {cores.front(), cores.back(), cores.front()}) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CHECK(::sched_setaffinity(0, sizeof(one), &one) == 0, "");
    std::atomic<int> came{0}, elsewhere{0};
    const auto there = [&]() noexcept {
      cpu_set_t mine;
      if (::sched_getaffinity(0, sizeof(mine), &mine) != 0 || !CPU_EQUAL(&mine, &one)) ++elsewhere;
      ++came;
    };
    const auto here = [&]() noexcept { soon([&] { return came == 2; }); };
    Helpers::of_process().run(2, here, there);
    CHECK(came == 2 && elsewhere == 0, "core " + std::to_string(core));
  }
  CHECK(::sched_setaffinity(0, sizeof(all), &all) == 0, "");
}

// It is kept off the core of whoever asks, whom it would wait for there; where he has no other, it shares that.
void test_helpers_keep_off_the_asker() {
  cpu_set_t all;
  CHECK(::sched_getaffinity(0, sizeof(all), &all) == 0, "");
  if (CPU_COUNT(&all) == 1) return;
  int stayed = 0, wrong = 0;
  for (int turn = 0; turn < 50; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    cpu_set_t others = all, mine = all;
    const int before = ::sched_getcpu();
    CPU_CLR(static_cast<std::size_t>(before), &others);
    std::atomic<bool> came{false};
    int during = -1;
    const auto there = [&]() noexcept {
      ::sched_getaffinity(0, sizeof(mine), &mine);
      came = true;
    };
    const auto here = [&]() noexcept {
      during = ::sched_getcpu();
      soon([&] { return came.load(); });
    };
    Helpers::of_process().run(1, here, there);
    CHECK(came, "it came");
    if (during != before) continue;  // the asker moved meanwhile
    ++stayed;
    wrong += !CPU_EQUAL(&mine, &others);
  }
  CHECK(stayed > 0 && wrong <= stayed / 10, "kept off " + std::to_string(stayed - wrong) + " times of " + std::to_string(stayed));
}
#endif

}  // namespace

int main() {
  return tokseam::test::run({{"threads change nothing", test_threads_change_nothing},
                             {"marks are those of one thread", test_marks_are_those_of_one_thread},
                             {"long stretches without cuts", test_long_stretches_without_cuts},
                             {"parts meet", test_parts_meet},
                             {"what is thrown arrives once", test_what_is_thrown_arrives_once},
                             {"helpers come back", test_helpers_come_back},
                             {"work within work", test_work_within_work},
                             {"many ask at once", test_many_ask_at_once},
#if defined(TOKSEAM_FORKS)
                             {"a fork has its own", test_a_fork_has_its_own},
#endif
#if defined(__linux__)
                             {"helpers keep to the cores", test_helpers_keep_to_the_cores},
                             {"helpers keep off the asker", test_helpers_keep_off_the_asker},
#endif
  });
}
