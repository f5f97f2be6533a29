// A whole text with what a session of it needs: ids, the cuts that become marks, and how many ids stand before each; on
// several cores. What Session::seed() takes. Exact by the theorem alone, as parallel.hpp is.
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
#include "helpers.hpp"
#include "parallel.hpp"
#include "session.hpp"

namespace tokseam {

struct MarkedText {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> cuts;   // bytes: Session::plan_cuts() of the text
  std::vector<std::size_t> marks;  // one for each cut; see ChunkEngine
};

// Encodes the whole text on at most `threads` threads, this one among them. Parts begin at planned cuts.
inline MarkedText encode_marked(const Encoder& encoder, std::string_view text, bool split_special,
                                std::size_t threads) {
  MarkedText made;
  made.cuts = Session<Encoder>(encoder, split_special).plan_cuts(text);
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
      encoder.encode(text.substr(begin, end - begin), {split_special, number > 0}, inside, part.ids, part.marks);
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

}  // namespace tokseam
