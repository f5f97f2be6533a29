// A large text in chunks that are worth recognising, and which of them are known (known_chunks.hpp). Exact by the
// theorem alone (kernels/README.md, claims 4 and 8): each chunk ends at a synchronizing position of its text, or with
// it.
// Not here: what becomes of the chunks (fresh_text.hpp, marked_encode.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "encoder.hpp"
#include "hash.hpp"
#include "known_chunks.hpp"
#include "utf8.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tokseam {

// In a shorter text nothing is looked for: encoding it takes some ten microseconds.
inline constexpr std::size_t kRecognisedBytes = std::size_t{1} << 14;

namespace detail {

inline constexpr std::size_t kLeastChunkBytes = std::size_t{1} << 12, kMostChunkBytes = std::size_t{1} << 15;

// Which of 64 bytes end a line, the first one in the lowest bit.
inline std::uint64_t line_ends(const char* bytes) {
  std::uint64_t ends = 0;
#if defined(__SSE2__)
  const __m128i newline = _mm_set1_epi8('\n');
  for (int quarter = 0; quarter < 4; ++quarter) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + quarter);
    const auto equal = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(some, newline)));
    ends |= std::uint64_t{equal} << 16 * quarter;
  }
#else
  for (int at = 0; at < 64; ++at) ends |= std::uint64_t{bytes[at] == '\n'} << at;
#endif
  return ends;
}

// The first line's end in [from, last) that the bytes behind it choose (one line in 64), or `last`. Eight bytes may be
// read from there.
// PERF: 64 bytes at a time, not a call a line: a million characters of code are parted in 0.06 ms in place of 0.16.
inline std::size_t chosen_line(std::string_view text, std::size_t from, std::size_t last) {
  const auto chosen = [&](std::size_t line) { return load8(text.data() + line) * kOdd1 >> 58 == 0; };
  for (; last - from >= 64; from += 64)
    for (std::uint64_t ends = line_ends(text.data() + from); ends != 0; ends &= ends - 1) {
      const std::size_t line = from + static_cast<std::size_t>(std::countr_zero(ends));
      if (chosen(line)) return line;
    }
  for (; from < last; ++from)
    if (text[from] == '\n' && chosen(from)) return from;
  return last;
}

// Where the chunk that begins at `begin` ends: at the first synchronizing position behind a chosen line, so that the
// same passage is parted alike wherever it stands.
inline std::size_t chunk_end(const Encoder& encoder, std::string_view text, std::size_t begin) {
  if (text.size() - begin <= 2 * kLeastChunkBytes) return text.size();
  const std::size_t last = std::min(begin + kMostChunkBytes, text.size() - 8);
  const std::size_t from = chosen_line(text, begin + kLeastChunkBytes, last);
  const std::size_t cut = encoder.next_cut(text, utf8::boundary_at_or_after(text, from));
  return cut == kNoCut ? text.size() : cut;
}

// Whether a recognised chunk's text goes on in `rest`, and may end there: at the text's end, or where this text has a
// synchronizing position too. A short one (it ended a text) would leave crumbs inside another.
inline bool goes_on(const Encoder& encoder, std::string_view rest, std::uint64_t mode,
                    const KnownChunks::Chunk& chunk) {
  const std::size_t size = chunk.text.size();
  if (chunk.mode != mode || !rest.starts_with(chunk.view())) return false;
  if (rest.size() == size) return true;
  if (size < kLeastChunkBytes) return false;
  // The two characters that meet there decide.
  return encoder.next_cut(rest.substr(0, size + utf8_width(rest[size])), size) == size;
}

// PERF: where a processor begins to read, it waits; further on it sees by itself what comes.
template <class T>
inline void prefetch_begin(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  for (std::size_t line = 0; line < 8; ++line) __builtin_prefetch(bytes + 64 * line);
}

}  // namespace detail

// A chunk of a text.
struct TextPart {
  std::size_t begin, end;
  std::uint64_t hash, mode;
  KnownChunks::Found found;  // null: not known
  bool again;                // not known, but it came before
};

// PERF: behind a recognised chunk stands what stood there last time, nearly always: then neither its end nor its hash
// is looked for.
inline std::vector<TextPart> part_text(const Encoder& encoder, std::string_view text, EncodeMode mode) {
  KnownChunks& known = encoder.known_chunks();
  std::vector<TextPart> parts;
  std::array<KnownChunks::Found, 16> run;
  std::size_t run_at = 0, run_end = 0;
  for (std::size_t begin = 0; begin < text.size(); begin = parts.back().end) {
    const std::uint64_t told = (mode.split_special ? 1U : 0U) | (mode.continued || begin > 0 ? 2U : 0U);
    if (run_at == run_end && !parts.empty() && parts.back().found) {
      run_at = 0;
      run_end = known.behind(parts.back().hash, run);
    }
    if (run_at < run_end) {
      KnownChunks::Found& next = run[run_at++];
      if (run_at < run_end) detail::prefetch_begin(run[run_at]->text);
      if (detail::goes_on(encoder, text.substr(begin), told, *next)) {
        const std::uint64_t hash = next->hash;
        parts.push_back({begin, begin + next->text.size(), hash, told, std::move(next), false});
        continue;
      }
      run_at = run_end = 0;
    }
    const std::size_t end = detail::chunk_end(encoder, text, begin);
    const std::string_view chunk = text.substr(begin, end - begin);
    TextPart part{begin, end, KnownChunks::hash_of(chunk, told), told, nullptr, false};
    part.found = known.find(part.hash, chunk, told);
    part.again = !part.found && known.seen(part.hash);
    parts.push_back(std::move(part));
  }
  return parts;
}

// Told when all parts of a text are dealt with.
inline void note_parts(KnownChunks& known, std::span<const TextPart> parts) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(parts.size());
  for (const TextPart& part : parts) hashes.push_back(part.hash);
  known.came(hashes);
}

}  // namespace tokseam
