// A compiled tokenizer as one flat, read-only block of bytes: what encoders stand on, in memory or mapped from a file.
//
// Header, directory, sections. Every section is an array of plain values in the machine's byte order, on a 64-byte
// boundary; a file of the other order has another magic number. What a section means is told by the header that writes
// and reads it (classes.hpp, vocabulary.hpp, ...): each has a `write(ImageWriter&, ...)` and a constructor that takes
// an Image, checks all that it will ever index by, and from then on only looks.
// Not here: files (mapped_file.hpp), and what the key is made of (kernels/compiled_file.py).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hash.hpp"

namespace tokseam {

// Bumped whenever the layout or the meaning of any section changes.
inline constexpr std::uint32_t kImageFormat = 11;

// A section's number is part of the format. Some come several times, told apart by an index.
enum class Section : std::uint32_t {
  facts = 1,  // what Python keeps with the tables (JSON); the encoder does not read it
  settings,
  class_index,
  class_blocks,
  class_pairs,
  class_suspect,
  segment_pairs,
  seamless,
  crossed,
  crossed_edges,
  looking_on,
  looking_back,
  stages,
  byte_stages,
  byte_classes,
  byte_ids,
  lengths,
  vocabulary_settings,
  vocabulary_slots,
  vocabulary_entries,
  whole_segments,
  merges,
  merge_settings,
  merged_ids,
  byte_pairs,
  normalization_settings,
  decomposed,
  decomposed_numbers,
  decomposition_ends,
  decomposition,
  ordered,
  orders,
  composed,
  composites,
  character_settings,
  joined,
  never_after,
  never_before,
  characters,
  character_ids,
  byte_tokens,
  byte_token_ids,
  byte_token_bytes,
  literal_nodes,
  literal_edges,
  space_characters,
  word_characters,
  whole_character_index,
  whole_character_blocks,
  parted_keys,
  parted_entries,
  parted_bytes,
  spelling_settings,
  spelling_offsets,
  spelling_bases,
  spelling_apart_ids,
  spelling_apart_ends,
  spelling_apart_bytes,
};

// An image that may not be used: damaged, cut short, of another format, made for something else, or inconsistent.
struct BadImage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Image {
 public:
  using Key = std::array<std::uint8_t, 32>;
  static constexpr std::size_t kAlignment = 64;

  // `data` is on a 64-byte boundary and stays as it is while any copy of this image lives. Throws BadImage unless it is
  // whole, of this format, and was made for `key`.
  Image(std::shared_ptr<const std::byte> data, std::size_t size, const Key& key) : data_(std::move(data)), size_(size) {
    if (size < sizeof(Header)) throw BadImage("image: too short for a header");
    if (reinterpret_cast<std::uintptr_t>(data_.get()) % kAlignment != 0) throw BadImage("image: not aligned");
    const Header header = at<Header>(0);
    if (header.magic != kMagic) throw BadImage("image: not a compiled tokenizer of this byte order");
    if (header.format != kImageFormat) throw BadImage("image: of another format");
    if (header.bytes != size) throw BadImage("image: cut short, or too long");
    if (header.key != key) throw BadImage("image: made for something else");
    if (header.sections > (size - sizeof(Header)) / sizeof(Entry)) throw BadImage("image: its directory is too long");
    if (header.checksum != checksum(bytes().subspan(kChecksummed))) throw BadImage("image: damaged");
    entries_ = {reinterpret_cast<const Entry*>(data_.get() + sizeof(Header)), header.sections};
    // Behind the directory: what reads in front of a place in a section stays in the image.
    const std::size_t first = sizeof(Header) + entries_.size_bytes();
    for (const Entry& entry : entries_)
      if (entry.offset % kAlignment != 0 || entry.offset < first || entry.offset > size ||
          entry.bytes > size - entry.offset)
        throw BadImage("image: a section lies outside");
  }

  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

  bool has(Section section, std::uint32_t index = 0) const { return entry(section, index) != nullptr; }

  // Throws BadImage where there is no such section, or it holds no whole number of T.
  template <class T>
  std::span<const T> get(Section section, std::uint32_t index = 0) const {
    static_assert(std::is_trivially_copyable_v<T> && kAlignment % alignof(T) == 0);
    const Entry* found = entry(section, index);
    if (found == nullptr) throw BadImage("image: section " + name(section) + " is missing");
    if (found->bytes % sizeof(T) != 0) throw BadImage("image: section " + name(section) + " has an odd size");
    // SAFETY: the constructor checked that the section lies inside and is aligned; any bytes are a T that may be read.
    return {reinterpret_cast<const T*>(data_.get() + found->offset), found->bytes / sizeof(T)};
  }

  // Throws BadImage unless the section holds just `count` of T.
  template <class T>
  std::span<const T> get_sized(Section section, std::size_t count, std::uint32_t index = 0) const {
    const auto values = get<T>(section, index);
    require(values.size() == count, section);
    return values;
  }

  // For readers' own checks.
  static void require(bool condition, Section section) {
    if (!condition) throw BadImage("image: section " + name(section) + " is inconsistent");
  }

  // Finds damage; it is no proof against someone who means to deceive.
  // PERF: eight independent lanes, so that it runs at the speed of memory.
  static std::uint64_t checksum(std::span<const std::byte> bytes) {
    constexpr std::size_t kLanes = 8;
    const char* p = reinterpret_cast<const char*>(bytes.data());
    std::array<std::uint64_t, kLanes> lanes{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = kOdd1 * (lane + 1) ^ bytes.size();
    std::size_t i = 0;
    for (; i + 8 * kLanes <= bytes.size(); i += 8 * kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] = detail::mix(detail::load8(p + i + 8 * lane) ^ lanes[lane], kOdd2);
    std::uint64_t sum = hash_bytes({p + i, bytes.size() - i});
    for (const std::uint64_t lane : lanes) sum = detail::mix(sum ^ lane, kOdd1);
    return sum;
  }

 private:
  friend class ImageWriter;

  struct Header {
    std::uint64_t magic;
    std::uint64_t checksum;  // of everything behind it
    std::uint32_t format;
    std::uint32_t sections;
    std::uint64_t bytes;  // of the whole image
    Key key;
  };
  struct Entry {
    std::uint32_t section, index;
    std::uint64_t offset, bytes;
  };
  static_assert(sizeof(Header) == 64 && sizeof(Entry) == 24);
  static constexpr std::uint64_t kMagic = 0x0A6D6165736B6F74;  // "tokseam\n" in little-endian order
  static constexpr std::size_t kChecksummed = offsetof(Header, format);

  static std::string name(Section section) { return std::to_string(static_cast<std::uint32_t>(section)); }

  template <class T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, data_.get() + offset, sizeof(T));
    return value;
  }

  const Entry* entry(Section section, std::uint32_t index) const {
    for (const Entry& one : entries_)
      if (one.section == static_cast<std::uint32_t>(section) && one.index == index) return &one;
    return nullptr;
  }

  std::shared_ptr<const std::byte> data_;
  std::size_t size_;
  std::span<const Entry> entries_;
};

// Gathers sections, and lays them out.
class ImageWriter {
 public:
  // Each section once.
  template <class T>
  void add(Section section, std::span<const T> values, std::uint32_t index = 0) {
    static_assert(std::is_trivially_copyable_v<T> && Image::kAlignment % alignof(T) == 0);
    const auto bytes = std::as_bytes(values);
    sections_.push_back({section, index, {bytes.begin(), bytes.end()}});
  }
  template <class T>
  void add(Section section, const std::vector<T>& values, std::uint32_t index = 0) {
    add(section, std::span<const T>(values), index);
  }
  void add(Section section, std::string_view bytes) { add(section, std::span<const char>(bytes)); }

  // All sections of another image but one.
  void add_all_but(const Image& image, Section left_out) {
    for (const Image::Entry& entry : image.entries_)
      if (entry.section != static_cast<std::uint32_t>(left_out))
        add(static_cast<Section>(entry.section), image.bytes().subspan(entry.offset, entry.bytes), entry.index);
  }

  // An image in memory of what was added so far. More may be added, for another one.
  Image finish(const Image::Key& key = {}) const {
    std::size_t size = aligned(sizeof(Image::Header) + sections_.size() * sizeof(Image::Entry));
    std::vector<Image::Entry> entries;
    for (const Added& added : sections_) {
      entries.push_back({static_cast<std::uint32_t>(added.section), added.index, size, added.bytes.size()});
      size = aligned(size + added.bytes.size());
    }
    const auto alignment = std::align_val_t{Image::kAlignment};
    std::shared_ptr<std::byte> data(static_cast<std::byte*>(::operator new(size, alignment)),
                                    [alignment](std::byte* p) { ::operator delete(p, alignment); });
    std::memset(data.get(), 0, size);
    std::memcpy(data.get() + sizeof(Image::Header), entries.data(), entries.size() * sizeof(Image::Entry));
    for (std::size_t i = 0; i < entries.size(); ++i)
      std::copy(sections_[i].bytes.begin(), sections_[i].bytes.end(), data.get() + entries[i].offset);
    Image::Header header{Image::kMagic, 0, kImageFormat, static_cast<std::uint32_t>(entries.size()), size, key};
    std::memcpy(data.get(), &header, sizeof(header));
    header.checksum = Image::checksum({data.get() + Image::kChecksummed, size - Image::kChecksummed});
    std::memcpy(data.get(), &header, sizeof(header));
    return Image(std::move(data), size, key);
  }

 private:
  struct Added {
    Section section;
    std::uint32_t index;
    std::vector<std::byte> bytes;
  };
  static std::size_t aligned(std::size_t at) {
    return (at + Image::kAlignment - 1) / Image::kAlignment * Image::kAlignment;
  }

  std::vector<Added> sections_;
};

}  // namespace tokseam
