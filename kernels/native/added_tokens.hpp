// Finds added-token literals in a text, leftmost first and of those the longest, as a trie over bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "classes.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

namespace tokseam {

// The characters that literals look at around them, as the reference's engine has them (class_probe.py).
struct Surroundings {
  std::vector<bool> space, word;  // by code point; empty where no literal looks around

  bool is_space(std::uint32_t point) const { return point < space.size() && space[point]; }
  bool is_word(std::uint32_t point) const { return point < word.size() && word[point]; }
};

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

  bool empty() const { return nodes_.size() == 1 && edges_.empty(); }

  // Build from literals in any order; call once.
  void build(const std::vector<std::pair<std::string_view, Token>>& literals) {
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
      tokens[at] = token;
    }
    nodes_.clear();
    for (std::size_t node = 0; node < children.size(); ++node) {
      nodes_.push_back({static_cast<std::uint32_t>(edges_.size()), tokens[node]});
      for (const auto& [byte, child] : children[node]) edges_.push_back({byte, child});
    }
    nodes_.push_back({static_cast<std::uint32_t>(edges_.size()), {}});
    for (const auto& [byte, child] : children[0]) first_[byte] = true, only_ = byte;
    single_first_ = children[0].size() == 1;
  }

  // The first match at or after `from`.
  Found find(std::string_view text, std::size_t from) const {
    for (std::size_t at = candidate(text, from); at != kNone; at = candidate(text, at + 1)) {
      const Found found = longest(text, at);
      if (found.begin != kNone) return found;
    }
    return {};
  }

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
    unsigned char byte;
    std::uint32_t child;
  };
  struct Node {
    std::uint32_t edges;  // where this node's edges begin; the next node's begin where they end
    Token token;          // id kNoId: no literal ends here
  };

  std::size_t candidate(std::string_view text, std::size_t from) const {
    if (from >= text.size()) return kNone;
    if (single_first_) {
      const void* hit = std::memchr(text.data() + from, only_, text.size() - from);
      return hit ? static_cast<std::size_t>(static_cast<const char*>(hit) - text.data()) : kNone;
    }
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
      if (nodes_[node].token.id != kNoId) found = {begin, at, nodes_[node].token};
    }
    return found;
  }

  std::vector<Node> nodes_{Node{0, {}}};
  std::vector<Edge> edges_;
  std::array<bool, 256> first_{};
  bool single_first_ = false;
  unsigned char only_ = 0;
};

}  // namespace tokseam
