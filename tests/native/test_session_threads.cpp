// Forks of one session on several threads at once. Worth most under -fsanitize=thread (see README.md).
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "session_support.hpp"

namespace tokseam::test {
namespace {

void forks_on_threads() {
  const ToyEngine engine;
  Session<ToyEngine, TinyLimits> base(engine);
  std::string text;
  while (text.size() < 2000) text += "abc ab 123 \xC3\xA9 abab ";
  base.reset(text);
  const Ids base_ids = ids_of(base);

  constexpr unsigned kThreads = 4;
  std::vector<std::exception_ptr> errors(kThreads);
  std::vector<std::thread> threads;
  for (unsigned k = 0; k < kThreads; ++k) {
    threads.emplace_back([&engine, &error = errors[k], mine = base.fork(), k]() mutable {
      try {
        std::mt19937 random(k);
        for (int i = 0; i < 300; ++i) {
          auto session = mine.fork();  // shares with the other threads' sessions; dropped at the end of each round
          for (int j = 0; j < 4; ++j) {
            const std::size_t start = random() % (session.chars() + 1);
            const std::size_t stop = std::min(session.chars(), start + random() % 30);
            session.edit(start, stop, draw_text(random, 30));
          }
          if (i % 10 == 0) CHECK(ids_of(session) == engine.encode_all(text_of(session)), "ids on a thread");
          if (random() % 8 == 0) mine = std::move(session);
        }
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  // Meanwhile this thread uses the session that all the others came from.
  Session<ToyEngine, TinyLimits> own = base.fork();
  for (int i = 0; i < 300; ++i) own.append(" abc");
  base = own.fork();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  CHECK(ids_of(base) == engine.encode_all(text_of(base)), "ids on the first thread");
  base.edit(text.size() - 200, base.chars(), text.substr(text.size() - 200));
}

}  // namespace
}  // namespace tokseam::test

int main() { return tokseam::test::run({{"forks on several threads", tokseam::test::forks_on_threads}}); }
