// The host's side of a batch, for tests/emulator/device.py: a tokenizer's tables out of its compiled file, and documents
// as the device takes them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "device_batch.hpp"
#include "device_form.hpp"
#include "device_tables.hpp"

namespace {

struct Opened {
  tokseam::Image image;
  std::optional<tokseam::DeviceForm> form;
  tokseam::device::Tables tables;
  tokseam::DeviceBatch batch;
};

tokseam::Image copy_of(const std::byte* data, std::size_t size) {
  const auto alignment = std::align_val_t{tokseam::Image::kAlignment};
  std::shared_ptr<std::byte> copy(static_cast<std::byte*>(::operator new(size, alignment)),
                                  [alignment](std::byte* p) { ::operator delete(p, alignment); });
  std::memcpy(copy.get(), data, size);
  tokseam::Image::Key key;
  constexpr std::size_t kKeyOffset = 32;  // the last field of an image's header
  std::memcpy(key.data(), data + kKeyOffset, key.size());
  return tokseam::Image(std::move(copy), size, key);
}

template <class T>
std::size_t copy_out(const std::vector<T>& values, T* out) {
  if (out != nullptr) std::memcpy(out, values.data(), values.size() * sizeof(T));
  return values.size();
}

}  // namespace

extern "C" {

// Null for a tokenizer that the device does not take.
void* host_open(const std::byte* image, std::size_t size) {
  tokseam::Image copy = copy_of(image, size);
  auto form = tokseam::DeviceForm::of(copy);
  const void* beside = form ? form->bytes().data() : nullptr;
  const auto tables = tokseam::device_tables(copy, copy.bytes().data(), form ? &*form : nullptr, beside);
  if (!tables) return nullptr;
  return new Opened{copy, std::move(form), *tables, tokseam::DeviceBatch(copy)};
}

void host_close(void* opened) { delete static_cast<Opened*>(opened); }

std::size_t host_tables_bytes() { return sizeof(tokseam::device::Tables); }

const void* host_tables(void* opened) { return &static_cast<Opened*>(opened)->tables; }

// What plan.py asks of a tokenizer: stages, byte stages, the most states of a stage, by characters. And whether ranks
// rise, the character that a piece begins at wherever it stands (kNoId: none), and whether the device normalizes.
void host_describe(void* opened, std::uint32_t* out) {
  const auto& tables = static_cast<Opened*>(opened)->tables;
  out[0] = tables.stage_count;
  out[1] = tables.byte_stage_count;
  out[2] = 1;
  for (std::uint32_t i = 0; i < tables.stage_count + tables.byte_stage_count; ++i)
    out[2] = std::max(out[2], tables.stages[i].states);
  out[3] = tables.by_characters;
  out[4] = tables.rising;
  out[5] = tables.split_at_marker != 0 ? tables.marker : tokseam::kNoId;
  out[6] = static_cast<Opened*>(opened)->form ? 1 : 0;
}

// A cluster's normal form, or none (-1): its code points, for which `out` has room. And what is known of a character.
std::int64_t host_normalize(void* opened, const char* text, std::size_t size, std::uint32_t* out) {
  const std::uint32_t count = static_cast<Opened*>(opened)->tables.form.normalize(
      reinterpret_cast<const std::uint8_t*>(text), size, out);
  return count == tokseam::device::kNone32 ? -1 : static_cast<std::int64_t>(count);
}
void host_kinds(void* opened, std::uint8_t* out) {
  for (std::uint32_t point = 0; point < 0x110000; ++point)
    out[point] = static_cast<Opened*>(opened)->tables.form.kind(point);
}

void host_clear(void* opened) { static_cast<Opened*>(opened)->batch.clear(); }

void host_add(void* opened, const char* text, std::size_t size, int split_special, int continued) {
  static_cast<Opened*>(opened)->batch.add({text, size}, {split_special != 0, continued != 0});
}

// Each answers how many there are, and copies them unless `out` is null.
std::size_t host_text(void* opened, char* out) {
  const std::string_view text = static_cast<Opened*>(opened)->batch.text();
  if (out != nullptr) std::memcpy(out, text.data(), text.size());
  return text.size();
}
std::size_t host_begins(void* opened, std::uint32_t* out) {
  return copy_out(static_cast<Opened*>(opened)->batch.begins(), out);
}
std::size_t host_ids(void* opened, std::uint32_t* out) {
  return copy_out(static_cast<Opened*>(opened)->batch.ids(), out);
}
std::size_t host_documents(void* opened, std::uint32_t* out) {
  return copy_out(static_cast<Opened*>(opened)->batch.documents(), out);
}
// Of each span: the character of its document that it begins with, and whether one more stands in front of it here.
std::size_t host_origins(void* opened, std::uint64_t* out) {
  const auto& origins = static_cast<Opened*>(opened)->batch.origins();
  if (out != nullptr)
    for (std::size_t i = 0; i < origins.size(); ++i)
      out[2 * i] = origins[i].point, out[2 * i + 1] = origins[i].prefixed ? 1 : 0;
  return origins.size();
}
}
