// Engines that break their promises, and engines that fail: the session notices, and stays as it was.
#include <algorithm>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "session_support.hpp"

namespace tokseam::test {
namespace {

// Claims a position between any two digits, where pieces of three digits fall as what stands left of them decides.
struct FalseCuts : ToyEngine {
  bool enabled = true;

  bool is_claimed(std::string_view text, std::size_t at) const {
    return is_cut(text, at) ||
           (enabled && kind_at(text, at) == Kind::digit && kind_at(text, at - 1) == Kind::digit);
  }
  std::size_t next_cut(std::string_view text, std::size_t from) const {
    for (std::size_t at = from == 0 ? 1 : from; at < text.size(); ++at)
      if (is_claimed(text, at)) return at;
    return kNoCut;
  }
  std::size_t last_cut(std::string_view text, std::size_t upto) const {
    for (std::size_t at = upto; at > 0; --at)
      if (is_claimed(text, at)) return at;
    return kNoCut;
  }
};

// Looks further than it says: a 'z' anywhere in the text changes the ids of every 'a'. The pieces stay as they are.
struct FarSighted : ToyEngine {
  void encode(std::string_view text, EncodeMode mode, std::span<const std::size_t> cuts, Ids& ids,
              std::vector<std::size_t>& marks) const {
    ToyEngine::encode(text, mode, cuts, ids, marks);
    if (text.find('z') == std::string_view::npos) return;
    for (std::uint32_t& id : ids)
      if (id == 'a') id = 5000;
  }
};

// Fails at a call, after it has written some of its results.
struct Failing : ToyEngine {
  std::size_t good_calls = 0;  // how many calls succeed from here on
  enum class How { memory, marks } how = How::memory;

  void encode(std::string_view text, EncodeMode mode, std::span<const std::size_t> cuts, Ids& ids,
              std::vector<std::size_t>& marks) const {
    ToyEngine::encode(text, mode, cuts, ids, marks);
    if (calls <= good_calls) return;
    if (how == How::memory) throw std::bad_alloc();
    marks.push_back(0);
  }
};

// Answers positions that are none.
struct Broken : ToyEngine {
  std::size_t answer = kNoCut;
  std::size_t next_cut(std::string_view, std::size_t) const { return answer; }
  std::size_t last_cut(std::string_view, std::size_t) const { return answer; }
};

// Its spellings say something else for one id.
struct Misspelling : ToyEngine {
  explicit Misspelling(const std::string& text) {
    ToySpellings::Texts wrong = texts();
    wrong['c'] = text;
    spellings_.emplace(wrong);
  }
  const Spellings& spellings() const { return spellings_->spellings(); }
  std::optional<ToySpellings> spellings_;
};

// Runs `operation` on `session`, which must throw Error and change nothing. Returns the error.
template <class Error, class S, class F>
Error must_throw(S& session, F operation) {
  const std::string text = text_of(session);
  const Ids ids = ids_of(session);
  const LastOperation last = session.last();
  try {
    operation();
  } catch (const Error& error) {
    CHECK(text_of(session) == text && ids_of(session) == ids, "the session is as it was");
    CHECK(session.last().chars_encoded == last.chars_encoded, "and so are its counters");
    return error;
  }
  CHECK(false, "nothing was thrown");
  throw Failure("not reached");
}

// A chunk keeps the text that its ids do not spell: nobody sees anything of it.
void misspellings() {
  for (const std::string& wrong : {std::string("d"), std::string("cc"), std::string(), std::string(400, 'c')}) {
    const Misspelling engine(wrong);
    Session<Misspelling, TinyLimits> session(engine);
    std::mt19937 random(41);
    std::string text;
    std::size_t most_spelled = 0, most_kept = 0;
    for (int i = 0; i < 600; ++i) {
      const std::string some = i % 3 == 0 ? " c caa " : " ab abab a ";
      if (i % 2 == 0) {
        text += some;
        session.append(some);
      } else {
        const std::size_t at = random() % (text.size() + 1), stop = std::min(text.size(), at + random() % 30);
        text.replace(at, stop - at, some);
        session.edit(at, stop, some);
      }
      CHECK(text_of(session) == text, "the text");
      session.validate();
      session.chunks().walk([&](const Chunk& chunk) {
        std::vector<std::uint32_t> ids(chunk.id_count());
        chunk.copy_ids(0, ids.size(), ids.data());
        if (std::ranges::find(ids, 'c') != ids.end()) CHECK(chunk.keeps_text(), "a text that is not spelled is kept");
        return true;
      });
      most_spelled = std::max(most_spelled, session.spelled_chunk_count());
      most_kept = std::max(most_kept, session.chunk_count() - session.spelled_chunk_count());
    }
    CHECK(ids_of(session) == engine.encode_all(text), "ids");
    CHECK(most_spelled > 10 && most_kept > 10, "chunks of both kinds");
  }
}

void false_cut_in_reset() {
  const FalseCuts engine;
  Session<FalseCuts, TinyLimits> session(engine);
  session.reset("abc abc abc abc");
  // The first claimed position that a mark is asked for stands inside a piece of three digits.
  const auto error = must_throw<OverlapMismatch>(session, [&] { session.reset("\xC3\xA9 a12312312 abc"); });
  CHECK(error.differs == OverlapMismatch::Differs::boundary, "a boundary");
  CHECK(error.position == 4, "at code point " + std::to_string(error.position));
}

void false_cut_in_overlap() {
  FalseCuts engine;
  engine.enabled = false;
  Session<FalseCuts> session(engine);
  session.reset("abc 1231");
  engine.enabled = true;
  // The last claimed position left of the change is between the third and the fourth digit, by chance a true boundary.
  // The last one of the text as it will be, which would become a mark, is between the fourth and the fifth: it is none.
  const auto early = must_throw<OverlapMismatch>(session, [&] { session.append("2"); });
  CHECK(early.differs == OverlapMismatch::Differs::boundary && early.position == 8, std::to_string(early.position));
  engine.enabled = false;
  session.append("2");
  engine.enabled = true;
  // Now it lies left of the change.
  const auto error = must_throw<OverlapMismatch>(session, [&] { session.append("3 ab"); });
  CHECK(error.differs == OverlapMismatch::Differs::boundary && error.position == 8, std::to_string(error.position));
  engine.enabled = false;
  session.append("3 ab");
  CHECK(ids_of(session) == engine.encode_all("abc 123123 ab"), "the session goes on once the engine is mended");
}

void ids_differ_on_the_left() {
  const FarSighted engine;
  Session<FarSighted> session(engine);
  session.reset("a ac ac");
  const auto error = must_throw<OverlapMismatch>(session, [&] { session.append("z"); });
  CHECK(error.differs == OverlapMismatch::Differs::ids && error.position == 4, std::to_string(error.position));
}

void ids_differ_on_the_right() {
  const FarSighted engine;
  Session<FarSighted> session(engine);
  session.reset("cc\xC3\xA9 cac ac ac");
  const auto error = must_throw<OverlapMismatch>(session, [&] { session.edit(0, 0, "z"); });
  CHECK(error.differs == OverlapMismatch::Differs::ids && error.position == 4, std::to_string(error.position));
}

void a_fault_within_random_histories() {
  FalseCuts engine;
  std::mt19937 random(11);
  int caught = 0;
  Session<FalseCuts, TinyLimits> session(engine);
  std::string text;
  for (int step = 0; step < 4000; ++step) {
    const std::string delta = draw_text(random, 12);
    const std::size_t start = random() % (session.chars() + 1);
    const std::size_t stop = std::min(session.chars(), start + random() % 10);
    const Ids ids = ids_of(session);
    const std::string expected = session.text(0, start) + delta + session.text(stop, session.chars());
    try {
      session.edit(start, stop, delta);
      text = expected;
    } catch (const OverlapMismatch&) {
      ++caught;
      CHECK(ids_of(session) == ids, "ids as they were");
    }
    CHECK(text_of(session) == text, "text as it was, or as it should be");
    if (session.chars() > 200) {
      session.edit(0, session.chars(), "");
      text.clear();
    }
  }
  CHECK(caught > 50, std::to_string(caught) + " mismatches");
}

void engines_that_fail() {
  Failing engine;
  engine.good_calls = 1;
  Session<Failing, TinyLimits> session(engine);
  session.reset("abc abc 123 abc abc abc");
  for (const auto how : {Failing::How::memory, Failing::How::marks}) {
    engine.how = how;
    const auto fail_all = [&]<class Error>(const Error*) {
      must_throw<Error>(session, [&] { session.append("abc"); });
      must_throw<Error>(session, [&] { session.edit(3, 9, "12"); });
      must_throw<Error>(session, [&] { session.reset("abc 12"); });
    };
    if (how == Failing::How::memory) fail_all(static_cast<const std::bad_alloc*>(nullptr));
    if (how == Failing::How::marks) fail_all(static_cast<const std::logic_error*>(nullptr));
  }
}

void positions_that_are_none() {
  Broken engine;
  Session<Broken, TinyLimits> session(engine);
  session.reset("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9");
  for (const std::size_t answer : {0u, 1u, 3u, 9u, 1000u}) {
    engine.answer = answer;
    must_throw<std::logic_error>(session, [&] { session.append("abc"); });
    must_throw<std::logic_error>(session, [&] { session.edit(3, 4, "12"); });
    must_throw<std::logic_error>(session, [&] { session.reset(std::string(50, 'a')); });
  }
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"misspellings", misspellings},
      {"a false cut in a fresh text", false_cut_in_reset},
      {"a false cut in an overlap", false_cut_in_overlap},
      {"ids that differ on the left", ids_differ_on_the_left},
      {"ids that differ on the right", ids_differ_on_the_right},
      {"false cuts within random histories", a_fault_within_random_histories},
      {"engines that fail", engines_that_fail},
      {"positions that are none", positions_that_are_none},
  });
}
