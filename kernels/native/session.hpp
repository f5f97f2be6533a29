// A session: one text and its token ids, kept so that a change costs work in proportion to the change.
//
// The text is a persistent sequence of chunks (chunk_tree.hpp) cut at synchronizing positions, each with its own ids,
// and with marks: synchronizing positions inside it of which the number of ids before them is known.
// The claims this file rests on (design: 'Why local repair is exact'):
//   C1  At a synchronizing position a text may be cut and its sides encoded on their own.
//   C2  Whether a position is synchronizing depends on the two characters that meet there, and on nothing else.
//   C3  So a cut outlives a change of the bytes [bs, be) if it lies left of bs or right of be. At bs or be itself it
//       does not: an insertion there parts its two characters. The ends of the text are always ends of chunks.
//   C4  A piece's ids depend on the piece alone; so ids on the far side of a cut that C3 keeps are the old ones.
//   C5  A mark is a cut, and a chunk's ids are those of what stands left of the mark and then those of what stands
//       right of it (C1). So the mark's count says which ids are whose, for as long as the cut outlives what C3 says;
//       and what stands left of it, or right of it, may be copied, text, ids and marks, into another chunk.
// An edit therefore encodes a window whose outer ends are marks, ends of chunks, or ends of the text that C3 keeps, and
// copies what the touched chunks hold outside it. C4 also names ids inside the window that must come out as they were:
// the overlap. It is compared at each edit, because a proof covers the idea and not the code.
//
// Where tokens are long, chunks keep no text: their ids spell it (chunk_text.hpp). No claim about ids is needed for that,
// since a chunk drops its text only where that was compared byte by byte.
//
// Not here: what is a synchronizing position and how text is encoded (chunk_engine.hpp is the seam), how large chunks
// are and which keep their text (chunk_plan.hpp), ids that a special-token template adds, checks of UTF-8, the fallback to the reference. A
// stretch without a synchronizing position is one chunk of any size up to 2^32 - 1 bytes, and each edit inside it
// encodes all of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checked_engine.hpp"
#include "chunk_engine.hpp"
#include "chunk_plan.hpp"
#include "chunk_text.hpp"
#include "chunk_tree.hpp"
#include "code_points.hpp"

namespace tokseam {

// What an operation did to the ids: old[start:stop] became `ids`.
struct Splice {
  std::size_t start = 0;
  std::size_t stop = 0;
  std::vector<std::uint32_t> ids;
};

// What the last operation that changed the session cost.
struct LastOperation {
  std::size_t chars_encoded = 0;  // code points handed to the engine
  std::size_t bytes_encoded = 0;  // the same in bytes
  std::size_t overlap_ids = 0;    // ids encoded again, compared with the kept ones, and found equal
};

// Threads: a session is used by one thread at a time. Sessions that came from one another by fork() share chunks, and
// may be used on different threads at once. The engine must outlive its sessions and be usable from all of them.
//
// Failure: every operation that throws, for whatever reason, leaves the session as it was.
template <ChunkEngine Engine, class Limits = ChunkLimits>
class Session {
 public:
  explicit Session(const Engine& engine, bool split_special = false) : engine_(engine, split_special) {}

  // Replaces the whole text and encodes it in full. The splice replaces all ids. Throws OverlapMismatch.
  Splice reset(std::string_view text) {
    const std::vector<std::size_t> cuts = plan_cuts(text);
    std::vector<std::uint32_t> ids;
    std::vector<std::size_t> marks;
    engine_.encode(text, cuts, 0, ids, marks);
    return reset(text, cuts, std::move(ids), marks);
  }

  // The same of a text that was encoded already: see seed().
  Splice reset(std::string_view text, std::span<const std::size_t> cuts, std::vector<std::uint32_t> ids,
               std::span<const std::size_t> marks) {
    Splice splice = seed(text, cuts, std::move(ids), marks);
    last_ = {chars(), text.size(), 0};
    return splice;
  }

  // The cuts that become marks, and some of them ends of chunks, of a session of `text`: what to hand to whoever
  // encodes for seed().
  std::vector<std::size_t> plan_cuts(std::string_view text) const { return plan(text, true); }

  // As reset(), with ids that were made elsewhere: `ids` of all of `text`, and `marks` for `cuts` = plan_cuts(text),
  // both as Engine::encode gives them. Nothing is encoded, so this trusts the ids. Throws OverlapMismatch for a bad
  // mark.
  Splice seed(std::string_view text, std::span<const std::size_t> cuts, std::vector<std::uint32_t> ids,
              std::span<const std::size_t> marks) {
    if (text.empty() && !ids.empty()) throw std::invalid_argument("an empty text has no ids");
    CheckedEngine<Engine>::check_marks(text, 0, cuts, ids.size(), marks);
    std::vector<Mark> paired;
    paired.reserve(cuts.size());
    for (std::size_t k = 0; k < cuts.size(); ++k) paired.push_back({cuts[k], marks[k]});
    ChunkTree tree = ChunkTree::build(make_chunks<Limits>(text, ids, paired, true, engine_.spellings()));
    const std::size_t old_count = id_count();
    tree_ = std::move(tree);
    last_ = {};
    return {0, old_count, std::move(ids)};
  }

  // Puts `delta` behind the text. As edit() at the end.
  Splice append(std::string_view delta) { return edit(chars(), chars(), delta); }

  // Replaces the code points [start, stop) by `replacement`. Costs work in proportion to the replacement, what it
  // replaces, and a few hundred bytes; and a copy of a few chunks. The splice is minimal: its ids differ from the
  // replaced ones at both ends, or one of them is empty. Throws std::out_of_range, OverlapMismatch, and whatever the
  // engine throws.
  Splice edit(std::size_t start, std::size_t stop, std::string_view replacement) {
    check_range(start, stop, chars());
    if (start == stop && replacement.empty()) {
      last_ = {};
      return {id_count(), id_count(), {}};
    }
    ChunkTexts texts(engine_.spellings());
    const Window window = open_window(start, stop, replacement.size(), texts);
    const Sums before = tree_.before(window.first);
    Draft draft;
    draft.text.reserve(window.draft_bytes);
    read_text(before.bytes, window.change_start, texts, draft.text);
    draft.text.append(replacement);
    read_text(window.change_stop, tree_.before(window.last).bytes, texts, draft.text);
    keep_left(window, before, draft);

    const std::size_t begin = window.left.bytes() - before.bytes;  // of the window, in the draft
    const std::size_t size = window.bytes_after(replacement.size());
    const std::string_view text = std::string_view(draft.text).substr(begin, size);
    const std::vector<std::size_t> cuts = window_cuts(window, text);
    const std::size_t chars_before = window.left.chars(texts);
    std::vector<std::size_t> marks;
    const std::size_t kept = draft.ids.size();
    draft.ids.reserve(kept + text.size() / 2 + (tree_.before(window.last).ids - window.right.ids()));
    engine_.encode(text, cuts, chars_before, draft.ids, marks);

    const std::span<const std::uint32_t> ids = std::span<const std::uint32_t>(draft.ids).subspan(kept);
    std::vector<std::uint32_t> old_ids(window.right.ids() - window.left.ids());
    copy_ids(window.left.ids(), window.right.ids(), old_ids.data());
    const std::size_t overlap_ids = check_overlap(window, text, chars_before, cuts, marks, ids, old_ids);
    Splice splice = trim(window.left.ids(), old_ids, ids);
    const std::size_t chars_encoded = utf8::count_code_points(text);

    draft.mark({begin, kept});
    for (std::size_t k = 0; k < cuts.size(); ++k) draft.mark({begin + cuts[k], kept + marks[k]});
    keep_right(window, begin + size, draft);
    const bool at_end = window.last == chunk_count();
    ChunkTree tree = tree_.replaced(window.first, window.last,
                                    make_chunks<Limits>(draft.text, draft.ids, draft.marks, at_end,
                                                        engine_.spellings()));

    tree_ = std::move(tree);  // nothing throws from here on
    last_ = {chars_encoded, size, overlap_ids};
    return splice;
  }

  // A second session with the same text, which shares all chunks. O(1).
  Session fork() const {
    Session twin(*this);
    twin.last_ = {};
    return twin;
  }

  std::size_t chars() const { return tree_.sums().chars; }
  std::size_t bytes() const { return tree_.sums().bytes; }
  std::size_t id_count() const { return tree_.sums().ids; }
  std::size_t chunk_count() const { return tree_.sums().chunks; }
  bool split_special() const { return engine_.split_special(); }
  const LastOperation& last() const { return last_; }
  const ChunkTree& chunks() const { return tree_; }

  // Bytes asked of the allocator for all this session reaches, and the session itself. Chunks that forks share count
  // in full for each of them. The allocator's own headers and rounding are not in it. O(1).
  std::size_t memory_bytes() const { return sizeof(*this) + tree_.allocated_bytes(); }

  // The part of memory_bytes() that no fork shares: what dropping this session would give back. O(what that is).
  std::size_t unshared_bytes() const { return sizeof(*this) + tree_.unshared_bytes(); }

  // Writes the bytes() bytes of the text to `out`.
  void copy_text(char* out) const {
    ChunkTexts texts(engine_.spellings());
    tree_.visit<&Sums::chunks>(0, chunk_count(), [&](const Chunk& chunk, std::size_t, std::size_t) {
      out = std::ranges::copy(texts.of(chunk), out).out;
    });
  }

  // The code points [start, stop) of the text. Throws std::out_of_range.
  std::string text(std::size_t start, std::size_t stop) const {
    check_range(start, stop, chars());
    ChunkTexts texts(engine_.spellings());
    std::string slice;
    tree_.visit<&Sums::chars>(start, stop, [&](const Chunk& chunk, std::size_t from, std::size_t to) {
      const std::size_t at = texts.offset_of(chunk, from);
      slice.append(texts.of(chunk).substr(at, texts.offset_of(chunk, to) - at));
    });
    return slice;
  }

  // Writes the id_count() ids to `out`.
  void copy_ids(std::uint32_t* out) const { copy_ids(0, id_count(), out); }

  // Writes the ids [start, stop) to `out`. Throws std::out_of_range.
  void copy_ids(std::size_t start, std::size_t stop, std::uint32_t* out) const {
    check_range(start, stop, id_count());
    tree_.visit<&Sums::ids>(start, stop, [&](const Chunk& chunk, std::size_t from, std::size_t to) {
      out = chunk.copy_ids(from, to, out);
    });
  }

  // How many chunks keep no text. O(chunks); for tests.
  std::size_t spelled_chunk_count() const {
    std::size_t count = 0;
    tree_.walk([&](const Chunk& chunk) {
      count += !chunk.keeps_text();
      return true;
    });
    return count;
  }

  // How many marks there are. O(chunks); for tests.
  std::size_t mark_count() const {
    std::size_t count = 0;
    tree_.walk([&](const Chunk& chunk) {
      count += chunk.mark_count();
      return true;
    });
    return count;
  }

  // Walks everything and throws std::logic_error at the first broken invariant: the tree's own ones, chunks that end at
  // synchronizing positions, no two crumbs side by side, each chunk's ids and marks those of its text, and no text but
  // the last one's kept that costs too much and could be spelled. Slow; for tests.
  void validate() const {
    tree_.validate();
    ChunkTexts texts(engine_.spellings());
    const Chunk* previous = nullptr;
    std::size_t chars_before = 0, index = 0;
    tree_.visit<&Sums::chunks>(0, chunk_count(), [&](const Chunk& chunk, std::size_t, std::size_t) {
      const std::string_view text = texts.of(chunk);
      if (chunk.sums().chars != utf8::count_code_points(text))
        throw std::logic_error("session: a spelled text of the wrong length");
      std::vector<std::size_t> cuts, counts, marks;
      for (std::size_t k = 0; k < chunk.mark_count(); ++k) {
        cuts.push_back(chunk.mark(k).at);
        counts.push_back(chunk.mark(k).ids);
        if (engine_.next_cut(text, cuts[k]) != cuts[k])
          throw std::logic_error("session: a mark that is no cut");
      }
      std::vector<std::uint32_t> ids;
      engine_.encode(text, cuts, chars_before, ids, marks);
      chars_before += chunk.sums().chars;
      std::vector<std::uint32_t> kept(chunk.id_count());
      chunk.copy_ids(0, kept.size(), kept.data());
      if (ids != kept) throw std::logic_error("session: ids that are not the text's");
      if (marks != counts) throw std::logic_error("session: marks that are not the text's");
      const bool last = ++index == chunk_count();
      const Chunk::Text form =
          last ? Chunk::Text::kept : text_form<Limits>(text, ids, chunk.mark_count(), engine_.spellings());
      if (chunk.keeps_text() != (form == Chunk::Text::kept))
        throw std::logic_error("session: a text that is kept, or dropped, against the plan");
      if (previous != nullptr) {
        const std::size_t seam = previous->byte_count();
        const std::string joined = std::string(texts.of(*previous)) + std::string(text);
        if (engine_.next_cut(joined, seam) != seam) throw std::logic_error("session: a seam that is no cut");
        if (std::max(seam, text.size()) < Limits::kMinBytes) throw std::logic_error("session: two crumbs meet");
      }
      previous = &chunk;
    });
  }

 private:
  // Where a window begins or ends: at a mark of a chunk, at an end of it, or at an end of the text.
  struct End {
    const Chunk* chunk = nullptr;  // null in an empty text alone
    Sums before;                   // what stands left of the chunk
    Mark mark;                     // inside it, or one of its ends
    std::size_t change = 0;        // bytes: where the change begins, or ends, in the text as it was
    std::size_t overlap = 0;       // bytes of the window at this end, up to a cut that C3 keeps; 0 where there is none

    std::size_t bytes() const { return before.bytes + mark.at; }
    std::size_t ids() const { return before.ids + mark.ids; }
    std::size_t chars(ChunkTexts& texts) const {
      return before.chars + (chunk != nullptr ? texts.chars_before(*chunk, mark.at) : 0);
    }
  };

  // What a change encodes, and which chunks it replaces.
  struct Window {
    End left, right;
    std::size_t change_start = 0, change_stop = 0;  // bytes of the text as it was
    std::size_t first = 0, last = 0;                // the chunks that are replaced: those of the ends, and crumbs
    std::size_t draft_bytes = 0;                    // of what replaces them
    std::size_t bytes_after(std::size_t replacement) const {
      return change_start - left.bytes() + replacement + right.bytes() - change_stop;
    }
  };

  // What replaces some chunks.
  struct Draft {
    std::string text;
    std::vector<std::uint32_t> ids;
    std::vector<Mark> marks;
    void mark(const Mark& mark) {
      if (mark.at > 0 && mark.at < text.size()) marks.push_back(mark);
    }
  };

  static void check_range(std::size_t start, std::size_t stop, std::size_t size) {
    if (start > stop || stop > size) throw std::out_of_range("the range lies outside the session");
  }

  // Where marks should stand in a text; `at_end`: the session's text ends with it.
  std::vector<std::size_t> plan(std::string_view text, bool at_end) const {
    std::vector<std::size_t> cuts;
    std::size_t tail = kNoCut;
    if (at_end && !text.empty()) {
      // An append begins at the last mark that has a cut behind it. Not at a nearer one, to have some overlap.
      const std::size_t final_cut = engine_.last_cut(text, text.size() - 1);
      if (final_cut == kNoCut) return cuts;
      tail = engine_.last_cut(text, std::min(final_cut - 1, text.size() - std::min(text.size(), Limits::kTailBytes)));
      // A long stretch is not worth encoding again for that.
      if (tail == kNoCut || final_cut - tail > Limits::kOverlapMaxBytes) tail = final_cut;
    }
    std::size_t last = 0;
    while (text.size() - last > Limits::kMarkBytes) {
      const std::size_t cut = engine_.next_cut(text, last + Limits::kMarkBytes);
      if (cut == kNoCut || (tail != kNoCut && cut >= tail)) break;
      cuts.push_back(cut);
      last = cut;
    }
    if (tail != kNoCut) cuts.push_back(tail);
    return cuts;
  }

  // By C3 the window begins at a cut left of the change, or at the text's begin: it holds the character before it.
  End left_end(std::size_t start, ChunkTexts& texts) const {
    End end;
    if (start == 0) {
      if (chunk_count() > 0) end.chunk = tree_.find<&Sums::chunks>(0).chunk;
      return end;
    }
    const auto found = tree_.find<&Sums::chars>(start - 1);
    const std::size_t at = texts.offset_of(*found.chunk, start - found.before.chars);
    end = {found.chunk, found.before, found.chunk->mark_before(at), found.before.bytes + at, 0};
    const std::string_view kept = texts.of(*found.chunk).substr(end.mark.at, at - end.mark.at);
    const std::size_t cut = engine_.last_cut(kept, kept.size() - 1);
    if (cut != kNoCut) {
      end.overlap = cut;
      return end;
    }
    // Where the window has no cut left of the change, its own begin is one: what stands before it is the overlap.
    End further = end;
    if (end.mark.at == 0) {
      if (found.before.chunks == 0) return end;
      const auto neighbour = tree_.find<&Sums::chunks>(found.before.chunks - 1);
      further.chunk = neighbour.chunk;
      further.before = neighbour.before;
      further.mark = neighbour.chunk->end();
    }
    further.mark = further.chunk->mark_before(further.mark.at);
    further.overlap = end.bytes() - further.bytes();
    return further.overlap <= Limits::kOverlapMaxBytes ? further : end;
  }

  // As left_end(), to the right.
  End right_end(std::size_t stop, ChunkTexts& texts) const {
    End end;
    if (stop == chars()) {
      if (chunk_count() == 0) return end;
      const auto found = tree_.find<&Sums::chunks>(chunk_count() - 1);
      return {found.chunk, found.before, found.chunk->end(), bytes(), 0};
    }
    const auto found = tree_.find<&Sums::chars>(stop);
    const std::size_t at = texts.offset_of(*found.chunk, stop - found.before.chars);
    end = {found.chunk, found.before, found.chunk->mark_behind(at), found.before.bytes + at, 0};
    const std::string_view kept = texts.of(*found.chunk).substr(at, end.mark.at - at);
    const std::size_t cut = engine_.next_cut(kept, 1);
    if (cut != kNoCut) {
      end.overlap = kept.size() - cut;
      return end;
    }
    End further = end;
    if (end.mark == found.chunk->end()) {
      if (found.before.chunks + 1 == chunk_count()) return end;
      const auto neighbour = tree_.find<&Sums::chunks>(found.before.chunks + 1);
      further.chunk = neighbour.chunk;
      further.before = neighbour.before;
      further.mark = {};
    }
    further.mark = further.chunk->mark_behind(further.mark.at);
    further.overlap = further.bytes() - end.bytes();
    return further.overlap <= Limits::kOverlapMaxBytes ? further : end;
  }

  // Finds what to encode and which chunks to replace, for `growth` bytes in place of the code points [start, stop).
  Window open_window(std::size_t start, std::size_t stop, std::size_t growth, ChunkTexts& texts) const {
    Window window{left_end(start, texts), right_end(stop, texts)};
    window.change_start = window.left.change;
    window.change_stop = window.right.change;
    window.first = window.left.before.chunks;
    window.last = chunk_count() == 0 ? 0 : window.right.before.chunks + 1;
    const std::size_t behind = window.right.chunk == nullptr ? 0 : window.right.chunk->byte_count();
    std::size_t size = window.change_start - window.left.before.bytes + growth + window.right.before.bytes + behind -
                       window.change_stop;
    // Neighbours that are crumbs are copied too, and any but long ones while the draft would be a crumb itself.
    const auto wanted = [&](std::size_t neighbour) {
      return neighbour < Limits::kMinBytes || (size < Limits::kMinBytes && neighbour <= Limits::kLongBytes);
    };
    const auto bytes_of = [&](std::size_t index) { return tree_.at(index).byte_count(); };
    while (true) {
      if (window.first > 0 && wanted(bytes_of(window.first - 1))) {
        size += bytes_of(--window.first);
      } else if (window.last < chunk_count() && wanted(bytes_of(window.last))) {
        size += bytes_of(window.last++);
      } else {
        break;
      }
    }
    window.draft_bytes = size;
    return window;
  }

  // Appends the bytes [start, stop) of the text to `out`.
  void read_text(std::size_t start, std::size_t stop, ChunkTexts& texts, std::string& out) const {
    tree_.visit<&Sums::bytes>(start, stop, [&](const Chunk& chunk, std::size_t from, std::size_t to) {
      out.append(texts.of(chunk).substr(from, to - from));
    });
  }

  // Takes over ids and marks of what the replaced chunks hold left of the window (C5).
  void keep_left(const Window& window, const Sums& before, Draft& draft) const {
    draft.ids.resize(window.left.ids() - before.ids);
    copy_ids(before.ids, window.left.ids(), draft.ids.data());
    Mark seam;  // the chunk's begin, in the draft
    tree_.visit<&Sums::chunks>(window.first, window.left.before.chunks + 1,
                               [&](const Chunk& chunk, std::size_t, std::size_t) {
                                 if (seam.at < window.left.bytes() - before.bytes) draft.mark(seam);
                                 for (std::size_t k = 0; k < chunk.mark_count(); ++k) {
                                   const Mark mark = {seam.at + chunk.mark(k).at, seam.ids + chunk.mark(k).ids};
                                   if (mark.at < window.left.bytes() - before.bytes) draft.mark(mark);
                                 }
                                 seam = {seam.at + chunk.byte_count(), seam.ids + chunk.id_count()};
                               });
  }

  // The same right of it; `end` is where the window ends in the draft, with all ids so far before it.
  void keep_right(const Window& window, std::size_t end, Draft& draft) const {
    const std::size_t end_ids = draft.ids.size();
    const std::size_t more = tree_.before(window.last).ids - window.right.ids();
    draft.ids.resize(end_ids + more);
    copy_ids(window.right.ids(), window.right.ids() + more, draft.ids.data() + end_ids);
    draft.mark({end, end_ids});
    if (window.right.chunk == nullptr) return;
    // In the draft a position of the right chunk, and of those behind it, stands `end - mark` further on.
    Mark seam = {};
    const Mark& from = window.right.mark;
    tree_.visit<&Sums::chunks>(window.right.before.chunks, window.last,
                               [&](const Chunk& chunk, std::size_t, std::size_t) {
                                 const auto keep = [&](const Mark& mark) {
                                   if (mark.at <= from.at) return;
                                   draft.mark({end + mark.at - from.at, end_ids + mark.ids - from.ids});
                                 };
                                 keep(seam);
                                 for (std::size_t k = 0; k < chunk.mark_count(); ++k)
                                   keep({seam.at + chunk.mark(k).at, seam.ids + chunk.mark(k).ids});
                                 seam = {seam.at + chunk.byte_count(), seam.ids + chunk.id_count()};
                               });
  }

  // The cuts that a window asks the engine to mark: those of the plan and of the overlaps. They ascend strictly.
  std::vector<std::size_t> window_cuts(const Window& window, std::string_view text) const {
    std::vector<std::size_t> cuts = plan(text, window.right.bytes() == bytes());
    const auto add = [&](std::size_t cut) {
      const auto at = std::lower_bound(cuts.begin(), cuts.end(), cut);
      if (at == cuts.end() || *at != cut) cuts.insert(at, cut);
    };
    if (window.left.overlap > 0) add(window.left.overlap);
    if (window.right.overlap > 0) add(text.size() - window.right.overlap);
    return cuts;
  }

  // Compares the ids that C4 keeps. Returns how many there are.
  static std::size_t check_overlap(const Window& window, std::string_view text, std::size_t chars_before,
                                   std::span<const std::size_t> cuts, std::span<const std::size_t> marks,
                                   std::span<const std::uint32_t> ids, std::span<const std::uint32_t> old_ids) {
    using Differs = OverlapMismatch::Differs;
    const auto mark_of = [&](std::size_t cut) {
      return marks[static_cast<std::size_t>(std::ranges::lower_bound(cuts, cut) - cuts.begin())];
    };
    std::size_t head = 0;
    if (window.left.overlap > 0) {
      head = mark_of(window.left.overlap);
      if (head > old_ids.size() || !std::ranges::equal(ids.first(head), old_ids.first(head)))
        throw CheckedEngine<Engine>::mismatch(Differs::ids, text, chars_before, window.left.overlap);
    }
    std::size_t tail = 0;
    if (window.right.overlap > 0) {
      const std::size_t cut = text.size() - window.right.overlap;
      tail = ids.size() - mark_of(cut);
      if (tail > old_ids.size() - head || !std::ranges::equal(ids.last(tail), old_ids.last(tail)))
        throw CheckedEngine<Engine>::mismatch(Differs::ids, text, chars_before, cut);
    }
    return head + tail;
  }

  // The splice without what old and new ids, which begin at `start`, share at their ends.
  static Splice trim(std::size_t start, std::span<const std::uint32_t> old_ids, std::span<const std::uint32_t> ids) {
    const auto head = static_cast<std::size_t>(std::ranges::mismatch(ids, old_ids).in1 - ids.begin());
    ids = ids.subspan(head);
    old_ids = old_ids.subspan(head);
    std::size_t tail = 0;
    const std::size_t shorter = std::min(ids.size(), old_ids.size());
    while (tail < shorter && ids[ids.size() - 1 - tail] == old_ids[old_ids.size() - 1 - tail]) ++tail;
    ids = ids.first(ids.size() - tail);
    return {start + head, start + head + old_ids.size() - tail, {ids.begin(), ids.end()}};
  }

  CheckedEngine<Engine> engine_;
  ChunkTree tree_;      // the text, cut at synchronizing positions; see validate()
  LastOperation last_;  // of the last operation that did not throw
};

}  // namespace tokseam
