// From ids back to the text that they stand for.
// Most bytes lie in the vocabulary already (vocabulary.hpp): here stands where. What is not there, or lies out of order,
// is kept apart.
// It promises nothing: an id may be missing, or stand for other text than its bytes (what took white space along, what
// was normalized). Who keeps ids in place of a text compares first: spells().
// Not here: decoding for people, which the reference does (kernels/reference.py).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "image.hpp"
#include "vocabulary.hpp"

namespace tokseam {

class Spellings {
 public:
  // How the vocabulary writes a character that text has in another way: at the begin of an entry, `replacement` stands
  // for the one byte `replaced`. No replacement: it writes all as text does.
  struct Marker {
    std::string replacement;  // at most four bytes
    char replaced = 0;
  };

  // The texts of ids, and the vocabulary as Vocabulary::write() laid it out. Texts that are too long are left out.
  static void write(ImageWriter& writer, const std::map<std::uint32_t, std::string>& texts,
                    const Vocabulary& vocabulary, const Marker& marker) {
    std::vector<std::uint16_t> offsets;
    std::vector<std::uint32_t> bases;
    constexpr std::uint32_t kNoBase = 0xFFFFFFFF;
    const device::Vocabulary& table = vocabulary.table();
    std::size_t at = 0;  // of an entry's head
    while (at < table.stored_bytes) {
      const auto place = [&](std::string_view entry, std::uint32_t id) {
        const auto text = texts.find(id);
        if (text == texts.end() || text->second != text_of(entry, marker) || entry.size() >= table.long_length() ||
            entry.size() > kLongest || id >= kMostIds || at + kWord + kLongest + kSlack > table.stored_bytes)
          return false;
        const std::size_t block = id / kBlock;
        if (block >= bases.size()) {
          bases.resize(block + 1, kNoBase);
          offsets.resize(bases.size() * kBlock, kApart);
        }
        if (bases[block] == kNoBase) bases[block] = static_cast<std::uint32_t>(at);
        if (at >= bases[block] && at - bases[block] < kApart)
          offsets[id] = static_cast<std::uint16_t>(at - bases[block]);
        return false;
      };
      at = vocabulary.for_each(place, at);  // one entry
    }
    std::ranges::replace(bases, kNoBase, std::uint32_t{0});
    std::vector<std::uint32_t> apart_ids, apart_ends;
    std::vector<char> apart;
    for (const auto& [id, text] : texts) {
      if ((id < offsets.size() && offsets[id] != kApart) || text.empty() || text.size() > kLongest) continue;
      apart_ids.push_back(id);
      apart.insert(apart.end(), text.begin(), text.end());
      apart_ends.push_back(static_cast<std::uint32_t>(apart.size()));
    }
    apart.insert(apart.end(), kSlack, '\0');
    std::array<char, kWord> word{};
    std::ranges::copy(marker.replacement, word.begin());
    std::uint32_t replacement = 0;
    std::memcpy(&replacement, word.data(), kWord);
    writer.add(Section::spelling_settings,
               std::vector<std::uint32_t>{static_cast<std::uint32_t>(marker.replacement.size()), replacement,
                                          static_cast<std::uint8_t>(marker.replaced)});
    writer.add(Section::spelling_offsets, offsets);
    writer.add(Section::spelling_bases, bases);
    writer.add(Section::spelling_apart_ids, apart_ids);
    writer.add(Section::spelling_apart_ends, apart_ends);
    writer.add(Section::spelling_apart_bytes, apart);
  }

  Spellings(const Image& image, const Vocabulary& vocabulary)
      : stored_(reinterpret_cast<const char*>(vocabulary.table().stored)),
        id_bits_(vocabulary.table().id_bits),
        offsets_(image.get<std::uint16_t>(Section::spelling_offsets)),
        bases_(image.get_sized<std::uint32_t>(Section::spelling_bases, offsets_.size() / kBlock)),
        apart_ids_(image.get<std::uint32_t>(Section::spelling_apart_ids)),
        apart_ends_(image.get_sized<std::uint32_t>(Section::spelling_apart_ends, apart_ids_.size())),
        apart_(image.get<char>(Section::spelling_apart_bytes)) {
    const auto settings = image.get_sized<std::uint32_t>(Section::spelling_settings, 3);
    Image::require(settings[0] <= kWord && settings[2] < 0x80, Section::spelling_settings);
    marker_bytes_ = settings[0];
    marker_ = settings[1];
    marker_mask_ = static_cast<std::uint32_t>((std::uint64_t{1} << 8 * marker_bytes_) - 1);
    replaced_ = static_cast<char>(settings[2]);
    Image::require(offsets_.size() % kBlock == 0, Section::spelling_offsets);
    const std::size_t behind = kWord + kLongest + kSlack;
    for (std::size_t block = 0; block < bases_.size(); ++block) {
      std::size_t furthest = 0;
      bool any = false;
      for (const std::uint16_t offset : offsets_.subspan(block * kBlock, kBlock)) {
        const bool placed = offset != kApart;
        any |= placed;
        furthest = std::max<std::size_t>(furthest, placed ? offset : 0);
      }
      Image::require(!any || bases_[block] + furthest + behind <= vocabulary.table().stored_bytes,
                     Section::spelling_bases);
    }
    std::uint32_t end_before = 0;
    for (const std::uint32_t end : apart_ends_) {
      Image::require(end >= end_before && end - end_before <= kLongest && end + kSlack <= apart_.size(),
                     Section::spelling_apart_ends);
      end_before = end;
    }
    Image::require(apart_.size() >= kSlack, Section::spelling_apart_bytes);
  }

  // Bytes: what is copied at once, and of the longest spelling; ids between two looks at the room; and so the bytes that
  // write() may put behind it.
  static constexpr std::size_t kSlack = 16, kLongest = 511, kTogether = 4, kBeyond = kTogether * kLongest + kSlack;

  // Writes the bytes of the ids, one behind the other, to `out`, until there are none or more than `most` bytes; an id
  // that is missing has none. There must be room for kBeyond bytes more. Returns how many bytes were written.
  std::size_t write(std::span<const std::uint32_t> ids, char* out, std::size_t most) const {
    return marker_bytes_ > 0 ? write<true>(ids, out, most) : write<false>(ids, out, most);
  }

  // Room for write(). PERF: most chunks' texts fit without an allocation, which costs as much as spelling one.
  class Room {
   public:
    Room() {}  // what it holds is not cleared
    // For texts of `most` bytes, and what may come behind them. What it held is gone.
    char* of(std::size_t most) {
      const std::size_t bytes = most + kBeyond;
      if (bytes <= few_.size()) return few_.data();
      if (bytes > many_bytes_) {
        many_bytes_ = 0;
        many_ = std::make_unique_for_overwrite<char[]>(bytes);
        many_bytes_ = bytes;
      }
      return many_.get();
    }

   private:
    std::array<char, std::size_t{1} << 13> few_;
    std::unique_ptr<char[]> many_;
    std::size_t many_bytes_ = 0;  // of many_
  };

  // Whether the bytes of all ids are just `text`.
  bool spells(std::span<const std::uint32_t> ids, std::string_view text) const {
    Room room;
    char* spelled = room.of(text.size());
    const std::size_t size = write(ids, spelled, text.size());
    return size == text.size() && std::memcmp(spelled, text.data(), size) == 0;
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uint32_t);
  static constexpr std::size_t kBlock = 64;            // ids of one base
  static constexpr std::uint16_t kApart = 0xFFFF;      // an offset that is none
  static constexpr std::uint32_t kMostIds = 1u << 20;  // that have an offset: two MB of them

  struct Bytes {
    const char* from;  // of which kSlack may be read behind the last one
    std::size_t length;
    bool marked = false;  // the replaced byte comes first
  };

  static std::string text_of(std::string_view entry, const Marker& marker) {
    if (marker.replacement.empty() || !entry.starts_with(marker.replacement)) return std::string(entry);
    return marker.replaced + std::string(entry.substr(marker.replacement.size()));
  }

  // SAFETY: an image may lie about where entries are and how long. The constructor saw that every place has kLongest and
  // kSlack bytes behind it, and here no length is longer.
  template <bool Markers>
  Bytes bytes_of(std::uint32_t id) const {
    if (id >= offsets_.size() || offsets_[id] == kApart) [[unlikely]]
      return apart(id);
    const char* at = stored_ + bases_[id / kBlock] + offsets_[id];
    std::uint32_t head = 0;
    std::memcpy(&head, at, kWord);
    Bytes bytes{at + kWord, head >> id_bits_ & kLongest};
    if constexpr (Markers) {
      std::uint32_t first = 0;
      std::memcpy(&first, bytes.from, kWord);
      bytes.marked = (first & marker_mask_) == marker_ && bytes.length >= marker_bytes_;
      const std::size_t skipped = bytes.marked ? marker_bytes_ : 0;
      bytes.from += skipped;
      bytes.length -= skipped;
    }
    return bytes;
  }

  [[gnu::noinline]] Bytes apart(std::uint32_t id) const {
    const auto found = std::ranges::lower_bound(apart_ids_, id);
    if (found == apart_ids_.end() || *found != id) return {apart_.data(), 0};
    const auto index = static_cast<std::size_t>(found - apart_ids_.begin());
    const std::size_t begin = index == 0 ? 0 : apart_ends_[index - 1];
    return {apart_.data() + begin, apart_ends_[index] - begin};
  }

  // PERF: sixteen bytes whatever the length, so that a branch waits for the few long ones alone, and the next id for
  // nothing but where it begins; the room is looked at now and then. 1.0 ns an id, 1.7 with all checks at each.
  template <bool Markers>
  std::size_t write(std::span<const std::uint32_t> ids, char* const out, std::size_t most) const {
    char* to = out;
    while (!ids.empty() && static_cast<std::size_t>(to - out) <= most) {
      const auto some = ids.first(std::min(ids.size(), kTogether));
      ids = ids.subspan(some.size());
      for (const std::uint32_t id : some) {
        const Bytes bytes = bytes_of<Markers>(id);
        if constexpr (Markers) {
          *to = replaced_;
          to += bytes.marked;
        }
        std::memcpy(to, bytes.from, kSlack);
        if (bytes.length > kSlack) [[unlikely]]
          for (std::size_t at = kSlack; at < bytes.length; at += kSlack)
            std::memcpy(to + at, bytes.from + at, kSlack);
        to += bytes.length;
      }
    }
    return static_cast<std::size_t>(to - out);
  }

  const char* stored_;  // the vocabulary's entries
  std::uint32_t id_bits_;
  std::uint32_t marker_bytes_, marker_, marker_mask_;  // the replacement, in the lowest bytes
  char replaced_;
  std::span<const std::uint16_t> offsets_;    // by id, whole blocks of them: from the base of its block to its entry's head; kApart
  std::span<const std::uint32_t> bases_;      // of kBlock ids each
  std::span<const std::uint32_t> apart_ids_;  // they ascend
  std::span<const std::uint32_t> apart_ends_;
  std::span<const char> apart_;
};

}  // namespace tokseam
