// Hashes of keys in flat tables. Not cryptographic: whoever looks a key up confirms a hit by the key itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tokseam {

inline constexpr std::uint64_t kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD6E8FEB86659FD93;

namespace detail {

__extension__ typedef unsigned __int128 Wide;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  // The high and the low half of the product, folded: every input bit reaches every output bit.
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t load8(const char* p) {
  std::uint64_t value;
  std::memcpy(&value, p, 8);
  return value;
}

inline std::uint64_t load4(const char* p) {
  std::uint32_t value;
  std::memcpy(&value, p, 4);
  return value;
}

}  // namespace detail

inline std::uint64_t hash_bytes(std::string_view key) {
  const char* p = key.data();
  const std::size_t n = key.size();
  std::uint64_t a = 0, b = 0;
  if (n > 16) {
    std::uint64_t sum = kOdd2 ^ n;
    std::size_t i = 0;
    for (; i + 16 < n; i += 16) sum = detail::mix(detail::load8(p + i) ^ sum, detail::load8(p + i + 8) ^ kOdd1);
    return detail::mix(detail::load8(p + n - 16) ^ sum, detail::load8(p + n - 8) ^ kOdd1);
  }
  if (n >= 8) {
    a = detail::load8(p), b = detail::load8(p + n - 8);
  } else if (n >= 4) {
    a = detail::load4(p), b = detail::load4(p + n - 4);
  } else if (n > 0) {
    const auto byte = [p](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(p[i])); };
    a = byte(0) << 16 | byte(n / 2) << 8 | byte(n - 1);
  }
  return detail::mix(a ^ kOdd1 ^ n, b ^ kOdd2);
}

// A place below `size`, which need not be a power of two, from the high bits of a hash.
inline std::size_t place_of(std::uint64_t hash, std::size_t size) {
  return static_cast<std::size_t>(static_cast<detail::Wide>(hash) * size >> 64);
}

}  // namespace tokseam
