// A fresh text on several cores: parted at synchronizing positions, its parts encoded at the same time. Exact by the
// theorem alone (kernels/README.md, claims 4 and 8): nothing is looked at again where parts meet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "helpers.hpp"
#include "kept_memory.hpp"

namespace tokseam {

// A part is worth a thread of its own from here on: some 0.3 ms of work, where calling one costs 0.02 ms.
inline constexpr std::size_t kParallelPartBytes = std::size_t{1} << 16;

// To make room by: most texts have fewer ids than one for so many bytes.
inline constexpr std::size_t kBytesPerId = 3;

namespace detail {

// What is left of a text, taken part by part from both ends until nothing is. Parts get smaller, so that those who take
// them are done at about the same time. Any thread may ask.
template <ChunkEngine Engine>
class RestOfText {
 public:
  struct Range {
    std::size_t begin, end;  // nothing is left: begin == end
  };

  RestOfText(const Engine& engine, std::string_view text, std::size_t takers)
      : engine_(engine), text_(text), takers_(takers), end_(text.size()) {}

  // `first`: the taker's first part is large, so that its caches are made ready for much (Encoder).
  Range take_front(bool first) {
    const std::lock_guard guard(mutex_);
    const std::size_t begin = begin_, size = next_size(first);
    const std::string_view left = text_.substr(0, end_);
    const std::size_t from = utf8::boundary_at_or_after(left, begin + size);
    const std::size_t cut = from < end_ ? engine_.next_cut(left, from) : kNoCut;
    begin_ = cut == kNoCut ? end_ : cut;
    return {begin, begin_};
  }
  Range take_back(bool first) {
    const std::lock_guard guard(mutex_);
    const std::size_t end = end_, size = next_size(first);
    if (begin_ == end) return {end, end};
    const std::string_view left = text_.substr(0, end);
    const std::size_t upto = utf8::boundary_at_or_before(left, std::min(end - size, end - 1));
    const std::size_t cut = upto > begin_ ? engine_.last_cut(left, upto) : kNoCut;
    end_ = cut == kNoCut || cut < begin_ ? begin_ : cut;
    return {end_, end};
  }
  void drop() {
    const std::lock_guard guard(mutex_);
    begin_ = end_;
  }

 private:
  static constexpr std::size_t kLeastPartBytes = std::size_t{1} << 14;

  std::size_t next_size(bool first) const {
    const std::size_t left = end_ - begin_;
    const std::size_t large = first ? std::min(kParallelPartBytes, left / 2) : 0;
    return std::min(left, std::max({kLeastPartBytes, large, left / (2 * takers_)}));
  }

  const Engine& engine_;
  const std::string_view text_;
  const std::size_t takers_;
  std::mutex mutex_;             // guards what follows
  std::size_t begin_ = 0, end_;  // what is left; both synchronizing positions or the text's ends
};

}  // namespace detail

// Appends the ids of the whole text, and sets `marks` to those of `cuts`, as Engine::encode makes them, on at most
// `threads` threads, this one among them: it begins at the front, where the ids are in place, the others at the back.
template <ChunkEngine Engine>
void encode_parallel(const Engine& encoder, std::string_view text, EncodeMode mode, std::size_t threads,
                     std::span<const std::size_t> cuts, std::vector<std::uint32_t>& ids,
                     std::vector<std::size_t>& marks) {
  const std::size_t before = ids.size();
  marks.clear();
  ids.reserve(before + text.size() / kBytesPerId);
  const std::size_t count =
      std::clamp<std::size_t>(text.size() / kParallelPartBytes, 1, std::max<std::size_t>(threads, 1));
  if (count == 1) return encoder.encode(text, mode, cuts, ids, marks);

  // A stretch that one thread has encoded: where its ids lie among those of that thread, and the cuts that are its own,
  // the one at its beginning among them.
  struct Part {
    std::size_t begin;
    std::size_t from, to;
    std::size_t first_cut, last_cut;
    const std::vector<std::uint32_t>* ids = nullptr;
  };
  marks.assign(cuts.size(), kNoMark);
  detail::RestOfText<Engine> rest(encoder, text, count);
  std::mutex mutex;  // guards what follows
  std::vector<std::vector<std::uint32_t>> made;
  std::vector<Part> parts;
  std::exception_ptr error;

  // Each mark is written by whoever encodes what it lies in: counted from the first id in `out`.
  const auto encode = [&](std::size_t begin, std::size_t end, std::vector<std::uint32_t>& out,
                          std::vector<std::size_t>& inside, std::vector<std::size_t>& counts) {
    const auto number = [&](std::size_t place) {
      return static_cast<std::size_t>(std::ranges::lower_bound(cuts, place) - cuts.begin());
    };
    Part part{begin, out.size(), 0, number(begin), number(end)};
    const std::size_t first_inside = part.first_cut < cuts.size() && cuts[part.first_cut] == begin
                                         ? part.first_cut + 1 : part.first_cut;
    inside.clear();
    counts.clear();
    for (std::size_t k = first_inside; k < part.last_cut; ++k) inside.push_back(cuts[k] - begin);
    const EncodeMode own{mode.split_special, mode.continued || begin > 0};
    encoder.encode(text.substr(begin, end - begin), own, inside, out, counts);
    if (first_inside != part.first_cut) marks[part.first_cut] = part.from;
    for (std::size_t k = first_inside; k < part.last_cut; ++k)
      if (counts[k - first_inside] != kNoMark) marks[k] = part.from + counts[k - first_inside];
    part.to = out.size();
    return part;
  };
  const auto failed = [&] {
    rest.drop();
    const std::lock_guard guard(mutex);
    if (!error) error = std::current_exception();
  };
  const auto from_front = [&]() noexcept {
    try {
      std::vector<std::size_t> inside, counts;
      for (bool first = true;; first = false) {
        const auto [begin, end] = rest.take_front(first);
        if (begin == end) return;
        encode(begin, end, ids, inside, counts);
      }
    } catch (...) {
      failed();
    }
  };
  const auto from_back = [&]() noexcept {
    try {
      std::vector<std::uint32_t> mine;
      std::vector<Part> places;
      std::vector<std::size_t> inside, counts;
      for (bool first = true;; first = false) {
        const auto [begin, end] = rest.take_back(first);
        if (begin == end) break;
        if (first) mine = kept_ids().take(text.size() / count / kBytesPerId);
        places.push_back(encode(begin, end, mine, inside, counts));
      }
      const std::lock_guard guard(mutex);
      made.push_back(std::move(mine));
      for (Part& part : places) {
        part.ids = &made.back();
        parts.push_back(part);
      }
    } catch (...) {
      failed();
    }
  };
  made.reserve(count);  // so that none moves
  Helpers::of_process().run(count - 1, from_front, from_back);
  if (error) std::rethrow_exception(error);
  std::ranges::sort(parts, {}, &Part::begin);
  const std::size_t last_in_front = parts.empty() ? cuts.size() : parts.front().first_cut;
  for (std::size_t k = 0; k < last_in_front; ++k)
    if (marks[k] != kNoMark) marks[k] -= before;
  for (const Part& part : parts) {
    const std::size_t at = ids.size() - before;
    for (std::size_t k = part.first_cut; k < part.last_cut; ++k)
      if (marks[k] != kNoMark) marks[k] = marks[k] - part.from + at;
    ids.insert(ids.end(), part.ids->begin() + static_cast<std::ptrdiff_t>(part.from),
               part.ids->begin() + static_cast<std::ptrdiff_t>(part.to));
  }
  for (std::vector<std::uint32_t>& used : made) kept_ids().give_back(std::move(used));
}

// The same, of the ids alone.
template <ChunkEngine Engine>
void encode_parallel(const Engine& encoder, std::string_view text, EncodeMode mode, std::size_t threads,
                     std::vector<std::uint32_t>& ids) {
  std::vector<std::size_t> marks;
  encode_parallel(encoder, text, mode, threads, {}, ids, marks);
}

}  // namespace tokseam
