// An array of 32-bit numbers, most of which lie close to their neighbours, in an image: a byte for each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/lookup.hpp"
#include "image.hpp"

namespace tokseam {

class CloseNumbers {
 public:
  static void write(ImageWriter& writer, Section section, std::span<const std::uint32_t> values) {
    std::vector<std::uint8_t> offsets;
    std::vector<std::uint32_t> bases;
    std::vector<std::uint64_t> far;
    offsets.reserve(values.size());
    for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
      const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
      const std::uint32_t base = base_of(block);
      bases.push_back(base);
      for (std::size_t i = 0; i < block.size(); ++i) {
        const bool close = block[i] >= base && block[i] - base < kFar;
        offsets.push_back(close ? static_cast<std::uint8_t>(block[i] - base) : kFar);
        if (!close) far.push_back(static_cast<std::uint64_t>(begin + i) << 32 | block[i]);
      }
    }
    writer.add(section, offsets, kOffsets);
    writer.add(section, bases, kBases);
    writer.add(section, far, kFarOnes);
  }

  CloseNumbers() = default;
  CloseNumbers(const Image& image, Section section)
      : offsets_(image.get<std::uint8_t>(section, kOffsets)),
        bases_(image.get_sized<std::uint32_t>(section, (offsets_.size() + kBlock - 1) / kBlock, kBases)),
        far_(image.get<std::uint64_t>(section, kFarOnes)) {}

  std::size_t size() const { return offsets_.size(); }

  std::uint32_t operator[](std::size_t i) const { return table().at(i); }

  // For code that both sides run.
  device::CloseNumbers table() const { return {offsets_.data(), bases_.data(), far_.data(), far_.size()}; }

 private:
  static constexpr std::size_t kBlock = device::CloseNumbers::kBlock;
  static constexpr std::uint8_t kFar = device::CloseNumbers::kFar;
  enum : std::uint32_t { kOffsets, kBases, kFarOnes };  // indexes of the section

  // The value of a block from which on most of its others are within reach.
  static std::uint32_t base_of(std::span<const std::uint32_t> block) {
    std::array<std::uint32_t, kBlock> sorted;
    const auto end = std::ranges::copy(block, sorted.begin()).out;
    if (!std::is_sorted(sorted.begin(), end)) std::sort(sorted.begin(), end);
    auto best = sorted.begin();
    std::ptrdiff_t most = 0;
    for (auto first = sorted.begin(), behind = first; first != end; ++first) {
      while (behind != end && *behind - *first < kFar) ++behind;
      if (behind - first > most) most = behind - first, best = first;
    }
    return *best;
  }

  std::span<const std::uint8_t> offsets_;  // from the base of its block; kFar: see far_
  std::span<const std::uint32_t> bases_;
  std::span<const std::uint64_t> far_;  // place << 32 | number, in order
};

}  // namespace tokseam
