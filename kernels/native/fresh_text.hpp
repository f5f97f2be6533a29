// A fresh text: what came before is recognised in large chunks, the rest encoded, on several cores if wanted. Exact by
// the theorem alone (kernels/README.md, claims 4 and 8).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chunk_engine.hpp"
#include "chunk_plan.hpp"
#include "encoder.hpp"
#include "known_chunks.hpp"
#include "parallel.hpp"
#include "text_parts.hpp"

namespace tokseam {

// Ids with cuts of their text, in bytes, and how many ids stand before each; see ChunkEngine.
struct MarkedText {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> cuts;
  std::vector<std::size_t> marks;
};

// Whether anything of a text came before.
inline bool any_came_before(std::span<const TextPart> parts) {
  return std::ranges::any_of(parts, [](const TextPart& part) { return part.found || part.again; });
}

// The parts from `first` on of which none is known.
inline std::span<const TextPart> unknown_from(std::span<const TextPart> parts, std::size_t first) {
  std::size_t stop = first;
  while (stop < parts.size() && !parts[stop].found) ++stop;
  return parts.subspan(first, stop - first);
}

// Appends ids, cuts and marks of parts that stand side by side, none of them known, and keeps those that came before,
// with their marks. Marks stand where parts meet and, inside, where a session would have them.
inline void encode_and_keep(const Encoder& encoder, std::string_view text, std::span<const TextPart> parts,
                            EncodeMode mode, MarkedText& made) {
  const std::size_t begin = parts.front().begin, end = parts.back().end;
  std::vector<std::size_t> cuts, marks, firsts;  // firsts: of each part, how many cuts stand before its inner ones
  for (const TextPart& part : parts) {
    if (part.begin > begin) cuts.push_back(part.begin - begin);
    firsts.push_back(cuts.size());
    const std::string_view inside = text.substr(part.begin, part.end - part.begin);
    for (std::size_t at = 0; inside.size() - at > ChunkLimits::kMarkBytes;) {
      at = encoder.next_cut(inside, at + ChunkLimits::kMarkBytes);
      if (at == kNoCut) break;
      cuts.push_back(part.begin - begin + at);
    }
  }
  const std::size_t before = made.ids.size();
  encoder.encode(text.substr(begin, end - begin), {mode.split_special, mode.continued || begin > 0}, cuts, made.ids,
                 marks);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const TextPart& part = parts[k];
    const bool last = k + 1 == parts.size();
    const std::size_t stop = last ? cuts.size() : firsts[k + 1] - 1;
    const std::size_t from = k == 0 ? 0 : marks[firsts[k] - 1];
    const std::size_t to = last ? made.ids.size() - before : marks[stop];
    if (!part.again || from == kNoMark || to == kNoMark) continue;
    std::vector<KnownChunks::Mark> inner;
    bool all = true;
    for (std::size_t i = firsts[k]; i < stop; ++i) {
      all = all && marks[i] != kNoMark;
      inner.push_back({cuts[i] - (part.begin - begin), marks[i] - from});
    }
    if (all)
      encoder.known_chunks().keep(part.hash, text.substr(part.begin, part.end - part.begin), part.mode,
                                  std::span(made.ids).subspan(before + from, to - from), inner);
  }
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    made.cuts.push_back(begin + cuts[i]);
    made.marks.push_back(marks[i] == kNoMark ? kNoMark : before + marks[i]);
  }
}

// Appends the ids of the whole text, encoded on at most `threads` threads.
inline void encode_fresh(const Encoder& encoder, std::string_view text, EncodeMode mode, std::size_t threads,
                         std::vector<std::uint32_t>& ids) {
  KnownChunks& known = encoder.known_chunks();
  if (text.size() < kRecognisedBytes || !known.enabled()) return encode_parallel(encoder, text, mode, threads, ids);
  const std::vector<TextPart> parts = part_text(encoder, text, mode);
  if (!any_came_before(parts)) return encode_parallel(encoder, text, mode, threads, ids);

  std::size_t room = ids.size();
  for (const TextPart& part : parts)
    room += part.found ? part.found->ids.size() : (part.end - part.begin) / kBytesPerId;
  MarkedText made;
  made.ids = std::move(ids);
  made.ids.reserve(room);
  for (std::size_t i = 0; i < parts.size();) {
    if (const KnownChunks::Found& found = parts[i].found) {
      if (i + 1 < parts.size() && parts[i + 1].found) detail::prefetch_begin(parts[i + 1].found->ids);
      made.ids.insert(made.ids.end(), found->ids.begin(), found->ids.end());
      ++i;
      continue;
    }
    const std::span<const TextPart> unknown = unknown_from(parts, i);
    if (any_came_before(unknown)) {
      encode_and_keep(encoder, text, unknown, mode, made);
    } else {
      const std::size_t begin = unknown.front().begin;
      encode_parallel(encoder, text.substr(begin, unknown.back().end - begin),
                      {mode.split_special, mode.continued || begin > 0}, threads, made.ids);
    }
    i += unknown.size();
  }
  ids = std::move(made.ids);
  note_parts(known, parts);
}

}  // namespace tokseam
