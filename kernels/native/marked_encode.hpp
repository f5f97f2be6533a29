// A whole text with what a session of it needs: ids, the cuts that become marks, and how many ids stand before each;
// what came before is recognised, the rest encoded, on several cores if wanted. What Session::seed() takes. Exact by the
// theorem alone, as fresh_text.hpp and parallel.hpp are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "chunk_engine.hpp"
#include "encoder.hpp"
#include "fresh_text.hpp"
#include "helpers.hpp"
#include "known_chunks.hpp"
#include "parallel.hpp"
#include "session.hpp"
#include "text_parts.hpp"

namespace tokseam {

namespace detail {

// Encodes the whole text on at most `threads` threads, this one among them. Its cuts are those that a session would
// plan; parts begin at some of them.
inline MarkedText encode_planned(const Encoder& encoder, std::string_view text, EncodeMode mode, std::size_t threads) {
  MarkedText made;
  made.cuts = Session<Encoder>(encoder, mode.split_special).plan_cuts(text);
  const std::size_t count =
      std::clamp<std::size_t>(text.size() / kParallelPartBytes, 1, std::max<std::size_t>(threads, 1));
  std::vector<std::size_t> firsts{0};  // of each part: how many cuts stand before it, its own first one included
  for (std::size_t k = 1; k < count; ++k) {
    const auto at = std::lower_bound(made.cuts.begin(), made.cuts.end(), text.size() / count * k);
    const std::size_t first = static_cast<std::size_t>(at - made.cuts.begin()) + 1;
    if (at == made.cuts.end() || first <= firsts.back()) break;
    firsts.push_back(first);
  }
  struct Part {
    std::vector<std::uint32_t> ids;
    std::vector<std::size_t> marks;
    std::exception_ptr error;
  };
  std::vector<Part> parts(firsts.size());
  const auto work = [&](std::size_t number) noexcept {
    Part& part = parts[number];
    try {
      const std::size_t begin = number == 0 ? 0 : made.cuts[firsts[number] - 1];
      const bool last = number + 1 == parts.size();
      const std::size_t end = last ? text.size() : made.cuts[firsts[number + 1] - 1];
      const std::size_t behind = last ? made.cuts.size() : firsts[number + 1] - 1;
      std::vector<std::size_t> inside(made.cuts.begin() + static_cast<std::ptrdiff_t>(firsts[number]),
                                      made.cuts.begin() + static_cast<std::ptrdiff_t>(behind));
      for (std::size_t& cut : inside) cut -= begin;
      part.ids.reserve((end - begin) / kBytesPerId);
      const EncodeMode part_mode{mode.split_special, mode.continued || number > 0};
      encoder.encode(text.substr(begin, end - begin), part_mode, inside, part.ids, part.marks);
    } catch (...) {
      part.error = std::current_exception();
    }
  };
  std::atomic<std::size_t> next{0};
  const auto work_along = [&]() noexcept {
    for (std::size_t number = next++; number < parts.size(); number = next++) work(number);
  };
  if (!text.empty()) Helpers::of_process().run(parts.size() - 1, work_along, work_along);
  for (const Part& part : parts)
    if (part.error) std::rethrow_exception(part.error);
  made.ids = std::move(parts.front().ids);
  made.marks = std::move(parts.front().marks);
  made.marks.reserve(made.cuts.size());
  for (std::size_t number = 1; number < parts.size(); ++number) {
    const std::size_t before = made.ids.size();
    made.marks.push_back(before);
    for (const std::size_t mark : parts[number].marks) made.marks.push_back(mark == kNoMark ? kNoMark : before + mark);
    made.ids.insert(made.ids.end(), parts[number].ids.begin(), parts[number].ids.end());
  }
  return made;
}

// Puts `more`, of the text from `begin` on, behind what was made of the text in front of it.
inline void append_marked(MarkedText& made, std::size_t begin, const MarkedText& more) {
  const std::size_t before = made.ids.size();
  for (const std::size_t cut : more.cuts) made.cuts.push_back(begin + cut);
  for (const std::size_t mark : more.marks) made.marks.push_back(mark == kNoMark ? kNoMark : before + mark);
  made.ids.insert(made.ids.end(), more.ids.begin(), more.ids.end());
}

}  // namespace detail

// Encodes the whole text on at most `threads` threads, this one among them. Its cuts are those that a session of it
// would plan, or, where chunks are recognised, as many of each chunk's own.
inline MarkedText encode_marked(const Encoder& encoder, std::string_view text, bool split_special,
                                std::size_t threads) {
  KnownChunks& known = encoder.known_chunks();
  const EncodeMode mode{split_special, false};
  if (text.size() < kRecognisedBytes || !known.enabled()) return detail::encode_planned(encoder, text, mode, threads);
  std::vector<TextPart> parts = part_text(encoder, text, mode);
  if (!any_came_before(parts)) return detail::encode_planned(encoder, text, mode, threads);

  // The last part is encoded in any case: a session wants a mark near the text's end.
  const TextPart last = parts.back();
  const std::span<const TextPart> others = std::span(parts).first(parts.size() - 1);
  MarkedText made;
  made.ids.reserve(text.size() / kBytesPerId);
  for (std::size_t i = 0; i < others.size();) {
    const std::size_t begin = others[i].begin;
    if (begin > 0) {
      made.cuts.push_back(begin);
      made.marks.push_back(made.ids.size());
    }
    if (const KnownChunks::Found& found = others[i].found) {
      for (const KnownChunks::Mark& mark : found->marks) {
        made.cuts.push_back(begin + mark.at);
        made.marks.push_back(made.ids.size() + mark.ids);
      }
      made.ids.insert(made.ids.end(), found->ids.begin(), found->ids.end());
      ++i;
      continue;
    }
    const std::span<const TextPart> unknown = unknown_from(others, i);
    const std::string_view stretch = text.substr(begin, unknown.back().end - begin);
    if (any_came_before(unknown))
      encode_and_keep(encoder, text, unknown, mode, made);
    else
      detail::append_marked(made, begin,
                            detail::encode_planned(encoder, stretch, {split_special, begin > 0}, threads));
    i += unknown.size();
  }
  if (last.begin > 0) {
    made.cuts.push_back(last.begin);
    made.marks.push_back(made.ids.size());
  }
  MarkedText end = detail::encode_planned(encoder, text.substr(last.begin), {split_special, last.begin > 0}, threads);
  if (last.again) {
    std::vector<KnownChunks::Mark> marks;
    for (std::size_t k = 0; k < end.cuts.size(); ++k) marks.push_back({end.cuts[k], end.marks[k]});
    if (std::ranges::find(end.marks, kNoMark) == end.marks.end())
      known.keep(last.hash, text.substr(last.begin), last.mode, end.ids, marks);
  }
  detail::append_marked(made, last.begin, end);
  note_parts(known, parts);
  return made;
}

}  // namespace tokseam
