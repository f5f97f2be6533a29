// From the bytes of a whole piece to its id: a flat hash table, read-only once built.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace tokseam {

constexpr std::uint32_t kNoId = 0xFFFFFFFF;

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

// Not cryptographic: a hit is always confirmed byte by byte.
inline std::uint64_t hash_bytes(std::string_view key) {
  constexpr std::uint64_t kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD6E8FEB86659FD93;
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

class Vocabulary {
 public:
  explicit Vocabulary(std::size_t entries) {
    const std::size_t size = std::bit_ceil(entries * 2 + 16);
    slots_.assign(size, Slot{});
    mask_ = size - 1;
  }

  // `bytes` must outlive the table. A key that is there already keeps its first id.
  void insert(std::string_view bytes, std::uint32_t id) {
    const std::uint64_t hash = hash_bytes(bytes);
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      Slot& slot = slots_[at];
      if (slot.id == kNoId) {
        slot = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), id, hash};
        return;
      }
      if (slot.hash == hash && std::string_view(slot.bytes, slot.length) == bytes) return;
    }
  }

  std::uint32_t find(std::string_view bytes) const {
    const std::uint64_t hash = hash_bytes(bytes);
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.id == kNoId) return kNoId;
      if (slot.hash == hash && slot.length == bytes.size() &&
          std::memcmp(slot.bytes, bytes.data(), bytes.size()) == 0)
        return slot.id;
    }
  }

 private:
  struct Slot {
    const char* bytes = nullptr;
    std::uint32_t length = 0;
    std::uint32_t id = kNoId;  // kNoId: free
    std::uint64_t hash = 0;
  };
  std::vector<Slot> slots_;  // at most half full, so every probe ends
  std::size_t mask_ = 0;
};

}  // namespace tokseam
