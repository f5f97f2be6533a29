// Sets and maps of 64-bit keys as flat tables of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuts.hpp"
#include "device/lookup.hpp"
#include "hash.hpp"
#include "image.hpp"

namespace tokseam {

class FlatSet {
 public:
  static constexpr std::uint64_t kFree = device::KeySet::kFree;  // no key

  static void write(ImageWriter& writer, Section section, std::span<const std::uint64_t> keys,
                    std::uint32_t index = 0) {
    writer.add(section, slots_of(keys), index);
  }

  FlatSet(const Image& image, Section section, std::uint32_t index = 0)
      : slots_(image.get<std::uint64_t>(section, index)) {
    bool ends = false;
    for (const std::uint64_t slot : slots_) ends = ends || slot == kFree;
    Image::require(ends, section);
  }

  bool contains(std::uint64_t key) const { return place(slots_, key) != kNone; }

 protected:
  // The place of `key`, or kNone.
  static_assert(device::KeySet::kFree == kNone);
  static std::size_t place(std::span<const std::uint64_t> slots, std::uint64_t key) {
    return device::KeySet{slots.data(), slots.size()}.place(key);
  }

  // At most half full, so every probe ends, and soon.
  static std::vector<std::uint64_t> slots_of(std::span<const std::uint64_t> keys) {
    std::vector<std::uint64_t> slots(keys.size() * 2 + 2, kFree);
    for (const std::uint64_t key : keys) {
      std::size_t at = place_of(key * kOdd1, slots.size());
      while (slots[at] != kFree && slots[at] != key) at = at + 1 == slots.size() ? 0 : at + 1;
      slots[at] = key;
    }
    return slots;
  }

  std::span<const std::uint64_t> slots_;
};

// To 32-bit values, which stand beside the keys in a section of their own.
class FlatMap : FlatSet {
 public:
  // Of equal keys the last one counts.
  static void write(ImageWriter& writer, Section keys_section, Section values_section,
                    std::span<const std::uint64_t> keys, std::span<const std::uint32_t> values,
                    std::uint32_t index = 0) {
    const std::vector<std::uint64_t> slots = slots_of(keys);
    std::vector<std::uint32_t> placed(slots.size());
    for (std::size_t i = 0; i < keys.size(); ++i) placed[place(slots, keys[i])] = values[i];
    writer.add(keys_section, slots, index);
    writer.add(values_section, placed, index);
  }

  FlatMap(const Image& image, Section keys_section, Section values_section, std::uint32_t index = 0)
      : FlatSet(image, keys_section, index),
        values_(image.get_sized<std::uint32_t>(values_section, slots_.size(), index)) {}

  // The value of `key`, or `absent`.
  std::uint32_t find(std::uint64_t key, std::uint32_t absent) const {
    const std::size_t at = place(slots_, key);
    return at == kNone ? absent : values_[at];
  }

  // Free places hold 0.
  std::span<const std::uint32_t> values() const { return values_; }

 private:
  std::span<const std::uint32_t> values_;
};

}  // namespace tokseam
