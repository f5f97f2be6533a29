// Python's values as the engine's and back: texts, arrays, lists. Included by the files that know Python alone.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kept_memory.hpp"
#include "textdiff.hpp"
#include "to_utf8.hpp"

namespace tokseam::python {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<nb::numpy, T>;
template <class T>
using Input = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;

// Hand a vector over to numpy without copying it.
template <class T>
Array<T> to_numpy(std::vector<T> values, std::size_t columns = 1) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept {
    const std::unique_ptr<std::vector<T>> done(static_cast<std::vector<T>*>(p));
    if constexpr (std::is_same_v<T, std::uint32_t>) kept_ids().give_back(std::move(*done));
  });
  if (columns > 1) return Array<T>(owned->data(), {owned->size() / columns, columns}, owner);
  return Array<T>(owned->data(), {owned->size()}, owner);
}

template <class T>
std::vector<T> to_vector(const Input<T>& values) {
  return std::vector<T>(values.data(), values.data() + values.size());
}

// The Python numbers of ids, one object an id, shared by all lists that hold the id.
// PERF: making a number takes longer than everything else about a list of them, and 32 bytes; few distinct ids make up
// most of any text. Numbers and their places lie anywhere, so they are asked for ahead: out of caches that others
// emptied, a list of 360 ids takes 7 us, without that 9 (the client's last step of `python -m bench roundtrip`, cold).
// Guarded by the GIL.
class IdNumbers {
 public:
  // A new reference. Raises MemoryError.
  static PyObject* of(std::uint32_t id) {
    if (id >= kEntries) return made(id);
    PyObject*& number = numbers_[id];
    if (number == nullptr) number = made(id);
    Py_INCREF(number);
    return number;
  }
  // Asks for what of() will touch: first the place, and once that is here what it points at.
  static void ask_for_place(std::uint32_t id) { __builtin_prefetch(&numbers_[id % kEntries]); }
  static void ask_for_number(std::uint32_t id) { __builtin_prefetch(numbers_[id % kEntries], 1); }

 private:
  static PyObject* made(std::uint32_t id) {
    PyObject* number = PyLong_FromUnsignedLong(id);
    if (number == nullptr) throw nb::python_error();
    return number;
  }

  // All vocabularies known have fewer or hardly more ids. 2 MiB of addresses, of which only what is used becomes
  // memory.
  static constexpr std::size_t kEntries = std::size_t{1} << 18;
  static inline PyObject* numbers_[kEntries];  // null until an id is asked for; kept from then on
};

// Puts `values` into `list` from `at` on; those places must be fresh. Raises MemoryError.
inline void put_ids(nb::handle list, std::size_t at, std::span<const std::uint32_t> values) {
  constexpr std::size_t kPlacesAhead = 32, kNumbersAhead = 16;
  const std::size_t count = values.size();
  for (const std::uint32_t value : values.first(std::min(count, kPlacesAhead))) IdNumbers::ask_for_place(value);
  for (const std::uint32_t value : values.first(std::min(count, kNumbersAhead))) IdNumbers::ask_for_number(value);
  for (std::size_t k = 0; k < count; ++k) {
    if (count - k > kPlacesAhead) IdNumbers::ask_for_place(values[k + kPlacesAhead]);
    if (count - k > kNumbersAhead) IdNumbers::ask_for_number(values[k + kNumbersAhead]);
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(at++), IdNumbers::of(values[k]));
  }
}

// A list of so many places, all of them to be filled at once.
inline nb::list fresh_list(std::size_t size) {
  nb::list list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(size)));
  if (!list.is_valid()) throw nb::python_error();
  return list;
}

// Ids as bytes and back: little-endian uint32, the wire's form.
static_assert(std::endian::native == std::endian::little, "bytes of ids are copied as they lie in memory");

inline nb::bytes packed_ids(std::span<const std::uint32_t> ids) {
  return nb::bytes(reinterpret_cast<const char*>(ids.data()), ids.size_bytes());
}
// The bytes of whole ids alone. They may lie at any address.
inline nb::list unpacked_list(std::string_view packed) {
  std::vector<std::uint32_t> ids(packed.size() / sizeof(std::uint32_t));
  if (!ids.empty()) std::memcpy(ids.data(), packed.data(), ids.size() * sizeof(std::uint32_t));
  nb::list list = fresh_list(ids.size());
  put_ids(list, 0, ids);
  return list;
}

// The UTF-8 of a str. One that has it already, as an ASCII str, lends it; another one is encoded for this call only, so
// that a large text does not keep a second copy inside its str. Raises UnicodeEncodeError for a lone surrogate.
class Utf8 {
 public:
  explicit Utf8(nb::handle text) {
    PyObject* str = text.ptr();
    const auto count = static_cast<std::size_t>(PyUnicode_GET_LENGTH(str));
    if (PyUnicode_IS_COMPACT_ASCII(str)) {
      view_ = {static_cast<const char*>(PyUnicode_DATA(str)), count};
      return;
    }
    if (PyUnicode_IS_COMPACT(str)) {
      const auto* compact = reinterpret_cast<const PyCompactUnicodeObject*>(str);
      if (compact->utf8 != nullptr) {
        view_ = {compact->utf8, static_cast<std::size_t>(compact->utf8_length)};
        return;
      }
    }
    if (PyUnicode_KIND(str) == PyUnicode_1BYTE_KIND)
      write(PyUnicode_1BYTE_DATA(str), count, str);
    else if (PyUnicode_KIND(str) == PyUnicode_2BYTE_KIND)
      write(PyUnicode_2BYTE_DATA(str), count, str);
    else
      write(PyUnicode_4BYTE_DATA(str), count, str);
  }
  std::string_view view() const { return view_; }

 private:
  template <class Unit>
  void write(const Unit* units, std::size_t count, PyObject* str) {
    room_.emplace(count * utf8::kMostWidth<Unit>);
    const char* end = utf8::write(units, count, room_->data());
    if (end == nullptr) {
      // CPython says where the surrogate is.
      const nb::object none = nb::steal(PyUnicode_AsUTF8String(str));
      if (!none.is_valid()) throw nb::python_error();
      throw std::logic_error("a str with a surrogate has UTF-8");
    }
    view_ = {room_->data(), static_cast<std::size_t>(end - room_->data())};
  }

  std::optional<KeptRoom> room_;
  std::string_view view_;
};

inline CodePoints code_points(nb::handle text) {
  return {PyUnicode_DATA(text.ptr()), static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
          static_cast<int>(PyUnicode_KIND(text.ptr()))};
}

}  // namespace tokseam::python
