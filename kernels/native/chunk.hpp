// Some text, its ids, and marks in it: one immutable allocation, shared by count.
// It does not know where a text may be cut: that its ends and its marks are synchronizing positions, and that the ids
// are those of the text, is the session's business (session.hpp). A text that it does not keep is chunk_text.hpp's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "code_points.hpp"
#include "id_planes.hpp"

namespace tokseam {

// A shared pointer to a T that carries its own count. T offers `refs` and a static destroy(const T*).
template <class T>
class Ref {
 public:
  Ref() = default;
  // Takes over the one reference that a new object is born with.
  static Ref adopt(const T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(const Ref& other) : object_(other.object_) {
    // Relaxed: whoever copies already holds a reference, so nothing can vanish and nothing needs to be seen.
    if (object_ != nullptr) object_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    // Acquire and release: the thread that drops the last reference must see every other thread done with the object.
    if (object_ != nullptr && object_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(object_);
  }

  const T* get() const { return object_; }
  const T* operator->() const { return object_; }
  const T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const T* object_ = nullptr;  // null, or an object of which this holds one reference
};

// What a run of chunks adds up to.
struct Sums {
  std::size_t bytes = 0;   // of UTF-8 text
  std::size_t chars = 0;   // code points
  std::size_t ids = 0;     // token ids
  std::size_t chunks = 0;  // chunks
  std::size_t stored = 0;  // bytes that the chunks asked of the allocator: text, ids, marks and headers

  Sums& operator+=(const Sums& other) {
    bytes += other.bytes;
    chars += other.chars;
    ids += other.ids;
    chunks += other.chunks;
    stored += other.stored;
    return *this;
  }
  friend Sums operator+(Sums a, const Sums& b) { return a += b; }
  bool operator==(const Sums&) const = default;
};

// A synchronizing position of a text, and how many of the text's ids stand before it.
struct Mark {
  std::size_t at = 0;   // bytes
  std::size_t ids = 0;  // ids
  bool operator==(const Mark&) const = default;
};

// In one allocation of the exact size: this header, then the marks, then the ids, then the text if it is kept.
class Chunk {
 public:
  // The furthest that a mark can lie inside a chunk, in bytes and in ids: what a stored mark holds.
  static constexpr std::size_t kMarkReach = std::numeric_limits<std::uint16_t>::max();

  // Whether the ids take as few bytes as they can, or four: for a chunk that another one will soon hold all of.
  enum class Ids { narrow, plain };

  // Whether the text is stored, or only how long it is: for a chunk whose ids spell it (spellings.hpp).
  enum class Text { kept, spelled };

  // `marks` ascend strictly inside the text; those beyond kMarkReach are left out. Throws std::length_error where a
  // count does not fit its field.
  static Ref<Chunk> make(std::string_view text, std::span<const std::uint32_t> ids, std::span<const Mark> marks = {},
                         Ids form = Ids::narrow, Text text_form = Text::kept) {
    constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
    if (text.size() > kMax || ids.size() > kMax) throw std::length_error("a chunk has at most 2^32 - 1 bytes and ids");
    while (!marks.empty() && (marks.back().at > kMarkReach || marks.back().ids > kMarkReach))
      marks = marks.first(marks.size() - 1);
    const std::size_t width = form == Ids::plain ? id_planes::kWidest : id_planes::width_of(ids);
    const bool kept = text_form == Text::kept;
    void* memory = ::operator new(bytes_without_text(marks.size(), ids.size(), width) + (kept ? text.size() : 0));
    auto* chunk = new (memory) Chunk(text, ids.size(), marks.size(), width, kept);
    PackedMark* packed = reinterpret_cast<PackedMark*>(chunk->payload());
    for (const Mark& mark : marks)
      *packed++ = {static_cast<std::uint16_t>(mark.at), static_cast<std::uint16_t>(mark.ids)};
    id_planes::write(ids, width, chunk->payload() + chunk->ids_at());
    if (kept && !text.empty()) std::memcpy(chunk->payload() + chunk->text_at(), text.data(), text.size());
    return Ref<Chunk>::adopt(chunk);
  }
  static void destroy(const Chunk* chunk) {
    chunk->~Chunk();
    ::operator delete(const_cast<void*>(static_cast<const void*>(chunk)));
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  // What a chunk of these sizes asks of the allocator, but for its text.
  static constexpr std::size_t bytes_without_text(std::size_t marks, std::size_t ids, std::size_t width) {
    return sizeof(Chunk) + marks * kMarkBytes + ids * width;
  }

  // SAFETY: make() put `marks_` packed marks, `ids_` ids and then, if kept, `bytes_` bytes right behind the header,
  // in memory from operator new (in which the arrays live implicitly); the header's size and that of a packed mark are
  // multiples of what stands behind them needs, see the assertions below.
  bool keeps_text() const { return keeps_text_; }
  // For a chunk that keeps its text.
  std::string_view kept_text() const { return {reinterpret_cast<const char*>(payload() + text_at()), bytes_}; }
  std::size_t byte_count() const { return bytes_; }
  // What is read to come by the text: that itself, or the ids.
  std::span<const std::byte> text_source() const {
    return keeps_text_ ? std::span(payload() + text_at(), bytes_)
                       : std::span(payload() + ids_at(), text_at() - ids_at());
  }
  std::size_t id_count() const { return ids_; }
  // Writes the ids [start, stop), for start <= stop <= id_count(), to `out`. Returns where they end.
  std::uint32_t* copy_ids(std::size_t start, std::size_t stop, std::uint32_t* out) const {
    id_planes::read(payload() + ids_at(), ids_, width_, start, stop, out);
    return out + (stop - start);
  }
  std::size_t mark_count() const { return marks_; }
  Mark mark(std::size_t index) const {
    const PackedMark packed = marks()[index];
    return {packed.at, packed.ids};
  }

  Mark begin() const { return {}; }
  Mark end() const { return {bytes_, ids_}; }
  // The last mark before byte `at`, or the chunk's begin; and the first one behind it, or the chunk's end.
  Mark mark_before(std::size_t at) const {
    for (std::size_t k = marks_; k > 0; --k)
      if (mark(k - 1).at < at) return mark(k - 1);
    return begin();
  }
  Mark mark_behind(std::size_t at) const {
    for (std::size_t k = 0; k < marks_; ++k)
      if (mark(k).at > at) return mark(k);
    return end();
  }

  Sums sums() const { return {bytes_, chars_, ids_, 1, allocated_bytes()}; }
  // What this chunk asked of the allocator.
  std::size_t allocated_bytes() const { return bytes_without_text(marks_, ids_, width_) + (keeps_text_ ? bytes_ : 0); }

  static constexpr std::size_t kMarkBytes = 2 * sizeof(std::uint16_t);  // of one mark, stored
  static constexpr std::size_t kNodeBytes = 64;  // of what holds a chunk in its place (chunk_tree.hpp)

  mutable std::atomic<std::uint32_t> refs{1};  // owners: nodes, and Refs on some stack. Limit: 2^32 - 1, unchecked

 private:
  struct PackedMark {
    std::uint16_t at;
    std::uint16_t ids;
  };
  static_assert(sizeof(PackedMark) == kMarkBytes && alignof(PackedMark) <= alignof(std::uint32_t));

  Chunk(std::string_view text, std::size_t ids, std::size_t marks, std::size_t width, bool keeps_text)
      : bytes_(static_cast<std::uint32_t>(text.size())),
        chars_(static_cast<std::uint32_t>(utf8::count_code_points(text))),
        ids_(static_cast<std::uint32_t>(ids)),
        marks_(static_cast<std::uint16_t>(marks)),
        width_(static_cast<std::uint8_t>(width)),
        keeps_text_(keeps_text) {}
  ~Chunk() = default;

  std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* payload() const { return reinterpret_cast<const std::byte*>(this + 1); }
  const PackedMark* marks() const { return reinterpret_cast<const PackedMark*>(payload()); }
  // Where the ids and the text begin in the payload.
  std::size_t ids_at() const { return std::size_t{marks_} * kMarkBytes; }
  std::size_t text_at() const { return ids_at() + std::size_t{ids_} * width_; }

  const std::uint32_t bytes_;  // length of the text, kept or not
  const std::uint32_t chars_;  // code points in that text; <= bytes_, and equal to it for ASCII alone
  const std::uint32_t ids_;    // ids behind the marks
  const std::uint16_t marks_;  // marks behind the header; they ascend strictly, so there are at most kMarkReach
  const std::uint8_t width_;   // bytes that each id takes, see id_planes.hpp
  const bool keeps_text_;      // whether the text stands behind the ids
};
static_assert(sizeof(Chunk) == 20 && sizeof(Chunk) % alignof(std::uint32_t) == 0);

}  // namespace tokseam
