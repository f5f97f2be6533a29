// A piece of any length merged in short windows, joined where the pair lemma holds (kernels/README.md, claim 10): work
// in proportion to the piece, all of it in lanes (merge_lanes.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "merge_lanes.hpp"
#include "merges.hpp"

namespace tokseam {

class MergeWindows {
 public:
  explicit MergeWindows(const Merges& merges) : merges_(merges), lanes_(merges) {}

  // Appends the ids that `symbols` become.
  void apply(std::span<const std::uint32_t> symbols, std::vector<std::uint32_t>& ids) {
    symbols_ = symbols;
    joined_.clear();
    end_ = 0;
    window_ = kShortWindow;
    for (std::size_t begin = 0; begin < symbols_.size(); begin += kTogether * window_) {
      merge_windows(begin);
      if (begin == 0 && has_long_tokens()) {
        window_ = kLongWindow;
        merge_windows(begin);
      }
      if (!join()) return merges_.apply(symbols, [&](std::uint32_t id, std::size_t) { ids.push_back(id); });
    }
    for (const Token& token : joined_) ids.push_back(token.id);
  }

 private:
  // An id, and how many symbols it is made of.
  struct Token {
    std::uint32_t id, count;
    bool operator==(const Token&) const = default;
  };
  // PERF: a merge in a short window is quicker, but where tokens are long, as of a run of spaces, most of its seams
  // would have to be mended.
  static constexpr std::size_t kShortWindow = 48, kLongWindow = MergeLanes::kMostSymbols;  // symbols
  static constexpr std::size_t kLongTokens = 10;                                           // symbols
  static constexpr std::size_t kTogether = 64;                                             // windows
  // A seam that needs more tokens than so many on its left is one of a text made for that: the heap takes all of it.
  static constexpr std::size_t kMostTaken = 64;

  // The windows from `begin` on, each by itself, and what the tokens at their seams become by themselves.
  void merge_windows(std::size_t begin) {
    const std::size_t size = std::min(symbols_.size() - begin, kTogether * window_);
    const std::size_t windows = (size + window_ - 1) / window_;
    const auto part = [&](std::size_t i) {
      return symbols_.subspan(begin + i * window_, std::min(window_, size - i * window_));
    };
    merge_all(windows, part, windows_);
    // Seam i lies behind window i.
    const auto seam = [&](std::size_t i) {
      const std::size_t left = windows_[i].back().count, right = windows_[i + 1].front().count;
      const bool tried = left + right <= MergeLanes::kMostSymbols;
      return symbols_.subspan(begin + (i + 1) * window_ - left, tried ? left + right : 0);
    };
    merge_all(windows - 1, seam, seams_);
  }

  // What each of so many parts becomes by itself. PERF: one that is like the one before becomes the same, so that a text
  // that repeats itself, as a run of spaces, costs comparisons.
  template <class Part>
  void merge_all(std::size_t count, const Part& part, std::vector<std::vector<Token>>& made) {
    made.resize(count);
    chosen_.clear();
    for (std::size_t i = 0; i < count; ++i)
      if (i == 0 || !std::ranges::equal(part(i), part(i - 1))) chosen_.push_back(i);
    lanes_.run(
        chosen_.size(), [&](std::size_t k) { return part(chosen_[k]).size(); },
        [&](std::size_t k, const auto& lane) { lane.symbols(part(chosen_[k])); },
        [&](std::size_t k, const auto& result) { put(result, made[chosen_[k]]); });
    auto next = chosen_.begin();
    for (std::size_t i = 0; i < count; ++i) {
      if (next != chosen_.end() && *next == i)
        ++next;
      else
        made[i] = made[i - 1];
    }
  }

  bool has_long_tokens() const {
    std::size_t tokens = 0;
    for (const std::vector<Token>& window : windows_) tokens += window.size();
    return tokens * kLongTokens < std::min(symbols_.size(), windows_.size() * window_);
  }

  template <class Result>
  static void put(const Result& result, std::vector<Token>& tokens) {
    tokens.clear();
    result.each([&](std::uint32_t id, std::size_t count) { tokens.push_back({id, static_cast<std::uint32_t>(count)}); });
  }

  // Appends the windows to what is joined. False where that takes too much.
  bool join() {
    bool changed = true;  // the last joined token is not the one that the seam was tried with
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      std::span<const Token> window = windows_[i];
      const bool holds = joined_.empty() || (changed ? is_seam(joined_.back(), end_, window.front())
                                                     : seams_[i - 1] == std::vector{joined_.back(), window.front()});
      changed = false;
      if (!holds) {
        if (!mend(window, changed)) return false;
      }
      for (const Token& token : window) end_ += token.count;
      joined_.insert(joined_.end(), window.begin(), window.end());
    }
    return true;
  }

  // Whether two tokens that meet at symbol `at` are what merging them makes.
  bool is_seam(const Token& left, std::size_t at, const Token& right) {
    merge(at - left.count, at + right.count, tried_);
    return tried_.size() == 2 && tried_[0] == left && tried_[1] == right;
  }

  // Merges the tokens around the seam anew, more and more of them, until what they become holds on both sides. Takes
  // them from the joined ones and from `window`, and appends what they became.
  bool mend(std::span<const Token>& window, bool& changed) {
    for (std::size_t take = 1;; take *= 2) {
      if (take > kMostTaken) return false;
      const std::size_t left = std::min(take, joined_.size()), right = std::min(take, window.size());
      std::size_t from = end_, to = end_;
      for (std::size_t k = 0; k < left; ++k) from -= joined_[joined_.size() - 1 - k].count;
      for (std::size_t k = 0; k < right; ++k) to += window[k].count;
      merge(from, to, anew_);
      if (left < joined_.size() && !is_seam(joined_[joined_.size() - 1 - left], from, anew_.front())) continue;
      if (right < window.size() && !is_seam(anew_.back(), to, window[right])) continue;
      joined_.resize(joined_.size() - left);
      joined_.insert(joined_.end(), anew_.begin(), anew_.end());
      end_ = to;
      window = window.subspan(right);
      changed = window.empty();
      return true;
    }
  }

  // What symbols [from, to) become by themselves.
  void merge(std::size_t from, std::size_t to, std::vector<Token>& tokens) {
    const auto part = symbols_.subspan(from, to - from);
    if (part.size() <= MergeLanes::kMostSymbols) {
      lanes_.run(
          1, [&](std::size_t) { return part.size(); }, [&](std::size_t, const auto& lane) { lane.symbols(part); },
          [&](std::size_t, const auto& result) { put(result, tokens); });
      return;
    }
    tokens.clear();
    merges_.apply(part, [&](std::uint32_t id, std::size_t count) {
      tokens.push_back({id, static_cast<std::uint32_t>(count)});
    });
  }

  const Merges& merges_;
  MergeLanes lanes_;
  std::span<const std::uint32_t> symbols_;
  std::vector<std::vector<Token>> windows_, seams_;
  std::vector<std::size_t> chosen_;  // the parts that are merged, not taken from the one before
  std::vector<Token> joined_;  // of symbols [0, end_)
  std::size_t end_ = 0;
  std::size_t window_ = kShortWindow;
  std::vector<Token> anew_, tried_;
};

}  // namespace tokseam
