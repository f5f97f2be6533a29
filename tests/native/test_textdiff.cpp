// shared_ends against a loop over code points, for every combination of storage widths.
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "check.hpp"
#include "textdiff.hpp"

namespace tokseam::test {
namespace {

// Code points in units of a width, in a buffer of the exact size so that a read past it is seen.
class Stored {
 public:
  Stored(const std::vector<std::uint32_t>& text, int width) : width_(width), length_(text.size()) {
    if (width == 1) store<std::uint8_t>(text);
    if (width == 2) store<std::uint16_t>(text);
    if (width == 4) store<std::uint32_t>(text);
  }
  CodePoints view() const {
    return std::visit([&](const auto& units) { return CodePoints{units.data(), length_, width_}; }, units_);
  }

 private:
  template <class Unit>
  void store(const std::vector<std::uint32_t>& text) {
    std::vector<Unit> units;
    units.reserve(text.size());
    for (const std::uint32_t c : text) units.push_back(static_cast<Unit>(c));
    units_ = std::move(units);
  }
  int width_;
  std::size_t length_;
  std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::uint32_t>> units_;
};

SharedEnds brute_force(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  const std::size_t n = std::min(a.size(), b.size());
  SharedEnds ends{0, 0};
  while (ends.prefix < n && a[ends.prefix] == b[ends.prefix]) ++ends.prefix;
  while (ends.suffix < n - ends.prefix && a[a.size() - 1 - ends.suffix] == b[b.size() - 1 - ends.suffix]) ++ends.suffix;
  return ends;
}

void check_pair(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b, int width_a, int width_b) {
  const Stored stored_a(a, width_a);
  const Stored stored_b(b, width_b);
  const SharedEnds got = shared_ends(stored_a.view(), stored_b.view());
  const SharedEnds want = brute_force(a, b);
  CHECK(got.prefix == want.prefix && got.suffix == want.suffix,
        "widths " + std::to_string(width_a) + ", " + std::to_string(width_b) + "; lengths " + std::to_string(a.size()) +
            ", " + std::to_string(b.size()) + "; prefix " + std::to_string(got.prefix) + " for " +
            std::to_string(want.prefix) + ", suffix " + std::to_string(got.suffix) + " for " +
            std::to_string(want.suffix));
}

// The code points that a text of each width may hold here. Those of width 2 and 4 share single bytes with one another,
// so that a comparison by bytes that forgets the width is caught.
std::uint32_t draw(std::mt19937& random, int width) {
  static const std::vector<std::uint32_t> points = {'a', 'b', 0xE9, 0x0161, 0x6161, 0xE961, 0x10061, 0x10161, 0x1F661};
  return points[random() % (width == 1 ? 3 : width == 2 ? 6 : 9)];
}

void every_width(std::size_t max_length, int rounds, unsigned seed) {
  std::mt19937 random(seed);
  for (const int width_a : {1, 2, 4}) {
    for (const int width_b : {1, 2, 4}) {
      for (int round = 0; round < rounds; ++round) {
        // Both are drawn from what the narrower width holds, then each may differ in a few places by its own.
        const int narrow = std::min(width_a, width_b);
        std::vector<std::uint32_t> a(random() % (max_length + 1));
        const std::uint32_t only = draw(random, narrow);
        const bool monotonous = random() % 3 == 0;  // one character only: prefix and suffix compete for it
        for (std::uint32_t& c : a) c = monotonous ? only : draw(random, narrow);
        std::vector<std::uint32_t> b = a;
        const std::size_t at = b.empty() ? 0 : random() % (b.size() + 1);
        const std::size_t gone = std::min<std::size_t>(random() % 4, b.size() - at);
        b.erase(b.begin() + static_cast<std::ptrdiff_t>(at), b.begin() + static_cast<std::ptrdiff_t>(at + gone));
        for (std::size_t i = random() % 4; i > 0; --i)
          b.insert(b.begin() + static_cast<std::ptrdiff_t>(at), monotonous ? only : draw(random, width_b));
        if (!a.empty() && random() % 4 == 0) a[random() % a.size()] = draw(random, width_a);
        check_pair(a, b, width_a, width_b);
      }
    }
  }
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"short texts, every width", [] { every_width(12, 4000, 1); }},
      {"texts of some blocks, every width", [] { every_width(3 * tokseam::detail::kBlockBytes, 60, 2); }},
  });
}
