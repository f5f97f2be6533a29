// What operations cost, counted in bytes handed to the engine and bytes kept: no clock, so no flakes.
#include <random>
#include <string>

#include "session_support.hpp"

namespace tokseam::test {
namespace {

constexpr std::size_t kMegabyte = 1024 * 1024;

// Words of one to seven letters, with a number now and then.
std::string words(std::size_t bytes) {
  std::mt19937 random(31);
  std::string text;
  while (text.size() < bytes) {
    for (std::size_t n = 1 + random() % 7; n > 0; --n) text += static_cast<char>('a' + random() % 4);
    if (random() % 20 == 0) text += " 123";
    text += ' ';
  }
  return text;
}

// The bytes that `operation` hands to the engine.
template <class F>
std::size_t cost(const ToyEngine& engine, F operation) {
  const std::size_t before = engine.bytes_encoded;
  operation();
  return engine.bytes_encoded - before;
}

// The most that a change of `change` bytes may encode: the change, what lies between two marks at each end of it, and
// at most as much again for an overlap on each side. Marks here are at most 1.5 times their distance and one word apart.
std::size_t bound(std::size_t change) { return change + 4 * (ChunkLimits::kMarkBytes * 3 / 2 + 16); }

// The most that an append may encode: the delta, and what lies behind the last mark.
std::size_t append_bound(std::size_t delta) { return delta + 4 * ChunkLimits::kTailBytes; }

void appends_to_a_large_text() {
  const ToyEngine engine;
  Session<ToyEngine> session(engine);
  const std::string text = words(4 * kMegabyte);
  CHECK(cost(engine, [&] { session.reset(text); }) == text.size(), "a fresh text is encoded once");
  std::size_t total = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string delta(1, i % 5 == 4 ? ' ' : static_cast<char>('a' + i % 3));
    const std::size_t one = cost(engine, [&] { session.append(delta); });
    CHECK(one <= append_bound(1), "an append of one character encodes " + std::to_string(one) + " bytes");
    total += one;
  }
  CHECK(total / 3000 <= ChunkLimits::kTailBytes + 32, "about the tail on average");
  for (const std::size_t size : {100u, 1400u, 14000u, 400000u}) {
    const std::string delta = words(size);
    const std::size_t one = cost(engine, [&] { session.append(delta); });
    CHECK(one <= append_bound(delta.size()),
          "an append of " + std::to_string(size) + " encodes " + std::to_string(one));
    CHECK(session.last().bytes_encoded == one, "and says so");
  }
}

void an_append_makes_one_chunk() {
  const ToyEngine engine;
  Session<ToyEngine> session(engine);
  session.reset(words(kMegabyte));
  Session<ToyEngine> twin = session.fork();
  std::size_t alone = 0;
  for (int i = 0; i < 100; ++i) {
    twin = session.fork();
    twin.append(" abc");
    const bool parted = twin.chunk_count() != session.chunk_count();
    const Chunk& last = twin.chunks().at(twin.chunk_count() - 1);
    if (!parted) CHECK(twin.unshared_bytes() == sizeof(twin) + last.allocated_bytes(), "no node of the tree is new");
    alone += parted ? 0 : 1;
    session.append(words(100));
  }
  CHECK(alone > 80, "a chunk is parted now and then only, not " + std::to_string(100 - alone) + " times in 100");
}

void edits_in_a_large_text() {
  const ToyEngine engine;
  Session<ToyEngine> session(engine);
  session.reset(words(4 * kMegabyte));
  std::mt19937 random(32);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t start = random() % session.chars();
    const std::size_t gone = std::min<std::size_t>(random() % (i % 10 == 0 ? 5000 : 20), session.chars() - start);
    const std::string delta = words(random() % 40);
    const std::size_t one = cost(engine, [&] { session.edit(start, start + gone, delta); });
    CHECK(one <= bound(delta.size()), "an edit encodes " + std::to_string(one) + " bytes");
  }
  CHECK(cost(engine, [&] { session.edit(1000, session.chars() - 1000, "a"); }) <= bound(1), "deleting is free");
  CHECK(cost(engine, [&] { Session<ToyEngine> twin = session.fork(); }) == 0, "forking is free");
}

void appends_from_nothing() {
  const ToyEngine engine;
  Session<ToyEngine> session(engine);
  const std::string text = words(20000);
  std::size_t most = 0;
  for (const char c : text) most = std::max(most, cost(engine, [&] { session.append(std::string(1, c)); }));
  CHECK(most <= bound(1), "one append encodes up to " + std::to_string(most) + " bytes");
  CHECK(session.chunk_count() > 3, "the chunks part as the text grows");
  CHECK(ids_of(session) == engine.encode_all(text), "ids");
}

void a_long_stretch_is_left_behind() {
  const ToyEngine engine;
  Session<ToyEngine> session(engine);
  session.reset("abc abc ");
  std::string stretch;
  while (stretch.size() < 200000) stretch += "1234567890";
  session.append(stretch);
  session.append("abc abc");  // still touches the stretch's chunk
  session.append(" abc");     // from here on there is a cut behind it
  const std::size_t one = cost(engine, [&] { session.append(" abc"); });
  CHECK(one <= bound(4), "an append behind the stretch encodes " + std::to_string(one) + " bytes");
  session.validate();
}

// Tokens of four bytes, as production vocabularies have them for English and code; the toy's few merges give less.
struct FourByteTokens {
  std::size_t next_cut(std::string_view text, std::size_t from) const {
    for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at)
      if (text[at - 1] == 'z' && text[at] == 'a') return at;
    return kNoCut;
  }
  std::size_t last_cut(std::string_view text, std::size_t upto) const {
    for (std::size_t at = upto; at > 0; --at)
      if (text[at - 1] == 'z' && text[at] == 'a') return at;
    return kNoCut;
  }
  void encode(std::string_view text, EncodeMode, std::span<const std::size_t> cuts, Ids& ids,
              std::vector<std::size_t>& marks) const {
    for (const std::size_t cut : cuts) marks.push_back((cut + 3) / 4);
    ids.resize(ids.size() + (text.size() + 3) / 4, 7);
  }
  const Spellings& spellings() const { return none.spellings(); }
  ToySpellings none{{}};
};

void memory_of_a_token() {
  const FourByteTokens engine;
  Session<FourByteTokens> session(engine);
  std::string text;
  while (text.size() < kMegabyte) text += "abczabcyabcxabcz";
  session.reset(text);
  const auto per_token = [&] {
    return static_cast<double>(session.memory_bytes()) / static_cast<double>(session.id_count());
  };
  CHECK(per_token() <= 7.0, std::to_string(per_token()) + " bytes a token after a reset");
  // Worn by edits, chunks are smaller on average.
  std::mt19937 random(33);
  for (int i = 0; i < 20000; ++i) {
    const std::size_t at = random() % (session.chars() / 16) * 16;
    session.edit(at, at + (i % 2 == 0 ? 0u : 16u), i % 2 == 0 ? "abczabcyabcxabcz" : "");
  }
  session.validate();
  CHECK(per_token() <= 7.0, std::to_string(per_token()) + " bytes a token after 20000 edits");
  // The count is exact: a header for each chunk, a node for all but the last, its text, two bytes for each of these
  // small ids, four in the last chunk, its marks.
  const Chunk& last = session.chunks().at(session.chunk_count() - 1);
  CHECK(session.memory_bytes() == sizeof(session) + session.chunk_count() * sizeof(Chunk) +
                                      (session.chunk_count() - 1) * sizeof(ChunkNode) + session.bytes() +
                                      2 * session.id_count() + 2 * last.id_count() +
                                      4 * session.mark_count(),
        "the sum of the parts");
}

// Tokens of sixteen bytes: rulers, indentation, what a text is full of that tokens were made for.
struct LongTokens : FourByteTokens {
  static constexpr std::string_view kEntry = "abcdefghijklmnoz";
  void encode(std::string_view text, EncodeMode, std::span<const std::size_t> cuts, Ids& ids,
              std::vector<std::size_t>& marks) const {
    for (const std::size_t cut : cuts) marks.push_back(cut / kEntry.size());
    ids.resize(ids.size() + text.size() / kEntry.size(), 70'000);
  }
  const Spellings& spellings() const { return entry.spellings(); }
  ToySpellings entry{{{70'000, std::string(kEntry)}}};
};

void memory_of_a_long_token() {
  const LongTokens engine;
  Session<LongTokens> session(engine);
  std::string text;
  while (text.size() < kMegabyte) text += LongTokens::kEntry;
  session.reset(text);
  const auto per_token = [&] {
    return static_cast<double>(session.memory_bytes()) / static_cast<double>(session.id_count());
  };
  CHECK(per_token() <= 5.0, std::to_string(per_token()) + " bytes a token after a reset");
  CHECK(session.spelled_chunk_count() + 1 == session.chunk_count(), "all but the last one keep no text");
  std::mt19937 random(34);
  const std::string entry(LongTokens::kEntry);
  for (int i = 0; i < 5000; ++i) {
    const std::size_t at = random() % (session.chars() / entry.size()) * entry.size();
    session.edit(at, at + (i % 2 == 0 ? 0u : entry.size()), i % 2 == 0 ? entry : "");
    if (i % 50 == 0) session.append(entry);
  }
  session.validate();
  CHECK(per_token() <= 5.0, std::to_string(per_token()) + " bytes a token after 5000 edits");
  std::string kept(session.bytes(), '?');
  session.copy_text(kept.data());
  std::size_t spelled = 0;
  session.chunks().walk([&](const Chunk& chunk) {
    spelled += chunk.keeps_text() ? 0 : chunk.byte_count();
    return true;
  });
  const Chunk& last = session.chunks().at(session.chunk_count() - 1);
  CHECK(session.memory_bytes() == sizeof(session) + session.chunk_count() * sizeof(Chunk) +
                                      (session.chunk_count() - 1) * sizeof(ChunkNode) + session.bytes() - spelled +
                                      3 * session.id_count() + last.id_count() + 4 * session.mark_count(),
        "the sum of the parts");
  for (std::size_t at = 0; at < kept.size(); at += entry.size())
    CHECK(kept.compare(at, entry.size(), entry) == 0, "the text");
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"appends to a large text", appends_to_a_large_text},
      {"an append makes one chunk", an_append_makes_one_chunk},
      {"edits in a large text", edits_in_a_large_text},
      {"appends from nothing", appends_from_nothing},
      {"a long stretch is left behind", a_long_stretch_is_left_behind},
      {"memory of a token", memory_of_a_token},
      {"memory of a long token", memory_of_a_long_token},
  });
}
