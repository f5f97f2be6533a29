// The two large parts of a tokenizer.json, its model's vocabulary and merges, read out of the bytes; what remains is a
// small JSON text for others to understand.
//
// Strict: whatever is not plainly of the usual form (another shape, a name that is escaped or given twice, a merge
// whose parts or result the vocabulary lacks) reads as "not understood", never as something else. What is left over is
// not judged here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hash.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

namespace tokseam {

// Entries of a vocabulary: bytes one behind the other, where each ends, and its id.
struct EntryList {
  std::string bytes;
  std::vector<std::uint32_t> ends, ids;

  std::size_t size() const { return ids.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
  void add(std::string_view entry, std::uint32_t id) {
    bytes += entry;
    ends.push_back(static_cast<std::uint32_t>(bytes.size()));
    ids.push_back(id);
  }
};

class TokenizerJson {
 public:
  // Nothing where it is not understood.
  static std::optional<TokenizerJson> read(std::string_view content) {
    TokenizerJson made;
    Reader reader{content};
    Span vocabulary, merges;
    if (content.size() > kMostBytes || !made.read_all(reader, vocabulary, merges)) return std::nullopt;
    const bool in_order = vocabulary.begin < merges.begin;
    const Span& first = in_order ? vocabulary : merges;
    const Span& second = in_order ? merges : vocabulary;
    made.rest_ = std::string(content.substr(0, first.begin)) + (in_order ? "{}" : "[]") +
                 std::string(content.substr(first.end, second.begin - first.end)) + (in_order ? "[]" : "{}") +
                 std::string(content.substr(second.end));
    return made;
  }

  // The JSON text with an empty vocabulary and no merges.
  const std::string& rest() const { return rest_; }
  const EntryList& entries() const { return entries_; }
  // left, right, rank, merged id; repeated.
  const std::vector<std::uint32_t>& merges() const { return merges_; }

  // The id of an entry, or kNoId.
  std::uint32_t find(std::string_view entry) const {
    return find(entry, hash_bytes(entry));
  }

  // The entries that are spelled in `alphabet` alone, the 256 characters that stand for the bytes, as those bytes.
  EntryList byte_level(std::span<const std::uint32_t> alphabet) const {
    std::vector<std::uint16_t> byte_of(kAlphabetEnd, kNoByte);
    for (std::size_t byte = 0; byte < alphabet.size(); ++byte)
      if (alphabet[byte] < kAlphabetEnd) byte_of[alphabet[byte]] = static_cast<std::uint16_t>(byte);
    EntryList made;
    std::string bytes;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const std::string_view entry = entries_[i];
      bytes.clear();
      bool plain = !entry.empty();
      for (std::size_t at = 0; at < entry.size() && plain; at += utf8_width(entry[at])) {
        const std::uint32_t point = utf8_decode(entry.data() + at);
        plain = point < kAlphabetEnd && byte_of[point] != kNoByte;
        if (plain) bytes.push_back(static_cast<char>(byte_of[point]));
      }
      if (plain) made.add(bytes, entries_.ids[i]);
    }
    return made;
  }

  // The entries of at most `longest` bytes that occur in `text`.
  EntryList occurring(std::string_view text, std::size_t longest) const {
    // A sieve over the hashes of all substrings, so that few entries are searched for.
    std::vector<bool> known(kSieveBits);
    for (std::size_t begin = 0; begin < text.size(); ++begin)
      for (std::size_t n = 1; n <= longest && begin + n <= text.size(); ++n)
        known[hash_bytes(text.substr(begin, n)) % kSieveBits] = true;
    EntryList made;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const std::string_view entry = entries_[i];
      if (!entry.empty() && entry.size() <= longest && known[hash_bytes(entry) % kSieveBits] &&
          text.find(entry) != std::string_view::npos)
        made.add(entry, entries_.ids[i]);
    }
    return made;
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 31;
  static constexpr std::size_t kSieveBits = std::size_t{1} << 24;
  static constexpr std::uint32_t kAlphabetEnd = 0x180;
  static constexpr std::uint16_t kNoByte = 0xFFFF;

  struct Span {
    std::size_t begin = 0, end = 0;  // end == 0: not found
  };

  // A cursor over JSON text. Every method answers false, or nothing, where the text is not what it is to be.
  struct Reader {
    std::string_view text;
    std::size_t at = 0;
    std::string scratch = {};

    static constexpr int kDeepest = 64;

    char peek() {
      while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
      return at < text.size() ? text[at] : '\0';
    }
    bool take(char c) {
      if (peek() != c) return false;
      ++at;
      return true;
    }

    // A string between its quotes, as it is written. Sets `escaped`.
    std::optional<std::string_view> raw_string(bool& escaped) {
      if (!take('"')) return std::nullopt;
      const std::size_t begin = at;
      escaped = false;
      while (at + 8 <= text.size() && plain(detail::load8(text.data() + at))) at += 8;
      for (; at < text.size(); ++at) {
        const auto c = static_cast<unsigned char>(text[at]);
        if (c == '"') return text.substr(begin, at++ - begin);
        if (c < 0x20) return std::nullopt;
        if (c == '\\') escaped = true, ++at;
      }
      return std::nullopt;
    }

    // Whether eight bytes hold no quote, no backslash and no control character.
    // PERF: sets the high bit of the lowest byte that is one; bytes above it may be set wrongly, but never all are clear.
    static bool plain(std::uint64_t bytes) {
      constexpr std::uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
      const std::uint64_t quote = bytes ^ kOnes * '"', backslash = bytes ^ kOnes * '\\';
      const std::uint64_t found = ((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash) |
                                  ((bytes - kOnes * 0x20) & ~bytes);
      return (found & kHigh) == 0;
    }

    // A name that stands as it is meant.
    std::optional<std::string_view> name() {
      bool escaped = false;
      const auto raw = raw_string(escaped);
      if (!raw || escaped || !take(':')) return std::nullopt;
      return raw;
    }

    // A string's UTF-8, valid until the next one is read.
    std::optional<std::string_view> string() {
      bool escaped = false;
      const auto raw = raw_string(escaped);
      if (!raw) return std::nullopt;
      std::string_view meant = *raw;
      if (escaped) {
        if (!unescape(*raw)) return std::nullopt;
        meant = scratch;
      }
      if (!is_utf8(meant)) return std::nullopt;
      return meant;
    }

    bool unescape(std::string_view raw) {
      scratch.clear();
      for (std::size_t i = 0; i < raw.size(); ++i) {
        if (raw[i] != '\\') {
          scratch.push_back(raw[i]);
          continue;
        }
        if (++i >= raw.size()) return false;
        static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
        const std::size_t letter = kLetters.find(raw[i]);
        if (letter != std::string_view::npos) {
          scratch.push_back(kMeant[letter]);
          continue;
        }
        std::uint32_t point = 0, low = 0;
        if (raw[i] != 'u' || !hex4(raw, i + 1, point)) return false;
        i += 4;
        if (point >= 0xD800 && point < 0xDC00) {
          if (raw.substr(i + 1, 2) != "\\u" || !hex4(raw, i + 3, low) || low < 0xDC00 || low >= 0xE000) return false;
          point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
        if (!is_code_point(point)) return false;
        utf8_append(scratch, point);
      }
      return true;
    }

    static bool hex4(std::string_view raw, std::size_t from, std::uint32_t& value) {
      if (from + 4 > raw.size()) return false;
      value = 0;
      for (const char c : raw.substr(from, 4)) {
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return false;
        value = value << 4 | static_cast<std::uint32_t>(digit);
      }
      return true;
    }

    std::optional<std::uint32_t> id() {
      peek();
      const std::size_t begin = at;
      std::uint64_t value = 0;
      while (at < text.size() && text[at] >= '0' && text[at] <= '9' && at - begin < 10)
        value = value * 10 + static_cast<std::uint64_t>(text[at++] - '0');
      if (at == begin || (at - begin > 1 && text[begin] == '0') || value >= kNoId) return std::nullopt;
      const char after = peek();
      if (after != ',' && after != '}') return std::nullopt;
      return static_cast<std::uint32_t>(value);
    }

    bool skip_value(int depth = 0) {
      bool escaped = false;
      const char c = peek();
      if (c == '"') return raw_string(escaped).has_value();
      if (c == '{' || c == '[') {
        if (depth == kDeepest) return false;
        const char end = c == '{' ? '}' : ']';
        ++at;
        if (take(end)) return true;
        do {
          if (c == '{' && (!raw_string(escaped) || !take(':'))) return false;
          if (!skip_value(depth + 1)) return false;
        } while (take(','));
        return take(end);
      }
      const std::size_t begin = at;
      while (at < text.size() && std::string_view(",]} \n\t\r").find(text[at]) == std::string_view::npos) ++at;
      return at > begin;
    }

    // Reads the value that comes next by `read`, and notes where it lies.
    template <class Read>
    bool take_value(Span& span, Read&& read) {
      if (span.end != 0) return false;  // the name was there before
      peek();
      span.begin = at;
      if (!read()) return false;
      span.end = at;
      return true;
    }
  };

  bool read_all(Reader& reader, Span& vocabulary, Span& merges) {
    bool seen = false;
    if (!reader.take('{')) return false;
    do {
      const auto key = reader.name();
      if (!key) return false;
      if (*key != "model") {
        if (!reader.skip_value(1)) return false;
        continue;
      }
      if (seen || !reader.take('{') || !read_model(reader, vocabulary, merges)) return false;
      seen = true;
    } while (reader.take(','));
    return reader.take('}') && reader.peek() == '\0' && reader.at == reader.text.size() && vocabulary.end != 0 &&
           merges.end != 0;
  }

  // PERF: both large parts are read as they come, but for merges that stand before the vocabulary: those wait for it.
  bool read_model(Reader& reader, Span& vocabulary, Span& merges) {
    bool wait = false;
    do {
      const auto name = reader.name();
      if (!name) return false;
      if (*name == "vocab") {
        if (!reader.take_value(vocabulary, [&] { return read_vocabulary(reader); })) return false;
      } else if (*name == "merges") {
        wait = vocabulary.end == 0;
        if (!reader.take_value(merges, [&] { return wait ? reader.skip_value(2) : read_merges(reader); })) return false;
      } else if (!reader.skip_value(2)) {
        return false;
      }
    } while (reader.take(','));
    if (!reader.take('}')) return false;
    Reader waiting{reader.text.substr(0, merges.end), merges.begin};
    return !wait || vocabulary.end == 0 || read_merges(waiting);
  }

  static bool is_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      constexpr std::uint64_t kHigh = 0x8080808080808080;
      while (at + 8 <= text.size() && (detail::load8(text.data() + at) & kHigh) == 0) at += 8;
      if (at == text.size()) break;
      const auto lead = static_cast<unsigned char>(text[at]);
      if (lead < 0x80) {
        ++at;
        continue;
      }
      const std::size_t width = utf8_width(text[at]);
      if (lead < 0xC2 || lead > 0xF4 || at + width > text.size()) return false;
      for (std::size_t i = 1; i < width; ++i)
        if (!is_continuation(text[at + i])) return false;
      const std::uint32_t point = utf8_decode(text.data() + at);
      if (!is_code_point(point) || point < (width == 2 ? 0x80U : width == 3 ? 0x800U : 0x10000U)) return false;
      at += width;
    }
    return true;
  }

  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no number is as high
  static std::size_t number(std::uint64_t slot) { return static_cast<std::size_t>(slot >> 32); }

  std::uint32_t find(std::string_view entry, std::uint64_t hash) const {
    const std::uint64_t slot = slots_[place(entry, hash)];
    return slot == kFree ? kNoId : entries_.ids[number(slot)];
  }

  // Where `entry` stands in slots_, or the free place where it would.
  std::size_t place(std::string_view entry, std::uint64_t hash) const {
    std::size_t at = place_of(hash, slots_.size());
    while (slots_[at] != kFree && ((slots_[at] ^ hash) << 32 != 0 || entries_[number(slots_[at])] != entry))
      at = at + 1 == slots_.size() ? 0 : at + 1;
    return at;
  }

  bool read_vocabulary(Reader& reader) {
    if (!reader.take('{')) return false;
    if (!reader.take('}')) {
      do {
        const auto entry = reader.string();
        if (!entry) return false;
        entries_.bytes += *entry;
        if (!reader.take(':')) return false;
        const auto id = reader.id();
        if (!id) return false;
        entries_.ends.push_back(static_cast<std::uint32_t>(entries_.bytes.size()));
        entries_.ids.push_back(*id);
      } while (reader.take(','));
      if (!reader.take('}')) return false;
    }
    slots_.assign(2 * entries_.size() + 2, kFree);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const std::uint64_t hash = hash_bytes(entries_[i]);
      const std::size_t at = place(entries_[i], hash);
      if (slots_[at] != kFree) return false;  // an entry that is there twice
      slots_[at] = static_cast<std::uint64_t>(i) << 32 | (hash & 0xFFFFFFFF);
    }
    return true;
  }

  // "left right", or ["left", "right"].
  bool read_merges(Reader& reader) {
    if (!reader.take('[')) return false;
    if (reader.take(']')) return true;
    Batch batch;
    do {
      const std::size_t begin = batch.text.size();
      std::size_t middle = begin;
      if (reader.take('[')) {
        const auto left = reader.string();
        if (!left) return false;
        batch.text += *left;
        middle = batch.text.size();
        if (!reader.take(',')) return false;
        const auto right = reader.string();
        if (!right) return false;
        batch.text += *right;
        if (!reader.take(']')) return false;
      } else {
        const auto line = reader.string();
        if (!line || line->starts_with("#version")) return false;
        const std::size_t space = line->find(' ');
        if (space == std::string_view::npos || line->find(' ', space + 1) != std::string_view::npos) return false;
        batch.text += line->substr(0, space);
        middle = batch.text.size();
        batch.text += line->substr(space + 1);
      }
      batch.merges.push_back({begin, middle, batch.text.size()});
      if (batch.merges.size() == kBatch && !resolve(batch)) return false;
    } while (reader.take(','));
    return resolve(batch) && reader.take(']');
  }

  // Some merges that wait to be looked up together.
  // PERF: their places are fetched all at once, in place of waiting for memory three times a merge.
  static constexpr std::size_t kBatch = 64;
  struct Batch {
    std::string text = {};                              // the left part and the right one of each
    std::vector<std::array<std::size_t, 3>> merges = {};  // where the left part begins and ends, and the right one ends
  };

  bool resolve(Batch& batch) {
    std::array<std::string_view, 3 * kBatch> names;
    std::array<std::uint64_t, 3 * kBatch> hashes;
    std::array<std::size_t, 3 * kBatch> places;
    std::size_t count = 0;
    for (const auto& [begin, middle, end] : batch.merges) {
      const std::string_view whole = std::string_view(batch.text).substr(begin, end - begin);
      names[count++] = whole.substr(0, middle - begin);
      names[count++] = whole.substr(middle - begin);
      names[count++] = whole;
    }
    for (std::size_t i = 0; i < count; ++i) {
      hashes[i] = hash_bytes(names[i]);
      places[i] = place_of(hashes[i], slots_.size());
      __builtin_prefetch(slots_.data() + places[i]);
    }
    for (std::size_t i = 0; i < count; ++i)
      if (slots_[places[i]] != kFree) __builtin_prefetch(entries_.ends.data() + number(slots_[places[i]]));
    for (std::size_t i = 0; i < count; ++i)
      if (slots_[places[i]] != kFree)
        __builtin_prefetch(entries_.bytes.data() + entries_.ends[number(slots_[places[i]])]);
    for (std::size_t i = 0; i < count; i += 3) {
      const std::uint32_t left = find(names[i], hashes[i]), right = find(names[i + 1], hashes[i + 1]),
                          merged = find(names[i + 2], hashes[i + 2]);
      if (left == kNoId || right == kNoId || merged == kNoId) return false;
      merges_.insert(merges_.end(), {left, right, static_cast<std::uint32_t>(merges_.size() / 4), merged});
    }
    batch.text.clear();
    batch.merges.clear();
    return true;
  }

  std::string rest_;
  EntryList entries_;
  std::vector<std::uint64_t> slots_;  // an entry's number, and the low half of its hash
  std::vector<std::uint32_t> merges_;
};

}  // namespace tokseam
