// What a session asks of an engine, and nothing else: this is the seam between the two.
// The engine itself stands elsewhere; so does the session, in session.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "spellings.hpp"

namespace tokseam {

// What next_cut and last_cut answer where there is no synchronizing position.
inline constexpr std::size_t kNoCut = std::string_view::npos;

// The mark of a cut that did not come out as a piece boundary, though it was taken for a synchronizing position.
inline constexpr std::size_t kNoMark = static_cast<std::size_t>(-1);

// How a text is to be encoded.
struct EncodeMode {
  bool split_special = false;  // the literals of special tokens are text like any other
  bool continued = false;      // the text goes on from a cut: what a tokenizer puts in front of a text is left out
};

// An engine that finds synchronizing positions and encodes. Texts are valid UTF-8, positions are byte offsets.
//
// next_cut(text, from)   the first synchronizing position p with from <= p < text.size() and p > 0, or kNoCut.
// last_cut(text, upto)   the last one with 0 < p <= upto and p < text.size(), or kNoCut.
//     `from` and `upto` lie on code point boundaries inside the text. Whether p is one depends on the two characters
//     that meet there alone; a session keeps a cut for exactly as long as both stand and touch.
// encode(text, mode, cuts, ids, marks)   appends the ids of the whole text, and a mark for each cut.
//     `cuts` ascend strictly and are synchronizing positions of this text. marks[k] counts the ids that this call
//     appended for text[:cuts[k]], or is kNoMark where no piece starts at cuts[k].
// spellings()            the bytes of its ids, as far as it has them. A session trusts none of them: it compares.
//
// All of them may be called from many threads at once, and may throw.
template <class E>
concept ChunkEngine = requires(const E& engine, std::string_view text, std::size_t at, EncodeMode mode,
                               std::span<const std::size_t> cuts, std::vector<std::uint32_t>& ids,
                               std::vector<std::size_t>& marks) {
  { engine.next_cut(text, at) } -> std::same_as<std::size_t>;
  { engine.last_cut(text, at) } -> std::same_as<std::size_t>;
  engine.encode(text, mode, cuts, ids, marks);
  { engine.spellings() } -> std::same_as<const Spellings&>;
};

}  // namespace tokseam
