// Random histories of sessions and their forks; after every step each result is compared with a full encode.
#include <random>
#include <string>
#include <vector>

#include "session_support.hpp"

namespace tokseam::test {
namespace {

// A session beside what it should be: the text, and the ids as whoever applies the splices has them.
template <class Limits>
struct Tracked {
  Session<ToyEngine, Limits> session;
  std::string text;
  Ids mirror;
};

template <class Limits>
void step(Tracked<Limits>& tracked, std::mt19937& random, std::size_t max_chars, const ToyEngine& engine) {
  auto& [session, text, mirror] = tracked;
  const std::size_t chars = session.chars();
  const std::string delta = draw_text(random, random() % 8 == 0 ? max_chars / 4 : 6);
  Splice splice;
  switch (random() % 16) {
    case 0:
      text = draw_text(random, max_chars);
      splice = session.reset(text);
      CHECK(splice.start == 0 && splice.stop == mirror.size(), "a reset replaces all ids");
      break;
    case 1: case 2: case 3: case 4: case 5:
      text += delta;
      splice = session.append(delta);
      break;
    default: {
      const std::size_t start = random() % (chars + 1);
      std::size_t stop = std::min(chars, start + random() % 8);
      if (chars > max_chars || random() % 16 == 0) stop = start + random() % (chars - start + 1);
      const std::size_t from = utf8::offset_of_code_point(text, start);
      text.replace(from, utf8::offset_of_code_point(text, stop) - from, delta);
      splice = session.edit(start, stop, delta);
    }
  }
  apply_splice(splice, mirror);
  const Ids expected = engine.encode_all(text, session.split_special());
  CHECK(mirror == expected, "the spliced ids of '" + text + "'");
  CHECK(ids_of(session) == expected, "the session's ids of '" + text + "'");
  CHECK(text_of(session) == text, "the session's text for '" + text + "'");
  CHECK(session.last().bytes_encoded <= session.bytes(), "no more than the text is encoded");
}

template <class Limits>
void histories(unsigned seed, int steps, std::size_t max_chars, bool split_special, int validate_every) {
  std::mt19937 random(seed);
  const ToyEngine engine;
  std::vector<Tracked<Limits>> all;
  all.push_back({Session<ToyEngine, Limits>(engine, split_special), "", {}});
  std::size_t most_chunks = 0;
  for (int i = 0; i < steps; ++i) {
    Tracked<Limits>& tracked = all[random() % all.size()];
    step(tracked, random, max_chars, engine);
    most_chunks = std::max(most_chunks, tracked.session.chunk_count());
    if (i % validate_every == 0) tracked.session.validate();
    if (random() % 20 == 0) {
      Tracked<Limits> twin{tracked.session.fork(), tracked.text, tracked.mirror};
      if (all.size() < 6) {
        all.push_back(std::move(twin));
      } else {
        all[random() % all.size()] = std::move(twin);
      }
    }
  }
  for (const Tracked<Limits>& tracked : all) {
    tracked.session.validate();
    CHECK(ids_of(tracked.session) == tracked.mirror, "forks do not disturb each other");
  }
  CHECK(most_chunks > 2, "the histories reach " + std::to_string(most_chunks) + " chunks");
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  using tokseam::ChunkLimits;
  return run({
      {"tiny chunks, short texts", [] { histories<TinyLimits>(21, 30000, 40, false, 1); }},
      {"tiny chunks, longer texts", [] { histories<TinyLimits>(22, 6000, 300, false, 4); }},
      {"tiny chunks, literals as text", [] { histories<TinyLimits>(23, 6000, 80, true, 1); }},
      {"many marks, short texts", [] { histories<ManyMarks>(25, 20000, 120, false, 1); }},
      {"many marks, longer texts", [] { histories<ManyMarks>(26, 6000, 400, true, 2); }},
      {"real chunks", [] { histories<ChunkLimits>(24, 1500, 16000, false, 10); }},
  });
}
