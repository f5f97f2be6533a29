// The least a test program needs: checks that say what failed and where, and named cases.
// A failed check throws, so that the rest of its case is skipped; the other cases still run.
#pragma once

#include <exception>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tokseam::test {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Case {
  std::string name;
  std::function<void()> body;
};

// Runs the cases in order and returns what main() returns.
inline int run(const std::vector<Case>& cases) {
  int failed = 0;
  for (const Case& c : cases) {
    try {
      c.body();
      std::cout << "ok    " << c.name << std::endl;
    } catch (const std::exception& error) {
      ++failed;
      std::cout << "FAIL  " << c.name << ": " << error.what() << std::endl;
    }
  }
  return failed == 0 ? 0 : 1;
}

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::ostringstream message;
  message << file << ':' << line << ": " << what;
  throw Failure(message.str());
}

}  // namespace tokseam::test

// CHECK(condition, message): the message, a string, is made only when the condition does not hold.
#define CHECK(condition, message)                                                                             \
  do {                                                                                                        \
    if (!(condition))                                                                                         \
      ::tokseam::test::fail(__FILE__, __LINE__, std::string("not true: " #condition "; ") + (message));       \
  } while (false)

#define CHECK_THROWS(type, expression)                                                                        \
  do {                                                                                                        \
    bool caught_ = false;                                                                                     \
    try {                                                                                                     \
      static_cast<void>(expression);                                                                          \
    } catch (const type&) {                                                                                   \
      caught_ = true;                                                                                         \
    }                                                                                                         \
    if (!caught_) ::tokseam::test::fail(__FILE__, __LINE__, "no " #type " from " #expression);                \
  } while (false)
