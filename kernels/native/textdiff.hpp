// What two texts share at their ends, compared at memory speed.
// Works on the three storage widths of a Python str; knows nothing of Python itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tokseam {

// A view of a string whose code points are stored in units of `width` bytes (1, 2 or 4).
struct CodePoints {
  const void* data;
  std::size_t length;  // code points
  int width;           // bytes a code point

  std::uint32_t operator[](std::size_t i) const {
    switch (width) {
      case 1: return static_cast<const std::uint8_t*>(data)[i];
      case 2: return static_cast<const std::uint16_t*>(data)[i];
      default: return static_cast<const std::uint32_t*>(data)[i];
    }
  }
};

struct SharedEnds {
  std::size_t prefix;  // code points
  std::size_t suffix;  // code points; prefix + suffix never exceeds the shorter text
};

namespace detail {

// PERF: units of two widths are compared a block at a time without an exit, which the compiler turns into vector code.
constexpr std::size_t kBlockUnits = 64;

template <class A, class B>
bool equal_blocks(const A* a, const B* b) {
  std::uint32_t different = 0;
  for (std::size_t i = 0; i < kBlockUnits; ++i)
    different |= static_cast<std::uint32_t>(a[i]) ^ static_cast<std::uint32_t>(b[i]);
  return different == 0;
}

// PERF: memcmp over blocks, large ones and then small ones, then a scan of the block that differs. One unit at a time
// would be bound by the loop.
constexpr std::size_t kBlockBytes = 4096, kSmallBlockBytes = 64;

inline std::size_t equal_bytes_forward(const std::uint8_t* a, const std::uint8_t* b, std::size_t n) {
  std::size_t i = 0;
  for (const std::size_t block : {kBlockBytes, kSmallBlockBytes})
    while (i + block <= n && std::memcmp(a + i, b + i, block) == 0) i += block;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

inline std::size_t equal_bytes_backward(const std::uint8_t* a_end, const std::uint8_t* b_end, std::size_t n) {
  std::size_t i = 0;
  for (const std::size_t block : {kBlockBytes, kSmallBlockBytes})
    while (i + block <= n && std::memcmp(a_end - i - block, b_end - i - block, block) == 0) i += block;
  while (i < n && a_end[-1 - static_cast<std::ptrdiff_t>(i)] == b_end[-1 - static_cast<std::ptrdiff_t>(i)]) ++i;
  return i;
}

template <class A, class B>
std::size_t equal_units_forward(const A* a, const B* b, std::size_t n) {
  if constexpr (sizeof(A) == 1 && sizeof(B) == 1) {
    return equal_bytes_forward(a, b, n);
  } else {
    std::size_t i = 0;
    while (i + kBlockUnits <= n && equal_blocks(a + i, b + i)) i += kBlockUnits;
    while (i < n && static_cast<std::uint32_t>(a[i]) == static_cast<std::uint32_t>(b[i])) ++i;
    return i;
  }
}

template <class A, class B>
std::size_t equal_units_backward(const A* a_end, const B* b_end, std::size_t n) {
  if constexpr (sizeof(A) == 1 && sizeof(B) == 1) {
    return equal_bytes_backward(a_end, b_end, n);
  } else {
    std::size_t i = 0;
    while (i + kBlockUnits <= n && equal_blocks(a_end - i - kBlockUnits, b_end - i - kBlockUnits)) i += kBlockUnits;
    while (i < n && static_cast<std::uint32_t>(*(a_end - 1 - i)) == static_cast<std::uint32_t>(*(b_end - 1 - i))) ++i;
    return i;
  }
}

template <class F>
auto with_units(const CodePoints& s, F&& f) {
  switch (s.width) {
    case 1: return f(static_cast<const std::uint8_t*>(s.data));
    case 2: return f(static_cast<const std::uint16_t*>(s.data));
    default: return f(static_cast<const std::uint32_t*>(s.data));
  }
}

}  // namespace detail

// The longest common prefix, then the longest common suffix of what is left, in code points.
inline SharedEnds shared_ends(const CodePoints& a, const CodePoints& b) {
  const std::size_t n = std::min(a.length, b.length);
  std::size_t prefix = 0;
  std::size_t suffix = 0;
  if (a.width == b.width) {
    const auto width = static_cast<std::size_t>(a.width);
    const auto* pa = static_cast<const std::uint8_t*>(a.data);
    const auto* pb = static_cast<const std::uint8_t*>(b.data);
    prefix = detail::equal_bytes_forward(pa, pb, n * width) / width;
    suffix = detail::equal_bytes_backward(pa + a.length * width, pb + b.length * width, (n - prefix) * width) / width;
  } else {
    detail::with_units(a, [&](const auto* pa) {
      detail::with_units(b, [&](const auto* pb) {
        prefix = detail::equal_units_forward(pa, pb, n);
        suffix = detail::equal_units_backward(pa + a.length, pb + b.length, n - prefix);
      });
    });
  }
  return {prefix, suffix};
}

}  // namespace tokseam
