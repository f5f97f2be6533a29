// A fresh text: what came before is recognised in large chunks, the rest encoded, on several cores if wanted. Exact by
// the theorem alone (kernels/README.md, claims 4 and 8).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "encoder.hpp"
#include "hash.hpp"
#include "known_chunks.hpp"
#include "parallel.hpp"

namespace tokseam {

namespace detail {

// In a shorter text nothing is looked for: encoding it takes some ten microseconds.
inline constexpr std::size_t kRecognisedBytes = std::size_t{1} << 14;
inline constexpr std::size_t kLeastChunkBytes = std::size_t{1} << 12, kMostChunkBytes = std::size_t{1} << 15;

// Where the chunk that begins at `begin` ends: at the first synchronizing position behind a line's end that the bytes
// behind it choose (one line in 64), so that the same passage is parted alike wherever it stands.
inline std::size_t chunk_end(const Encoder& encoder, std::string_view text, std::size_t begin) {
  if (text.size() - begin <= 2 * kLeastChunkBytes) return text.size();
  const std::size_t last = std::min(begin + kMostChunkBytes, text.size() - 8);
  std::size_t from = last;
  for (std::size_t at = begin + kLeastChunkBytes; at < last; ++at) {
    const void* line = std::memchr(text.data() + at, '\n', last - at);
    if (line == nullptr) break;
    at = static_cast<std::size_t>(static_cast<const char*>(line) - text.data());
    if (load8(text.data() + at) * kOdd1 >> 58 == 0) {
      from = at;
      break;
    }
  }
  const std::size_t cut = encoder.next_cut(text, utf8::boundary_at_or_after(text, from));
  return cut == kNoCut ? text.size() : cut;
}

}  // namespace detail

// Appends the ids of the whole text, encoded on at most `threads` threads.
inline void encode_fresh(const Encoder& encoder, std::string_view text, EncodeMode mode, std::size_t threads,
                         std::vector<std::uint32_t>& ids) {
  KnownChunks& known = encoder.known_chunks();
  if (text.size() < detail::kRecognisedBytes || !known.enabled())
    return encode_parallel(encoder, text, mode, threads, ids);
  struct Part {
    std::size_t begin, end;
    std::uint64_t hash, mode;
    KnownChunks::Found found;
    bool again;  // not known, but it came before
  };
  std::vector<Part> parts;
  bool any = false;
  for (std::size_t begin = 0; begin < text.size(); begin = parts.back().end) {
    const std::size_t end = detail::chunk_end(encoder, text, begin);
    const std::string_view chunk = text.substr(begin, end - begin);
    const std::uint64_t told = (mode.split_special ? 1U : 0U) | (mode.continued || begin > 0 ? 2U : 0U);
    Part part{begin, end, KnownChunks::hash_of(chunk, told), told, nullptr, false};
    part.found = known.find(part.hash, chunk, told);
    part.again = !part.found && known.seen(part.hash);
    any = any || part.found || part.again;
    parts.push_back(std::move(part));
  }
  if (!any) return encode_parallel(encoder, text, mode, threads, ids);

  ids.reserve(ids.size() + text.size() / kBytesPerId);
  std::vector<std::size_t> cuts, marks;
  for (std::size_t i = 0; i < parts.size();) {
    if (const KnownChunks::Found& found = parts[i].found) {
      ids.insert(ids.end(), found->ids.begin(), found->ids.end());
      ++i;
      continue;
    }
    // All that is not known from here on, and the ids before each chunk of it where any is to be kept.
    std::size_t stop = i;
    bool again = false;
    cuts.clear();
    for (; stop < parts.size() && !parts[stop].found; ++stop) {
      again = again || parts[stop].again;
      if (stop > i) cuts.push_back(parts[stop].begin - parts[i].begin);
    }
    const std::string_view rest = text.substr(parts[i].begin, parts[stop - 1].end - parts[i].begin);
    const EncodeMode inside{mode.split_special, mode.continued || i > 0};
    const std::size_t before = ids.size();
    if (!again) {
      encode_parallel(encoder, rest, inside, threads, ids);
    } else {
      encoder.encode(rest, inside, cuts, ids, marks);
      for (std::size_t k = i; k < stop; ++k) {
        const std::size_t from = k == i ? 0 : marks[k - i - 1];
        const std::size_t to = k + 1 == stop ? ids.size() - before : marks[k - i];
        if (!parts[k].again || from == kNoMark || to == kNoMark) continue;
        known.keep(parts[k].hash, text.substr(parts[k].begin, parts[k].end - parts[k].begin), parts[k].mode,
                   std::span(ids).subspan(before + from, to - from));
      }
    }
    i = stop;
  }
}

}  // namespace tokseam
