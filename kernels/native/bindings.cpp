// The Python face of the native engine. Conversions, the GIL and Python's exceptions live here; no algorithm does.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "encoder.hpp"
#include "session.hpp"
#include "textdiff.hpp"

namespace nb = nanobind;

namespace {

using tokseam::Encoder;

template <class T>
using Array = nb::ndarray<nb::numpy, T>;
template <class T>
using Input = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;

// Hand a vector over to numpy without copying it.
template <class T>
Array<T> to_numpy(std::vector<T> values, std::size_t columns = 1) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (columns > 1) return Array<T>(owned->data(), {owned->size() / columns, columns}, owner);
  return Array<T>(owned->data(), {owned->size()}, owner);
}

template <class T>
std::vector<T> to_vector(const Input<T>& values) {
  return std::vector<T>(values.data(), values.data() + values.size());
}

// The UTF-8 of a str. An ASCII str is its own UTF-8; another one is encoded for this call only, so that a large text
// does not
// keep a second copy inside its str. Raises UnicodeEncodeError for a lone surrogate.
class Utf8 {
 public:
  explicit Utf8(nb::handle text) {
    if (PyUnicode_IS_COMPACT_ASCII(text.ptr())) {
      view_ = {static_cast<const char*>(PyUnicode_DATA(text.ptr())),
               static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr()))};
      return;
    }
    bytes_ = nb::steal<nb::bytes>(PyUnicode_AsUTF8String(text.ptr()));
    if (!bytes_.is_valid()) throw nb::python_error();
    view_ = {bytes_.c_str(), bytes_.size()};
  }
  std::string_view view() const { return view_; }

 private:
  nb::bytes bytes_;
  std::string_view view_;
};

tokseam::CodePoints code_points(nb::handle text) {
  return {PyUnicode_DATA(text.ptr()), static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
          static_cast<int>(PyUnicode_KIND(text.ptr()))};
}

std::pair<std::size_t, std::size_t> shared_ends(nb::str a, nb::str b) {
  const tokseam::CodePoints left = code_points(a), right = code_points(b);
  nb::gil_scoped_release release;
  const auto ends = tokseam::shared_ends(left, right);
  return {ends.prefix, ends.suffix};
}

void set_bit(std::vector<bool>& bits, std::uint32_t at) {
  if (at >= bits.size()) bits.resize(at + 1);
  bits[at] = true;
}

template <class T>
std::vector<T> vector_of(const nb::dict& tables, const char* name) {
  return to_vector(nb::cast<Input<T>>(tables[name]));
}

tokseam::Characters::Tables character_tables(const nb::dict& tables) {
  const auto u32 = [&](const char* name) { return vector_of<std::uint32_t>(tables, name); };
  const auto prefix = nb::cast<int>(tables["prefix"]);
  if (prefix < 0 || prefix > 3) throw nb::value_error("no such prefix rule");
  tokseam::Characters::Tables native{nb::cast<std::uint32_t>(tables["replaced"]),
                                     nb::cast<std::uint32_t>(tables["replacement"]),
                                     nb::cast<std::uint32_t>(tables["marker"]),
                                     static_cast<tokseam::Characters::Prefix>(prefix),
                                     nb::cast<bool>(tables["split_at_marker"]),
                                     vector_of<std::uint64_t>(tables, "joined"),
                                     u32("never_after"),
                                     u32("never_before"),
                                     u32("characters"),
                                     u32("character_ids"),
                                     {}};
  const auto byte_tokens = u32("byte_tokens");
  if (byte_tokens.size() != 256 || native.characters.size() != native.character_ids.size())
    throw nb::value_error("character tables of the wrong size");
  std::copy(byte_tokens.begin(), byte_tokens.end(), native.byte_tokens.begin());
  return native;
}

std::vector<tokseam::Automaton> automata(const nb::dict& tables, const char* name, std::size_t classes) {
  std::vector<tokseam::Automaton> result;
  for (nb::handle stage : tables[name]) {
    const auto [table, behavior] =
        nb::cast<std::pair<nb::ndarray<const std::uint16_t, nb::ndim<2>, nb::c_contig>, int>>(stage);
    if (table.shape(1) != classes + 1 || behavior < 0 || behavior >= tokseam::kBehaviors)
      throw nb::value_error("an automaton of the wrong size");
    result.emplace_back(table.data(), table.shape(0), classes, static_cast<tokseam::Behavior>(behavior));
  }
  return result;
}

std::unique_ptr<Encoder> make_encoder(nb::dict tables) {
  const auto input = [&](const char* name, auto zero) { return nb::cast<Input<decltype(zero)>>(tables[name]); };
  const auto u32 = [&](const char* name) { return vector_of<std::uint32_t>(tables, name); };
  const auto classes = input("class_of", std::uint8_t{});
  const auto pairs = input("pairs", std::uint8_t{});
  const auto suspect = input("suspect", std::uint8_t{});
  if (classes.size() != 0x110000 || pairs.size() != suspect.size() * suspect.size() || suspect.size() > 253)
    throw nb::value_error("class tables of the wrong size");
  const auto byte_classes = input("byte_classes", std::uint8_t{});
  if (byte_classes.size() != 256) throw nb::value_error("byte_classes of the wrong size");
  for (const char* name : {"looking_on", "looking_back"})
    if (input(name, std::uint8_t{}).size() != 3 * suspect.size()) throw nb::value_error("contexts of the wrong size");
  const std::size_t byte_class_count = 1 + *std::max_element(byte_classes.data(), byte_classes.data() + 256);
  std::vector<tokseam::Normalization> normalizations;
  for (nb::handle entry : tables["normalizations"]) {
    const auto form = nb::cast<nb::dict>(entry);
    const auto part = [&](const char* name) { return vector_of<std::uint32_t>(form, name); };
    normalizations.emplace_back(tokseam::Normalization::Tables{
        part("decomposed"), part("decomposition_ends"), part("decomposition"), part("ordered"), part("order"),
        part("composed_first"), part("composed_second"), part("composite"), nb::cast<bool>(form["hangul_decomposes"]),
        nb::cast<bool>(form["hangul_composes"])});
  }
  std::vector<tokseam::AddedLiteral> added;
  for (nb::handle entry : tables["added_tokens"]) {
    const auto [content, id, special, normalized, lstrip, rstrip, single_word] =
        nb::cast<std::tuple<std::string, std::uint32_t, bool, bool, bool, bool, bool>>(entry);
    added.push_back({content, {id, special, lstrip, rstrip, single_word}, normalized});
  }
  tokseam::Surroundings surroundings;
  for (const std::uint32_t point : u32("space_characters")) set_bit(surroundings.space, point);
  for (const std::uint32_t point : u32("word_characters")) set_bit(surroundings.word, point);
  std::optional<tokseam::Characters> characters;
  if (tables.contains("characters")) characters.emplace(character_tables(nb::cast<nb::dict>(tables["characters"])));
  const auto byte_ids = u32("byte_ids");
  if (byte_ids.size() != 256) throw nb::value_error("byte_ids of the wrong size");
  const auto bytes = nb::cast<nb::bytes>(tables["vocabulary_bytes"]);
  tokseam::EncoderTables native{
      tokseam::Classes(suspect.size(), classes.data(), pairs.data(), suspect.data()),
      vector_of<std::uint8_t>(tables, "looking_on"),
      vector_of<std::uint8_t>(tables, "looking_back"),
      automata(tables, "stages", suspect.size()),
      automata(tables, "byte_stages", byte_class_count),
      {},
      std::move(normalizations),
      std::move(characters),
      std::move(added),
      std::move(surroundings),
      std::string(bytes.c_str(), bytes.size()),
      u32("vocabulary_ends"),
      u32("vocabulary_ids"),
      u32("merges"),
      {},
      nb::cast<bool>(tables["space_in_front"]),
      nb::cast<bool>(tables["whole_pieces_first"])};
  std::copy(byte_ids.begin(), byte_ids.end(), native.byte_ids.begin());
  std::copy(byte_classes.data(), byte_classes.data() + 256, native.byte_classes.begin());
  nb::gil_scoped_release release;
  return std::make_unique<Encoder>(std::move(native));
}

Array<std::uint32_t> encode(const Encoder& encoder, nb::str text, bool split_special, bool continued) {
  const Utf8 utf8(text);
  std::vector<std::uint32_t> ids;
  {
    nb::gil_scoped_release release;
    std::vector<std::size_t> marks;
    ids.reserve(utf8.view().size() / 4);
    encoder.encode(utf8.view(), {split_special, continued}, {}, ids, marks);
  }
  return to_numpy(std::move(ids));
}

nb::tuple spans(const Encoder& encoder, nb::str text) {
  const Utf8 utf8(text);
  std::vector<std::uint32_t> ids;
  std::vector<std::int64_t> values;
  bool known = false;
  {
    nb::gil_scoped_release release;
    known = encoder.spans(utf8.view(), ids, values);
  }
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(values), 2), known);
}

nb::tuple pieces(const Encoder& encoder, nb::str text) {
  const Utf8 utf8(text);
  std::vector<std::int64_t> starts;
  bool known = false;
  {
    nb::gil_scoped_release release;
    known = encoder.pieces(utf8.view(), starts);
  }
  return nb::make_tuple(to_numpy(std::move(starts)), known);
}

// Synchronizing positions in code points, each at least `gap` bytes behind the one before.
Array<std::int64_t> cuts(const Encoder& encoder, nb::str text, std::size_t gap) {
  const Utf8 utf8(text);
  std::vector<std::int64_t> positions;
  {
    nb::gil_scoped_release release;
    const std::string_view view = utf8.view();
    std::size_t counted = 0;
    std::int64_t points = 0;
    for (std::size_t at = encoder.next_cut(view, gap); at != tokseam::kNoCut; at = encoder.next_cut(view, at + gap)) {
      points += static_cast<std::int64_t>(tokseam::utf8::count_code_points(view.substr(counted, at - counted)));
      counted = at;
      positions.push_back(points);
    }
  }
  return to_numpy(std::move(positions));
}

// A session and the encoder it stands on, which must outlive it.
class NativeSession {
 public:
  using Store = tokseam::Session<Encoder>;
  NativeSession(nb::object encoder, bool split_special)
      : owner_(std::move(encoder)), store_(nb::cast<const Encoder&>(owner_), split_special) {}
  NativeSession(nb::object encoder, Store store) : owner_(std::move(encoder)), store_(std::move(store)) {}

  nb::tuple reset(nb::str text) {
    return change(text, [this](std::string_view view) { return store_.reset(view); });
  }
  nb::tuple append(nb::str delta) {
    return change(delta, [this](std::string_view view) { return store_.append(view); });
  }
  nb::tuple edit(std::size_t start, std::size_t stop, nb::str replacement) {
    return change(replacement, [=, this](std::string_view view) { return store_.edit(start, stop, view); });
  }
  NativeSession fork() const { return NativeSession(owner_, store_.fork()); }

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
  const Store& store() const { return store_; }

 private:
  template <class Operation>
  nb::tuple change(nb::handle text, Operation&& operation) {
    const Utf8 utf8(text);
    tokseam::Splice splice;
    {
      nb::gil_scoped_release release;
      splice = operation(utf8.view());
    }
    return nb::make_tuple(splice.start, splice.stop, to_numpy(std::move(splice.ids)));
  }

  nb::object owner_;
  Store store_;
};

}  // namespace

NB_MODULE(_native, m) {
  nb::exception<tokseam::OverlapMismatch>(m, "OverlapMismatch", PyExc_RuntimeError);

  m.def("shared_ends", &shared_ends, nb::arg("a"), nb::arg("b"),
        "Code points that two texts share at the start and, beyond that, at the end.");

  m.def("vector_path", [] { return tokseam::AsciiClasses::has_avx2() ? "avx2" : "portable"; },
        "Which path scans text on this processor: 'avx2' or 'portable'.");

  nb::class_<Encoder>(m, "Encoder", "A compiled tokenizer: an exact full encode. Any number of threads may use it.")
      .def(nb::new_(&make_encoder), nb::arg("tables"))
      .def("encode", &encode, nb::arg("text"), nb::arg("split_special") = false,
           nb::arg("continued") = false,
           "The ids of a text: uint32. `continued`: it goes on from a cut, so nothing is put in front.")
      .def("spans", &spans, nb::arg("text"),
           "Ids, their untrimmed (n, 2) spans in code points, and whether the spans are known.")
      .def("pieces", &pieces, nb::arg("text"),
           "Where pieces with at least one id start, in code points, and whether that is known.")
      .def("forget_segments", &Encoder::forget_segments, "Drop cached segments, which change no answer: for measuring.")
      .def("cuts", &cuts, nb::arg("text"), nb::arg("gap") = 1,
           "Synchronizing positions in code points, each at least `gap` bytes behind the one before.");

  nb::class_<NativeSession>(m, "Session", "One text and its ids, without what a template adds. One thread at a time.")
      .def(nb::init<nb::object, bool>(), nb::arg("encoder"), nb::arg("split_special") = false)
      .def("reset", &NativeSession::reset, nb::arg("text"))
      .def("append", &NativeSession::append, nb::arg("delta"))
      .def("edit", &NativeSession::edit, nb::arg("start"), nb::arg("stop"), nb::arg("replacement"))
      .def("fork", &NativeSession::fork)
      .def("text", &NativeSession::text)
      .def("ids", &NativeSession::ids)
      .def("validate", [](const NativeSession& s) { s.store().validate(); })
      .def_prop_ro("chars", [](const NativeSession& s) { return s.store().chars(); })
      .def_prop_ro("token_count", [](const NativeSession& s) { return s.store().id_count(); })
      .def_prop_ro("chunk_count", [](const NativeSession& s) { return s.store().chunk_count(); })
      .def_prop_ro("memory_bytes", [](const NativeSession& s) { return s.store().memory_bytes(); })
      .def_prop_ro("chars_encoded", [](const NativeSession& s) { return s.store().last().chars_encoded; })
      .def_prop_ro("overlap_ids", [](const NativeSession& s) { return s.store().last().overlap_ids; });
}
