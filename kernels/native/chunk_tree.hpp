// A persistent sequence of chunks: shared, balanced (chunk.hpp says what one is).
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
#include <span>
#include <stdexcept>
#include <utility>

#include "chunk.hpp"
#include "code_points.hpp"

namespace tokseam {

// A chunk with what stands left and right of it: a node of an AVL tree.
struct ChunkNode {
  ChunkNode(Ref<ChunkNode> l, Ref<Chunk> c, Ref<ChunkNode> r)
      : left(std::move(l)), right(std::move(r)), chunk(std::move(c)) {
    const Sums all = sums_of(left) + chunk->sums() + sums_of(right);
    chunks_ = static_cast<std::uint32_t>(all.chunks);
    bytes_ = all.bytes;
    chars_ = all.chars;
    ids_ = all.ids;
    stored_ = all.stored & kStoredMost;
    height_ = (1 + std::max(height_of(left), height_of(right))) & kHeightMost;
    spelled_ = spells(left) || !chunk->keeps_text() || spells(right);
  }
  static void destroy(const ChunkNode* node) { delete node; }  // recursive, to a depth of `height`

  static std::uint32_t height_of(const Ref<ChunkNode>& node) { return node ? node->height() : 0; }
  static bool spells(const Ref<ChunkNode>& node) { return node && node->spelled_; }
  static Sums sums_of(const Ref<ChunkNode>& node) { return node ? node->sums() : Sums{}; }
  // Of left, chunk and right together.
  Sums sums() const { return {bytes_, chars_, ids_, chunks_, stored_}; }
  // 1 + the higher child's; the children's differ by at most 1.
  std::uint32_t height() const { return height_; }

  const Ref<ChunkNode> left;                   // the chunks before `chunk`; null for none
  const Ref<ChunkNode> right;                  // the chunks after it; null for none
  const Ref<Chunk> chunk;                      // never null, its text never empty
  mutable std::atomic<std::uint32_t> refs{1};  // owners: parents, trees, Refs on some stack. Limit: 2^32 - 1, unchecked

 private:
  // Memory has at most 2^56 bytes, and 2^32 chunks stand in a tree of height 46.
  static constexpr std::uint64_t kStoredMost = (std::uint64_t{1} << 56) - 1;
  static constexpr std::uint32_t kHeightMost = (1u << 7) - 1;

  std::uint32_t chunks_;
  std::size_t bytes_, chars_, ids_;
  std::uint64_t stored_ : 56, height_ : 7, spelled_ : 1;  // spelled_: some chunk keeps no text
};
static_assert(sizeof(ChunkNode) <= Chunk::kNodeBytes, "one cache line, and part of the bound on bytes a token");

// The sequence. A value: a copy shares everything and costs two atomic increments.
// The last chunk stands beside the tree of the others. An append replaces it and looks at little else: no node is
// passed, made or dropped for that, however many there are.
class ChunkTree {
 public:
  ChunkTree() = default;

  static ChunkTree build(std::span<const Ref<Chunk>> chunks) {
    if (chunks.empty()) return {};
    return ChunkTree(build_node(chunks.first(chunks.size() - 1)), chunks.back());
  }

  Sums sums() const { return last_ ? sums_of_front() + last_->sums() : Sums{}; }

  // Bytes asked of the allocator for all chunks and nodes, shared or not.
  std::size_t allocated_bytes() const { return sums().stored + sums_of_front().chunks * sizeof(ChunkNode); }

  // Whether some chunk keeps no text.
  bool spells() const { return ChunkNode::spells(front_) || (last_ && !last_->keeps_text()); }

  // A chunk, and what stands before it. The pointer lives as long as this tree does.
  struct Found {
    const Chunk* chunk;
    Sums before;  // before.chunks is the chunk's index
  };

  // The chunk that covers unit `at` of the given kind (&Sums::chars and so on), for at < sums().*By.
  template <std::size_t Sums::*By>
  Found find(std::size_t at) const {
    const Sums front = sums_of_front();
    if (at >= front.*By) {
      if (!last_ || at - front.*By >= last_->sums().*By) throw std::out_of_range("no such position in the chunks");
      return {last_.get(), front};
    }
    Sums before;
    const ChunkNode* node = front_.get();
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
    const std::size_t front = sums_of_front().*By;
    visit_node<By>(front_, start, std::min(stop, front), f);
    if (!last_ || stop <= front) return;
    const std::size_t from = std::max(start, front) - front;
    const std::size_t to = std::min(stop - front, last_->sums().*By);
    if (from < to) f(*last_, from, to);
  }

  // Calls f(chunk) for one chunk after the other, from the first on or from the last back, until it answers false.
  template <class F>
  void walk(F&& f) const {
    if (walk_node<true>(front_, f) && last_) f(*last_);
  }
  template <class F>
  void walk_back(F&& f) const {
    if (last_ && f(*last_)) walk_node<false>(front_, f);
  }

  // This sequence with the chunks [first, last) replaced. O(log n) new nodes, and one for each new chunk.
  ChunkTree replaced(std::size_t first, std::size_t last, std::span<const Ref<Chunk>> chunks) const {
    const std::size_t front = sums_of_front().chunks;
    if (last_ && last <= front) return ChunkTree(replaced_in(front_, first, last, chunks), last_);
    // The last chunk goes, or others come behind it. What is kept before them is the front's, but for the last chunk
    // where that stays; the last of what there is then stands apart.
    const NodeRef kept = first > front    ? with_inserted(front_, front, last_)
                         : first == front ? front_
                                          : split(front_, first).left;
    if (!chunks.empty()) {
      const std::span<const Ref<Chunk>> inner = chunks.first(chunks.size() - 1);
      return ChunkTree(replaced_in(kept, first, first, inner), chunks.back());
    }
    if (!kept) return {};
    const Split ends = split(kept, first - 1);  // ends.right is one chunk alone
    return ChunkTree(ends.left, ends.right->chunk);
  }

  // Bytes asked of the allocator for what this tree alone reaches: what would be given back if it were dropped now.
  // O(what that is); exact while no other thread drops or copies a tree that shares with this one.
  std::size_t unshared_bytes() const { return unshared(front_) + unshared(last_); }

  // Walks everything and throws std::logic_error at the first broken invariant. For tests.
  void validate() const {
    validate_node(front_);
    if (last_) validate_chunk(*last_);
    if (front_ && !last_) throw std::logic_error("chunk tree: no last chunk");
  }

 private:
  using NodeRef = Ref<ChunkNode>;

  static constexpr std::size_t kFewChunks = 4;

  struct Split {
    NodeRef left;
    NodeRef right;
  };

  ChunkTree(NodeRef front, Ref<Chunk> last) : front_(std::move(front)), last_(std::move(last)) {}

  Sums sums_of_front() const { return ChunkNode::sums_of(front_); }

  static NodeRef make_node(NodeRef left, Ref<Chunk> chunk, NodeRef right) {
    return NodeRef::adopt(new ChunkNode(std::move(left), std::move(chunk), std::move(right)));
  }

  static NodeRef build_node(std::span<const Ref<Chunk>> chunks) {
    if (chunks.empty()) return {};
    const std::size_t middle = chunks.size() / 2;
    return make_node(build_node(chunks.first(middle)), chunks[middle], build_node(chunks.subspan(middle + 1)));
  }

  static NodeRef replaced_in(const NodeRef& root, std::size_t first, std::size_t last,
                             std::span<const Ref<Chunk>> chunks) {
    if (first == last && chunks.empty()) return root;
    // PERF: an append or a small edit puts one or two chunks for one. New nodes along one path do that with a quarter
    // of the nodes that splitting and joining makes.
    if (last - first <= 1 && last - first <= chunks.size() && chunks.size() <= kFewChunks) {
      NodeRef made = first == last ? root : with_chunk(root, first, chunks[0]);
      for (std::size_t k = last - first; k < chunks.size(); ++k) made = with_inserted(made, first + k, chunks[k]);
      return made;
    }
    const Split right = split(root, last);
    const Split left = split(right.left, first);
    return concat(concat(left.left, build_node(chunks)), right.right);
  }

  // The same shape with another chunk at `index`.
  static NodeRef with_chunk(const NodeRef& node, std::size_t index, const Ref<Chunk>& chunk) {
    const std::size_t in_left = ChunkNode::sums_of(node->left).chunks;
    if (index < in_left) return make_node(with_chunk(node->left, index, chunk), node->chunk, node->right);
    if (index == in_left) return make_node(node->left, chunk, node->right);
    return make_node(node->left, node->chunk, with_chunk(node->right, index - in_left - 1, chunk));
  }

  // One chunk more, which gets the number `index`. The result stands at most one above the tree, as balance() asks.
  static NodeRef with_inserted(const NodeRef& node, std::size_t index, const Ref<Chunk>& chunk) {
    if (!node) return make_node({}, chunk, {});
    const std::size_t in_left = ChunkNode::sums_of(node->left).chunks;
    if (index <= in_left) return balance(with_inserted(node->left, index, chunk), node->chunk, node->right);
    return balance(node->left, node->chunk, with_inserted(node->right, index - in_left - 1, chunk));
  }

  static std::size_t unshared(const NodeRef& node) {
    if (!node || node->refs.load(std::memory_order_relaxed) > 1) return 0;
    return sizeof(ChunkNode) + unshared(node->chunk) + unshared(node->left) + unshared(node->right);
  }
  static std::size_t unshared(const Ref<Chunk>& chunk) {
    return !chunk || chunk->refs.load(std::memory_order_relaxed) > 1 ? 0 : chunk->allocated_bytes();
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
    const Split ends = split(l, l->sums().chunks - 1);  // ends.right is the last chunk alone
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

  template <bool Forward, class F>
  static bool walk_node(const NodeRef& node, F& f) {
    if (!node) return true;
    const NodeRef& near = Forward ? node->left : node->right;
    const NodeRef& far = Forward ? node->right : node->left;
    return walk_node<Forward>(near, f) && f(*node->chunk) && walk_node<Forward>(far, f);
  }

  static void validate_node(const NodeRef& node) {
    if (!node) return;
    validate_node(node->left);
    validate_node(node->right);
    const std::uint32_t left_height = ChunkNode::height_of(node->left);
    const std::uint32_t right_height = ChunkNode::height_of(node->right);
    const Chunk& chunk = *node->chunk;
    validate_chunk(chunk);
    if (std::max(left_height, right_height) - std::min(left_height, right_height) > 1)
      throw std::logic_error("chunk tree: out of balance");
    if (node->height() != 1 + std::max(left_height, right_height)) throw std::logic_error("chunk tree: a wrong height");
    if (node->sums() != ChunkNode::sums_of(node->left) + chunk.sums() + ChunkNode::sums_of(node->right))
      throw std::logic_error("chunk tree: wrong sums");
    const bool spelled = ChunkNode::spells(node->left) || !chunk.keeps_text() || ChunkNode::spells(node->right);
    if (ChunkNode::spells(node) != spelled) throw std::logic_error("chunk tree: who keeps a text is not known");
    if (node->refs.load(std::memory_order_relaxed) == 0) throw std::logic_error("chunk tree: a dead node");
  }

  static void validate_chunk(const Chunk& chunk) {
    if (chunk.byte_count() == 0) throw std::logic_error("chunk tree: an empty chunk");
    for (std::size_t k = 0; k < chunk.mark_count(); ++k) {
      const Mark mark = chunk.mark(k), before = k > 0 ? chunk.mark(k - 1) : chunk.begin();
      if (mark.at <= before.at || mark.at >= chunk.byte_count() || mark.ids < before.ids ||
          mark.ids > chunk.id_count() || (chunk.keeps_text() && !utf8::starts_code_point(chunk.kept_text()[mark.at])))
        throw std::logic_error("chunk tree: a mark out of place");
    }
    if (chunk.keeps_text() && chunk.sums().chars != utf8::count_code_points(chunk.kept_text()))
      throw std::logic_error("chunk tree: a wrong count of code points");
    if (chunk.refs.load(std::memory_order_relaxed) == 0) throw std::logic_error("chunk tree: a dead chunk");
  }

  NodeRef front_;    // all chunks but the last; null for none; balanced at every node
  Ref<Chunk> last_;  // null for no chunks at all
};

}  // namespace tokseam
