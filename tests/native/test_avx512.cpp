// What is looked up sixteen or 64 at a time, against the same asked one by one. On a processor without such vectors
// there is nothing to test.
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "avx512.hpp"
#include "bit_matrix.hpp"
#include "check.hpp"
#include "classes.hpp"
#include "image.hpp"
#include "pair_sieve.hpp"
#include "parted_entries.hpp"

#if defined(TOKSEAM_AVX512)

namespace {

using namespace tokseam;

using Sixteen = std::array<std::uint32_t, 16>;
using Bytes = std::array<std::uint8_t, 64>;

TOKSEAM_AVX512_ENTRY Sixteen classes_of(const Classes& classes, const Sixteen& points, std::uint16_t lanes) {
  Sixteen found;
  _mm512_storeu_si512(found.data(), classes.of(_mm512_loadu_si512(points.data()), lanes));
  return found;
}

void test_classes() {
  std::mt19937 random(1);
  constexpr std::uint32_t kCount = 0x110000;
  std::vector<std::uint8_t> table(kCount);
  for (std::size_t point = 0; point < kCount; ++point) table[point] = static_cast<std::uint8_t>(point / 7 % 250);
  ImageWriter writer;
  Classes::write(writer, 250, table.data(), std::vector<std::uint8_t>(250 * 250).data(),
                 std::vector<std::uint8_t>(250).data());
  const Image image = writer.finish();
  const Classes classes(image);
  for (std::uint32_t first = 0; first < kCount; first += 16) {
    Sixteen points;
    for (std::uint32_t i = 0; i < 16; ++i) points[i] = first + i;
    const auto lanes = static_cast<std::uint16_t>(random());
    const Sixteen found = classes_of(classes, points, lanes);
    for (std::uint32_t i = 0; i < 16; ++i) CHECK(found[i] == ((lanes >> i & 1) != 0 ? table[first + i] : 0), "");
  }
}

TOKSEAM_AVX512_ENTRY std::uint16_t may_contain(const PairSieve& sieve, const Sixteen& before, const Sixteen& behind,
                                               std::uint16_t lanes) {
  return sieve.may_contain(_mm512_loadu_si512(before.data()), _mm512_loadu_si512(behind.data()), lanes);
}

void test_pair_sieves() {
  std::mt19937 random(2);
  for (const std::size_t size : {0U, 1U, 2U, 3U, 1000U, 30'000U}) {
    std::vector<std::uint64_t> keys;
    for (std::size_t i = 0; i < size; ++i)
      keys.push_back(PairSieve::key(static_cast<std::uint32_t>(random() % 500),
                                    0x10FF00 + static_cast<std::uint32_t>(random() % 200)));
    ImageWriter writer;
    PairSieve::write(writer, Section::crossed, keys);
    const Image image = writer.finish();
    const PairSieve sieve(image, Section::crossed);
    std::size_t granted = 0;
    for (int round = 0; round < 4000; ++round) {
      Sixteen before, behind;
      for (auto& one : before) one = random() % 50 == 0 ? 0xFFFFFFFF : static_cast<std::uint32_t>(random() % 500);
      for (auto& one : behind) one = 0x10FF00 + static_cast<std::uint32_t>(random() % 200);
      const auto lanes = static_cast<std::uint16_t>(random());
      const std::uint16_t found = may_contain(sieve, before, behind, lanes);
      for (std::size_t i = 0; i < 16; ++i) {
        const bool one = (lanes >> i & 1) != 0 && sieve.may_contain(PairSieve::key(before[i], behind[i]));
        CHECK((found >> i & 1) == one, "");
        granted += one;
      }
    }
    CHECK((granted == 0) == (size == 0) || size < 1000, "");
  }
}

TOKSEAM_AVX512_ENTRY std::uint64_t has(const BitMatrix& matrix, const Bytes& rows, const Bytes& columns) {
  return matrix.has(_mm512_loadu_si512(rows.data()), _mm512_loadu_si512(columns.data()));
}

void test_bit_matrices() {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    BitMatrix matrix;
    std::vector<bool> expected(BitMatrix::kSize * BitMatrix::kSize);
    for (std::size_t i = 0; i < (round == 0 ? 0 : expected.size() / 2); ++i) {
      const std::size_t place = random() % expected.size();
      matrix.set(place / BitMatrix::kSize, place % BitMatrix::kSize);
      expected[place] = true;
    }
    for (std::size_t first = 0; first < 0x10000; first += 64) {
      Bytes rows, columns;
      for (std::size_t i = 0; i < 64; ++i) {
        rows[i] = static_cast<std::uint8_t>((first + i) >> 8);
        columns[i] = static_cast<std::uint8_t>(first + i);
      }
      const std::uint64_t found = has(matrix, rows, columns);
      for (std::size_t i = 0; i < 64; ++i) {
        const std::size_t row = rows[i] % BitMatrix::kSize, column = columns[i] % BitMatrix::kSize;
        const bool one = expected[row * BitMatrix::kSize + column];
        CHECK((found >> i & 1) == one && matrix.has(row, column) == one, "");
      }
    }
  }
}

TOKSEAM_AVX512_ENTRY std::uint64_t may_cross(const PartedEntries& parted, const Bytes& last, const Bytes& lead) {
  return parted.may_cross(_mm512_loadu_si512(last.data()), _mm512_loadu_si512(lead.data()));
}

// Just where some entry crosses between two such bytes.
void test_parted_entries() {
  const std::vector<std::string_view> entries{"\xBC\xE4\xB8\x80", "\u4e00\xE4", "\u4e00\xE5\xBC",
                                              "\x80 a",           "a\xC3",      "\u00e9"};
  ImageWriter writer;
  PartedEntries::write(writer, entries, false);
  const Image image = writer.finish();
  const PartedEntries parted(image);
  for (std::uint32_t row = 0x80; row < 0xC0; ++row) {
    Bytes last, lead;
    last.fill(static_cast<std::uint8_t>(row));
    for (std::size_t i = 0; i < 64; ++i) lead[i] = static_cast<std::uint8_t>(0xC0 + i);
    std::uint64_t expected = 0;
    if (row == 0xBC) expected |= std::uint64_t{1} << 0x24;
    if (row == 0x80) expected |= std::uint64_t{3} << 0x24;  // of the one that follows, one byte and two
    CHECK(may_cross(parted, last, lead) == expected, "");
  }
}

}  // namespace

int main() {
  if (!tokseam::has_avx512()) return 0;
  return tokseam::test::run({{"classes", test_classes},
                             {"pair sieves", test_pair_sieves},
                             {"bit matrices", test_bit_matrices},
                             {"parted entries", test_parted_entries}});
}

#else

int main() { return 0; }

#endif
