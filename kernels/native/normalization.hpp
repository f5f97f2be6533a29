// A normal form, or a change of case, by the reference's own tables (kernels/compile/normalization.py), over the stretches
// of a text that it can change: decompose, put marks in order, compose.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "classes.hpp"
#include "flat_map.hpp"
#include "image.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

namespace tokseam {

class Normalization {
 public:
  struct Tables {
    std::vector<std::uint32_t> decomposed, decomposition_ends, decomposition, ordered, order, composed_first,
        composed_second, composite;
    bool hangul_decomposes, hangul_composes;  // Hangul is decomposed and composed by arithmetic, not by table
  };

  static void write(ImageWriter& writer, std::uint32_t index, const Tables& tables) {
    std::vector<std::uint64_t> pairs;
    for (std::size_t i = 0; i < tables.composite.size(); ++i)
      pairs.push_back(key(tables.composed_first[i], tables.composed_second[i]));
    std::vector<std::uint32_t> numbers(tables.decomposed.size());
    std::iota(numbers.begin(), numbers.end(), 0U);
    // From 0 on, and one at least, so that what free places point at is there.
    std::vector<std::uint32_t> ends(std::max<std::size_t>(tables.decomposition_ends.size(), 1) + 1);
    std::copy(tables.decomposition_ends.begin(), tables.decomposition_ends.end(), ends.begin() + 1);
    writer.add(Section::normalization_settings,
               std::vector<std::uint32_t>{tables.hangul_decomposes, tables.hangul_composes}, index);
    FlatMap::write(writer, Section::decomposed, Section::decomposed_numbers, keys(tables.decomposed), numbers, index);
    writer.add(Section::decomposition_ends, ends, index);
    writer.add(Section::decomposition, tables.decomposition, index);
    FlatMap::write(writer, Section::ordered, Section::orders, keys(tables.ordered), tables.order, index);
    FlatMap::write(writer, Section::composed, Section::composites, pairs, tables.composite, index);
  }

  Normalization(const Image& image, std::uint32_t index)
      : decomposed_(image, Section::decomposed, Section::decomposed_numbers, index),
        ends_(image.get<std::uint32_t>(Section::decomposition_ends, index)),
        decomposition_(image.get<std::uint32_t>(Section::decomposition, index)),
        order_(image, Section::ordered, Section::orders, index),
        composed_(image, Section::composed, Section::composites, index) {
    const auto settings = image.get_sized<std::uint32_t>(Section::normalization_settings, 2, index);
    hangul_decomposes_ = settings[0] != 0;
    hangul_composes_ = settings[1] != 0;
    Image::require(!ends_.empty() && ends_.back() <= decomposition_.size(), Section::decomposition_ends);
    for (std::size_t i = 0; i + 1 < ends_.size(); ++i)
      Image::require(ends_[i] <= ends_[i + 1], Section::decomposition_ends);
    for (const std::uint32_t number : decomposed_.values())
      Image::require(number + std::size_t{1} < ends_.size(), Section::decomposed_numbers);
    for (const std::uint32_t point : decomposition_) Image::require(is_code_point(point), Section::decomposition);
    for (const std::uint32_t point : composed_.values()) Image::require(is_code_point(point), Section::composites);
  }

  // Normalize a text with suspect characters; `classes` is its class buffer. `cuts` are byte positions of characters
  // that are
  // neither suspect nor behind a suspect one (synchronizing positions); they are moved along with the text.
  std::string apply(std::string_view text, const std::uint8_t* classes, const Classes& table,
                    std::vector<std::size_t>& cuts) const {
    std::string out;
    out.reserve(text.size());
    std::size_t cut = 0;
    std::size_t kept = 0;  // everything before is in `out`
    for (std::size_t at = 0; at < text.size();) {
      if (!table.suspect(classes[at])) {
        at += utf8_width(text[at]);
        continue;
      }
      // The stretch: the character before (which may compose with this one), and all the suspects from here.
      const std::size_t begin = at > kept ? utf8_before(text, at) : at;
      while (at < text.size() && table.suspect(classes[at])) at += utf8_width(text[at]);
      const std::size_t shift_base = kept;
      for (; cut < cuts.size() && cuts[cut] <= begin; ++cut) cuts[cut] = out.size() + (cuts[cut] - shift_base);
      out.append(text.substr(kept, begin - kept));
      stretch(text.substr(begin, at - begin), out);
      kept = at;
    }
    for (; cut < cuts.size(); ++cut) cuts[cut] = out.size() + (cuts[cut] - kept);
    out.append(text.substr(kept));
    return out;
  }

 private:
  static constexpr std::uint32_t kHangul = 0xAC00, kHangulEnd = 0xD7A4, kL = 0x1100, kV = 0x1161, kT = 0x11A7;
  static constexpr std::uint32_t kLCount = 19, kVCount = 21, kTCount = 28;  // Unicode 3.12

  static std::uint64_t key(std::uint32_t first, std::uint32_t second) {
    return static_cast<std::uint64_t>(first) << 32 | second;
  }
  static std::vector<std::uint64_t> keys(const std::vector<std::uint32_t>& points) {
    return {points.begin(), points.end()};
  }
  std::uint32_t order(std::uint32_t point) const { return order_.find(point, 0); }

  void stretch(std::string_view text, std::string& out) const {
    struct Ordered {
      std::uint32_t point, order;
    };
    std::vector<Ordered> points;
    const auto add = [&](std::uint32_t point) { points.push_back({point, order(point)}); };
    for (std::size_t at = 0; at < text.size(); at += utf8_width(text[at])) {
      const std::uint32_t point = utf8_decode(text.data() + at);
      if (hangul_decomposes_ && point >= kHangul && point < kHangulEnd) {
        const std::uint32_t index = point - kHangul;
        add(kL + index / (kVCount * kTCount));
        add(kV + index % (kVCount * kTCount) / kTCount);
        if (index % kTCount) add(kT + index % kTCount);
        continue;
      }
      const std::uint32_t number = decomposed_.find(point, kNoId);
      if (number == kNoId) {
        add(point);
        continue;
      }
      for (std::uint32_t i = ends_[number]; i < ends_[number + 1]; ++i) add(decomposition_[i]);
    }
    for (auto run = points.begin(); run != points.end();) {  // sort every run of marks; a starter stays where it is
      if (run->order == 0) {
        ++run;
        continue;
      }
      auto stop = run;
      while (stop != points.end() && stop->order != 0) ++stop;
      std::stable_sort(run, stop, [](const Ordered& a, const Ordered& b) { return a.order < b.order; });
      run = stop;
    }
    std::vector<std::uint32_t> composed;
    std::size_t starter = kNone;
    std::uint32_t last_order = 0;
    for (const auto& [point, point_order] : points) {
      if (starter != kNone && (last_order < point_order || (last_order == 0 && composed.size() - 1 == starter))) {
        const std::uint32_t composite = compose(composed[starter], point);
        if (composite) {
          composed[starter] = composite;
          continue;
        }
      }
      if (point_order == 0) starter = composed.size();
      last_order = point_order;
      composed.push_back(point);
    }
    for (const std::uint32_t point : composed) utf8_append(out, point);
  }

  // The composite of a pair, or 0.
  std::uint32_t compose(std::uint32_t first, std::uint32_t second) const {
    if (!hangul_composes_) return table_composite(first, second);
    if (first >= kL && first < kL + kLCount && second >= kV && second < kV + kVCount)
      return kHangul + ((first - kL) * kVCount + (second - kV)) * kTCount;
    if (first >= kHangul && first < kHangulEnd && (first - kHangul) % kTCount == 0 && second > kT &&
        second < kT + kTCount)
      return first + (second - kT);
    return table_composite(first, second);
  }

  std::uint32_t table_composite(std::uint32_t first, std::uint32_t second) const {
    return composed_.find(key(first, second), 0);
  }

  FlatMap decomposed_;                    // a character -> the number of its decomposition ...
  std::span<const std::uint32_t> ends_;   // ... which lies between two of these
  std::span<const std::uint32_t> decomposition_;
  FlatMap order_;
  FlatMap composed_;
  bool hangul_decomposes_ = false, hangul_composes_ = false;
};

}  // namespace tokseam
