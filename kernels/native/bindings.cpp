// The Python face of the native engine. Conversions, the GIL and Python's exceptions live here; no algorithm does.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device_bindings.hpp"
#include "encoder.hpp"
#include "encoder_image.hpp"
#include "fork_safe_mutex.hpp"
#include "fresh_text.hpp"
#include "image.hpp"
#include "kept_memory.hpp"
#include "mapped_file.hpp"
#include "python_values.hpp"
#include "session_bindings.hpp"
#include "tokenizer_json.hpp"

namespace nb = nanobind;

namespace {

using tokseam::Encoder;
using tokseam::Image;

using tokseam::python::Array;
using tokseam::python::Input;
using tokseam::python::to_numpy;
using tokseam::python::to_vector;
using tokseam::python::Utf8;

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

std::vector<tokseam::StageTable> stage_tables(const nb::dict& tables, const char* name) {
  std::vector<tokseam::StageTable> result;
  for (nb::handle stage : tables[name]) {
    const auto [table, behavior] =
        nb::cast<std::pair<nb::ndarray<const std::uint16_t, nb::ndim<2>, nb::c_contig>, int>>(stage);
    if (behavior < 0 || behavior >= tokseam::kBehaviors) throw nb::value_error("no such behavior of a stage");
    result.push_back({{table.data(), table.data() + table.size()}, table.shape(0),
                      static_cast<tokseam::Behavior>(behavior)});
  }
  return result;
}

template <class T>
std::array<T, 256> one_a_byte(const nb::dict& tables, const char* name) {
  const auto values = vector_of<T>(tables, name);
  if (values.size() != 256) throw nb::value_error("a table over bytes of the wrong size");
  std::array<T, 256> result;
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

tokseam::EncoderTables encoder_tables(const nb::dict& tables) {
  const auto u32 = [&](const char* name) { return vector_of<std::uint32_t>(tables, name); };
  const auto u8 = [&](const char* name) { return vector_of<std::uint8_t>(tables, name); };
  const auto bytes = nb::cast<nb::bytes>(tables["vocabulary_bytes"]);  // `tables` keeps it
  tokseam::EncoderTables native;
  native.classes = {u8("class_of"), u8("pairs"),      u8("suspect"),     u8("segment_pairs"),
                    u8("seamless"), u8("looking_on"), u8("looking_back")};
  native.stages = stage_tables(tables, "stages");
  native.byte_stages = stage_tables(tables, "byte_stages");
  native.byte_classes = one_a_byte<std::uint8_t>(tables, "byte_classes");
  for (nb::handle entry : tables["normalizations"]) {
    const auto form = nb::cast<nb::dict>(entry);
    const auto part = [&](const char* name) { return vector_of<std::uint32_t>(form, name); };
    native.normalizations.push_back({part("decomposed"), part("decomposition_ends"), part("decomposition"),
                                     part("ordered"), part("order"), part("composed_first"), part("composed_second"),
                                     part("composite"), nb::cast<bool>(form["hangul_decomposes"]),
                                     nb::cast<bool>(form["hangul_composes"])});
  }
  if (tables.contains("characters")) native.characters = character_tables(nb::cast<nb::dict>(tables["characters"]));
  for (nb::handle entry : tables["added_tokens"]) {
    const auto [content, id, special, normalized, lstrip, rstrip, single_word, fenced] =
        nb::cast<std::tuple<std::string, std::uint32_t, bool, bool, bool, bool, bool, bool>>(entry);
    native.added_tokens.push_back({content, {id, special, lstrip, rstrip, single_word}, normalized, fenced});
  }
  native.space_characters = u32("space_characters");
  native.word_characters = u32("word_characters");
  native.vocabulary_bytes = {bytes.c_str(), bytes.size()};
  native.vocabulary_ends = u32("vocabulary_ends");
  native.vocabulary_ids = u32("vocabulary_ids");
  native.merges = u32("merges");
  native.byte_ids = one_a_byte<std::uint32_t>(tables, "byte_ids");
  native.space_in_front = nb::cast<bool>(tables["space_in_front"]);
  native.whole_pieces_first = nb::cast<bool>(tables["whole_pieces_first"]);
  return native;
}

tokseam::Image::Key image_key(const nb::bytes& key) {
  tokseam::Image::Key made{};
  if (key.size() != made.size()) throw nb::value_error("the key of an image has 32 bytes");
  std::copy_n(reinterpret_cast<const std::uint8_t*>(key.c_str()), made.size(), made.begin());
  return made;
}

Image make_image(const nb::dict& tables) {
  const tokseam::EncoderTables native = encoder_tables(tables);
  nb::gil_scoped_release release;
  return tokseam::build_image(native);
}

// The tables of `image` (None: no tables) with facts, for a file.
Image note_down(const std::optional<Image>& image, const nb::bytes& facts, const nb::bytes& key) {
  const std::string_view noted(facts.c_str(), facts.size());
  const tokseam::Image::Key made_for = image_key(key);
  nb::gil_scoped_release release;
  tokseam::ImageWriter writer;
  writer.add(tokseam::Section::facts, noted);
  if (image) writer.add_all_but(*image, tokseam::Section::facts);
  return writer.finish(made_for);
}

Image open_image(const std::string& path, const nb::bytes& key) {
  const tokseam::Image::Key made_for = image_key(key);
  nb::gil_scoped_release release;
  tokseam::FileBytes file;
  try {
    file = tokseam::map_file(path);
  } catch (const std::runtime_error& error) {
    throw tokseam::BadImage(error.what());
  }
  return Image(std::move(file.data), file.size, made_for);
}

using Bytes = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;

// A view that keeps the image.
Bytes image_bytes(nb::handle_t<Image> self, std::span<const std::byte> bytes) {
  return Bytes(bytes.data(), {bytes.size()}, self);
}

std::optional<tokseam::TokenizerJson> read_tokenizer_json(const nb::bytes& content) {
  const std::string_view view(content.c_str(), content.size());
  nb::gil_scoped_release release;
  return tokseam::TokenizerJson::read(view);
}

// (bytes one behind the other, where each entry ends, ids)
nb::tuple entry_list(tokseam::EntryList entries) {
  return nb::make_tuple(nb::bytes(entries.bytes.data(), entries.bytes.size()), to_numpy(std::move(entries.ends)),
                        to_numpy(std::move(entries.ids)));
}

Array<std::uint32_t> encode(const Encoder& encoder, nb::str text, bool split_special, bool continued,
                            std::size_t threads) {
  const Utf8 utf8(text);
  std::vector<std::uint32_t> ids = tokseam::kept_ids().take(utf8.view().size() / tokseam::kBytesPerId);
  {
    nb::gil_scoped_release release;
    tokseam::encode_fresh(encoder, utf8.view(), {split_special, continued}, threads, ids);
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

}  // namespace

NB_MODULE(_native, m) {
  // Whoever imports holds Python's lock, so that no fork finds one of these half made.
  tokseam::ForkSafeMutex::prepare();
  tokseam::kept_ids();

  nb::exception<tokseam::BadImage>(m, "BadImage", PyExc_ValueError);
  tokseam::python::bind_sessions(m);
  tokseam::python::bind_device(m);

  m.def("vector_path", [] { return tokseam::AsciiClasses::has_avx2() ? "avx2" : "portable"; },
        "Which path scans text on this processor: 'avx2' or 'portable'.");

  m.attr("CHUNK_CACHE_BYTES") = tokseam::KnownChunks::kDefaultBytes;
  m.attr("IMAGE_FORMAT") = tokseam::kImageFormat;

  nb::class_<Image>(m, "Image", "A compiled tokenizer's tables and facts, in memory or mapped from a file; immutable.")
      .def(nb::new_(&make_image), nb::arg("tables"), "Lay out tables.")
      .def_static("noted", &note_down, nb::arg("image").none(), nb::arg("facts"), nb::arg("key"),
                  "The tables of an image (None: no tables) with facts. `key`: 32 bytes that say what it is made from.")
      .def_static("open", &open_image, nb::arg("path"), nb::arg("key"),
                  "Map a file. Raises BadImage unless it is whole, of this format, and was made for `key`.")
      .def_prop_ro("facts", [](nb::handle_t<Image> self) {
        return image_bytes(self, nb::cast<const Image&>(self).get<std::byte>(tokseam::Section::facts));
      }, "What was noted down with the tables: uint8, read-only, where it lies.")
      .def_prop_ro("data", [](nb::handle_t<Image> self) {
        return image_bytes(self, nb::cast<const Image&>(self).bytes());
      }, "All bytes of its file: uint8, read-only, where they lie.");

  using tokseam::TokenizerJson;
  nb::class_<TokenizerJson>(m, "TokenizerJson", "The vocabulary and the merges of a tokenizer.json, and what else it holds.")
      .def_static("read", &read_tokenizer_json, nb::arg("content"),
                  "None where it is not plainly of the usual form.")
      .def_prop_ro("rest", [](const TokenizerJson& json) { return nb::bytes(json.rest().data(), json.rest().size()); },
                   "The JSON text with an empty vocabulary and no merges.")
      .def("entries", [](const TokenizerJson& json) { return entry_list(json.entries()); },
           "All entries: their UTF-8 one behind the other, where each ends, and ids.")
      .def("byte_level", [](const TokenizerJson& json, const Input<std::uint32_t>& alphabet) {
        return entry_list(json.byte_level({alphabet.data(), alphabet.size()}));
      }, nb::arg("alphabet"), "The entries spelled in the 256 characters that stand for bytes, as those bytes.")
      .def("occurring", [](const TokenizerJson& json, const nb::bytes& text, std::size_t longest) {
        return entry_list(json.occurring({text.c_str(), text.size()}, longest));
      }, nb::arg("text"), nb::arg("longest"), "The entries of at most `longest` bytes that occur in `text`.")
      .def("find", [](const TokenizerJson& json, std::string_view entry) -> std::optional<std::uint32_t> {
        const std::uint32_t id = json.find(entry);
        return id == tokseam::kNoId ? std::nullopt : std::optional(id);
      }, nb::arg("entry"), "The id of an entry, or None.")
      .def("merges", [](nb::handle_t<TokenizerJson> self) {
        const auto& merges = nb::cast<const TokenizerJson&>(self).merges();
        return nb::ndarray<nb::numpy, const std::uint32_t, nb::ndim<2>>(merges.data(), {merges.size() / 4, 4}, self);
      }, "(n, 4) uint32, read-only: left, right, rank, merged id.")
      .def_prop_ro("size", [](const TokenizerJson& json) { return json.entries().size(); }, "How many entries it has.");

  nb::class_<Encoder>(m, "Encoder", "A compiled tokenizer: an exact full encode. Any number of threads may use it.")
      .def(nb::init<Image>(), nb::arg("image"))
      .def("encode", &encode, nb::arg("text"), nb::arg("split_special") = false,
           nb::arg("continued") = false, nb::arg("threads") = 1,
           "The ids of a text: uint32. `continued`: it goes on from a cut, so nothing is put in front.")
      .def("spans", &spans, nb::arg("text"),
           "Ids, their untrimmed (n, 2) spans in code points, and whether the spans are known.")
      .def("pieces", &pieces, nb::arg("text"),
           "Where pieces with at least one id start, in code points, and whether that is known.")
      .def("bound_chunk_cache",
           [](const Encoder& encoder, std::size_t most) { encoder.known_chunks().set_most_bytes(most); },
           nb::arg("most_bytes"), "Keep at most so many bytes of chunks to be recognised; 0: none.")
      .def_prop_ro("chunk_cache_bytes", [](const Encoder& encoder) { return encoder.known_chunks().bytes(); },
                   "Bytes of chunks that are kept to be recognised.")
      .def("forget_segments", &Encoder::forget_segments, "Drop cached segments, which change no answer: for measuring.")
      .def("cuts", &cuts, nb::arg("text"), nb::arg("gap") = 1,
           "Synchronizing positions in code points, each at least `gap` bytes behind the one before.");
}
