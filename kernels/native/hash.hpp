// Hashes of keys in flat tables, for host code; device/hash.hpp has them. Not cryptographic: whoever looks a key up
// confirms a hit by the key itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "device/hash.hpp"

namespace tokseam {

using device::kOdd1, device::kOdd2;

namespace detail {

using device::mix;

inline std::uint64_t load8(const char* p) { return device::load8(reinterpret_cast<const std::uint8_t*>(p)); }
inline std::uint64_t load4(const char* p) { return device::load4(reinterpret_cast<const std::uint8_t*>(p)); }

}  // namespace detail

inline std::uint64_t hash_bytes(std::string_view key) {
  return device::hash_bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size());
}

using device::place_of;

}  // namespace tokseam
