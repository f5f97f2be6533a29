// A persistent sequence of chunks: immutable, shared, balanced.
// It knows sums and order. Where a text may be cut, and what its ids are, is the session's business (session.hpp).
//
// Threads: chunks and nodes never change once they are made; only their reference counts do, and these are atomic. Two
// trees that share nodes may therefore be used, and dropped, on two threads. One ChunkTree object belongs to one
// thread at a time, like any value.
#pragma once

#include <algorithm>
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

  Sums& operator+=(const Sums& other) {
    bytes += other.bytes;
    chars += other.chars;
    ids += other.ids;
    chunks += other.chunks;
    return *this;
  }
  friend Sums operator+(Sums a, const Sums& b) { return a += b; }
  bool operator==(const Sums&) const = default;
};

// Some text and its ids, in one allocation of the exact size: this header, then the ids, then the text.
class Chunk {
 public:
  // Throws std::length_error where a count does not fit its field.
  static Ref<Chunk> make(std::string_view text, std::span<const std::uint32_t> ids) {
    constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
    if (text.size() > kMax || ids.size() > kMax) throw std::length_error("a chunk has at most 2^32 - 1 bytes and ids");
    void* memory = ::operator new(sizeof(Chunk) + ids.size_bytes() + text.size());
    auto* chunk = new (memory) Chunk(text, ids.size());
    if (!ids.empty()) std::memcpy(chunk->payload(), ids.data(), ids.size_bytes());
    if (!text.empty()) std::memcpy(chunk->payload() + ids.size_bytes(), text.data(), text.size());
    return Ref<Chunk>::adopt(chunk);
  }
  static void destroy(const Chunk* chunk) {
    chunk->~Chunk();
    ::operator delete(const_cast<void*>(static_cast<const void*>(chunk)));
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  // SAFETY: make() put `ids_` aligned ids and then `bytes_` bytes right behind the header, in memory from operator new
  // (in which both arrays live implicitly); sizeof(Chunk) is a multiple of alignof(uint32_t), see the assertions
  // below.
  std::span<const std::uint32_t> ids() const { return {reinterpret_cast<const std::uint32_t*>(payload()), ids_}; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(payload() + std::size_t{ids_} * sizeof(std::uint32_t)), bytes_};
  }
  Sums sums() const { return {bytes_, chars_, ids_, 1}; }

  // The byte offset of code point `n` of this chunk, n <= chars.
  std::size_t offset_of(std::size_t n) const { return chars_ == bytes_ ? n : utf8::offset_of_code_point(text(), n); }

  mutable std::atomic<std::uint32_t> refs{1};  // owners: nodes, and Refs on some stack. Limit: 2^32 - 1, unchecked

 private:
  Chunk(std::string_view text, std::size_t ids)
      : bytes_(static_cast<std::uint32_t>(text.size())),
        chars_(static_cast<std::uint32_t>(utf8::count_code_points(text))),
        ids_(static_cast<std::uint32_t>(ids)) {}
  ~Chunk() = default;

  std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* payload() const { return reinterpret_cast<const std::byte*>(this + 1); }

  const std::uint32_t bytes_;  // length of the text behind the ids
  const std::uint32_t chars_;  // code points in that text; <= bytes_, and equal to it for ASCII alone
  const std::uint32_t ids_;    // ids behind the header
};
static_assert(sizeof(Chunk) == 16 && sizeof(Chunk) % alignof(std::uint32_t) == 0);

// A chunk with what stands left and right of it: a node of an AVL tree.
struct ChunkNode {
  ChunkNode(Ref<ChunkNode> l, Ref<Chunk> c, Ref<ChunkNode> r)
      : height(1 + std::max(height_of(l), height_of(r))),
        left(std::move(l)),
        right(std::move(r)),
        chunk(std::move(c)),
        sums(sums_of(left) + chunk->sums() + sums_of(right)) {}
  static void destroy(const ChunkNode* node) { delete node; }  // recursive, to a depth of `height`

  static std::uint32_t height_of(const Ref<ChunkNode>& node) { return node ? node->height : 0; }
  static Sums sums_of(const Ref<ChunkNode>& node) { return node ? node->sums : Sums{}; }

  mutable std::atomic<std::uint32_t> refs{1};  // owners: parents, trees, Refs on some stack. Limit: 2^32 - 1, unchecked
  const std::uint32_t height;                  // 1 + the higher child's; the children's differ by at most 1
  const Ref<ChunkNode> left;                   // the chunks before `chunk`; null for none
  const Ref<ChunkNode> right;                  // the chunks after it; null for none
  const Ref<Chunk> chunk;                      // never null, its text never empty
  const Sums sums;                             // of left, chunk and right together
};
static_assert(sizeof(void*) != 8 || sizeof(ChunkNode) == 64, "one cache line, and part of the bound on bytes a token");

// The sequence. A value: a copy shares everything and costs one atomic increment.
class ChunkTree {
 public:
  // Bytes that each chunk costs beside its text and its ids.
  static constexpr std::size_t kOverheadBytes = sizeof(Chunk) + sizeof(ChunkNode);

  ChunkTree() = default;

  static ChunkTree build(std::span<const Ref<Chunk>> chunks) { return ChunkTree(build_node(chunks)); }

  Sums sums() const { return ChunkNode::sums_of(root_); }

  // A chunk, and what stands before it. The pointer lives as long as this tree does.
  struct Found {
    const Chunk* chunk;
    Sums before;  // before.chunks is the chunk's index
  };

  // The chunk that covers unit `at` of the given kind (&Sums::chars and so on), for at < sums().*By.
  template <std::size_t Sums::*By>
  Found find(std::size_t at) const {
    if (at >= sums().*By) throw std::out_of_range("no such position in the chunks");
    Sums before;
    const ChunkNode* node = root_.get();
    while (true) {
      const Sums left = ChunkNode::sums_of(node->left);
      if (at < left.*By) {
        node = node->left.get();
        continue;
      }
      at -= left.*By;
      before += left;
      const Sums here = node->chunk->sums();
      if (at < here.*By) return {node->chunk.get(), before};
      at -= here.*By;
      before += here;
      node = node->right.get();
    }
  }

  const Chunk& at(std::size_t index) const { return *find<&Sums::chunks>(index).chunk; }

  // What the first `index` chunks add up to, for index <= sums().chunks.
  Sums before(std::size_t index) const {
    return index == sums().chunks ? sums() : find<&Sums::chunks>(index).before;
  }

  // Calls f(chunk, from, to) in order for each chunk that covers some of the units [start, stop) of the given kind;
  // [from, to) are the units inside that chunk. Touches O(log n) nodes beside those chunks.
  template <std::size_t Sums::*By, class F>
  void visit(std::size_t start, std::size_t stop, F&& f) const {
    visit_node<By>(root_, start, std::min(stop, sums().*By), f);
  }

  // This sequence with the chunks [first, last) replaced. O(log n) new nodes, and one for each new chunk.
  ChunkTree replaced(std::size_t first, std::size_t last, std::span<const Ref<Chunk>> chunks) const {
    const Split right = split(root_, last);
    const Split left = split(right.left, first);
    return ChunkTree(concat(concat(left.left, build_node(chunks)), right.right));
  }

  // Walks everything and throws std::logic_error at the first broken invariant. For tests.
  void validate() const { validate_node(root_); }

 private:
  using NodeRef = Ref<ChunkNode>;
  struct Split {
    NodeRef left;
    NodeRef right;
  };

  explicit ChunkTree(NodeRef root) : root_(std::move(root)) {}

  static NodeRef make_node(NodeRef left, Ref<Chunk> chunk, NodeRef right) {
    return NodeRef::adopt(new ChunkNode(std::move(left), std::move(chunk), std::move(right)));
  }

  static NodeRef build_node(std::span<const Ref<Chunk>> chunks) {
    if (chunks.empty()) return {};
    const std::size_t middle = chunks.size() / 2;
    return make_node(build_node(chunks.first(middle)), chunks[middle], build_node(chunks.subspan(middle + 1)));
  }

  // A node over two balanced trees whose heights differ by at most 2. Where they differ by 2, one rotation, or two
  // where the inner grandchild is the higher, leave the result balanced and at most one above the higher of the two.
  static NodeRef balance(const NodeRef& l, const Ref<Chunk>& chunk, const NodeRef& r) {
    const std::uint32_t left_height = ChunkNode::height_of(l);
    const std::uint32_t right_height = ChunkNode::height_of(r);
    if (left_height > right_height + 1) {
      if (ChunkNode::height_of(l->left) >= ChunkNode::height_of(l->right))
        return make_node(l->left, l->chunk, make_node(l->right, chunk, r));
      const ChunkNode& inner = *l->right;
      return make_node(make_node(l->left, l->chunk, inner.left), inner.chunk, make_node(inner.right, chunk, r));
    }
    if (right_height > left_height + 1) {
      if (ChunkNode::height_of(r->right) >= ChunkNode::height_of(r->left))
        return make_node(make_node(l, chunk, r->left), r->chunk, r->right);
      const ChunkNode& inner = *r->left;
      return make_node(make_node(l, chunk, inner.left), inner.chunk, make_node(inner.right, r->chunk, r->right));
    }
    return make_node(l, chunk, r);
  }

  // Two balanced trees of any heights with a chunk between them. O(difference of heights). The result stands at most
  // one above the higher tree; that is what lets balance() mend each level on the way back.
  static NodeRef join(const NodeRef& l, const Ref<Chunk>& chunk, const NodeRef& r) {
    const std::uint32_t left_height = ChunkNode::height_of(l);
    const std::uint32_t right_height = ChunkNode::height_of(r);
    if (left_height > right_height + 1) return balance(l->left, l->chunk, join(l->right, chunk, r));
    if (right_height > left_height + 1) return balance(join(l, chunk, r->left), r->chunk, r->right);
    return make_node(l, chunk, r);
  }

  // The first `index` chunks, and the others. O(log n): the joins on the way up have heights that telescope.
  static Split split(const NodeRef& node, std::size_t index) {
    if (!node) return {};
    const std::size_t in_left = ChunkNode::sums_of(node->left).chunks;
    if (index <= in_left) {
      Split part = split(node->left, index);
      return {std::move(part.left), join(part.right, node->chunk, node->right)};
    }
    Split part = split(node->right, index - in_left - 1);
    return {join(node->left, node->chunk, part.left), std::move(part.right)};
  }

  static NodeRef concat(const NodeRef& l, const NodeRef& r) {
    if (!l) return r;
    if (!r) return l;
    const Split ends = split(l, l->sums.chunks - 1);  // ends.right is the last chunk alone
    return join(ends.left, ends.right->chunk, r);
  }

  template <std::size_t Sums::*By, class F>
  static void visit_node(const NodeRef& node, std::size_t start, std::size_t stop, F& f) {
    if (!node || start >= stop) return;
    const std::size_t in_left = ChunkNode::sums_of(node->left).*By;
    const std::size_t here_end = in_left + node->chunk->sums().*By;
    if (start < in_left) visit_node<By>(node->left, start, std::min(stop, in_left), f);
    const std::size_t from = std::max(start, in_left);
    const std::size_t to = std::min(stop, here_end);
    if (from < to) f(*node->chunk, from - in_left, to - in_left);
    if (stop > here_end) visit_node<By>(node->right, std::max(start, here_end) - here_end, stop - here_end, f);
  }

  static void validate_node(const NodeRef& node) {
    if (!node) return;
    validate_node(node->left);
    validate_node(node->right);
    const std::uint32_t left_height = ChunkNode::height_of(node->left);
    const std::uint32_t right_height = ChunkNode::height_of(node->right);
    const Chunk& chunk = *node->chunk;
    if (std::max(left_height, right_height) - std::min(left_height, right_height) > 1)
      throw std::logic_error("chunk tree: out of balance");
    if (node->height != 1 + std::max(left_height, right_height)) throw std::logic_error("chunk tree: a wrong height");
    if (node->sums != ChunkNode::sums_of(node->left) + chunk.sums() + ChunkNode::sums_of(node->right))
      throw std::logic_error("chunk tree: wrong sums");
    if (chunk.text().empty()) throw std::logic_error("chunk tree: an empty chunk");
    if (chunk.sums().chars != utf8::count_code_points(chunk.text()))
      throw std::logic_error("chunk tree: a wrong count of code points");
    if (node->refs.load(std::memory_order_relaxed) == 0 || chunk.refs.load(std::memory_order_relaxed) == 0)
      throw std::logic_error("chunk tree: a dead node or chunk");
  }

  NodeRef root_;  // null for no chunks; balanced at every node
};

}  // namespace tokseam
