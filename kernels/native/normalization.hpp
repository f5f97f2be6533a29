// A normal form, or a change of case, by the reference's own tables (kernels/compile/normalization.py), over the stretches
// of a text that it can change: decompose, put marks in order, compose.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "classes.hpp"
#include "utf8.hpp"

namespace tokseam {

class Normalization {
 public:
  struct Tables {
    std::vector<std::uint32_t> decomposed, decomposition_ends, decomposition, ordered, order, composed_first,
        composed_second, composite;
    bool hangul_decomposes, hangul_composes;  // Hangul is decomposed and composed by arithmetic, not by table
  };

  explicit Normalization(Tables tables)
      : hangul_decomposes_(tables.hangul_decomposes),
        hangul_composes_(tables.hangul_composes),
        decomposition_(std::move(tables.decomposition)) {
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < tables.decomposed.size(); ++i) {
      decomposed_[tables.decomposed[i]] = {begin, tables.decomposition_ends[i]};
      begin = tables.decomposition_ends[i];
    }
    for (std::size_t i = 0; i < tables.ordered.size(); ++i) order_[tables.ordered[i]] = tables.order[i];
    for (std::size_t i = 0; i < tables.composite.size(); ++i)
      composed_[key(tables.composed_first[i], tables.composed_second[i])] = tables.composite[i];
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
  struct Range {
    std::uint32_t begin, end;
  };
  static constexpr std::uint32_t kHangul = 0xAC00, kHangulEnd = 0xD7A4, kL = 0x1100, kV = 0x1161, kT = 0x11A7;
  static constexpr std::uint32_t kLCount = 19, kVCount = 21, kTCount = 28;  // Unicode 3.12

  static std::uint64_t key(std::uint32_t first, std::uint32_t second) {
    return static_cast<std::uint64_t>(first) << 32 | second;
  }
  std::uint32_t order(std::uint32_t point) const {
    const auto entry = order_.find(point);
    return entry == order_.end() ? 0 : entry->second;
  }

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
      const auto entry = decomposed_.find(point);
      if (entry == decomposed_.end()) {
        add(point);
        continue;
      }
      for (std::uint32_t i = entry->second.begin; i < entry->second.end; ++i) add(decomposition_[i]);
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
    const auto entry = composed_.find(key(first, second));
    return entry == composed_.end() ? 0 : entry->second;
  }

  bool hangul_decomposes_, hangul_composes_;
  std::vector<std::uint32_t> decomposition_;
  std::unordered_map<std::uint32_t, Range> decomposed_;
  std::unordered_map<std::uint32_t, std::uint32_t> order_;
  std::unordered_map<std::uint64_t, std::uint32_t> composed_;
};

}  // namespace tokseam
