// The session's operations one by one.
#include <random>
#include <string>
#include <vector>

#include "session_support.hpp"

namespace tokseam::test {
namespace {

using Plain = Session<ToyEngine>;
using Tiny = Session<ToyEngine, TinyLimits>;

void empty_session() {
  const ToyEngine engine;
  Plain session(engine);
  CHECK(session.chars() == 0 && session.bytes() == 0 && session.id_count() == 0 && session.chunk_count() == 0, "empty");
  CHECK(session.text(0, 0).empty() && text_of(session).empty() && ids_of(session).empty(), "nothing to read");
  session.validate();
  CHECK(session.reset("").ids.empty() && session.append("").ids.empty(), "nothing comes of nothing");
  CHECK(engine.calls == 0, "nothing is encoded");
  const Splice splice = session.append("ab");
  CHECK(splice.start == 0 && splice.stop == 0 && splice.ids == engine.encode_all("ab"), "the first append is all");
  const Splice gone = session.edit(0, 2, "");
  CHECK(gone.start == 0 && gone.stop == splice.ids.size() && gone.ids.empty(), "deleting all leaves nothing");
  CHECK(session.chunk_count() == 0, "an empty text has no chunk");
}

void reset_replaces_all() {
  const ToyEngine engine;
  Tiny session(engine);
  session.reset("abc abc abc");
  const std::size_t before = session.id_count();
  const std::string text = "abab 12 ab\xC3\xA9 abc abc abc 123 abc";
  const Splice splice = session.reset(text);
  CHECK(splice.start == 0 && splice.stop == before && splice.ids == engine.encode_all(text), "all ids are replaced");
  CHECK(session.last().chars_encoded == session.chars() && session.chars() == text.size() - 1, "all is encoded");
  CHECK(text_of(session) == text && ids_of(session) == splice.ids, "and kept");
  CHECK(session.chunk_count() > 2, "in some chunks");
  session.validate();
}

// An insertion exactly at a cut parts the cut's two characters: the cut must not be trusted.
template <class Limits>
void insertion_at_every_position() {
  const ToyEngine engine;
  const std::string text =
      "abcabcab cabcab  abcab \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9 abc12345 abcabcab <|x|> abcabc abcabc";
  for (const std::string& insertion : std::vector<std::string>{"a", " ", "1", "!", "  ", "<|x|>", "\xF0\x9F\x98\x80"}) {
    Session<ToyEngine, Limits> base(engine);
    base.reset(text);
    for (std::size_t at = 0; at <= base.chars(); ++at) {
      Session<ToyEngine, Limits> session = base.fork();
      Ids ids = ids_of(session);
      apply_splice(session.edit(at, at, insertion), ids);
      const std::string expected = base.text(0, at) + insertion + base.text(at, base.chars());
      CHECK(text_of(session) == expected, "text after an insertion at " + std::to_string(at));
      CHECK(ids == engine.encode_all(expected) && ids == ids_of(session), "ids for " + expected);
      session.validate();
    }
  }
}

void splices_are_minimal() {
  const ToyEngine engine;
  Plain session(engine);
  session.reset("abc abc 123 abc");
  const Ids before = ids_of(session);
  const Splice same = session.edit(4, 7, "abc");
  CHECK(same.start == same.stop && same.ids.empty(), "a change to the same text changes no id");
  const Splice splice = session.edit(8, 9, "2");
  CHECK(!splice.ids.empty() && splice.start < splice.stop, "some ids change");
  CHECK(splice.ids.front() != before[splice.start] && splice.ids.back() != before[splice.stop - 1], "at both ends");
}

void out_of_range_changes_nothing() {
  const ToyEngine engine;
  Plain session(engine);
  session.reset("ab\xC3\xA9 12");
  const Ids ids = ids_of(session);
  Ids sink(64);
  CHECK_THROWS(std::out_of_range, session.edit(0, 7, ""));
  CHECK_THROWS(std::out_of_range, session.edit(7, 7, "a"));
  CHECK_THROWS(std::out_of_range, session.edit(3, 2, "a"));
  CHECK_THROWS(std::out_of_range, session.text(0, 7));
  CHECK_THROWS(std::out_of_range, session.copy_ids(0, ids.size() + 1, sink.data()));
  CHECK_THROWS(std::out_of_range, (session.copy_ids(2, 1, sink.data()), 0));
  CHECK(text_of(session) == "ab\xC3\xA9 12" && ids_of(session) == ids, "as it was");
}

void slices_and_ranges() {
  const ToyEngine engine;
  Tiny session(engine);
  const std::string text =
      "ab\xC3\xA9 \xE4\xB8\x96\xE4\xB8\x96 abcabc 12 abc \xF0\x9F\x98\x80\xF0\x9F\x98\x80 abcabc abc";
  session.reset(text);
  for (std::size_t start = 0; start <= session.chars(); ++start) {
    const std::size_t from = utf8::offset_of_code_point(text, start);
    for (std::size_t stop = start; stop <= session.chars(); ++stop) {
      const std::size_t to = utf8::offset_of_code_point(text, stop);
      CHECK(session.text(start, stop) == text.substr(from, to - from), "slice " + std::to_string(start));
    }
  }
  const Ids ids = ids_of(session);
  for (std::size_t start = 0; start <= ids.size(); ++start) {
    for (std::size_t stop = start; stop <= ids.size(); ++stop) {
      Ids range(stop - start);
      session.copy_ids(start, stop, range.data());
      CHECK(std::equal(range.begin(), range.end(), ids.begin() + static_cast<std::ptrdiff_t>(start)), "a range of ids");
    }
  }
}

void forks_part_ways() {
  const ToyEngine engine;
  Tiny session(engine);
  session.reset("abc abc abc abc abc 123 abc abc abc");
  const std::size_t calls = engine.calls;
  Tiny twin = session.fork();
  CHECK(engine.calls == calls && twin.chunk_count() == session.chunk_count(), "a fork encodes nothing");
  twin.edit(4, 7, "!!");
  session.append(" ab");
  CHECK(text_of(twin) == "abc !! abc abc abc 123 abc abc abc", "the twin's own change alone");
  CHECK(text_of(session) == "abc abc abc abc abc 123 abc abc abc ab", "the session's own change alone");
  CHECK(ids_of(twin) == engine.encode_all(text_of(twin)), "the twin's ids");
  CHECK(ids_of(session) == engine.encode_all(text_of(session)), "the session's ids");
}

void special_literals() {
  const ToyEngine engine;
  const std::string text = "abc <|x|> abc";
  Plain whole(engine);
  Plain split(engine, true);
  whole.reset(text);
  split.reset(text);
  CHECK(ids_of(whole) == engine.encode_all(text, false) && !whole.split_special(), "one id");
  CHECK(ids_of(split) == engine.encode_all(text, true) && split.split_special(), "text like any other");
  CHECK(ids_of(whole) != ids_of(split), "which differ");
  // A literal that grows together out of appends.
  Tiny session(engine);
  Ids ids;
  const std::string typed = "abcabcab <|x|> abcabcab <|x|>";
  for (const char c : typed) apply_splice(session.append(std::string(1, c)), ids);
  CHECK(ids == engine.encode_all(text_of(session)), "a literal typed character by character");
}

void seeded_sessions() {
  const ToyEngine engine;
  const std::string text = "abc abc abc abc abc 123 abc abc abc";
  Tiny session(engine);
  const std::vector<std::size_t> cuts = session.plan_cuts(text);
  Ids ids;
  std::vector<std::size_t> marks;
  engine.encode(text, {}, cuts, ids, marks);
  const std::size_t calls = engine.calls;
  const Splice splice = session.seed(text, cuts, ids, marks);
  CHECK(engine.calls == calls && session.last().chars_encoded == 0, "a seed encodes nothing");
  CHECK(splice.start == 0 && splice.stop == 0 && splice.ids == ids && ids_of(session) == ids, "and gives all ids");
  session.validate();
  CHECK_THROWS(std::logic_error, session.seed(text, cuts, ids, {}));
  CHECK_THROWS(std::logic_error, session.seed("", {}, ids, {}));
  marks.front() = kNoMark;
  CHECK_THROWS(OverlapMismatch, session.seed(text, cuts, ids, marks));
  CHECK(ids_of(session) == ids, "a refused seed changes nothing");
}

void deletions_leave_no_crumbs() {
  const ToyEngine engine;
  Plain session(engine);
  std::string text;
  for (int i = 0; i < 8000; ++i) text += i % 5 == 0 ? " abab" : " c";
  session.reset(text);
  // Thin the text out evenly, so that every chunk loses its substance by many small edits.
  for (int round = 0; round < 40; ++round) {
    for (std::size_t at = 0; at + 60 < session.chars(); at += 500) session.edit(at, at + 60, "");
    session.validate();
    CHECK(session.chunk_count() <= 1 + session.bytes() / ChunkLimits::kMinBytes,
          std::to_string(session.chunk_count()) + " chunks for " + std::to_string(session.bytes()) + " bytes");
  }
  CHECK(ids_of(session) == engine.encode_all(text_of(session)), "ids");
}

void a_crumb_behind_a_long_chunk() {
  const ToyEngine engine;
  Plain session(engine);
  const std::size_t long_size = ChunkLimits::kLongBytes + 1000;
  session.reset(std::string(long_size, '1') + "b");
  session.append(" abc");
  CHECK(session.chunk_count() == 2, "the crumb stands alone, so that appends need not copy the long chunk");
  session.edit(1000, long_size - 100, "");
  CHECK(session.chunk_count() == 1, "once the long chunk is none, the crumb is taken in");

  // A long stretch put in 100 bytes before the end of the first of four chunks leaves them as a crumb.
  std::string text;
  while (text.size() < 4 * ChunkLimits::kTargetBytes) text += "abc ";
  session.reset(text);
  CHECK(session.chunk_count() == 4, "four chunks");
  session.edit(3999, 3999, std::string(long_size, '1') + "b");
  CHECK(session.chunk_count() == 5, "a crumb more");
  session.edit(long_size + 5000, long_size + 5000, "abc");
  CHECK(session.chunk_count() == 4, "an edit beside the crumb takes it in");
  session.validate();
  CHECK(ids_of(session) == engine.encode_all(text_of(session)), "ids");
}

void overlaps_are_compared() {
  const ToyEngine engine;
  Plain session(engine);
  std::string text;
  while (text.size() < 20000) text += "abc ab \xC3\xA9 ";
  session.reset(text);
  session.append("abc");
  CHECK(session.last().overlap_ids > 10, "an append compares what lies left of it");
  CHECK(session.last().bytes_encoded < 2 * ChunkLimits::kTailBytes, "and encodes little beside the delta");
  session.edit(9000, 9003, "123");
  CHECK(session.last().overlap_ids > 50, "an edit compares both sides");
  CHECK(session.last().bytes_encoded < 4 * ChunkLimits::kMarkBytes, "and encodes what lies between two marks or three");
  // A window without a cut beside the change is extended by its neighbours.
  std::string sparse = std::string(1500, 'b') + " " + std::string(1500, '1') + "b " + std::string(1500, 'b');
  session.reset(sparse);
  CHECK(session.chunk_count() == 1 && session.mark_count() > 0, "one chunk with marks");
  session.edit(2000, 2001, "2");
  CHECK(session.last().chars_encoded == session.chars(), "both neighbours are taken in");
  CHECK(session.last().overlap_ids > 2000, "and compared");
  CHECK(ids_of(session) == engine.encode_all(text_of(session)), "ids");
  // The neighbours of a window may be other chunks' last and first marks.
  const std::string stretch(ChunkLimits::kTargetBytes, '1');
  session.reset("abc abc abc " + stretch + "b abc" + stretch + "b abc" + stretch + "b");
  CHECK(session.chunk_count() == 3, "three chunks");
  session.edit(6000, 6000, "2");
  session.validate();
  CHECK(ids_of(session) == engine.encode_all(text_of(session)), "ids across chunks");
}

// Each edit begins and ends at marks; what stands outside is copied with its marks. Wear a text out by edits and see
// that marks neither vanish nor pile up.
template <class Limits>
void marks_are_kept() {
  const ToyEngine engine;
  Session<ToyEngine, Limits> session(engine);
  std::string text;
  while (text.size() < 40 * Limits::kTargetBytes) text += "abc ab \xC3\xA9 ";
  session.reset(text);
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    const std::size_t at = random() % (session.chars() + 1);
    const std::size_t stop = std::min(session.chars(), at + random() % 9);
    session.edit(at, stop, draw_text(random, 4));
    if (i % 3 == 0) session.append(" ab");
  }
  session.validate();
  CHECK(session.mark_count() <= 3 * session.bytes() / Limits::kMarkBytes, std::to_string(session.mark_count()));
  CHECK(session.mark_count() >= session.bytes() / (16 * Limits::kMarkBytes), std::to_string(session.mark_count()));
  CHECK(ids_of(session) == engine.encode_all(text_of(session)), "ids");
}

void marks_at_their_reach() {
  // Marks whose place or count does not fit are left out; those before them stay.
  const std::size_t reach = Chunk::kMarkReach;
  const std::string text(reach + 10, 'a');
  const Ids ids(reach + 10, 7);
  const std::vector<Mark> marks = {{1, 1}, {reach, reach}, {reach + 1, reach + 1}};
  const Ref<Chunk> chunk = Chunk::make(text, ids, marks);
  CHECK(chunk->mark_count() == 2 && chunk->mark(1) == marks[1], "two marks");
  Ids kept(chunk->id_count());
  chunk->copy_ids(0, kept.size(), kept.data());
  CHECK(chunk->kept_text() == text && kept == ids, "what stands behind them");
  CHECK(chunk->mark_before(1) == Mark{} && chunk->mark_before(2) == marks[0], "before");
  CHECK(chunk->mark_behind(0) == marks[0] && chunk->mark_behind(reach) == chunk->end(), "behind");
}

void unshared_bytes_of_forks() {
  const ToyEngine engine;
  Plain session(engine);
  std::string text;
  while (text.size() < 2'000'000) text += "abc ab 12 ";
  session.reset(text);
  CHECK(session.unshared_bytes() == session.memory_bytes(), "a session that shares nothing");
  {
    Plain twin = session.fork();
    CHECK(twin.unshared_bytes() == sizeof(twin), "a fork shares all");
    twin.append("abc ab 12 ");
    CHECK(twin.unshared_bytes() < session.memory_bytes() / 100, "and parts with little");
    twin.edit(1000, 1010, "x");
    CHECK(twin.unshared_bytes() < session.memory_bytes() / 50, "an edit parts with as little");
    CHECK(session.unshared_bytes() < session.memory_bytes() / 50, "and so does its parent");
  }
  CHECK(session.unshared_bytes() == session.memory_bytes(), "the fork is gone");
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"an empty session", empty_session},
      {"reset replaces all", reset_replaces_all},
      {"an insertion at every position, cuts included", insertion_at_every_position<TinyLimits>},
      {"an insertion at every position, marks included", insertion_at_every_position<ManyMarks>},
      {"splices are minimal", splices_are_minimal},
      {"out of range changes nothing", out_of_range_changes_nothing},
      {"slices of text and ranges of ids", slices_and_ranges},
      {"forks part ways", forks_part_ways},
      {"literals of special tokens", special_literals},
      {"seeds", seeded_sessions},
      {"deletions leave no crumbs", deletions_leave_no_crumbs},
      {"a crumb behind a long chunk", a_crumb_behind_a_long_chunk},
      {"overlaps are compared", overlaps_are_compared},
      {"marks are kept", marks_are_kept<tokseam::ChunkLimits>},
      {"marks are kept in tiny chunks", marks_are_kept<ManyMarks>},
      {"marks at their reach", marks_at_their_reach},
      {"unshared bytes of forks", unshared_bytes_of_forks},
  });
}
