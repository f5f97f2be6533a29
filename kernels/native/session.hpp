// A session: one text and its token ids, kept so that a change costs work in proportion to the change.
//
// The text is a persistent sequence of chunks (chunk_tree.hpp) cut at synchronizing positions, each with its own ids.
// The claims this file rests on (design: 'Why local repair is exact'):
//   C1  At a synchronizing position a text may be cut and its sides encoded on their own.
//   C2  Whether a position is synchronizing depends on the two characters that meet there, and on nothing else.
//   C3  So a cut outlives a change of the bytes [bs, be) if it lies left of bs or right of be. At bs or be itself it
//       does not: an insertion there parts its two characters. The ends of the text are always ends of chunks.
//   C4  A piece's ids depend on the piece alone; so ids on the far side of a cut that C3 keeps are the old ones.
// An edit therefore encodes a window of whole chunks whose outer ends C3 keeps. C4 also names ids inside the window
// that must come out as they were: the overlap. It is compared at each edit, because a proof covers the idea and not
// the code.
//
// Not here: what is a synchronizing position and how text is encoded (chunk_engine.hpp is the seam), ids that a
// special-token template adds, checks of UTF-8, the fallback to the reference. A stretch without a synchronizing
// position is one chunk of any size up to 2^32 - 1 bytes, and each edit inside it encodes all of it.
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
#include "chunk_tree.hpp"
#include "code_points.hpp"

namespace tokseam {

// How large chunks are. A template parameter of Session so that tests can reach every edge with short texts.
struct ChunkLimits {
  // Bytes after which a chunk ends at the next synchronizing position. An edit encodes one to three chunks, so less is
  // quicker; each chunk costs ChunkTree::kOverheadBytes = 80 bytes beside its content, which at 1024 bytes (some 256
  // tokens of 4 bytes) is 0.3 bytes a token on top of 8.
  static constexpr std::size_t kTargetBytes = 1024;

  // Bytes below which a chunk is not left to itself: half the target, so that two of them make no more than one.
  // Without it, edit after edit would leave crumbs, and crumbs cost more than they hold.
  static constexpr std::size_t kMinBytes = 512;

  // Bytes of a neighbouring chunk up to which a window is extended by it, to have an overlap or to take in a crumb.
  // Four targets: longer ones hold a long stretch without a synchronizing position, which is not worth encoding again
  // for this.
  static constexpr std::size_t kOverlapMaxBytes = 4096;
};

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
    Encoded encoded = engine_.encode(text, cuts, 0);
    const std::size_t chars = encoded.chars;
    Splice splice = seed(text, cuts, std::move(encoded.ids), encoded.marks);
    last_ = {chars, text.size(), 0};
    return splice;
  }

  // The cuts at which a session would part `text`: what to hand to whoever encodes for seed().
  std::vector<std::size_t> plan_cuts(std::string_view text) const {
    std::vector<std::size_t> cuts;
    std::size_t last = 0;
    while (text.size() - last > Limits::kTargetBytes) {
      const std::size_t cut = engine_.next_cut(text, last + Limits::kTargetBytes);
      if (cut == kNoCut) break;
      // A crumb is left at the end of a chunk, except of a long one: that would have to be encoded with every append.
      if (text.size() - cut < Limits::kMinBytes && cut - last <= Limits::kOverlapMaxBytes) break;
      cuts.push_back(cut);
      last = cut;
    }
    return cuts;
  }

  // As reset(), with ids that were made elsewhere: `ids` of all of `text`, and `marks` for `cuts` = plan_cuts(text),
  // both as Engine::encode gives them. Nothing is encoded, so this trusts the ids. Throws OverlapMismatch for a bad
  // mark.
  Splice seed(std::string_view text, std::span<const std::size_t> cuts, std::vector<std::uint32_t> ids,
              std::span<const std::size_t> marks) {
    if (text.empty() && !ids.empty()) throw std::invalid_argument("an empty text has no ids");
    CheckedEngine<Engine>::check_marks(text, 0, cuts, ids.size(), marks);
    ChunkTree tree = ChunkTree::build(make_chunks(text, cuts, ids, marks));
    const std::size_t old_count = id_count();
    tree_ = std::move(tree);
    last_ = {};
    return {0, old_count, std::move(ids)};
  }

  // Puts `delta` behind the text. As edit() at the end.
  Splice append(std::string_view delta) { return edit(chars(), chars(), delta); }

  // Replaces the code points [start, stop) by `replacement`. Costs work in proportion to the replacement, what it
  // replaces, and a few chunks. The splice is minimal: its ids differ from the replaced ones at both ends, or one of
  // them is empty. Throws std::out_of_range, OverlapMismatch, and whatever the engine throws.
  Splice edit(std::size_t start, std::size_t stop, std::string_view replacement) {
    check_range(start, stop, chars());
    if (start == stop && replacement.empty()) {
      last_ = {};
      return {id_count(), id_count(), {}};
    }
    const Window window = open_window(start, stop, replacement);

    // The overlap's two cuts travel with those of the new chunks. No cut stands twice: `cuts` ascend strictly.
    const std::vector<std::size_t> chunk_cuts = plan_cuts(window.text);
    std::vector<std::size_t> cuts = chunk_cuts;
    for (const std::size_t cut : {window.left_overlap, window.right_overlap}) {
      const auto at = std::lower_bound(cuts.begin(), cuts.end(), cut);
      if (cut != kNoCut && (at == cuts.end() || *at != cut)) cuts.insert(at, cut);
    }
    const Encoded encoded = engine_.encode(window.text, cuts, window.before.chars);
    const std::size_t overlap_ids = check_overlap(window, cuts, encoded);

    std::vector<std::size_t> chunk_marks;
    chunk_marks.reserve(chunk_cuts.size());
    for (const std::size_t cut : chunk_cuts) chunk_marks.push_back(mark_of(cut, cuts, encoded.marks));
    const std::vector<Ref<Chunk>> chunks = make_chunks(window.text, chunk_cuts, encoded.ids, chunk_marks);
    ChunkTree tree = tree_.replaced(window.first, window.last, chunks);
    Splice splice = trim(window, encoded.ids);

    tree_ = std::move(tree);  // nothing throws from here on
    last_ = {encoded.chars, window.text.size(), overlap_ids};
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

  // Bytes asked of the allocator for all this session reaches, and the session itself. Chunks that forks share count
  // in full for each of them. The allocator's own headers and rounding are not in it. O(1).
  std::size_t memory_bytes() const {
    const Sums sums = tree_.sums();
    return sizeof(*this) + sums.chunks * ChunkTree::kOverheadBytes + sums.bytes + sums.ids * sizeof(std::uint32_t);
  }

  // Writes the bytes() bytes of the text to `out`.
  void copy_text(char* out) const { read_text(0, chunk_count(), out); }

  // The code points [start, stop) of the text. Throws std::out_of_range.
  std::string text(std::size_t start, std::size_t stop) const {
    check_range(start, stop, chars());
    std::string slice;
    tree_.visit<&Sums::chars>(start, stop, [&](const Chunk& chunk, std::size_t from, std::size_t to) {
      const std::size_t at = chunk.offset_of(from);
      slice.append(chunk.text().substr(at, chunk.offset_of(to) - at));
    });
    return slice;
  }

  // Writes the id_count() ids to `out`.
  void copy_ids(std::uint32_t* out) const { copy_ids(0, id_count(), out); }

  // Writes the ids [start, stop) to `out`. Throws std::out_of_range.
  void copy_ids(std::size_t start, std::size_t stop, std::uint32_t* out) const {
    check_range(start, stop, id_count());
    tree_.visit<&Sums::ids>(start, stop, [&](const Chunk& chunk, std::size_t from, std::size_t to) {
      out = std::copy_n(chunk.ids().begin() + static_cast<std::ptrdiff_t>(from), to - from, out);
    });
  }

  // Walks everything and throws std::logic_error at the first broken invariant: the tree's own ones, chunks that end at
  // synchronizing positions, no two crumbs side by side, and each chunk's ids those of its text. Slow; for tests.
  void validate() const {
    tree_.validate();
    const Chunk* previous = nullptr;
    std::size_t chars_before = 0;
    tree_.visit<&Sums::chunks>(0, chunk_count(), [&](const Chunk& chunk, std::size_t, std::size_t) {
      const Encoded encoded = engine_.encode(chunk.text(), {}, chars_before);
      chars_before += encoded.chars;
      if (!std::ranges::equal(encoded.ids, chunk.ids())) throw std::logic_error("session: ids that are not the text's");
      if (previous != nullptr) {
        const std::size_t seam = previous->text().size();
        const std::string joined = std::string(previous->text()) + std::string(chunk.text());
        if (engine_.next_cut(joined, seam) != seam) throw std::logic_error("session: a seam that is no cut");
        if (std::max(seam, chunk.text().size()) < Limits::kMinBytes) throw std::logic_error("session: two crumbs meet");
      }
      previous = &chunk;
    });
  }

 private:
  static_assert(Limits::kMinBytes <= Limits::kTargetBytes && Limits::kTargetBytes <= Limits::kOverlapMaxBytes);

  // The chunks that a change touches, and their text with the change made.
  struct Window {
    std::size_t first = 0;              // index of the first chunk replaced
    std::size_t last = 0;               // one past that of the last
    Sums before;                        // what stands left of it
    std::string text;                   // after the change
    std::vector<std::uint32_t> old_ids;  // before it
    std::size_t left_overlap = kNoCut;   // the last cut left of the change, inside text: what is before it is kept
    std::size_t right_overlap = kNoCut;  // the first one right of it, inside text: what is behind it is kept
  };

  static void check_range(std::size_t start, std::size_t stop, std::size_t size) {
    if (start > stop || stop > size) throw std::out_of_range("the range lies outside the session");
  }

  // The mark of `cut`, which is one of `cuts`.
  static std::size_t mark_of(std::size_t cut, std::span<const std::size_t> cuts, std::span<const std::size_t> marks) {
    return marks[static_cast<std::size_t>(std::ranges::lower_bound(cuts, cut) - cuts.begin())];
  }

  static std::vector<Ref<Chunk>> make_chunks(std::string_view text, std::span<const std::size_t> cuts,
                                             std::span<const std::uint32_t> ids, std::span<const std::size_t> marks) {
    std::vector<Ref<Chunk>> chunks;
    if (text.empty()) return chunks;
    chunks.reserve(cuts.size() + 1);
    std::size_t at = 0;
    std::size_t id = 0;
    for (std::size_t k = 0; k <= cuts.size(); ++k) {
      const std::size_t end = k < cuts.size() ? cuts[k] : text.size();
      const std::size_t id_end = k < cuts.size() ? marks[k] : ids.size();
      chunks.push_back(Chunk::make(text.substr(at, end - at), ids.subspan(id, id_end - id)));
      at = end;
      id = id_end;
    }
    return chunks;
  }

  char* read_text(std::size_t first, std::size_t last, char* out) const {
    tree_.visit<&Sums::chunks>(first, last, [&](const Chunk& chunk, std::size_t, std::size_t) {
      out = std::copy_n(chunk.text().data(), chunk.text().size(), out);
    });
    return out;
  }

  // The byte offset of a code point of the text, at <= chars().
  std::size_t byte_of(std::size_t at) const {
    if (at == chars()) return bytes();
    const auto found = tree_.find<&Sums::chars>(at);
    return found.before.bytes + found.chunk->offset_of(at - found.before.chars);
  }

  std::size_t chunk_bytes(std::size_t index) const { return tree_.at(index).text().size(); }

  // Finds the chunks to replace, and makes their new text. The change puts `replacement` for the code points [start,
  // stop).
  Window open_window(std::size_t start, std::size_t stop, std::string_view replacement) const {
    const std::size_t change_start = byte_of(start);
    const std::size_t change_stop = byte_of(stop);
    Window window;
    // By C3 the window begins at a cut left of change_start and ends at one right of change_stop, or at the text's
    // ends: it holds the character before the change and the one behind it.
    window.first = start == 0 ? 0 : tree_.find<&Sums::chars>(start - 1).before.chunks;
    window.last = stop == chars() ? chunk_count() : tree_.find<&Sums::chars>(stop).before.chunks + 1;
    take_in_crumbs(window, replacement.size() - (change_stop - change_start));

    // Where the window itself has no cut beside the change, the neighbour's end is one: it becomes the overlap.
    std::string old_text = read_window(window);
    std::size_t from = change_start - window.before.bytes;
    std::size_t to = change_stop - window.before.bytes;
    std::size_t left = from == 0 ? kNoCut : engine_.last_cut(old_text, from - 1);
    std::size_t right = to == old_text.size() ? kNoCut : engine_.next_cut(old_text, to + 1);
    const bool extend_left =
        left == kNoCut && window.first > 0 && chunk_bytes(window.first - 1) <= Limits::kOverlapMaxBytes;
    const bool extend_right = right == kNoCut && window.last < chunk_count() &&
                              chunk_bytes(window.last) <= Limits::kOverlapMaxBytes;
    if (extend_left || extend_right) {
      if (extend_right) right = old_text.size();
      if (extend_left) {
        left = 0;
        --window.first;
      }
      if (extend_right) ++window.last;
      const std::size_t old_start = window.before.bytes;
      old_text = read_window(window);
      const std::size_t shift = old_start - window.before.bytes;
      for (std::size_t* position : {&from, &to, &left, &right})
        if (*position != kNoCut) *position += shift;
    }

    window.left_overlap = left;
    if (right != kNoCut) window.right_overlap = right - to + from + replacement.size();
    window.text = std::move(old_text);
    window.text.replace(from, to - from, replacement);

    window.old_ids.resize(tree_.before(window.last).ids - window.before.ids);
    copy_ids(window.before.ids, window.before.ids + window.old_ids.size(), window.old_ids.data());
    return window;
  }

  // Extends the window by neighbours that are crumbs, or by any but long ones while it would be a crumb itself.
  // `growth` is what the change adds to the window's bytes, modulo 2^64 where it takes away.
  void take_in_crumbs(Window& window, std::size_t growth) const {
    std::size_t size = tree_.before(window.last).bytes - tree_.before(window.first).bytes + growth;
    const auto wanted = [&](std::size_t neighbour) {
      return neighbour < Limits::kMinBytes || (size < Limits::kMinBytes && neighbour <= Limits::kOverlapMaxBytes);
    };
    while (true) {
      if (window.first > 0 && wanted(chunk_bytes(window.first - 1))) {
        size += chunk_bytes(--window.first);
      } else if (window.last < chunk_count() && wanted(chunk_bytes(window.last))) {
        size += chunk_bytes(window.last++);
      } else {
        break;
      }
    }
    window.before = tree_.before(window.first);
  }

  // The window's text as it is, and what stands before it.
  std::string read_window(Window& window) const {
    window.before = tree_.before(window.first);
    std::string text(tree_.before(window.last).bytes - window.before.bytes, '\0');
    read_text(window.first, window.last, text.data());
    return text;
  }

  // Compares the ids that C4 keeps. Returns how many there are.
  static std::size_t check_overlap(const Window& window, std::span<const std::size_t> cuts, const Encoded& encoded) {
    using Differs = OverlapMismatch::Differs;
    const std::span<const std::uint32_t> ids = encoded.ids;
    const std::span<const std::uint32_t> old_ids = window.old_ids;
    std::size_t head = 0;
    if (window.left_overlap != kNoCut) {
      head = mark_of(window.left_overlap, cuts, encoded.marks);
      if (head > old_ids.size() || !std::ranges::equal(ids.first(head), old_ids.first(head)))
        throw CheckedEngine<Engine>::mismatch(Differs::ids, window.text, window.before.chars, window.left_overlap);
    }
    std::size_t tail = 0;
    if (window.right_overlap != kNoCut) {
      tail = ids.size() - mark_of(window.right_overlap, cuts, encoded.marks);
      if (tail > old_ids.size() - head || !std::ranges::equal(ids.last(tail), old_ids.last(tail)))
        throw CheckedEngine<Engine>::mismatch(Differs::ids, window.text, window.before.chars, window.right_overlap);
    }
    return head + tail;
  }

  // The splice without what old and new ids share at the window's ends.
  static Splice trim(const Window& window, std::span<const std::uint32_t> ids) {
    std::span<const std::uint32_t> old_ids = window.old_ids;
    const auto head = std::ranges::mismatch(ids, old_ids).in1 - ids.begin();
    ids = ids.subspan(static_cast<std::size_t>(head));
    old_ids = old_ids.subspan(static_cast<std::size_t>(head));
    std::size_t tail = 0;
    const std::size_t shorter = std::min(ids.size(), old_ids.size());
    while (tail < shorter && ids[ids.size() - 1 - tail] == old_ids[old_ids.size() - 1 - tail]) ++tail;
    const std::size_t start = window.before.ids + static_cast<std::size_t>(head);
    return {start, start + old_ids.size() - tail, {ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(tail)}};
  }

  CheckedEngine<Engine> engine_;
  ChunkTree tree_;      // the text, cut at synchronizing positions; see validate()
  LastOperation last_;  // of the last operation that did not throw
};

}  // namespace tokseam
