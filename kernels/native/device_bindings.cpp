// The Python face of a device's batches: conversions, the GIL and Python's exceptions. What a batch is stands in
// device_batch.hpp; who launches it is kernels/cuda/launcher.py.
#include "device_bindings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "device_batch.hpp"
#include "device_marks.hpp"
#include "device_tables.hpp"
#include "encoder.hpp"
#include "python_values.hpp"
#include "session.hpp"

namespace tokseam::python {
namespace {

// The bytes of a Python buffer, held for as long as this is.
class Held {
 public:
  explicit Held(nb::handle owner) {
    if (PyObject_GetBuffer(owner.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Held() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  }
  Held(Held&& other) noexcept : buffer_(std::exchange(other.buffer_, Py_buffer{})) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Held& operator=(Held&&) = delete;

  std::string_view view() const {
    return {static_cast<const char*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_{};
};

template <class T>
using Output = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T, class Source>
void put(const Source& source, const Output<T>& target, const char* what) {
  if (target.size() < source.size()) throw nb::value_error(what);
  std::copy(source.begin(), source.end(), target.data());
}

// One tokenizer's batches. One thread at a time.
class Batch {
 public:
  // None for a tokenizer that the device does not take.
  static std::unique_ptr<Batch> of(nb::object encoder) {
    const Image& image = nb::cast<const Encoder&>(encoder).image();
    auto form = DeviceForm::of(image);
    auto tables = device_tables(image, nullptr, nullptr, nullptr);
    if (!tables) return nullptr;
    return std::unique_ptr<Batch>(new Batch(std::move(encoder), image, *tables, std::move(form)));
  }

  std::span<const std::byte> image() const { return image_.bytes(); }
  std::span<const std::uint8_t> beside() const { return form_ ? form_->bytes() : std::span<const std::uint8_t>(); }
  bool normalizes() const { return form_.has_value(); }

  std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool> shape() const {
    const std::uint32_t stages = tables_.stage_count + tables_.byte_stage_count;
    std::uint32_t states = 1;
    for (std::uint32_t i = 0; i < stages; ++i) states = std::max(states, tables_.stages[i].states);
    return {tables_.stage_count, tables_.byte_stage_count, states, tables_.by_characters != 0};
  }

  nb::bytes tables(std::uint64_t base, std::uint64_t beside) const {
    // SAFETY: only addresses are made of them, for whoever has the copies there.
    const auto address = [](std::uint64_t at) { return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(at)); };
    const auto moved = device_tables(image_, address(base), form_ ? &*form_ : nullptr, address(beside));
    return nb::bytes(reinterpret_cast<const char*>(&*moved), sizeof(*moved));
  }

  std::tuple<std::size_t, std::size_t, std::size_t> stage(const nb::list& texts, const std::vector<bool>& split_special) {
    if (texts.size() != split_special.size()) throw nb::value_error("a batch needs one setting a text");
    std::vector<Held> held;
    held.reserve(texts.size());
    for (nb::handle text : texts) held.emplace_back(text);
    nb::gil_scoped_release release;
    batch_.clear();
    for (std::size_t i = 0; i < held.size(); ++i) batch_.add(held[i].view(), {split_special[i], false});
    return {batch_.text().size(), batch_.ids().size(), held.size()};
  }

  void put_into(const Output<std::uint8_t>& text, const Output<std::uint32_t>& begins, const Output<std::uint32_t>& ids,
                const Output<std::uint32_t>& documents) const {
    nb::gil_scoped_release release;
    put(batch_.text(), text, "no room for the text");
    put(batch_.begins(), begins, "no room for where spans begin");
    put(batch_.ids(), ids, "no room for the ids of spans");
    put(batch_.documents(), documents, "no room for documents");
  }

  // (cuts, marks) of a document of the batch, or None.
  nb::object marks(std::size_t document, nb::handle text, bool split_special, const Input<std::uint32_t>& starts,
                   const Input<std::uint32_t>& ids_before, bool normalized) const {
    if (document + 1 >= batch_.documents().size()) throw nb::index_error("no such document");
    if (starts.size() != ids_before.size() || starts.size() == 0) throw nb::value_error("pieces of two sizes, or none");
    const Held held(text);
    std::vector<std::size_t> cuts;
    std::optional<std::vector<std::size_t>> marks;
    {
      nb::gil_scoped_release release;
      cuts = Session<Encoder>(nb::cast<const Encoder&>(encoder_), split_special).plan_cuts(held.view());
      const DevicePieces pieces{{starts.data(), starts.size()}, {ids_before.data(), ids_before.size()}, normalized};
      marks = device_marks(batch_, document, held.view(), tables_.by_characters != 0, pieces, cuts);
    }
    if (!marks) return nb::none();
    const auto narrowed = [](const std::vector<std::size_t>& values) {
      return to_numpy(std::vector<std::uint32_t>(values.begin(), values.end()));
    };
    return nb::make_tuple(narrowed(cuts), narrowed(*marks));
  }

  Array<std::int64_t> pieces(const Input<std::uint32_t>& starts, const Input<std::uint32_t>& ids_before) const {
    if (starts.size() != ids_before.size()) throw nb::value_error("pieces of two sizes");
    const std::uint32_t marker = tables_.split_at_marker != 0 ? tables_.marker : kNoId;
    const DevicePieces pieces{{starts.data(), starts.size()}, {ids_before.data(), ids_before.size()}};
    return to_numpy(device_pieces(batch_, pieces, tables_.by_characters != 0, marker));
  }

 private:
  Batch(nb::object encoder, const Image& image, const device::Tables& tables, std::optional<DeviceForm> form)
      : encoder_(std::move(encoder)), image_(image), tables_(tables), form_(std::move(form)), batch_(image) {}

  nb::object encoder_;
  Image image_;
  device::Tables tables_;  // of an image at address 0
  std::optional<DeviceForm> form_;
  DeviceBatch batch_;
};

}  // namespace

void bind_device(nb::module_& m) {
  m.attr("DEVICE_TABLES_BYTES") = sizeof(device::Tables);
  nb::class_<Batch>(m, "DeviceBatch",
                    "Batches of one tokenizer as a device takes them: documents parted into spans, literals cut out.")
      .def_static("of", &Batch::of, nb::arg("encoder"), "None for a tokenizer that the device does not take.")
      .def_prop_ro("image", [](nb::handle_t<Batch> self) {
        const auto bytes = nb::cast<const Batch&>(self).image();
        return nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(bytes.data(), {bytes.size()}, self);
      }, "What a device has to have a copy of: uint8, read-only, where it lies.")
      .def_prop_ro("beside", [](nb::handle_t<Batch> self) {
        const auto bytes = nb::cast<const Batch&>(self).beside();
        return nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(bytes.data(), {bytes.size()}, self);
      }, "The same of what no image holds; nothing for a tokenizer that the device does not normalize for.")
      .def_prop_ro("normalizes", &Batch::normalizes, "Whether the device makes this tokenizer's normal form.")
      .def_prop_ro("shape", &Batch::shape,
                   "Splitting stages over characters and over bytes, the most states of one, whether BPE is over characters.")
      .def("tables", &Batch::tables, nb::arg("base"), nb::arg("beside"),
           "The tables as kernels take them, for copies of the image and of what stands beside it.")
      .def("stage", &Batch::stage, nb::arg("texts"), nb::arg("split_special"),
           "Make a batch of buffers: how many bytes, spans and documents it has.")
      .def("put_into", &Batch::put_into, nb::arg("text"), nb::arg("begins"), nb::arg("ids"), nb::arg("documents"),
           "Copy the batch.")
      .def("marks", &Batch::marks, nb::arg("document"), nb::arg("text"), nb::arg("split_special"), nb::arg("starts"),
           nb::arg("ids_before"), nb::arg("normalized"),
           "Cuts of a document in bytes, and the ids before each, from its pieces; None where they don't fit. "
           "normalized: by the device, which gives where pieces come from.")
      .def("pieces", &Batch::pieces, nb::arg("starts"), nb::arg("ids_before"),
           "Where a document's pieces with at least one id start, in code points.");
}

}  // namespace tokseam::python
