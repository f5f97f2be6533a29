// A tokenizer's tables for device code (device/tables.hpp): where its sections lie in a copy of its image at `base`, and
// what only the device asks for. The image was checked by whoever made an Encoder of it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "automaton.hpp"
#include "device/tables.hpp"
#include "image.hpp"

namespace tokseam {

namespace detail {

// Whether every merge ranks behind all merges that make one of its parts. Then all pairs of the lowest rank may be merged
// at once (kernels/README.md, claim 15).
inline bool ranks_rise(const device::Merges& merges, std::span<const std::uint32_t> merged) {
  std::vector<std::uint32_t> made;  // by id: the highest rank that makes it, plus one
  for (std::uint32_t rank = 0; rank < merged.size(); ++rank) {
    const std::uint32_t id = merged[rank];
    if (id == device::kNone32) continue;
    if (id >= made.size()) made.resize(std::size_t{id} + 1, 0);
    made[id] = rank + 1;
  }
  const auto behind = [&](std::uint32_t rank, std::uint64_t part) { return part >= made.size() || rank >= made[part]; };
  for (std::uint64_t at = 0; at < merges.size; ++at) {
    const std::uint64_t slot = merges.slots[at];
    if (slot == device::Merges::kFree) continue;
    const auto rank = static_cast<std::uint32_t>(slot & ((std::uint64_t{1} << merges.rank_bits) - 1));
    const std::uint64_t key = slot >> merges.rank_bits, right = key & ((std::uint64_t{1} << merges.id_bits) - 1);
    if (!behind(rank, key >> merges.id_bits) || !behind(rank, right)) return false;
  }
  return true;
}

}  // namespace detail

// None for a tokenizer with more stages than the device takes.
inline std::optional<device::Tables> device_tables(const Image& image, const void* base) {
  const auto moved = [&]<class T>(std::span<const T> section) {
    const auto offset = reinterpret_cast<const std::byte*>(section.data()) - image.bytes().data();
    return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(offset));
  };
  const auto u8s = [&](Section section) { return image.get<std::uint8_t>(section); };
  const auto u32s = [&](Section section) { return image.get<std::uint32_t>(section); };
  const auto key_set = [&](Section section) {
    const auto slots = image.get<std::uint64_t>(section);
    return device::KeySet{moved(slots), slots.size()};
  };
  device::Tables tables{};
  const auto suspect = u8s(Section::class_suspect);
  tables.classes = {moved(image.get<std::uint16_t>(Section::class_index)), moved(u8s(Section::class_blocks)),
                    moved(u8s(Section::class_pairs)), moved(suspect), static_cast<std::uint32_t>(suspect.size())};

  const auto add_stages = [&](Section section, std::uint32_t classes, std::uint32_t& count) {
    for (; image.has(section, count); ++count) {
      const std::uint32_t number = tables.stage_count + tables.byte_stage_count;
      if (number == device::Tables::kMaxStages) return false;
      constexpr std::size_t kSettings = Automaton::kSettings;
      const auto stored = image.get<std::uint16_t>(section, count);
      const std::uint32_t stride = classes + 2;
      tables.stages[number] = {moved(stored.subspan(kSettings)), stride,
                               static_cast<std::uint32_t>((stored.size() - kSettings) / stride),
                               static_cast<device::Behavior>(stored[1])};
    }
    return true;
  };
  const auto byte_classes = u8s(Section::byte_classes);
  tables.byte_classes = moved(byte_classes);
  if (!add_stages(Section::stages, tables.classes.count, tables.stage_count) ||
      !add_stages(Section::byte_stages, std::uint32_t{1} + *std::ranges::max_element(byte_classes),
                  tables.byte_stage_count))
    return std::nullopt;

  const auto slots = u32s(Section::vocabulary_slots);
  const auto entries = image.get<device::Vocabulary::Entry>(Section::vocabulary_entries);
  tables.whole = {moved(slots), moved(entries), moved(u8s(Section::vocabulary_bytes)), slots.size(),
                  static_cast<std::uint32_t>(std::bit_width(slots.size()))};
  for (std::size_t i = 0; i + 1 < entries.size(); ++i)
    tables.longest = std::max(tables.longest, entries[i + 1].begin - entries[i].begin);

  const auto pairs = image.get<std::uint64_t>(Section::merges);
  const auto merged = u32s(Section::merged_ids);
  const auto bits = image.get_sized<std::int32_t>(Section::merge_settings, 2);
  const device::Merges here{pairs.data(), merged.data(), pairs.size(), static_cast<std::uint32_t>(bits[0]),
                            static_cast<std::uint32_t>(bits[1])};
  tables.rising = detail::ranks_rise(here, merged) ? 1 : 0;
  tables.merges = here;
  tables.merges.slots = moved(pairs);
  tables.merges.merged = moved(merged);
  tables.byte_ids = moved(u32s(Section::byte_ids));
  tables.byte_pairs = moved(u32s(Section::byte_pairs));

  tables.by_characters = image.has(Section::character_settings) ? 1 : 0;
  if (tables.by_characters == 0) return tables;
  const auto settings = u32s(Section::character_settings);
  tables.joined = key_set(Section::joined);
  tables.marker = settings[2];
  tables.split_at_marker = settings[4];
  tables.character_ids = {key_set(Section::characters), moved(u32s(Section::character_ids))};
  tables.byte_tokens = moved(u32s(Section::byte_tokens));
  return tables;
}

}  // namespace tokseam
