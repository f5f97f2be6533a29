// A fresh text: what came before is recognised in large chunks, the rest encoded, on several cores if wanted. Exact by
// the theorem alone (kernels/README.md, claims 4 and 8).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "chunk_engine.hpp"
#include "chunk_plan.hpp"
#include "code_points.hpp"
#include "encoder.hpp"
#include "known_chunks.hpp"
#include "parallel.hpp"
#include "text_parts.hpp"

namespace tokseam {

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

// Where a session of the text would have marks, but for its end (Session::plan_cuts). They depend on what stands before
// them alone, so texts that begin alike have them at the same places.
inline std::vector<std::size_t> planned_cuts(const Encoder& encoder, std::string_view text) {
  std::vector<std::size_t> cuts;
  for (std::size_t at = 0; text.size() - at > ChunkLimits::kMarkBytes;) {
    at = utf8::boundary_at_or_after(text, at + ChunkLimits::kMarkBytes);
    if (at == text.size()) break;
    at = encoder.next_cut(text, at);
    if (at == kNoCut) break;
    cuts.push_back(at);
  }
  return cuts;
}

// The cuts strictly between two places.
inline std::span<const std::size_t> cuts_inside(std::span<const std::size_t> cuts, std::size_t begin,
                                                std::size_t end) {
  const auto first = std::ranges::upper_bound(cuts, begin);
  return {first, std::ranges::lower_bound(first, cuts.end(), end)};
}

// Those of them that are strictly inside a chunk that is to be kept.
inline std::vector<std::size_t> planned_cuts_to_keep(const Encoder& encoder, std::string_view text,
                                                     std::span<const TextPart> parts) {
  const std::vector<std::size_t> planned = planned_cuts(encoder, text);
  std::vector<std::size_t> kept;
  for (const TextPart& part : parts) {
    if (!part.again) continue;
    const std::span<const std::size_t> inside = cuts_inside(planned, part.begin, part.end);
    kept.insert(kept.end(), inside.begin(), inside.end());
  }
  return kept;
}

// Appends the ids of parts that stand side by side, none of them known, and the marks of the `planned` cuts strictly
// inside them; keeps those that came before, with their marks. On at most `threads` threads.
inline void encode_and_keep(const Encoder& encoder, std::string_view text, std::span<const TextPart> parts,
                            EncodeMode mode, std::size_t threads, std::span<const std::size_t> planned,
                            std::vector<std::uint32_t>& ids, std::vector<std::size_t>& marks) {
  const std::size_t begin = parts.front().begin, end = parts.back().end;
  // All planned ones, and where what is to be kept begins and ends.
  const std::span<const std::size_t> wanted = cuts_inside(planned, begin, end);
  std::vector<std::size_t> cuts(wanted.begin(), wanted.end());
  // PERF: of the others nobody asks for a mark, and each mark is looked at twice (SegmentEncoder).
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i - 1].again || parts[i].again) cuts.push_back(parts[i].begin);
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  std::vector<std::size_t> local, counts;
  for (const std::size_t cut : cuts) local.push_back(cut - begin);
  const std::size_t before = ids.size();
  const EncodeMode own{mode.split_special, mode.continued || begin > 0};
  encode_parallel(encoder, text.substr(begin, end - begin), own, threads, local, ids, counts);

  const auto count_at = [&](std::size_t place) {
    if (place == begin) return std::size_t{0};
    if (place == end) return ids.size() - before;
    return counts[static_cast<std::size_t>(std::ranges::lower_bound(cuts, place) - cuts.begin())];
  };
  for (const std::size_t cut : wanted) {
    const std::size_t count = count_at(cut);
    marks.push_back(count == kNoMark ? kNoMark : before + count);
  }
  for (const TextPart& part : parts) {
    if (!part.again) continue;
    const std::size_t from = count_at(part.begin), to = count_at(part.end);
    bool all = from != kNoMark && to != kNoMark;
    std::vector<KnownChunks::Mark> inner;
    for (const std::size_t cut : cuts_inside(wanted, part.begin, part.end)) {
      all = all && count_at(cut) != kNoMark;
      if (all) inner.push_back({cut - part.begin, count_at(cut) - from});
    }
    if (all)
      encoder.known_chunks().keep(part.hash, text.substr(part.begin, part.end - part.begin), part.mode,
                                  std::span(ids).subspan(before + from, to - from), inner);
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
  ids.reserve(room);
  std::vector<std::size_t> planned, marks;
  if (std::ranges::any_of(parts, &TextPart::again)) planned = planned_cuts_to_keep(encoder, text, parts);
  for (std::size_t i = 0; i < parts.size();) {
    if (const KnownChunks::Found& found = parts[i].found) {
      if (i + 1 < parts.size() && parts[i + 1].found) detail::prefetch_begin(parts[i + 1].found->ids);
      ids.insert(ids.end(), found->ids.begin(), found->ids.end());
      ++i;
      continue;
    }
    const std::span<const TextPart> unknown = unknown_from(parts, i);
    if (any_came_before(unknown)) {
      encode_and_keep(encoder, text, unknown, mode, threads, planned, ids, marks);
    } else {
      const std::size_t begin = unknown.front().begin;
      encode_parallel(encoder, text.substr(begin, unknown.back().end - begin),
                      {mode.split_special, mode.continued || begin > 0}, threads, ids);
    }
    i += unknown.size();
  }
  note_parts(known, parts);
}

}  // namespace tokseam
