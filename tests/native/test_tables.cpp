// The tables that most of an image is: each against the plain containers of the standard library.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"
#include "close_numbers.hpp"
#include "image.hpp"
#include "merges.hpp"
#include "pair_sieve.hpp"
#include "parted_entries.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

using namespace tokseam;

namespace {

void test_close_numbers() {
  std::mt19937 random(3);
  for (const std::size_t count : {0, 1, 63, 64, 65, 5000}) {
    for (const std::uint32_t spread : {1U, 255U, 256U, 100'000U, 0xFFFFFFFFU}) {
      std::vector<std::uint32_t> values;
      for (std::size_t i = 0; i < count; ++i)
        values.push_back(random() % 50 == 0 ? static_cast<std::uint32_t>(random())
                                            : static_cast<std::uint32_t>(i / 3 + random() % spread));
      if (count > 2) values[1] = kNoId, values[2] = 0;
      ImageWriter writer;
      CloseNumbers::write(writer, Section::lengths, values);
      const Image image = writer.finish();
      const CloseNumbers numbers(image, Section::lengths);
      CHECK(numbers.size() == count, "");
      for (std::size_t i = 0; i < count; ++i) CHECK(numbers[i] == values[i], "");
    }
  }
}

void test_close_numbers_take_a_byte_each() {
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < 64'000; ++i) values.push_back(1000 + i / 3);
  ImageWriter writer;
  CloseNumbers::write(writer, Section::lengths, values);
  CHECK(writer.finish().bytes().size() < 70'000, "");
}

void test_a_sieve_never_denies() {
  std::mt19937_64 random(4);
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < 50'000; ++i)
    keys.push_back(PairSieve::key(0x4E00 + static_cast<std::uint32_t>(random() % 2000),
                                  0x4E00 + static_cast<std::uint32_t>(random() % 2000)));
  ImageWriter writer;
  PairSieve::write(writer, Section::crossed, keys);
  PairSieve::write(writer, Section::joined, {});
  const Image image = writer.finish();
  const PairSieve sieve(image, Section::crossed), none(image, Section::joined);
  const std::set<std::uint64_t> held(keys.begin(), keys.end());
  for (const std::uint64_t key : keys) CHECK(sieve.may_contain(key) && !none.may_contain(key), "");
  std::size_t wrong = 0, asked = 0;
  for (std::uint32_t before = 0x4E00; before < 0x4E00 + 2000; ++before)
    for (std::uint32_t behind = 0x4E00; behind < 0x4E00 + 2000; behind += 3, ++asked)
      wrong += sieve.may_contain(PairSieve::key(before, behind)) && held.count(PairSieve::key(before, behind)) == 0;
  CHECK(wrong * 80 < asked, "few answers are wrong");
  CHECK(none.empty() && !sieve.empty(), "");
}

// Whether an entry of `entries` stands across text[at], and begins or ends inside a character.
bool crosses(const std::vector<std::string_view>& entries, std::string_view text, std::size_t at) {
  for (const std::string_view entry : entries)
    for (std::size_t from = at < entry.size() ? 0 : at - entry.size() + 1; from < at; ++from) {
      if (from + entry.size() <= at || text.substr(from, entry.size()) != entry) continue;
      const std::size_t end = from + entry.size();
      std::size_t first = from, last = end;  // the first whole character, and the end of the last
      while (first < end && is_continuation(text[first])) ++first;
      while (last < text.size() && is_continuation(text[last])) --last;
      if ((first > from && first == at) || (last < end && last == at)) return true;
    }
  return false;
}

void test_parted_entries() {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    std::string drawn;
    for (std::size_t left = 1 + random() % 60; left > 0; --left)
      utf8_append(drawn, std::array<std::uint32_t, 6>{'a', ' ', 0xE9, 0x4E00, 0x4E01, 0x1F600}[random() % 6]);
    const std::vector<char> bytes(drawn.begin(), drawn.end());  // which end where the text does, for ASan
    const std::string_view text(bytes.data(), bytes.size());
    std::vector<std::string_view> entries;
    for (std::size_t left = random() % 30; left > 0; --left)
      entries.push_back(text.substr(random() % text.size(), 1 + random() % 12));
    ImageWriter writer;
    PartedEntries::write(writer, entries, false);
    const Image image = writer.finish();
    const PartedEntries parted(image);
    for (std::size_t at = 1; at < text.size(); ++at)
      if (!is_continuation(text[at]))
        CHECK(parted.cross(text, at) == crosses(entries, text, at), "at " + std::to_string(at));
  }
}

void test_vocabulary() {
  std::mt19937 random(5);
  std::vector<std::string> names = {"", "a", std::string(300, 'x'), std::string(100'000, 'y')};
  for (int i = 0; i < 4000; ++i) {
    std::string name;
    for (std::size_t n = random() % 12; n > 0; --n) name += static_cast<char>('a' + random() % 3);
    names.push_back(name);
  }
  for (const std::uint32_t step : {1U, 1U << 12, 1U << 18}) {  // of ids: a length gets the bits that they leave
    std::vector<Vocabulary::Entry> entries;
    std::map<std::string, std::uint32_t> expected;
    for (std::uint32_t i = 0; i < names.size(); ++i) {
      entries.push_back({names[i], i * step});
      expected.try_emplace(names[i], i * step);  // the first one counts
    }
    ImageWriter writer;
    Vocabulary::write(writer, entries);
    const Image image = writer.finish();
    const Vocabulary vocabulary(image);
    for (const auto& [name, id] : expected) {
      CHECK(vocabulary.find(name) == id, "");
      for (const std::string& other : {name + "b", name + std::string(500, 'x'), name.substr(0, name.size() / 2)})
        CHECK(vocabulary.find(other) == (expected.count(other) ? expected[other] : kNoId), "");
    }
    for (const auto path : {Vocabulary::Path::portable, Vocabulary::best_path()})
      for (int round = 0; round < 300; ++round) {
        std::vector<std::string> keys;
        for (std::size_t n = random() % 200; n > 0; --n)
          keys.push_back(names[random() % names.size()] + (random() % 2 == 0 ? "" : "b"));
        const std::vector<std::string_view> views(keys.begin(), keys.end());
        std::vector<std::uint32_t> ids(keys.size() + 1, 77);
        vocabulary.find_all(views, ids.data(), path);
        for (std::size_t i = 0; i < keys.size(); ++i)
          CHECK(ids[i] == (expected.count(keys[i]) ? expected[keys[i]] : kNoId), keys[i]);
        CHECK(ids.back() == 77, "as many as there are keys");
      }
  }
  ImageWriter writer;
  CHECK_THROWS(std::invalid_argument, Vocabulary::write(writer, std::vector<Vocabulary::Entry>{{"a", 1U << 31}}));
}

using Pairs = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>;

// Writes pairs of ids below `ids`, and compares what is found for each, and for many others.
void check_merges(std::uint32_t ids, std::uint32_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> quads, byte_ids(256);
  Pairs expected;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const auto left = static_cast<std::uint32_t>(random() % ids), right = static_cast<std::uint32_t>(random() % ids);
    quads.insert(quads.end(), {left, right, rank, rank / 2});
    expected[{left, right}] = rank;  // the last one counts
  }
  for (std::uint32_t b = 0; b < 256; ++b) byte_ids[b] = b;
  ImageWriter writer;
  Merges::write(writer, quads, byte_ids);
  writer.add(Section::byte_ids, byte_ids);
  const Image image = writer.finish();
  const Merges merges(image);
  for (const auto& [pair, rank] : expected) {
    const auto [left, right] = pair;
    const std::uint32_t found = merges.find(left, right);
    CHECK(found == rank && merges.merged(found) == rank / 2, "");
    const std::array<std::pair<std::uint32_t, std::uint32_t>, 4> others{
        {{right, left}, {left + 1, right}, {left, right + ids}, {left ^ 64, right ^ 1}}};
    for (const auto& [a, b] : others) {
      const auto other = expected.find({a, b});
      CHECK(merges.find(a, b) == (other == expected.end() ? kNoRank : other->second), "");
    }
  }
}

void test_merges() {
  check_merges(4, 3, 1);
  check_merges(300, 20'000, 2);          // every pair's hash in full
  check_merges(200'000, 60'000, 3);      // part of it
  check_merges(4'000'000, 60'000, 4);    // so little that the table has to be larger
  check_merges(1U << 22, 40, 5);
  ImageWriter writer;
  const std::vector<std::uint32_t> byte_ids(256, kNoId);
  const std::vector<std::vector<std::uint32_t>> unfit = {
      {1, 2, 0, 3, 2, 1, 0, 4}, {1, 2, 1U << 26, 3}, {1, 1U << 31, 0, 3}, {1, 1U << 30, 0, 3}};
  for (const auto& quads : unfit) CHECK_THROWS(std::invalid_argument, Merges::write(writer, quads, byte_ids));
}

}  // namespace

int main() {
  return test::run({{"close numbers", test_close_numbers},
                    {"close numbers take a byte each", test_close_numbers_take_a_byte_each},
                    {"a sieve never denies", test_a_sieve_never_denies},
                    {"parted entries", test_parted_entries},
                    {"vocabulary", test_vocabulary},
                    {"merges", test_merges}});
}
