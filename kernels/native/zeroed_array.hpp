// A large array that begins as zeros, of which no page is there before it is touched; one that is looked into all over
// may lie in large pages, where the system has some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#define TOKSEAM_MAPS_MEMORY 1
#else
#include <cstdlib>
#endif

namespace tokseam {

// A T of zeros is an empty one.
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  // Throws std::bad_alloc.
  explicit ZeroedArray(std::size_t count) : bytes_(count * sizeof(T)) {
#if defined(TOKSEAM_MAPS_MEMORY)
    // From a large page's begin on: what is too much in front and behind is never touched.
    mapped_ = ::mmap(nullptr, bytes_ + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    const auto begin = (reinterpret_cast<std::uintptr_t>(mapped_) + kLargePage - 1) / kLargePage * kLargePage;
    values_ = reinterpret_cast<T*>(begin);
#else
    mapped_ = std::calloc(count, sizeof(T));
    if (mapped_ == nullptr) throw std::bad_alloc();
    values_ = static_cast<T*>(mapped_);
#endif
  }

  ~ZeroedArray() {
#if defined(TOKSEAM_MAPS_MEMORY)
    ::munmap(mapped_, bytes_ + kLargePage);
#else
    std::free(mapped_);
#endif
  }

  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  T* get() { return values_; }
  const T* get() const { return values_; }
  T& operator[](std::size_t i) { return values_[i]; }
  const T& operator[](std::size_t i) const { return values_[i]; }

  // Have what is not there yet come in large pages: fewer are looked up, and all of them are soon there.
  void in_large_pages() {
#if defined(TOKSEAM_MAPS_MEMORY) && defined(MADV_HUGEPAGE)
    ::madvise(values_, bytes_, MADV_HUGEPAGE);  // a wish: nothing depends on it
#endif
  }

 private:
  static constexpr std::size_t kLargePage = std::size_t{1} << 21;

  std::size_t bytes_;
  void* mapped_;
  T* values_;
};

}  // namespace tokseam
