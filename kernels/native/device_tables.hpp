// A tokenizer's tables for device code (device/tables.hpp): where its sections lie in a copy of its image at `base`,
// and what only the device asks for. What it asks for that no image holds stands `beside` it (device_form.hpp). The
// image was checked by whoever made an Encoder of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "automaton.hpp"
#include "device_form.hpp"
#include "device/tables.hpp"
#include "image.hpp"
#include "merges.hpp"
#include "vocabulary.hpp"

namespace tokseam {

// None for a tokenizer with more stages than the device takes. `form`: of one that the device normalizes for, whose
// bytes lie at `beside`; else null.
inline std::optional<device::Tables> device_tables(const Image& image, const void* base, const DeviceForm* form,
                                                   const void* beside) {
  const auto moved = [&]<class T>(const T* place) {
    const auto offset = reinterpret_cast<const std::byte*>(place) - image.bytes().data();
    return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(offset));
  };
  const auto u8s = [&](Section section) { return image.get<std::uint8_t>(section); };
  const auto u32s = [&](Section section) { return image.get<std::uint32_t>(section); };
  const auto key_set = [&](Section section) {
    const auto slots = image.get<std::uint64_t>(section);
    return device::KeySet{moved(slots.data()), slots.size()};
  };
  device::Tables tables{};
  const auto suspect = u8s(Section::class_suspect);
  tables.classes = {moved(image.get<std::uint16_t>(Section::class_index).data()), moved(u8s(Section::class_blocks).data()),
                    moved(u8s(Section::class_pairs).data()), moved(suspect.data()), static_cast<std::uint32_t>(suspect.size())};

  const auto add_stages = [&](Section section, std::uint32_t classes, std::uint32_t& count) {
    for (; image.has(section, count); ++count) {
      const std::uint32_t number = tables.stage_count + tables.byte_stage_count;
      if (number == device::Tables::kMaxStages) return false;
      constexpr std::size_t kSettings = Automaton::kSettings;
      const auto stored = image.get<std::uint16_t>(section, count);
      const std::uint32_t stride = classes + 2;
      tables.stages[number] = {moved(stored.data() + kSettings), stride,
                               static_cast<std::uint32_t>((stored.size() - kSettings) / stride),
                               static_cast<device::Behavior>(stored[1])};
    }
    return true;
  };
  const auto byte_classes = u8s(Section::byte_classes);
  tables.byte_classes = moved(byte_classes.data());
  if (!add_stages(Section::stages, tables.classes.count, tables.stage_count) ||
      !add_stages(Section::byte_stages, std::uint32_t{1} + *std::ranges::max_element(byte_classes),
                  tables.byte_stage_count))
    return std::nullopt;

  const Vocabulary whole(image);
  tables.whole = whole.table();
  tables.longest = whole.longest();
  tables.whole.slots = moved(tables.whole.slots);
  tables.whole.stored = moved(tables.whole.stored);

  const Merges merges(image);
  tables.rising = merges.rising() ? 1 : 0;
  tables.merges = merges.table();
  tables.merges.slots = moved(tables.merges.slots);
  tables.merges.merged.offsets = moved(tables.merges.merged.offsets);
  tables.merges.merged.bases = moved(tables.merges.merged.bases);
  tables.merges.merged.far = moved(tables.merges.merged.far);
  tables.byte_ids = moved(u32s(Section::byte_ids).data());
  tables.byte_pairs = moved(u32s(Section::byte_pairs).data());

  if (form != nullptr) {
    tables.form = form->tables(beside);
    for (device::KeyMap* map : {&tables.form.numbers, &tables.form.orders, &tables.form.composites})
      *map = {{moved(map->keys.slots), map->keys.size}, moved(map->values)};
    tables.form.ends = moved(tables.form.ends);
    tables.form.decomposition = moved(tables.form.decomposition);
  }

  tables.by_characters = image.has(Section::character_settings) ? 1 : 0;
  if (tables.by_characters == 0) return tables;
  const auto settings = u32s(Section::character_settings);
  const auto joined = u32s(Section::joined);
  tables.joined = {moved(joined.data()), static_cast<std::uint32_t>(joined.size())};
  tables.marker = settings[2];
  tables.split_at_marker = settings[4];
  tables.character_ids = {key_set(Section::characters), moved(u32s(Section::character_ids).data())};
  tables.byte_tokens = moved(u32s(Section::byte_tokens).data());
  return tables;
}

}  // namespace tokseam
