// Which tokenizers a device normalizes for, and what it asks for that beside the image: what is known of each character
// by itself (device/normal_form.hpp). Made from the tables of the image when a tokenizer's tables are laid out.
//
// Limits: one form, whatever it is; not several in turn. A tokenizer with more of them has its documents normalized by
// the CPU engine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "added_tokens.hpp"
#include "device/normal_form.hpp"
#include "image.hpp"
#include "utf8.hpp"

namespace tokseam {

class DeviceForm {
 public:
  // None where the device has to leave what a normalizer may change: there is no form, or there are several; a space is
  // put in front of what is normalized; or a literal that is looked for behind the form may stand elsewhere before it.
  static std::optional<DeviceForm> of(const Image& image) {
    if (!image.has(Section::normalization_settings) || image.has(Section::normalization_settings, 1) ||
        image.has(Section::character_settings) || image.get_sized<std::uint32_t>(Section::settings, 1)[0] != 0)
      return std::nullopt;
    DeviceForm form(image);
    if (!form.fits() || !form.keeps_literals()) return std::nullopt;
    form.lay_out_kinds();
    return form;
  }

  // What has to stand on the device beside the image.
  std::span<const std::uint8_t> bytes() const { return bytes_; }

  // The tables, with those of the image at its own address, and `bytes` at `beside`.
  device::NormalForm tables(const void* beside) const {
    device::NormalForm form = image_tables_;
    const auto address = reinterpret_cast<std::uintptr_t>(beside);
    form.index = reinterpret_cast<const std::uint16_t*>(address);
    form.blocks = reinterpret_cast<const std::uint8_t*>(address + kIndexBytes);
    return form;
  }

 private:
  using Form = device::NormalForm;
  static constexpr std::size_t kPoints = 0x110000, kBlocks = kPoints / Form::kBlockSize;
  static constexpr std::size_t kIndexBytes = kBlocks * sizeof(std::uint16_t);

  explicit DeviceForm(const Image& image)
      : image_(image),
        decomposed_(image.get<std::uint64_t>(Section::decomposed)),
        ordered_(image.get<std::uint64_t>(Section::ordered)),
        composed_(image.get<std::uint64_t>(Section::composed)) {
    const auto map = [&](std::span<const std::uint64_t> keys, Section values) {
      return device::KeyMap{{keys.data(), keys.size()}, image_.get<std::uint32_t>(values).data()};
    };
    const auto settings = image_.get_sized<std::uint32_t>(Section::normalization_settings, 2);
    image_tables_ = {nullptr,
                     nullptr,
                     map(decomposed_, Section::decomposed_numbers),
                     image_.get<std::uint32_t>(Section::decomposition_ends).data(),
                     image_.get<std::uint32_t>(Section::decomposition).data(),
                     map(ordered_, Section::orders),
                     map(composed_, Section::composites),
                     settings[0],
                     settings[1]};
  }

  static bool is_key(std::uint64_t slot) { return slot != device::KeySet::kFree; }
  std::span<const std::uint32_t> decomposition_of(std::uint64_t point) const {
    const std::uint32_t number = image_tables_.numbers.find(point);
    const std::uint32_t *const ends = image_tables_.ends, *const points = image_tables_.decomposition;
    return {points + ends[number], points + ends[number + 1]};
  }
  std::uint32_t order(std::uint64_t point) const {
    const std::uint32_t found = image_tables_.orders.find(point);
    return found == device::kNone32 ? 0 : found;
  }

  // Whether the tables are such that a thread has room for a cluster.
  bool fits() const {
    for (const std::uint64_t point : decomposed_)
      if (is_key(point)) {
        const auto points = decomposition_of(point);
        if (points.empty() || points.size() > Form::kMostPoints) return false;
      }
    return std::ranges::all_of(image_.get<std::uint32_t>(Section::orders),
                               [](std::uint32_t order) { return order <= Form::kMostOrder; });
  }

  // The kinds of all characters, as blocks of which equal ones are kept once.
  void lay_out_kinds() {
    std::vector<std::uint8_t> kinds(kPoints, 0);
    std::unordered_set<std::uint64_t> seconds;
    for (const std::uint64_t pair : composed_)
      if (is_key(pair)) seconds.insert(pair & 0xFFFFFFFF);
    const auto joins = [&](std::uint64_t point) {
      return order(point) != 0 || seconds.contains(point) ||
             (image_tables_.hangul_composes != 0 && Form::hangul_second(static_cast<std::uint32_t>(point)));
    };
    const auto mark = [&](std::uint64_t point, std::uint8_t kind) {
      if (point < kPoints) kinds[point] = static_cast<std::uint8_t>(kinds[point] | kind);
    };
    for (const std::uint64_t point : ordered_)
      if (is_key(point) && joins(point)) mark(point, Form::kJoins);
    for (const std::uint64_t point : seconds) mark(point, Form::kJoins);
    if (image_tables_.hangul_composes != 0)
      for (std::uint32_t point = Form::kV; point < Form::kT + Form::kTCount; ++point)
        if (Form::hangul_second(point)) mark(point, Form::kJoins);
    if (image_tables_.hangul_decomposes != 0 && image_tables_.hangul_composes == 0)
      for (std::uint32_t point = Form::kHangul; point < Form::kHangulEnd; ++point) mark(point, Form::kChanges);
    for (const std::uint64_t point : decomposed_)
      if (is_key(point) && (joins(point) || joins(decomposition_of(point)[0]))) mark(point, Form::kJoins);
    compress(kinds);
    // Only now there are tables to normalize a character by.
    const Form form = tables(bytes_.data());
    for (const std::uint64_t point : decomposed_)
      if (is_key(point) && changes(form, static_cast<std::uint32_t>(point))) mark(point, Form::kChanges);
    compress(kinds);
  }

  static bool changes(const Form& form, std::uint32_t point) {
    std::string text;
    utf8_append(text, point);
    std::array<std::uint32_t, Form::kMostPoints> points;
    const std::uint32_t count =
        form.normalize(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), points.data());
    return count != 1 || points[0] != point;
  }

  void compress(const std::vector<std::uint8_t>& kinds) {
    std::vector<std::uint16_t> index;
    std::vector<std::uint8_t> blocks;
    std::unordered_map<std::string_view, std::uint16_t> known;
    for (std::size_t begin = 0; begin < kPoints; begin += Form::kBlockSize) {
      const std::string_view content(reinterpret_cast<const char*>(kinds.data()) + begin, Form::kBlockSize);
      const auto [entry, added] = known.try_emplace(content, static_cast<std::uint16_t>(known.size()));
      if (added) blocks.insert(blocks.end(), content.begin(), content.end());
      index.push_back(entry->second);
    }
    bytes_.resize(kIndexBytes + blocks.size());
    std::memcpy(bytes_.data(), index.data(), kIndexBytes);
    std::copy(blocks.begin(), blocks.end(), bytes_.begin() + kIndexBytes);
  }

  // Whether literals that are looked for in normalized text stand in the text as it is, at the same places, and what lies
  // between them may be normalized by itself: then the host cuts them out before. By claim 18 it is enough that
  // - no character c of a literal joins, decomposes or is a composite;
  // - none comes out of another one: what has c in its decomposition begins with it, and next has a mark that composes
  //   with c. (No mark of a lower order keeps that mark from c, and none of its own order stands before it: c is gone);
  // - the last one composes with nothing behind it.
  // For where the text has the literal, each of its characters but the last is a cluster, and stays; the last one begins
  // a cluster, and stays too. Where the normal form has it, each character comes of itself, and each but the last is all
  // that its cluster becomes, so it is all of the cluster. What is behind the last one finds nothing there to compose
  // with, as behind the literal by itself.
  bool keeps_literals() const {
    std::unordered_set<std::uint32_t> held, last;
    if (!read_literals(held, last)) return false;
    const auto in = [](const auto& set, std::uint64_t point) {
      return set.contains(static_cast<std::uint32_t>(point));
    };
    for (const std::uint32_t point : held)
      if (order(point) != 0 || (point >= Form::kHangul && point < Form::kHangulEnd) ||
          (point >= Form::kL && point < Form::kL + Form::kLCount) || Form::hangul_second(point))
        return false;
    for (const std::uint64_t pair : composed_)
      if (is_key(pair) && (in(last, pair >> 32) || in(held, pair & 0xFFFFFFFF) ||
                           held.contains(image_tables_.composites.find(pair))))
        return false;
    for (const std::uint64_t point : decomposed_) {
      if (!is_key(point)) continue;
      if (in(held, point)) return false;
      const auto points = decomposition_of(point);
      for (std::size_t i = 0; i < points.size(); ++i)
        if (held.contains(points[i]) &&
            (i > 0 || points.size() < 2 || order(points[1]) == 0 ||
             image_tables_.composites.find(std::uint64_t{points[0]} << 32 | points[1]) == device::kNone32))
          return false;
    }
    return true;
  }

  // The characters of literals, and their last ones. False where one looks around.
  bool read_literals(std::unordered_set<std::uint32_t>& held, std::unordered_set<std::uint32_t>& last) const {
    // A node: where its edges begin, an id, flags. An edge: a byte, and the node it leads to (added_tokens.hpp).
    const auto nodes = image_.get<std::array<std::uint32_t, 3>>(Section::literal_nodes, kNormalizedLiterals);
    const auto edges = image_.get<std::array<std::uint32_t, 2>>(Section::literal_edges, kNormalizedLiterals);
    constexpr std::uint32_t kSpecial = 1;
    struct Prefix {
      std::uint32_t node;
      std::string text;
    };
    std::vector<Prefix> open{{0, ""}};
    while (!open.empty()) {
      const Prefix prefix = std::move(open.back());
      open.pop_back();
      if (nodes[prefix.node][1] != kNoId) {
        if ((nodes[prefix.node][2] & ~kSpecial) != 0) return false;
        std::uint32_t point = 0;
        for (std::size_t at = 0; at < prefix.text.size(); at += utf8_width(prefix.text[at]))
          held.insert(point = utf8_decode(prefix.text.data() + at));
        last.insert(point);
      }
      for (std::uint32_t edge = nodes[prefix.node][0]; edge < nodes[prefix.node + 1][0]; ++edge)
        open.push_back({edges[edge][1], prefix.text + static_cast<char>(edges[edge][0])});
    }
    return true;
  }

  Image image_;
  std::span<const std::uint64_t> decomposed_, ordered_, composed_;
  device::NormalForm image_tables_{};
  std::vector<std::uint8_t> bytes_;
};

}  // namespace tokseam
