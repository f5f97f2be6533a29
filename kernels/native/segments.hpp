// A fresh text, segment by segment: parted at every synchronizing position (cut_masks.hpp), each segment's ids taken
// from the cache (segment_cache.hpp) or made by the caller. Exact by the theorem alone: no rule of any tokenizer is
// known here.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "segment_cache.hpp"

namespace tokseam {

// masks.at(text, at): bit i tells whether the text may be cut at at + i; masks.is_cut(text, at): the same of one place,
// also where the masks lose it. resolve(segment, ids) appends the ids of a
// segment that is not at the start of the text, or is like any other there. parts(text, at): whether a piece really
// begins there in this short text, by the stages themselves.
template <class Masks, class Resolve, class Parts>
class SegmentEncoder {
 public:
  SegmentEncoder(const Masks& masks, SegmentCache& cache, bool split_special, Resolve& resolve, Parts& parts)
      : masks_(masks), cache_(cache), mode_(split_special ? SegmentCache::kSplitSpecial : 0), resolve_(resolve),
        parts_(parts) {}

  // Appends the ids of text[start:], which begins at a synchronizing position or at the text's start, and sets marks[k]
  // to the ids that `ids` then holds before cuts[k]. A cut that is none of the mask's, or that parts() denies, gets no
  // mark.
  void encode(std::string_view text, std::size_t start, std::span<const std::size_t> cuts, std::size_t* marks,
              std::vector<std::uint32_t>& ids) {
    text_ = text;
    cuts_ = cuts;
    marks_ = marks;
    ids_ = &ids;
    next_cut_ = cuts.empty() ? kNoCut : cuts[0];
    batched_ = cuts_passed_ = 0;
    previous_ = start;
    const std::size_t first_word = start / kWord * kWord;
    std::size_t begin = start, asked = 0;  // asked: cuts before this one are behind us
    for (std::size_t at = first_word; at < text.size(); at += kWord) {
      std::uint64_t mask = masks_.at(text, at);
      if (at == first_word) mask &= start - at == kWord - 1 ? 0 : ~std::uint64_t{0} << (start - at + 1);
      // A mask may lack a cut, and a session asks for marks at cuts of its own finding.
      for (; asked < cuts.size() && cuts[asked] < at + kWord; ++asked)
        if (cuts[asked] > start && masks_.is_cut(text, cuts[asked])) mask |= std::uint64_t{1} << (cuts[asked] - at);
      for (; mask != 0; mask &= mask - 1) {
        const std::size_t end = at + static_cast<std::size_t>(std::countr_zero(mask));
        add(begin, end);
        begin = end;
      }
    }
    if (begin < text.size()) add(begin, text.size());
    finish_batch();
  }

 private:
  static constexpr std::size_t kWord = 64;
  // PERF: enough segments for the first one's cache line to have come before it is looked at.
  static constexpr std::size_t kBatch = 64;
  // A longer segment is not looked at again for the sake of a cut beside it.
  static constexpr std::size_t kCheckedBytes = 256;
  static constexpr std::uint32_t kNotShort = 0xFFFFFFFF;

  struct Pending {
    SegmentCache::Key key;
    std::size_t begin, size;
    std::uint32_t slot;  // kNotShort: the segment is not a short one
  };

  void add(std::size_t begin, std::size_t end) {
    Pending& one = batch_[batched_];
    const std::size_t size = end - begin;
    one.begin = begin;
    one.size = size;
    if (size <= SegmentCache::kShortBytes) {
      if (begin + 16 <= text_.size()) {
        one.key = SegmentCache::key_of(text_.data() + begin, size, mode_);
      } else {
        std::array<char, 16> copy{};
        std::memcpy(copy.data(), text_.data() + begin, size);
        one.key = SegmentCache::key_of(copy.data(), size, mode_);
      }
      const std::size_t slot = SegmentCache::slot_of(one.key);
      one.slot = static_cast<std::uint32_t>(slot);
      cache_.prefetch(slot);
    } else {
      one.slot = kNotShort;
    }
    if (++batched_ == kBatch) finish_batch();
  }

  // The ids of all that is pending. PERF: those of a kept segment are written as one block of fixed size, behind which
  // the next one's go; so `ids` is made long enough beforehand, and cut to size at the end.
  void finish_batch() {
    std::vector<std::uint32_t>& ids = *ids_;
    constexpr std::size_t kIds = SegmentCache::kInlineIds;
    std::size_t count = ids.size();
    ids.resize(count + batched_ * kIds);
    std::uint32_t* out = ids.data();
    for (std::size_t i = 0; i < batched_; ++i) {
      const Pending& one = batch_[i];
      if (one.begin >= next_cut_) pass_cuts(one, count);
      previous_ = one.begin;
      if (one.slot != kNotShort) {
        if (const SegmentCache::Entry* entry = cache_.find(one.key, one.slot)) {
          if (entry->ids.count <= kIds) [[likely]] {
            std::memcpy(out + count, entry->ids.ids.data(), sizeof(entry->ids.ids));
            count += entry->ids.count;
            continue;
          }
        }
      }
      // Not kept, or not short: the slow way, then room again for the rest of the batch.
      ids.resize(count);
      const std::string_view segment = text_.substr(one.begin, one.size);
      cache_.through(segment, mode_, ids, [&] { resolve_(segment, ids); });
      count = ids.size();
      ids.resize(count + (batched_ - i) * kIds);
      out = ids.data();
    }
    ids.resize(count);
    batched_ = 0;
  }

  void pass_cuts(const Pending& one, std::size_t count) {
    for (; cuts_passed_ < cuts_.size() && cuts_[cuts_passed_] <= one.begin; ++cuts_passed_) {
      if (cuts_[cuts_passed_] != one.begin) continue;
      // The segment before and this one, from a window's worth of it.
      const std::size_t from = previous_, end = one.begin + one.size;
      const std::size_t to = std::min(end, utf8::boundary_at_or_after(text_, one.begin + kCheckedBytes));
      const bool checked = one.begin - from > kCheckedBytes || parts_(text_.substr(from, to - from), one.begin - from);
      if (checked) marks_[cuts_passed_] = count;
    }
    next_cut_ = cuts_passed_ < cuts_.size() ? cuts_[cuts_passed_] : kNoCut;
  }

  const Masks& masks_;
  SegmentCache& cache_;
  std::uint64_t mode_;
  Resolve& resolve_;
  Parts& parts_;
  std::string_view text_;
  std::span<const std::size_t> cuts_;
  std::size_t* marks_ = nullptr;
  std::size_t cuts_passed_ = 0;
  std::size_t previous_ = 0;  // where the segment before began
  std::size_t next_cut_ = kNoCut;
  std::vector<std::uint32_t>* ids_ = nullptr;
  std::array<Pending, kBatch> batch_;
  std::size_t batched_ = 0;
};

}  // namespace tokseam
