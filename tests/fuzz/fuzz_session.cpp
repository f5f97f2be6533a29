// Arbitrary bytes as a history of sessions and their forks, over the toy engine and chunks of a few bytes, or chunks of
// a few words with many marks: after every step the patched ids, the session's own, and its text are those of a full
// encode, and every invariant holds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_support.hpp"
#include "session_support.hpp"

namespace {

using namespace tokseam;
using test::Ids;

constexpr std::size_t kMaxSteps = 40;
constexpr std::size_t kMaxSessions = 4;

template <class Limits>
struct Tracked {
  Session<test::ToyEngine, Limits> session;
  std::string text;
  Ids mirror;
};

template <class Limits>
void step(Tracked<Limits>& tracked, fuzz::Bytes& bytes, std::uint8_t kind) {
  auto& [session, text, mirror] = tracked;
  const std::size_t chars = session.chars();
  Splice splice;
  if (kind == 0) {
    text = bytes.text(60);
    splice = session.reset(text);
  } else if (kind < 3) {
    const std::string delta = bytes.text(20);
    text += delta;
    splice = session.append(delta);
  } else {
    const std::size_t start = (bytes.byte() * std::size_t{257}) % (chars + 1);
    const std::size_t stop = start + bytes.byte() % (chars - start + 1);
    const std::string delta = bytes.text(12);
    const std::size_t from = utf8::offset_of_code_point(text, start);
    text.replace(from, utf8::offset_of_code_point(text, stop) - from, delta);
    splice = session.edit(start, stop, delta);
  }
  test::apply_splice(splice, mirror);
}

template <class Limits>
void live(fuzz::Bytes& bytes, bool split_special) {
  static const test::ToyEngine engine;
  std::vector<Tracked<Limits>> all;
  all.push_back({Session<test::ToyEngine, Limits>(engine, split_special), "", {}});
  for (std::size_t steps = 0; steps < kMaxSteps && !bytes.empty(); ++steps) {
    const std::uint8_t choice = bytes.byte();
    const std::size_t which = (choice >> 3) % all.size();
    if (choice % 8 == 7) {
      Tracked<Limits> twin{all[which].session.fork(), all[which].text, all[which].mirror};
      if (all.size() < kMaxSessions) {
        all.push_back(std::move(twin));
      } else {
        all[(which + 1) % all.size()] = std::move(twin);
      }
      continue;
    }
    Tracked<Limits>& tracked = all[which];
    step(tracked, bytes, choice % 8);
    const Ids expected = engine.encode_all(tracked.text, tracked.session.split_special());
    FUZZ_CHECK(tracked.mirror == expected);
    FUZZ_CHECK(test::ids_of(tracked.session) == expected);
    FUZZ_CHECK(test::text_of(tracked.session) == tracked.text);
    tracked.session.validate();
  }
  for (const Tracked<Limits>& tracked : all) {  // forks do not disturb each other
    tracked.session.validate();
    FUZZ_CHECK(test::ids_of(tracked.session) == tracked.mirror);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes bytes(data, size);
  const std::uint8_t mode = bytes.byte();
  if ((mode & 2) == 0) {
    live<test::TinyLimits>(bytes, (mode & 1) != 0);
  } else {
    live<test::ManyMarks>(bytes, (mode & 1) != 0);
  }
  return 0;
}
