// A file's bytes, read-only, shared with every process that maps the same file; read into memory where there is no
// mmap.
//
// A file must not be cut short while it is mapped: what lay behind its new end would be gone (SIGBUS). Who replaces one
// renames another over it; then the old bytes stay for those who have them.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#else
#include <fstream>
#include <new>
#endif

namespace tokseam {

struct FileBytes {
  std::shared_ptr<const std::byte> data;  // on a 64-byte boundary
  std::size_t size = 0;
};

// Throws std::runtime_error where the file can't be read.
#if defined(__unix__) || defined(__APPLE__)
inline FileBytes map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw std::runtime_error("can't be opened");
  struct stat status {};
  void* at = MAP_FAILED;
  std::size_t size = 0;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    size = static_cast<std::size_t>(status.st_size);
    int flags = MAP_SHARED;
#if defined(MAP_POPULATE)
    flags |= MAP_POPULATE;  // all of it is read at once anyhow, for the checksum
#endif
    at = ::mmap(nullptr, size, PROT_READ, flags, file, 0);
  }
  ::close(file);
  if (at == MAP_FAILED) throw std::runtime_error("can't be mapped");
  // SAFETY: [at, at + size) is ours until the last owner lets go of it.
  const auto unmap = [size](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), size); };
  return {{static_cast<const std::byte*>(at), unmap}, size};
}
#else
inline FileBytes map_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto end = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  if (end <= 0) throw std::runtime_error("can't be read");
  constexpr auto kAlignment = std::align_val_t{64};
  std::shared_ptr<std::byte> data(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(end), kAlignment)),
                                  [](std::byte* p) { ::operator delete(p, kAlignment); });
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(data.get()), end)) throw std::runtime_error("can't be read");
  return {std::move(data), static_cast<std::size_t>(end)};
}
#endif

}  // namespace tokseam
