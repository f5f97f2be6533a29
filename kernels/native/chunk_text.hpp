// The texts of chunks, whether they keep them or are spelled from their ids.
// Not here: which chunks keep theirs (chunk_plan.hpp), and the bytes of an id (spellings.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

#include "chunk.hpp"
#include "spellings.hpp"

namespace tokseam {

// What spells for as long as one operation looks at chunks. Holds the texts of the last two that had to be spelled: a
// change looks at the chunk where it begins and the one where it ends, several times. Chunks outlive it.
class ChunkTexts {
 public:
  explicit ChunkTexts(const Spellings& spellings) : spellings_(&spellings) {}

  // The chunk's text. It stays where it is until two other chunks were asked about.
  std::string_view of(const Chunk& chunk) {
    if (chunk.keeps_text()) return chunk.kept_text();
    if (spelled_[latest_].chunk != &chunk) {
      latest_ = 1 - latest_;
      if (spelled_[latest_].chunk != &chunk) spell(chunk, spelled_[latest_]);
    }
    return {spelled_[latest_].text, chunk.byte_count()};
  }

  // The byte offset of code point `n` of the chunk, n <= its code points. A text of ASCII need not be looked at.
  std::size_t offset_of(const Chunk& chunk, std::size_t n) {
    const Sums sums = chunk.sums();
    if (n == sums.chars) return sums.bytes;
    return sums.chars == sums.bytes ? n : utf8::offset_of_code_point(of(chunk), n);
  }
  // Code points in its first `n` bytes. Counted at the nearer end.
  std::size_t chars_before(const Chunk& chunk, std::size_t n) {
    const Sums sums = chunk.sums();
    if (sums.chars == sums.bytes) return n;
    return n <= sums.bytes / 2 ? utf8::count_code_points(of(chunk).substr(0, n))
                               : sums.chars - utf8::count_code_points(of(chunk).substr(n));
  }

 private:
  struct Spelled {
    const Chunk* chunk = nullptr;
    const char* text = nullptr;
    Spellings::Room room;
  };

  void spell(const Chunk& chunk, Spelled& spelled) const {
    spelled.chunk = nullptr;
    char* text = spelled.room.of(chunk.byte_count());
    std::array<std::uint32_t, 512> ids;
    std::size_t size = 0;
    for (std::size_t at = 0; at < chunk.id_count() && size <= chunk.byte_count(); at += ids.size()) {
      const std::size_t count = std::min(ids.size(), chunk.id_count() - at);
      chunk.copy_ids(at, at + count, ids.data());
      size += spellings_->write(std::span(ids).first(count), text + size, chunk.byte_count() - size);
    }
    // It was compared when the chunk was made (chunk_plan.hpp); other spellings than those would be a broken engine.
    if (size != chunk.byte_count()) throw std::logic_error("a chunk's ids do not spell its text");
    spelled.chunk = &chunk;
    spelled.text = text;
  }

  const Spellings* spellings_;      // never null; not owned
  std::array<Spelled, 2> spelled_;
  std::size_t latest_ = 0;  // the one of them that was asked about last
};

}  // namespace tokseam
