// The class of a character, and which pairs of classes are synchronizing. Tables come from kernels/compile/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ascii_classes.hpp"
#include "avx512.hpp"
#include "cuts.hpp"
#include "device/classes.hpp"
#include "image.hpp"
#include "utf8.hpp"

namespace tokseam {

class Classes {
 public:
  // class_of: one byte a code point, 0x110000 of them; pairs: count * count, row-major; suspect: count.
  static void write(ImageWriter& writer, std::size_t count, const std::uint8_t* class_of, const std::uint8_t* pairs,
                    const std::uint8_t* suspect) {
    std::vector<std::uint16_t> index;
    std::vector<std::uint8_t> blocks;
    std::unordered_map<std::string_view, std::uint16_t> known;
    for (std::size_t block = 0; block < kBlocks; ++block) {
      const std::string_view content(reinterpret_cast<const char*>(class_of + block * kBlockSize), kBlockSize);
      const auto [entry, added] = known.try_emplace(content, static_cast<std::uint16_t>(known.size()));
      if (added) blocks.insert(blocks.end(), content.begin(), content.end());
      index.push_back(entry->second);
    }
    writer.add(Section::class_index, index);
    writer.add(Section::class_blocks, blocks);
    writer.add(Section::class_pairs, std::span(pairs, count * count));
    writer.add(Section::class_suspect, std::span(suspect, count));
  }

  explicit Classes(const Image& image)
      : suspect_(image.get<std::uint8_t>(Section::class_suspect)),
        pairs_(image.get_sized<std::uint8_t>(Section::class_pairs, suspect_.size() * suspect_.size())),
        blocks_(image.get<std::uint8_t>(Section::class_blocks)),
        index_(image.get_sized<std::uint16_t>(Section::class_index, kBlocks)) {
    Image::require(!suspect_.empty() && suspect_.size() <= kMaxClasses, Section::class_suspect);
    for (const std::uint16_t block : index_)
      Image::require((block + std::size_t{1}) * kBlockSize <= blocks_.size(), Section::class_index);
    for (const std::uint8_t number : blocks_) Image::require(number < suspect_.size(), Section::class_blocks);
    tables_ = {index_.data(), blocks_.data(), pairs_.data(), suspect_.data(), static_cast<std::uint32_t>(count())};
    for (std::uint32_t byte = 0; byte < 0x80; ++byte)
      if (suspect(of(byte))) ascii_suspect_ = 1;
    ascii_ = AsciiClasses(blocks_.data() + index_[0] * kBlockSize);
  }

  // So that inner() and the end of a text have numbers of their own.
  static constexpr std::size_t kMaxClasses = 253;

  std::size_t count() const { return suspect_.size(); }

  // The class that stands for the inner bytes of a character in a class buffer; see `fill`.
  std::uint8_t inner() const { return tables_.inner(); }

  std::uint8_t of(std::uint32_t point) const { return tables_.of(point); }

#if defined(TOKSEAM_AVX512)
  // Of sixteen characters, a class in each 32 bits; 0 in lanes that are not asked for.
  // SAFETY: a gather takes 32 bits, of which these are the highest, so what lies beside a place is in front of it. The
  // tables are sections of an image, whose header is in front of them. That every place is inside, the constructor has
  // checked.
  TOKSEAM_AVX512 __m512i of(__m512i points, __mmask16 lanes) const {
    const __m512i block = _mm512_srli_epi32(points, kBlockBits);
    const __m512i found = gather<2>(tables_.index - 1, block, lanes);
    const __m512i begin = _mm512_slli_epi32(_mm512_srli_epi32(found, 16), kBlockBits);
    const __m512i inside = _mm512_and_si512(points, _mm512_set1_epi32(kBlockSize - 1));
    const __m512i at = _mm512_or_si512(begin, inside);
    return _mm512_srli_epi32(gather<1>(tables_.blocks - 3, at, lanes), 24);
  }
#endif

  bool suspect(std::uint8_t number) const { return suspect_[number] != 0; }

  bool synchronizing(std::uint8_t a, std::uint8_t b) const { return tables_.synchronizing(a, b); }

  // Write one byte a byte of text: a character's class at its first byte, inner() at the others.
  // Returns whether any character may be suspect (normalization may change the text).
  bool fill(std::string_view text, std::uint8_t* out) const {
    std::uint8_t any = ascii_suspect_;
    const std::size_t n = text.size();
    for (std::size_t i = 0; i < n;) {
      if (static_cast<unsigned char>(text[i]) < 0x80) {
        i += ascii_.fill(text.data() + i, n - i, out + i);
        continue;
      }
      const std::size_t width = utf8_width(text[i]);
      const std::uint8_t number = of(utf8_decode(text.data() + i));
      any |= suspect_[number];
      out[i] = number;
      for (std::size_t k = 1; k < width; ++k) out[i + k] = inner();
      i += width;
    }
    return any != 0;
  }

  // See cuts.hpp.
  std::size_t next_cut(std::string_view text, std::size_t from) const {
    return find_next_cut(text, from, [this](auto point) { return of(point); },
                         [this](auto a, auto b) { return synchronizing(a, b); });
  }
  std::size_t last_cut(std::string_view text, std::size_t upto) const {
    return find_last_cut(text, upto, [this](auto point) { return of(point); },
                         [this](auto a, auto b) { return synchronizing(a, b); });
  }

 private:
  static constexpr std::size_t kBlockSize = device::Classes::kBlockSize;
  static constexpr unsigned kBlockBits = 8;
  static_assert(kBlockSize == std::size_t{1} << kBlockBits);
  static constexpr std::size_t kBlocks = 0x110000 / kBlockSize;

  std::span<const std::uint8_t> suspect_;
  std::span<const std::uint8_t> pairs_;   // [a * count() + b] != 0: synchronizing
  std::span<const std::uint8_t> blocks_;  // the distinct blocks of 256 classes
  std::span<const std::uint16_t> index_;
  device::Classes tables_{};              // the same, for code that both sides run
  std::uint8_t ascii_suspect_ = 0;  // some ASCII character is (a change of case): then every text may hold one
  AsciiClasses ascii_;
};

}  // namespace tokseam
