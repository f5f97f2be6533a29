// A batch of documents as the device takes it (kernels/cuda/): their text parted into spans, with added-token literals
// cut out. What a tokenizer puts in front of text, or in place of a character, is put there here; normal forms are not
// made: a document that needs one is found on the device, which makes it there (device_form.hpp), or reports it.
//
// Not here: how a batch gets to the device; which documents it is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "added_tokens.hpp"
#include "characters.hpp"
#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "image.hpp"

namespace tokseam {

class DeviceBatch {
 public:
  // Where a span comes from: byte `begin` of its document, which is character `point`. `prefixed`: one character more
  // stands in front of it here.
  struct Origin {
    std::size_t begin, point;
    bool prefixed;
  };

  explicit DeviceBatch(const Image& image)
      : image_(image),
        raw_tokens_(image_, kRawLiterals),
        normalized_tokens_(image_, kNormalizedLiterals),
        around_(image_),
        space_in_front_(image_.get_sized<std::uint32_t>(Section::settings, 1)[0] != 0) {
    if (image_.has(Section::character_settings)) characters_.emplace(image_);
    clear();
  }

  void clear() {
    text_.clear();
    origins_.clear();
    ids_.clear();
    begins_.assign(1, 0);
    documents_.assign(1, 0);
  }

  // Adds a document: valid UTF-8, or whatever else the device shall report as bad.
  void add(std::string_view text, EncodeMode mode) {
    counted_ = points_ = 0;
    if (!utf8::valid(text)) {
      span(text, 0, false, kNoId);
      documents_.push_back(static_cast<std::uint32_t>(ids_.size()));
      return;
    }
    raw_tokens_.cut_out(
        text, mode.split_special, around_,
        [&](std::size_t begin, std::size_t end) { add_segment(text, begin, end, mode); },
        [&](std::size_t begin, std::size_t, std::uint32_t id) { literal(begin, point(text, begin), id); });
    documents_.push_back(static_cast<std::uint32_t>(ids_.size()));
  }

  std::string_view text() const { return text_; }
  const std::vector<std::uint32_t>& begins() const { return begins_; }        // of spans, and the last one's end
  const std::vector<std::uint32_t>& ids() const { return ids_; }              // kNoId: it is text
  const std::vector<std::uint32_t>& documents() const { return documents_; }  // first spans, and how many there are
  const std::vector<Origin>& origins() const { return origins_; }             // of spans

 private:
  // Code points before `byte`, which never goes back in one document.
  std::size_t point(std::string_view text, std::size_t byte) {
    points_ += utf8::count_code_points(text.substr(counted_, byte - counted_));
    counted_ = byte;
    return points_;
  }

  void span(std::string_view part, std::size_t begin, bool prefixed, std::uint32_t id,
            std::size_t first_point = 0) {
    text_ += part;
    begins_.push_back(static_cast<std::uint32_t>(text_.size()));
    ids_.push_back(id);
    origins_.push_back({begin, first_point, prefixed});
  }

  // One byte stands for it, whatever its length.
  void literal(std::size_t begin, std::size_t first_point, std::uint32_t id) {
    span(std::string_view("", 1), begin, false, id, first_point);
  }

  // What lies between literals that are looked for before normalization.
  void add_segment(std::string_view text, std::size_t segment_begin, std::size_t segment_end, EncodeMode mode) {
    const std::string_view raw = text.substr(segment_begin, segment_end - segment_begin);
    const std::size_t first_point = point(text, segment_begin);
    std::string normalized;
    std::string_view searched = raw;
    bool prefixed = false;
    if (characters_) {
      const bool at_start = segment_begin == 0;
      std::vector<std::size_t> no_cuts;
      normalized = characters_->normalized(raw, at_start, at_start && mode.continued, no_cuts, prefixed);
      searched = normalized;
    }
    std::size_t counted = 0, points = 0;
    // The character of the text that stands at this byte of `searched`.
    const auto place = [&](std::size_t byte) {
      points += utf8::count_code_points(searched.substr(counted, byte - counted));
      counted = byte;
      return first_point + (prefixed && points > 0 ? points - 1 : points);
    };
    normalized_tokens_.cut_out(
        searched, mode.split_special, around_,
        [&](std::size_t begin, std::size_t end) {
          const std::string_view part = searched.substr(begin, end - begin);
          const bool goes_on = mode.continued && segment_begin == 0 && begin == 0;
          if (!space_in_front_ || goes_on || part[0] == ' ') {
            span(part, segment_begin + begin, prefixed && begin == 0, kNoId, place(begin));
            return;
          }
          text_ += ' ';
          span(part, segment_begin + begin, true, kNoId, place(begin));
        },
        [&](std::size_t begin, std::size_t, std::uint32_t id) {
          literal(segment_begin + begin, place(begin), id);
        });
  }

  Image image_;
  AddedTokens raw_tokens_, normalized_tokens_;
  Surroundings around_;
  std::optional<Characters> characters_;
  bool space_in_front_;
  std::string text_;
  std::vector<std::uint32_t> begins_, ids_, documents_;
  std::vector<Origin> origins_;
  std::size_t counted_ = 0, points_ = 0;  // of the document at hand
};

}  // namespace tokseam
