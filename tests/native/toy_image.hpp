// Two small tokenizers with every kind of section, and images of them that lie: changed anywhere, with the checksum
// that fits what they say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "encoder.hpp"
#include "encoder_image.hpp"
#include "image.hpp"

namespace tokseam::test {

inline constexpr std::uint32_t kFirstLiteral = 300;

inline EncoderTables toy_base(std::string& bytes) {
  EncoderTables tables;
  tables.byte_ids.fill(kNoId);
  tables.added_tokens = {{"<s>", {.id = kFirstLiteral, .special = true}, false},
                         {"<w>", {.id = kFirstLiteral + 1, .lstrip = true, .rstrip = true, .single_word = true}, true}};
  tables.space_characters = {' ', '\t', 0x3000};
  tables.word_characters = {'a', 'b', 0xE9, 0x4E00};
  for (std::uint32_t b = 0; b < 256; ++b) {
    bytes.push_back(static_cast<char>(b));
    tables.vocabulary_ends.push_back(static_cast<std::uint32_t>(bytes.size()));
    tables.vocabulary_ids.push_back(b);
  }
  return tables;
}

// Stages over classes and over bytes, a composing normal form, a space in front.
inline Image toy_byte_image() {
  enum : std::uint8_t { kLetter, kSpace, kMark, kOther, kKinds };
  constexpr std::uint16_t m = Automaton::kMatch;
  std::string bytes;
  EncoderTables tables = toy_base(bytes);
  bytes += "abaa";
  tables.vocabulary_ends.insert(tables.vocabulary_ends.end(), {258, 260});
  tables.vocabulary_ids.insert(tables.vocabulary_ids.end(), {256, 257});
  tables.vocabulary_bytes = bytes;
  for (std::uint32_t b = 0; b < 256; ++b) tables.byte_ids[b] = b, tables.byte_classes[b] = b == '1' ? 1 : 0;
  tables.merges = {'a', 'b', 7, 256, 'a', 'a', 9, 257, ' ', ' ', 1, 32};
  tables.classes = {std::vector<std::uint8_t>(0x110000, kOther), std::vector<std::uint8_t>(kKinds * kKinds, 0),
                    {0, 0, 1, 0}};
  for (std::uint32_t c = 'a'; c <= 'z'; ++c) tables.classes.class_of[c] = kLetter;
  tables.classes.class_of[' '] = kSpace;
  tables.classes.class_of[0x301] = tables.classes.class_of[0x323] = tables.classes.class_of[0xE9] = kMark;
  tables.classes.pairs[kLetter * kKinds + kSpace] = 1;
  tables.stages = {{{0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2 | m, m, m, m, m}, 3, Behavior::isolated},
                   {{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, m, m, m, m, m}, 3, Behavior::merged_with_next}};
  tables.byte_stages = {{{0, 0, 0, 0, 2, 0, m, m, m}, 3, Behavior::isolated}};
  tables.normalizations = {{{0xE9}, {2}, {'e', 0x301}, {0x301, 0x323}, {230, 220}, {'e'}, {0x301}, {0xE9}, true, true}};
  tables.space_in_front = true;
  return build_image(tables);
}

// Characters of whole segments, with bytes for what the vocabulary lacks.
inline Image toy_character_image() {
  std::string bytes;
  EncoderTables tables = toy_base(bytes);
  bytes += "\xE2\x96\x81" "ab" "\xE2\x96\x81" "a";
  tables.vocabulary_ends.insert(tables.vocabulary_ends.end(), {259, 261, 265});
  tables.vocabulary_ids.insert(tables.vocabulary_ids.end(), {256, 257, 258});
  // Entries are text here: bytes beyond ASCII are none.
  std::string ascii;
  std::vector<std::uint32_t> ends, ids;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tables.vocabulary_ids.size(); ++i) {
    const std::size_t end = tables.vocabulary_ends[i];
    if (i < 0x80 || i >= 0x100) {
      ascii += bytes.substr(begin, end - begin);
      ends.push_back(static_cast<std::uint32_t>(ascii.size()));
      ids.push_back(tables.vocabulary_ids[i]);
    }
    begin = end;
  }
  tables.vocabulary_bytes = ascii;
  tables.vocabulary_ends = ends;
  tables.vocabulary_ids = ids;
  tables.classes = {std::vector<std::uint8_t>(0x110000, 0), {0}, {0}};
  tables.merges = {'a', 'b', 0, 257, 256, 'a', 1, 258};
  Characters::Tables characters{
      ' ', 0x2581, 0x2581, Characters::Prefix::unless_there, false, {}, {'>'}, {'<'}, {}, {}, {}};
  characters.joined = {std::uint64_t{'a'} << 32 | 'b', std::uint64_t{0x2581} << 32 | 'a'};
  for (std::uint32_t c = 0; c < 0x80; ++c) characters.characters.push_back(c), characters.character_ids.push_back(c);
  characters.characters.push_back(0x2581), characters.character_ids.push_back(256);
  for (std::uint32_t b = 0; b < 256; ++b) characters.byte_tokens[b] = 400 + b;
  tables.characters = characters;
  return build_image(tables);
}

// Bytes that may be changed; `open` makes an image of them.
class LyingImage {
 public:
  explicit LyingImage(const Image& image)
      : size_(image.bytes().size()),
        data_(static_cast<std::byte*>(::operator new(size_, kAlignment)),
              [](std::byte* p) { ::operator delete(p, kAlignment); }) {
    std::memcpy(data_.get(), image.bytes().data(), size_);
  }

  std::size_t size() const { return size_; }
  std::byte& operator[](std::size_t at) { return data_.get()[at]; }

  Image open() const { return Image(data_, size_, Image::Key{}); }

  // With the checksum of what stands there now.
  Image open_as_sound() const {
    const std::uint64_t checksum = Image::checksum({data_.get() + kChecksummed, size_ - kChecksummed});
    std::memcpy(data_.get() + kChecksum, &checksum, sizeof(checksum));
    return open();
  }

 private:
  static constexpr auto kAlignment = std::align_val_t{Image::kAlignment};
  static constexpr std::size_t kChecksum = 8, kChecksummed = 16;  // in the header (image.hpp)

  std::size_t size_;
  std::shared_ptr<std::byte> data_;
};

// Ask an encoder everything that it answers about a text.
inline std::size_t ask(const Encoder& encoder, std::string_view text) {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> cuts, marks;
  std::vector<std::int64_t> spans, starts;
  for (std::size_t at = encoder.next_cut(text, 1); at != kNoCut; at = encoder.next_cut(text, at + 1)) cuts.push_back(at);
  for (const bool split : {false, true}) encoder.encode(text, {.split_special = split}, cuts, ids, marks);
  encoder.spans(text, ids, spans);
  encoder.pieces(text, starts);
  return ids.size();
}

}  // namespace tokseam::test
