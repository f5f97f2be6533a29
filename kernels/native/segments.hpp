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
    previous_ = settled_ = start;
    const std::size_t first_word = start / kWord * kWord;
    LiteralFences fences(fenced_, text, start, space_in_front_);
    Pending* next = batch_.data();
    const auto finish = [&](std::size_t end) {
      next->begin = end;
      finish_batch(static_cast<std::size_t>(next - batch_.data()));
      next = batch_.data();
    };
    std::size_t begin = start, asked = 0;  // asked: cuts before this one are behind us
    for (std::size_t at = first_word; at < text.size(); at += kWord) {
      std::uint64_t mask = unfenced(masks_.at(text, at), fences.at(at), at);
      if (at == first_word) mask &= start - at == kWord - 1 ? 0 : ~std::uint64_t{0} << (start - at + 1);
      // A mask may lack a cut, and a session asks for marks at cuts of its own finding.
      for (; asked < cuts.size() && cuts[asked] < at + kWord; ++asked)
        if (cuts[asked] > start && masks_.is_cut(text, cuts[asked])) mask |= std::uint64_t{1} << (cuts[asked] - at);
      if (mask == 0) continue;
      next = note(text, begin, mask, at, next);
      begin = at + static_cast<std::size_t>(std::bit_width(mask)) - 1;
      if (next >= batch_.data() + kBatch) finish(begin);
    }
    if (begin < text.size()) next = note(text, begin, 1, text.size(), next);
    finish(text.size());
    settle();
    ids.resize(end_);
  }

 private:
  static constexpr std::size_t kWord = 64;
  // PERF: enough segments for the first one's cache line to have come before it is looked at.
  static constexpr std::size_t kBatch = 128;
  static constexpr std::size_t kMostPending = kBatch + kWord;
  // A longer segment is not looked at again for the sake of a cut beside it.
  static constexpr std::size_t kCheckedBytes = 256;
  // Written for a segment that is kept, of which its ids count.
  static constexpr std::size_t kBlockIds = sizeof(SegmentCache::Ids) / sizeof(std::uint32_t);

  static constexpr std::size_t kMoreRoom = std::size_t{1} << 12;  // ids

  // One that is not known waits until some 128 do, or so many at most.
  static constexpr std::size_t kMissed = kMostPending + 128;
  static constexpr std::size_t kSeen = 512;
  static constexpr std::size_t kMostIdsWaiting = std::size_t{1} << 15;

  // Bytes of text for each segment that is new: in more, few are, and what they take the room of is put aside.
  static constexpr std::size_t kFewNewBytes = 64;

  // Ends where the next one begins.
  struct Pending {
    SegmentCache::Key key;
    SegmentCache::Entry* set;  // where a short one would be
    std::size_t begin;
  };

  // A segment whose ids are to stand in front of ids[at].
  struct Missed {
    SegmentCache::Key key;
    SegmentCache::Entry* set;
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

  // Notes segments from `next` on: the one from `begin` to the first of the mask's places, which are counted from `at`,
  // and those from each of them to the next one. What is known of them comes near. Answers where the next is to be noted.
  // PERF: by itself, so that all of it stays in registers.
  [[gnu::noinline]] Pending* note(std::string_view text, std::size_t begin, std::uint64_t mask, std::size_t at,
                                  Pending* next) const {
    const SegmentCache::Sets sets = cache_.sets();
    const SegmentCache::Frame* const frames = SegmentCache::frames(mode_);
    for (; mask != 0; mask &= mask - 1, ++next) {
      const std::size_t end = at + static_cast<std::size_t>(std::countr_zero(mask)), size = end - begin;
      const char* bytes = text.data() + begin;
      next->begin = begin;
      std::array<char, SegmentCache::kKeyBytes> copy;
      if (text.size() - begin < copy.size() && size <= SegmentCache::kShortBytes) [[unlikely]] {
        copy = {};
        std::memcpy(copy.data(), bytes, size);
        bytes = copy.data();
      }
      begin = end;
      if (size > SegmentCache::kShortBytes) [[unlikely]] {
        const std::uint64_t hash = size <= SegmentCache::kLongBytes ? hash_bytes({bytes, size}) : 0;
        next->key = SegmentCache::Key::of_long(hash);
        next->set = sets.entries;
        cache_.prefetch_long(hash);
        continue;
      }
      const SegmentCache::Key key = SegmentCache::key_of(bytes, frames[size]);
      next->key = key;
      next->set = sets.of(key);
      SegmentCache::Sets::prefetch(next->set);
    }
    return next;
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
      if (stop < batched) pass_cuts(batch_[stop].begin, batch_[stop + 1].begin);
      done = stop;
    }
    if (missed_ + kMostPending > kMissed || (missed_ > 0 && end_ - misses_[0].at > kMostIdsWaiting)) settle();
  }

  // PERF: the ids of a kept segment are written as one block of fixed size, behind which the next one's go.
  void emit(std::size_t from, std::size_t to) {
    std::size_t count = end_;
    std::uint32_t* out = make_room(count + (to - from) * kBlockIds);
    for (std::size_t i = from; i < to; ++i) {
      const Pending& one = batch_[i];
      const SegmentCache::Entry* entry = SegmentCache::find(one.key, one.set);
      if (entry != nullptr && entry->ids.count <= SegmentCache::kInlineIds) [[likely]] {
        std::memcpy(out + count, &entry->ids, sizeof(entry->ids));
        count += entry->ids.count;
        continue;
      }
      end_ = count;
      emit_otherwise(one, text_.substr(one.begin, batch_[i + 1].begin - one.begin), entry);
      count = end_;
      out = make_room(count + (to - i) * kBlockIds);
    }
    end_ = count;
  }

  // Of a segment that is long, or not kept, or whose entry does not hold its ids itself.
  [[gnu::noinline]] void emit_otherwise(const Pending& one, std::string_view segment,
                                        const SegmentCache::Entry* entry) {
    if (segment.size() > SegmentCache::kLongBytes) return encode_huge(segment);
    SegmentCache::Ids kept;
    if (entry != nullptr) {
      kept = entry->ids;
    } else if (segment.size() <= SegmentCache::kShortBytes) {
      entry = cache_.find_aside(one.key, one.set);
      if (entry == nullptr) return miss(one, segment);
      kept = entry->ids;
    } else {
      const SegmentCache::LongEntry& found = cache_.long_slot(one.key.hash());
      if (!SegmentCache::holds(found, segment, mode_)) return miss(one, segment);
      kept = SegmentCache::ids_of(found);
    }
    const bool in_place = kept.count <= kept.ids.size();
    const std::span<const std::uint32_t> ids =
        in_place ? std::span<const std::uint32_t>(kept.ids).first(kept.count) : cache_.in_ring(kept);
    if (ids.empty() && !in_place) return miss(one, segment);  // the ring has come round
    std::memcpy(make_room(end_ + ids.size()) + end_, ids.data(), ids.size_bytes());
    end_ += ids.size();
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

  void miss(const Pending& one, std::string_view segment) {
    Missed& missed = misses_[missed_++];
    missed.key = one.key;
    missed.set = one.set;
    missed.at = end_;
    // New words tend to come again soon.
    std::uint16_t& seen = seen_[one.key.hash() % kSeen];
    if (seen != 0) {
      const std::size_t made = misses_[seen - 1U].made;
      if (made_[made] == segment) {
        missed.made = made;
        return;
      }
    }
    seen = static_cast<std::uint16_t>(missed_);
    missed.made = makes_;
    made_[makes_++] = segment;
  }

  // Resolves what was missed, keeps it, and puts it where it belongs.
  void settle() {
    if (missed_ > 0) {
      resolve_.resolve(std::span(made_).first(makes_));
      const std::span<const std::uint32_t> made = resolve_.ids();
      const std::span<const std::size_t> ends = resolve_.ends();
      // Where much is new, what it takes the room of is another text's.
      const bool aside = missed_ * kFewNewBytes < previous_ - settled_;
      settled_ = previous_;
      const auto ids_of = [&](const Missed& missed) __attribute__((always_inline)) {
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
        if (one.key.is_long())
          cache_.keep(cache_.long_slot(one.key.hash()), made_[one.made], mode_, ids_of(one));
        else
          cache_.keep(one.key, one.set, ids_of(one), aside);
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
      cache_.grow();  // nothing waits that knows its set
    }
    missed_ = makes_ = 0;
  }

  // In front of the segment [begin, end).
  void pass_cuts(std::size_t begin, std::size_t end) {
    for (; cuts_passed_ < cuts_.size() && cuts_[cuts_passed_] <= begin; ++cuts_passed_) {
      if (cuts_[cuts_passed_] != begin) continue;
      // The segment before and this one, from a window's worth of it.
      const std::size_t from = previous_;
      const std::size_t to = std::min(end, utf8::boundary_at_or_after(text_, begin + kCheckedBytes));
      const bool checked = begin - from > kCheckedBytes || parts_(text_.substr(from, to - from), begin - from);
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
  std::array<Pending, kMostPending + 1> batch_;  // and where the last one ends
  std::array<Missed, kMissed> misses_;
  std::size_t missed_ = 0;
  std::size_t settled_ = 0;  // what was `previous_` when those before were resolved
  std::array<std::string_view, kMissed> made_;  // the different ones of them
  std::size_t makes_ = 0;
  std::array<std::uint16_t, kSeen> seen_{};  // by hash: one more than the number of one that was missed
  std::vector<Marked> marked_cuts_;
};

}  // namespace tokseam
