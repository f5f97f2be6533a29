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

#include "added_tokens.hpp"
#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "literal_fences.hpp"
#include "segment_cache.hpp"

namespace tokseam {

// masks.at(text, at): bit i tells whether the text may be cut at at + i, if no literal of `fenced` is there;
// masks.is_pair(text, at): whether the two characters alone say so; masks.is_cut(text, at): whether it surely may be
// cut at one place, also where the masks lose it.
// resolve.resolve(segments) makes resolve.ids() the ids of segments that are not at the start of the text, or are like
// any other there, and resolve.ends() where each one's end; resolve.encode(segment, ids) appends those of one.
// parts(text, at): whether a piece really begins there in this short text, by the stages themselves.
template <class Masks, class Resolve, class Parts>
class SegmentEncoder {
 public:
  SegmentEncoder(const Masks& masks, const AddedTokens& fenced, bool space_in_front, SegmentCache& cache,
                 bool split_special, Resolve& resolve, Parts& parts)
      : masks_(masks), fenced_(fenced), space_in_front_(space_in_front), cache_(cache),
        mode_(split_special ? SegmentCache::kSplitSpecial : 0), resolve_(resolve), parts_(parts) {}

  // Appends the ids of text[start:], which begins at a synchronizing position or at the text's start, and sets marks[k]
  // to the ids that `ids` then holds before cuts[k]. A cut that is none of the mask's, or that parts() denies, gets no
  // mark.
  void encode(std::string_view text, std::size_t start, std::span<const std::size_t> cuts, std::size_t* marks,
              std::vector<std::uint32_t>& ids) {
    text_ = text;
    cuts_ = cuts;
    marks_ = marks;
    ids_ = &ids;
    end_ = ids.size();
    next_cut_ = cuts.empty() ? kNoCut : cuts[0];
    cuts_passed_ = 0;
    previous_ = start;
    const std::size_t first_word = start / kWord * kWord;
    LiteralFences fences(fenced_, text, start, space_in_front_);
    // PERF: in registers, for the compiler can't know that nothing that is stored here changes them.
    Pending* next = batch_.data();
    SegmentCache::Slots slots = cache_.slots();
    const auto add = [&](std::size_t from, std::size_t to) __attribute__((always_inline)) {
      note(*next, text, from, to - from, slots);
      if (++next != batch_.data() + kBatch) return;
      finish_batch(kBatch);
      next = batch_.data();
      slots = cache_.slots();
    };
    std::size_t begin = start, asked = 0;  // asked: cuts before this one are behind us
    for (std::size_t at = first_word; at < text.size(); at += kWord) {
      std::uint64_t mask = unfenced(masks_.at(text, at), fences.at(at), at);
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
    finish_batch(static_cast<std::size_t>(next - batch_.data()));
    settle();
    ids.resize(end_);
  }

 private:
  static constexpr std::size_t kWord = 64;
  // PERF: enough segments for the first one's cache line to have come before it is looked at.
  static constexpr std::size_t kBatch = 128;
  // A longer segment is not looked at again for the sake of a cut beside it.
  static constexpr std::size_t kCheckedBytes = 256;
  static constexpr std::size_t kIds = SegmentCache::kInlineIds;

  static constexpr std::size_t kMoreRoom = std::size_t{1} << 12;  // ids

  // One that is not known waits until so many do.
  static constexpr std::size_t kMissed = 256;
  static constexpr std::size_t kSeen = 2 * kMissed;
  static constexpr std::size_t kMostIdsWaiting = std::size_t{1} << 15;

  struct Pending {
    SegmentCache::Key key;  // of a short one
    std::size_t begin, size;
    std::uint64_t slot;  // of a long one, its hash
    bool is_short() const { return size <= SegmentCache::kShortBytes; }
  };

  // A segment whose ids are to stand in front of ids[at].
  struct Missed {
    Pending segment;
    std::size_t at;
    std::size_t made;  // its number among those that are resolved: several may be alike
  };

  // A mark that counts the ids of all but the first `missed` of those that wait.
  struct Marked {
    std::size_t cut, missed;
  };

  // What is left of a word's cuts.
  [[gnu::always_inline]] std::uint64_t unfenced(std::uint64_t mask, const LiteralFences::Word& fenced,
                                                std::size_t at) const {
    mask &= ~fenced.inside;
    for (std::uint64_t rest = mask & fenced.beside; rest != 0; rest &= rest - 1)
      if (!masks_.is_pair(text_, at + static_cast<std::size_t>(std::countr_zero(rest)))) mask &= ~(rest & -rest);
    return mask;
  }

  // Sets `one` to a segment, and has what is known of it come near. PERF: field by field, or it is copied through
  // memory.
  [[gnu::always_inline]] void note(Pending& one, std::string_view text, std::size_t begin, std::size_t size,
                                   const SegmentCache::Slots& slots) const {
    one.begin = begin;
    one.size = size;
    const char* bytes = text.data() + begin;
    if (size > SegmentCache::kShortBytes) [[unlikely]] {
      one.key = {};
      one.slot = 0;
      if (size > SegmentCache::kLongBytes) return;
      one.slot = hash_bytes({bytes, size});
      cache_.prefetch_long(one.slot);
      return;
    }
    std::array<char, 16> copy;
    if (text.size() - begin < copy.size()) [[unlikely]] {
      copy = {};
      std::memcpy(copy.data(), bytes, size);
      bytes = copy.data();
    }
    const SegmentCache::Key key = SegmentCache::key_of(bytes, size, mode_);
    const std::size_t slot = slots.of(key);
    slots.prefetch(slot);
    one.key.low = key.low;
    one.key.high = key.high;
    one.slot = slot;
  }

  // The ids of all that is pending and known.
  void finish_batch(std::size_t batched) {
    std::size_t done = 0;
    while (done < batched) {
      std::size_t stop = batched;
      if (next_cut_ != kNoCut)
        for (stop = done; stop < batched && batch_[stop].begin < next_cut_;) ++stop;
      emit(done, stop);
      if (stop > 0) previous_ = batch_[stop - 1].begin;
      if (stop < batched) pass_cuts(batch_[stop]);
      done = stop;
    }
    if (missed_ + kBatch > kMissed || (missed_ > 0 && end_ - misses_[0].at > kMostIdsWaiting)) settle();
  }

  // PERF: the ids of a kept segment are written as one block of fixed size, behind which the next one's go.
  void emit(std::size_t from, std::size_t to) {
    std::size_t count = end_;
    std::uint32_t* out = make_room(count + (to - from) * kIds);
    for (std::size_t i = from; i < to; ++i) {
      const Pending& one = batch_[i];
      const SegmentCache::Ids* kept = nullptr;
      SegmentCache::Ids found;
      if (one.is_short()) [[likely]] {
        if (const SegmentCache::Entry* entry = cache_.find(one.key, one.slot)) [[likely]] kept = &entry->ids;
      } else if (one.size <= SegmentCache::kLongBytes) {
        const SegmentCache::LongEntry& entry = cache_.long_slot(one.slot);
        if (SegmentCache::holds(entry, text_.substr(one.begin, one.size), mode_)) {
          found = SegmentCache::ids_of(entry);
          kept = &found;
        }
      }
      if (kept != nullptr) [[likely]] {
        if (kept->count <= kIds) [[likely]] {
          std::memcpy(out + count, kept->ids.data(), sizeof(kept->ids));
          count += kept->count;
          continue;
        }
        const std::span<const std::uint32_t> ring = cache_.in_ring(*kept);
        if (!ring.empty()) {
          out = make_room(count + ring.size() + (to - i) * kIds);
          std::memcpy(out + count, ring.data(), ring.size_bytes());
          count += ring.size();
          continue;
        }
      }
      end_ = count;
      if (one.size <= SegmentCache::kLongBytes) {
        miss(one);
        continue;
      }
      encode_huge(text_.substr(one.begin, one.size));
      count = end_;
      out = make_room(count + (to - i) * kIds);
    }
    end_ = count;
  }

  // PERF: `ids` is made longer than it need be, and cut to size at the end: for much at a time, since it fills with
  // zeros.
  std::uint32_t* make_room(std::size_t count) {
    if (ids_->size() < count) ids_->resize(std::max(count, std::min(ids_->capacity(), count + kMoreRoom)));
    return ids_->data();
  }

  void encode_huge(std::string_view segment) {
    ids_->resize(end_);
    cache_.through(segment, mode_, *ids_, [&] { resolve_.encode(segment, *ids_); });
    end_ = ids_->size();
  }

  void miss(const Pending& one) {
    Missed& missed = misses_[missed_++];
    missed.segment = one;
    missed.at = end_;
    // New words tend to come again soon.
    std::uint16_t& seen = seen_[(one.is_short() ? one.slot : one.slot >> 48) % kSeen];
    if (seen != 0) {
      const Missed& other = misses_[seen - 1U];
      if (text_.substr(other.segment.begin, other.segment.size) == text_.substr(one.begin, one.size)) {
        missed.made = other.made;
        return;
      }
    }
    seen = static_cast<std::uint16_t>(missed_);
    missed.made = makes_;
    made_[makes_++] = text_.substr(one.begin, one.size);
  }

  // Resolves what was missed, keeps it, and puts it where it belongs.
  void settle() {
    if (missed_ > 0) {
      resolve_.resolve(std::span(made_).first(makes_));
      const std::span<const std::uint32_t> made = resolve_.ids();
      const std::span<const std::size_t> ends = resolve_.ends();
      const auto ids_of = [&](const Missed& missed) {
        const std::size_t begin = missed.made > 0 ? ends[missed.made - 1] : 0;
        return made.subspan(begin, ends[missed.made] - begin);
      };
      std::array<std::size_t, kMissed + 1> before;  // ids of the first so many that were missed
      before[0] = 0;
      for (std::size_t i = 0, next = 0; i < missed_; ++i) {
        const Missed& one = misses_[i];
        before[i + 1] = before[i] + ids_of(one).size();
        if (one.made != next) continue;
        ++next;
        if (one.segment.is_short())
          cache_.keep(one.segment.key, one.segment.slot, ids_of(one));
        else
          cache_.keep(cache_.long_slot(one.segment.slot), made_[one.made], mode_, ids_of(one));
      }
      std::size_t end = end_;
      end_ += before[missed_];
      std::uint32_t* ids = make_room(end_);
      for (std::size_t i = missed_; i-- > 0;) {
        const std::size_t at = misses_[i].at;
        std::memmove(ids + at + before[i + 1], ids + at, (end - at) * sizeof(std::uint32_t));
        const auto own = ids_of(misses_[i]);
        std::copy(own.begin(), own.end(), ids + at + before[i]);
        end = at;
      }
      for (const Marked& marked : marked_cuts_) marks_[marked.cut] += before[marked.missed];
      marked_cuts_.clear();
      seen_.fill(0);
      cache_.grow();  // nothing waits that knows its slot
    }
    missed_ = makes_ = 0;
  }

  void pass_cuts(const Pending& one) {
    for (; cuts_passed_ < cuts_.size() && cuts_[cuts_passed_] <= one.begin; ++cuts_passed_) {
      if (cuts_[cuts_passed_] != one.begin) continue;
      // The segment before and this one, from a window's worth of it.
      const std::size_t from = previous_, end = one.begin + one.size;
      const std::size_t to = std::min(end, utf8::boundary_at_or_after(text_, one.begin + kCheckedBytes));
      const bool checked = one.begin - from > kCheckedBytes || parts_(text_.substr(from, to - from), one.begin - from);
      if (!checked) continue;
      marks_[cuts_passed_] = end_;
      if (missed_ > 0) marked_cuts_.push_back({cuts_passed_, missed_});
    }
    next_cut_ = cuts_passed_ < cuts_.size() ? cuts_[cuts_passed_] : kNoCut;
  }

  const Masks& masks_;
  const AddedTokens& fenced_;
  bool space_in_front_;  // of what follows a literal
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
  std::size_t end_ = 0;  // how many of them count; behind, there is room
  std::array<Pending, kBatch> batch_;
  std::array<Missed, kMissed> misses_;
  std::size_t missed_ = 0;
  std::array<std::string_view, kMissed> made_;  // the different ones of them
  std::size_t makes_ = 0;
  std::array<std::uint16_t, kSeen> seen_{};  // by hash: one more than the number of one that was missed
  std::vector<Marked> marked_cuts_;
};

}  // namespace tokseam
