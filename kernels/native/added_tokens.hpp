// Finds added-token literals in a text, leftmost first and of those the longest, as a trie over bytes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classes.hpp"
#include "image.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tokseam {

// The characters that literals look at around them, as the reference's engine has them (class_probe.py).
class Surroundings {
 public:
  // Code points, in any order; none where no literal looks around.
  static void write(ImageWriter& writer, std::span<const std::uint32_t> space, std::span<const std::uint32_t> word) {
    writer.add(Section::space_characters, bits_of(space));
    writer.add(Section::word_characters, bits_of(word));
  }

  explicit Surroundings(const Image& image)
      : space_(image.get<std::uint8_t>(Section::space_characters)),
        word_(image.get<std::uint8_t>(Section::word_characters)) {}

  bool is_space(std::uint32_t point) const { return bit(space_, point); }
  bool is_word(std::uint32_t point) const { return bit(word_, point); }

 private:
  static std::vector<std::uint8_t> bits_of(std::span<const std::uint32_t> points) {
    std::vector<std::uint8_t> bits;
    for (const std::uint32_t point : points) {
      if (point / 8 >= bits.size()) bits.resize(point / 8 + 1);
      bits[point / 8] = static_cast<std::uint8_t>(bits[point / 8] | 1U << point % 8);
    }
    return bits;
  }
  static bool bit(std::span<const std::uint8_t> bits, std::uint32_t point) {
    return point / 8 < bits.size() && (bits[point / 8] >> point % 8 & 1) != 0;
  }

  std::span<const std::uint8_t> space_, word_;  // a bit a code point
};

// The index of the trie of literals that are looked for before normalization, of the one behind it, and of the one that
// literal_fences.hpp looks into.
inline constexpr std::uint32_t kRawLiterals = 0, kNormalizedLiterals = 1, kFencedLiterals = 2;

class AddedTokens {
 public:
  struct Token {
    std::uint32_t id = kNoId;
    bool special = false;
    bool lstrip = false;       // it takes the white space before it along
    bool rstrip = false;       // it takes the white space behind it along
    bool single_word = false;  // it counts only where no word character stands beside it
  };
  struct Found {
    std::size_t begin = kNone, end = kNone;  // bytes; begin == kNone: nothing more
    Token token;
  };

  bool empty() const { return edges_.empty(); }

  // Of literals in any order.
  static void write(ImageWriter& writer, std::uint32_t index,
                    const std::vector<std::pair<std::string_view, Token>>& literals) {
    std::vector<std::map<unsigned char, std::uint32_t>> children(1);
    std::vector<Token> tokens(1);
    for (const auto& [literal, token] : literals) {
      std::uint32_t at = 0;
      for (const char c : literal) {
        const auto [entry, added] =
            children[at].try_emplace(static_cast<unsigned char>(c), static_cast<std::uint32_t>(children.size()));
        at = entry->second;
        if (added) children.emplace_back(), tokens.emplace_back();
      }
      if (at != 0) tokens[at] = token;
    }
    std::vector<Node> nodes;
    std::vector<Edge> edges;
    for (std::size_t node = 0; node < children.size(); ++node) {
      nodes.push_back({static_cast<std::uint32_t>(edges.size()), tokens[node].id, flags_of(tokens[node])});
      for (const auto& [byte, child] : children[node]) edges.push_back({byte, child});
    }
    nodes.push_back({static_cast<std::uint32_t>(edges.size()), kNoId, 0});
    writer.add(Section::literal_nodes, nodes, index);
    writer.add(Section::literal_edges, edges, index);
  }

  AddedTokens(const Image& image, std::uint32_t index)
      : nodes_(image.get<Node>(Section::literal_nodes, index)), edges_(image.get<Edge>(Section::literal_edges, index)) {
    Image::require(nodes_.size() >= 2 && nodes_.back().edges == edges_.size(), Section::literal_nodes);
    for (std::size_t node = 0; node + 1 < nodes_.size(); ++node)
      Image::require(nodes_[node].edges <= nodes_[node + 1].edges, Section::literal_nodes);
    for (const Edge& edge : edges_)
      Image::require(edge.byte < 256 && edge.child + std::size_t{1} < nodes_.size(), Section::literal_edges);
    for (std::uint32_t edge = nodes_[0].edges; edge < nodes_[1].edges; ++edge) {
      first_[edges_[edge].byte] = true;
      firsts_.push_back(static_cast<char>(edges_[edge].byte));
    }
  }

  // The first match at or after `from`.
  Found find(std::string_view text, std::size_t from) const {
    for (std::size_t at = candidate(text, from); at != kNone; at = candidate(text, at + 1)) {
      const Found found = longest(text, at);
      if (found.begin != kNone) return found;
    }
    return {};
  }

  bool may_begin(unsigned char byte) const { return first_[byte]; }

  // Whether a literal's text is in `text`, to be taken for it or not.
  bool is_in(std::string_view text) const { return !empty() && find(text, 0).begin != kNone; }

  // Cut the literals out of `text`: gap(begin, end) for what lies between, literal(begin, end, id) for each.
  template <class Gap, class Literal>
  void cut_out(std::string_view text, bool split_special, const Surroundings& around, Gap&& gap,
               Literal&& literal) const {
    std::size_t begin = 0;
    for (std::size_t from = 0; !empty();) {
      Found found = find(text, from);
      if (found.begin == kNone) break;
      from = found.end;
      if (split_special && found.token.special) continue;  // as the reference: seen, but left in the text
      if (found.token.single_word &&
          ((found.begin > 0 && around.is_word(utf8_decode(text.data() + utf8_before(text, found.begin)))) ||
           (found.end < text.size() && around.is_word(utf8_decode(text.data() + found.end)))))
        continue;
      if (found.token.lstrip)
        while (found.begin > begin) {
          const std::size_t before = utf8_before(text, found.begin);
          if (!around.is_space(utf8_decode(text.data() + before))) break;
          found.begin = before;
        }
      if (found.token.rstrip)
        while (found.end < text.size() && around.is_space(utf8_decode(text.data() + found.end)))
          found.end += utf8_width(text[found.end]);
      if (begin < found.begin) gap(begin, found.begin);
      literal(found.begin, found.end, found.token.id);
      begin = found.end;
    }
    if (begin < text.size()) gap(begin, text.size());
  }

 private:
  struct Edge {
    std::uint32_t byte;
    std::uint32_t child;
  };
  struct Node {
    std::uint32_t edges;  // where this node's edges begin; the next node's begin where they end
    std::uint32_t id;     // kNoId: no literal ends here
    std::uint32_t flags;  // see flags_of
  };

  static std::uint32_t flags_of(const Token& token) {
    return (token.special ? 1U : 0U) | (token.lstrip ? 2U : 0U) | (token.rstrip ? 4U : 0U) |
           (token.single_word ? 8U : 0U);
  }
  static Token token_of(const Node& node) {
    return {node.id, (node.flags & 1U) != 0, (node.flags & 2U) != 0, (node.flags & 4U) != 0, (node.flags & 8U) != 0};
  }

  std::size_t candidate(std::string_view text, std::size_t from) const {
    if (from >= text.size()) return kNone;
    if (firsts_.size() == 1) {
      const void* hit = std::memchr(text.data() + from, firsts_[0], text.size() - from);
      return hit ? static_cast<std::size_t>(static_cast<const char*>(hit) - text.data()) : kNone;
    }
#if defined(__SSE2__)
    // PERF: sixteen bytes at a time; literals begin with few different ones.
    if (firsts_.size() <= kFewFirsts)
      for (; text.size() - from >= sizeof(__m128i); from += sizeof(__m128i)) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + from));
        __m128i hits = _mm_setzero_si128();
        for (const char first : firsts_) hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(first)));
        const auto mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
        if (mask != 0) return from + static_cast<std::size_t>(std::countr_zero(mask));
      }
#endif
    for (; from < text.size(); ++from)
      if (first_[static_cast<unsigned char>(text[from])]) return from;
    return kNone;
  }

  Found longest(std::string_view text, std::size_t begin) const {
    Found found;
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at++]);
      std::uint32_t edge = nodes_[node].edges;
      const std::uint32_t stop = nodes_[node + 1].edges;
      while (edge < stop && edges_[edge].byte != byte) ++edge;
      if (edge == stop) break;
      node = edges_[edge].child;
      if (nodes_[node].id != kNoId) found = {begin, at, token_of(nodes_[node])};
    }
    return found;
  }

  std::span<const Node> nodes_;  // and one more behind the last; the first is where every search begins
  std::span<const Edge> edges_;
  static constexpr std::size_t kFewFirsts = 4;
  std::array<bool, 256> first_{};  // whether one begins with the byte, ...
  std::string firsts_;             // ... and all such bytes
};

}  // namespace tokseam
