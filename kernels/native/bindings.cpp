// The Python face of the native engine. Conversions and the GIL live here; no algorithm does.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include "textdiff.hpp"

namespace nb = nanobind;

namespace {

tokseam::CodePoints code_points(nb::handle text) {
  return {PyUnicode_DATA(text.ptr()), static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
          static_cast<int>(PyUnicode_KIND(text.ptr()))};
}

std::pair<std::size_t, std::size_t> shared_ends(nb::str a, nb::str b) {
  const auto ends = tokseam::shared_ends(code_points(a), code_points(b));
  return {ends.prefix, ends.suffix};
}

}  // namespace

NB_MODULE(_native, m) {
  m.def("shared_ends", &shared_ends, nb::arg("a"), nb::arg("b"),
        "Code points that two texts share at the start and, beyond that, at the end.");
}
