// Where ids and pieces stand in a text, in code points: what an encoder's walk tells of a text that it goes through from
// front to back, counted as it comes.
// Not here: what the reference makes of spans (kernels/offsets.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "code_points.hpp"
#include "cuts.hpp"
#include "utf8.hpp"

namespace tokseam {

namespace detail {

// The code points that start before places of a text that never go back.
class PointCount {
 public:
  explicit PointCount(std::string_view text) : text_(text) {}
  std::int64_t to(std::size_t byte) {
    for (; at_ < byte; ++at_) points_ += !is_continuation(text_[at_]);
    return points_;
  }
  // Of the code point that has this byte.
  std::int64_t of(std::size_t byte) { return to(byte) - (is_continuation(text_[byte]) ? 1 : 0); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::int64_t points_ = 0;
};

// The characters of a normalized segment up to places that never go back within it.
template <class Segment>
class CharacterIndex {
 public:
  std::size_t of(const Segment& segment, std::size_t byte) {
    if (segment.raw_begin != raw_begin_ || byte < at_) raw_begin_ = segment.raw_begin, at_ = count_ = 0;
    count_ += utf8::count_code_points(segment.text.substr(at_, byte - at_));
    at_ = byte;
    return count_;
  }

 private:
  std::size_t raw_begin_ = kNone, at_ = 0, count_ = 0;  // of which segment; so many characters in so many bytes
};

}  // namespace detail

// Engine: Segment, encode_piece(), length_of() and characters() of encoder.hpp.

// Encoder::spans().
template <class Engine>
class SpanSink {
  using Segment = Engine::Segment;

 public:
  SpanSink(const Engine& engine, std::string_view text, std::vector<std::uint32_t>& ids,
           std::vector<std::int64_t>& spans)
      : engine_(engine), ids_(ids), spans_(spans), points_(text) {}

  bool known() const { return known_; }

  void piece(const Segment& segment, std::size_t begin, std::size_t end) {
    known_ = known_ && !segment.changed;
    const std::size_t from = ids_.size();
    engine_.encode_piece(segment.text.substr(begin, end - begin), symbols_, ids_);
    if (!known_) return;
    if (segment.characters) return characters(segment, begin, from);
    std::size_t here = begin;
    for (std::size_t i = from; i < ids_.size(); ++i) {
      const std::size_t next = here + engine_.length_of(ids_[i]);
      if (next > end || next == here) {  // only an image that is not what it claims to be comes here
        known_ = false;
        return;
      }
      if (segment.prefixed && next == 1) {
        // A space put in front shares the span of the character that it stands before.
        spans_.push_back(points_.to(segment.raw_begin));
        spans_.push_back(spans_.back() + 1);
      } else {
        span(segment.raw(here), segment.raw(next));
      }
      here = next;
    }
    known_ = here == end;
  }

  void literal(const Segment& segment, std::size_t begin, std::size_t end, std::uint32_t id) {
    known_ = known_ && !segment.changed;
    ids_.push_back(id);
    if (!known_) return;
    if (segment.characters) {
      const std::size_t first = index_.of(segment, begin);
      character_span(segment, first, index_.of(segment, end) - first);
    } else {
      span(segment.raw_begin + begin, segment.raw_begin + end);
    }
  }

  void boundary(const Segment&, std::size_t) {}
  std::size_t mark() const { return 0; }

 private:
  void span(std::size_t begin, std::size_t end) {
    spans_.push_back(points_.of(begin));
    spans_.push_back(points_.to(end));
  }

  // Of ids_[from:], the part of a segment that begins at `begin`.
  void characters(const Segment& segment, std::size_t begin, std::size_t from) {
    std::size_t at = index_.of(segment, begin);
    std::size_t rest = 0;  // bytes still to come of a character that is spelled in bytes
    for (std::size_t i = from; i < ids_.size(); ++i) {
      const std::size_t byte = engine_.characters()->byte_of(ids_[i]);
      if (byte == kNone) {
        character_span(segment, at, engine_.length_of(ids_[i]));
        at += engine_.length_of(ids_[i]);
        continue;
      }
      if (rest == 0) rest = utf8_width(static_cast<char>(byte));
      character_span(segment, at, 1);
      if (--rest == 0) ++at;
    }
  }

  // `count` characters of a normalized segment. The prefix shares the span of the character it stands before.
  void character_span(const Segment& segment, std::size_t first, std::size_t count) {
    const std::int64_t base = points_.to(segment.raw_begin);
    const auto raw = [&](std::size_t index) {
      return base + static_cast<std::int64_t>(segment.prefixed && index > 0 ? index - 1 : index);
    };
    spans_.push_back(raw(first));
    spans_.push_back(raw(first + count - 1) + 1);
  }

  const Engine& engine_;
  std::vector<std::uint32_t>& ids_;
  std::vector<std::int64_t>& spans_;
  std::vector<std::uint32_t> symbols_;
  detail::PointCount points_;
  detail::CharacterIndex<Segment> index_;
  bool known_ = true;
};

// Encoder::pieces().
template <class Engine>
class PieceSink {
  using Segment = Engine::Segment;

 public:
  PieceSink(const Engine& engine, std::string_view text, std::vector<std::int64_t>& starts)
      : engine_(engine), starts_(starts), points_(text) {}

  bool known() const { return known_; }

  void piece(const Segment& segment, std::size_t begin, std::size_t end) {
    if (segment.characters) return;  // a part; boundary() tells where pieces begin
    known_ = known_ && !segment.changed;
    ids_.clear();
    engine_.encode_piece(segment.text.substr(begin, end - begin), symbols_, ids_);
    if (known_ && !ids_.empty()) starts_.push_back(points_.of(segment.raw(begin)));
  }

  void literal(const Segment& segment, std::size_t begin, std::size_t, std::uint32_t) {
    known_ = known_ && !segment.changed;
    if (!known_) return;
    if (segment.characters)
      boundary(segment, begin);
    else
      starts_.push_back(points_.of(segment.raw_begin + begin));
  }

  void boundary(const Segment& segment, std::size_t begin) {
    const std::size_t index = index_.of(segment, begin);
    starts_.push_back(points_.of(segment.raw_begin) +
                      static_cast<std::int64_t>(segment.prefixed && index > 0 ? index - 1 : index));
  }

  std::size_t mark() const { return 0; }

 private:
  const Engine& engine_;
  std::vector<std::int64_t>& starts_;
  std::vector<std::uint32_t> symbols_, ids_;
  detail::PointCount points_;
  detail::CharacterIndex<Segment> index_;
  bool known_ = true;
};

}  // namespace tokseam
