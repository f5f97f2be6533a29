// A whole text with what a session of it needs: ids, the cuts that become marks, and how many ids stand before each;
// what came before is recognised, the rest encoded, on several cores if wanted. What Session::seed() takes. Exact by
// the theorem alone, as fresh_text.hpp and parallel.hpp are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chunk_engine.hpp"
#include "encoder.hpp"
#include "fresh_text.hpp"
#include "known_chunks.hpp"
#include "parallel.hpp"
#include "session.hpp"
#include "text_parts.hpp"

namespace tokseam {

struct MarkedText {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> cuts;   // bytes: Session::plan_cuts() of the text
  std::vector<std::size_t> marks;  // one for each cut; see ChunkEngine
};

namespace detail {

// Encodes the whole text on at most `threads` threads, this one among them.
inline MarkedText encode_with_cuts(const Encoder& encoder, std::string_view text, EncodeMode mode, std::size_t threads,
                                   std::vector<std::size_t> cuts) {
  MarkedText made;
  made.cuts = std::move(cuts);
  encode_parallel(encoder, text, mode, threads, made.cuts, made.ids, made.marks);
  return made;
}

// Appends the marks of cuts inside a recognised chunk that begins at `begin`, behind `before` ids. False, with nothing
// appended, where it has not all of them: where it was kept, other text stood before it.
inline bool append_marks(const KnownChunks::Chunk& chunk, std::size_t begin, std::span<const std::size_t> cuts,
                         std::size_t before, std::vector<std::size_t>& marks) {
  const std::size_t had = marks.size();
  auto mark = chunk.marks.begin();
  for (const std::size_t cut : cuts) {
    while (mark != chunk.marks.end() && begin + mark->at < cut) ++mark;
    if (mark == chunk.marks.end() || begin + mark->at != cut) {
      marks.resize(had);
      return false;
    }
    marks.push_back(before + mark->ids);
  }
  return true;
}

}  // namespace detail

// Encodes the whole text on at most `threads` threads, this one among them, but for what is recognised.
inline MarkedText encode_marked(const Encoder& encoder, std::string_view text, bool split_special,
                                std::size_t threads) {
  KnownChunks& known = encoder.known_chunks();
  const EncodeMode mode{split_special, false};
  std::vector<std::size_t> cuts = Session<Encoder>(encoder, split_special).plan_cuts(text);
  std::vector<TextPart> parts;
  if (text.size() >= kRecognisedBytes && known.enabled()) parts = part_text(encoder, text, mode);
  std::vector<std::size_t> marks;
  for (TextPart& part : parts) {
    marks.clear();
    if (!part.found || detail::append_marks(*part.found, part.begin, cuts_inside(cuts, part.begin, part.end), 0, marks))
      continue;
    part.found.reset();
    part.again = true;
  }
  if (!any_came_before(parts)) return detail::encode_with_cuts(encoder, text, mode, threads, std::move(cuts));

  MarkedText made;
  made.ids.reserve(text.size() / kBytesPerId);
  made.marks.reserve(cuts.size());
  for (std::size_t i = 0; i < parts.size();) {
    const std::size_t begin = parts[i].begin;
    if (std::ranges::binary_search(cuts, begin)) made.marks.push_back(made.ids.size());
    if (const KnownChunks::Found& found = parts[i].found) {
      detail::append_marks(*found, begin, cuts_inside(cuts, begin, parts[i].end), made.ids.size(), made.marks);
      made.ids.insert(made.ids.end(), found->ids.begin(), found->ids.end());
      ++i;
      continue;
    }
    const std::span<const TextPart> unknown = unknown_from(parts, i);
    if (any_came_before(unknown)) {
      encode_and_keep(encoder, text, unknown, mode, threads, cuts, made.ids, made.marks);
    } else {
      const std::size_t end = unknown.back().end, before = made.ids.size();
      std::vector<std::size_t> inside;
      for (const std::size_t cut : cuts_inside(cuts, begin, end)) inside.push_back(cut - begin);
      const MarkedText stretch = detail::encode_with_cuts(encoder, text.substr(begin, end - begin),
                                                          {split_special, begin > 0}, threads, std::move(inside));
      for (const std::size_t mark : stretch.marks) made.marks.push_back(mark == kNoMark ? kNoMark : before + mark);
      made.ids.insert(made.ids.end(), stretch.ids.begin(), stretch.ids.end());
    }
    i += unknown.size();
  }
  made.cuts = std::move(cuts);
  note_parts(known, parts);
  return made;
}

}  // namespace tokseam
