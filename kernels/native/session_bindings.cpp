// The Python face of sessions. Conversions, the GIL and Python's exceptions live here; no algorithm does.
#include "session_bindings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "code_points.hpp"
#include "encoder.hpp"
#include "marked_encode.hpp"
#include "python_values.hpp"
#include "session.hpp"
#include "session_diff.hpp"
#include "textdiff.hpp"

namespace tokseam::python {
namespace {

std::pair<std::size_t, std::size_t> shared_ends_of(nb::str a, nb::str b) {
  const CodePoints left = code_points(a), right = code_points(b);
  nb::gil_scoped_release release;
  const SharedEnds ends = shared_ends(left, right);
  return {ends.prefix, ends.suffix};
}

// A session and the encoder it stands on, which must outlive it.
class NativeSession {
  // The three operations, each as what change() runs. (Up here, for their types are deduced.)
  auto whole() {
    return [this](std::string_view view) {
      MarkedText made = encode_marked(*encoder_, view, store_.split_special(), 1);
      return store_.reset(view, made.cuts, std::move(made.ids), made.marks);
    };
  }
  auto at_end() {
    return [this](std::string_view view) { return store_.append(view); };
  }
  auto inside(std::size_t start, std::size_t stop) {
    return [=, this](std::string_view view) { return store_.edit(start, stop, view); };
  }

 public:
  using Store = tokseam::Session<Encoder>;
  NativeSession(nb::object encoder, bool split_special)
      : owner_(std::move(encoder)),
        encoder_(&nb::cast<const Encoder&>(owner_)),
        store_(*encoder_, split_special) {}
  NativeSession(nb::object encoder, Store store)
      : owner_(std::move(encoder)), encoder_(&nb::cast<const Encoder&>(owner_)), store_(std::move(store)) {}

  nb::tuple reset(nb::str text) { return with_array(change(text, whole())); }
  nb::tuple append(nb::str delta) { return with_array(change(delta, at_end())); }
  nb::tuple edit(std::size_t start, std::size_t stop, nb::str replacement) {
    return with_array(change(replacement, inside(start, stop)));
  }
  nb::tuple reset_list(nb::str text) { return with_list(change(text, whole())); }
  nb::tuple append_list(nb::str delta) { return with_list(change(delta, at_end())); }
  nb::tuple edit_list(std::size_t start, std::size_t stop, nb::str replacement) {
    return with_list(change(replacement, inside(start, stop)));
  }
  // As on the wire: UTF-8 in, little-endian uint32 out, and nothing of Python between. None for what is no UTF-8.
  nb::object append_packed(nb::bytes delta) { return packed_change(delta, at_end()); }
  nb::object edit_packed(std::size_t start, std::size_t stop, nb::bytes replacement) {
    return packed_change(replacement, inside(start, stop));
  }
  // Positions and marks are uint32: a text here has fewer than 2^32 bytes.
  void seed(nb::str text, const Input<std::uint32_t>& ids, const Input<std::uint32_t>& cuts,
            const Input<std::uint32_t>& marks) {
    const Utf8 utf8(text);
    const auto widened = [](const Input<std::uint32_t>& values) {
      return std::vector<std::size_t>(values.data(), values.data() + values.size());
    };
    nb::gil_scoped_release release;
    store_.seed(utf8.view(), widened(cuts), to_vector(ids), widened(marks));
  }
  NativeSession fork() const { return NativeSession(owner_, store_.fork()); }

  std::pair<std::size_t, std::size_t> ends_shared_with(nb::str text) const {
    const CodePoints points = code_points(text);
    nb::gil_scoped_release release;
    const SharedEnds ends = shared_ends(store_.chunks(), encoder_->spellings(), points);
    return {ends.prefix, ends.suffix};
  }

  nb::str text() const {
    std::string bytes(store_.bytes(), '\0');
    store_.copy_text(bytes.data());
    return nb::str(bytes.data(), bytes.size());
  }
  Array<std::uint32_t> ids() const {
    std::vector<std::uint32_t> values(store_.id_count());
    store_.copy_ids(values.data());
    return to_numpy(std::move(values));
  }
  nb::list ids_list() const {
    nb::list list = fresh_list(store_.id_count());
    std::array<std::uint32_t, 4096> block;
    for (std::size_t at = 0; at < list.size(); at += block.size()) {
      const std::span<std::uint32_t> some = std::span(block).first(std::min(list.size() - at, block.size()));
      store_.copy_ids(at, at + some.size(), some.data());
      put_ids(list, at, some);
    }
    return list;
  }
  const Store& store() const { return store_; }

 private:
  template <class Operation>
  Splice change(nb::handle text, Operation&& operation) {
    const Utf8 utf8(text);
    nb::gil_scoped_release release;
    return operation(utf8.view());
  }
  template <class Operation>
  nb::object packed_change(const nb::bytes& text, Operation&& operation) {
    const std::string_view view(text.c_str(), text.size());
    bool valid = false;
    Splice splice;
    {
      nb::gil_scoped_release release;
      valid = utf8::valid(view);
      if (valid) splice = operation(view);
    }
    if (!valid) return nb::none();
    return nb::make_tuple(splice.start, splice.stop, packed_ids(splice.ids), store_.last().chars_encoded);
  }
  static nb::tuple with_array(Splice splice) {
    return nb::make_tuple(splice.start, splice.stop, to_numpy(std::move(splice.ids)));
  }
  nb::tuple with_list(const Splice& splice) const {
    nb::list list = fresh_list(splice.ids.size());
    put_ids(list, 0, splice.ids);
    return nb::make_tuple(splice.start, splice.stop, std::move(list), store_.last().chars_encoded);
  }

  nb::object owner_;
  const Encoder* encoder_;  // never null; owner_'s
  Store store_;
};

nb::list list_of_packed(nb::bytes packed) {
  if (packed.size() % sizeof(std::uint32_t) != 0) throw nb::value_error("the bytes are no sequence of uint32");
  return unpacked_list({packed.c_str(), packed.size()});
}

nb::list list_of(const Input<std::uint32_t>& ids) {
  nb::list list = fresh_list(ids.size());
  put_ids(list, 0, {ids.data(), ids.size()});
  return list;
}

Array<std::uint32_t> narrowed(const std::vector<std::size_t>& values) {
  return to_numpy(std::vector<std::uint32_t>(values.begin(), values.end()));
}

nb::tuple encode_for_seed(const Encoder& encoder, nb::str text, bool split_special, std::size_t threads) {
  const Utf8 utf8(text);
  MarkedText made;
  {
    nb::gil_scoped_release release;
    if (utf8.view().size() > UINT32_MAX) throw std::length_error("a session's text has fewer than 2^32 bytes");
    made = encode_marked(encoder, utf8.view(), split_special, threads);
    CheckedEngine<Encoder>::check_marks(utf8.view(), 0, made.cuts, made.ids.size(), made.marks);
  }
  return nb::make_tuple(to_numpy(std::move(made.ids)), narrowed(made.cuts), narrowed(made.marks));
}

}  // namespace

void bind_sessions(nb::module_& m) {
  nb::exception<OverlapMismatch>(m, "OverlapMismatch", PyExc_RuntimeError);

  m.def("shared_ends", &shared_ends_of, nb::arg("a"), nb::arg("b"),
        "Code points that two texts share at the start and, beyond that, at the end.");
  m.def("list_of", &list_of, nb::arg("ids"), "The ids of a uint32 array as a list.");
  m.def("list_of_packed", &list_of_packed, nb::arg("packed"), "The ids in little-endian uint32 bytes as a list.");

  m.def("encode_for_seed", &encode_for_seed, nb::arg("encoder"), nb::arg("text"), nb::arg("split_special") = false,
        nb::arg("threads") = 1, "What Session.seed takes: uint32 ids, cuts in bytes, and the ids before each cut.");

  nb::class_<NativeSession>(m, "Session", "One text and its ids, without what a template adds. One thread at a time.")
      .def(nb::init<nb::object, bool>(), nb::arg("encoder"), nb::arg("split_special") = false)
      .def("reset", &NativeSession::reset, nb::arg("text"), "Replace all: start, stop, uint32 array.")
      .def("append", &NativeSession::append, nb::arg("delta"))
      .def("edit", &NativeSession::edit, nb::arg("start"), nb::arg("stop"), nb::arg("replacement"))
      .def("reset_list", &NativeSession::reset_list, nb::arg("text"),
           "Replace all: start, stop, list, code points encoded.")
      .def("append_list", &NativeSession::append_list, nb::arg("delta"))
      .def("edit_list", &NativeSession::edit_list, nb::arg("start"), nb::arg("stop"), nb::arg("replacement"))
      .def("append_packed", &NativeSession::append_packed, nb::arg("delta"),
           "UTF-8 in; start, stop, little-endian uint32 bytes, code points encoded. None for what is no UTF-8.")
      .def("edit_packed", &NativeSession::edit_packed, nb::arg("start"), nb::arg("stop"), nb::arg("replacement"))
      .def("shared_ends", &NativeSession::ends_shared_with, nb::arg("text"),
           "Code points that the session's text and another share at the start and, beyond that, at the end.")
      .def("seed", &NativeSession::seed, nb::arg("text"), nb::arg("ids"), nb::arg("cuts"), nb::arg("marks"),
           "Replace all by a text that encode_for_seed encoded elsewhere; nothing is encoded.")
      .def("fork", &NativeSession::fork)
      .def("text", &NativeSession::text)
      .def("ids", &NativeSession::ids)
      .def("ids_list", &NativeSession::ids_list)
      .def("validate", [](const NativeSession& s) { s.store().validate(); })
      .def_prop_ro("chars", [](const NativeSession& s) { return s.store().chars(); })
      .def_prop_ro("spells", [](const NativeSession& s) { return s.store().chunks().spells(); })
      .def_prop_ro("token_count", [](const NativeSession& s) { return s.store().id_count(); })
      .def_prop_ro("chunk_count", [](const NativeSession& s) { return s.store().chunk_count(); })
      .def_prop_ro("memory_bytes", [](const NativeSession& s) { return s.store().memory_bytes(); })
      .def_prop_ro("unshared_bytes", [](const NativeSession& s) { return s.store().unshared_bytes(); })
      .def_prop_ro("chars_encoded", [](const NativeSession& s) { return s.store().last().chars_encoded; })
      .def_prop_ro("overlap_ids", [](const NativeSession& s) { return s.store().last().overlap_ids; });
}

}  // namespace tokseam::python
