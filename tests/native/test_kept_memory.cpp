// to_utf8.hpp against a code point at a time; kept_memory.hpp and zeroed_array.hpp: what comes back, and what is let
// go.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "kept_memory.hpp"
#include "to_utf8.hpp"
#include "utf8.hpp"
#include "zeroed_array.hpp"

namespace tokseam::test {
namespace {

// Empty where `points` has a surrogate. By the path that this processor takes, and by the portable one.
template <class Unit>
std::string written(const std::vector<std::uint32_t>& points) {
  const std::vector<Unit> units(points.begin(), points.end());
  const auto by = [&](auto write) {
    std::vector<char> room(units.size() * utf8::kMostWidth<Unit> + 1, '#');
    const char* end = write(units.data(), units.size(), room.data());
    CHECK(room.back() == '#', "written behind the room");
    return end == nullptr ? std::string() : std::string(room.data(), static_cast<std::size_t>(end - room.data()));
  };
  std::string text = by(utf8::write<Unit>);
  CHECK(text == by(utf8::write_portable<Unit>), "the paths differ");
  return text;
}

std::string by_the_character(const std::vector<std::uint32_t>& points) {
  std::string text;
  for (const std::uint32_t point : points) utf8_append(text, point);
  return text;
}

bool is_surrogate(std::uint32_t point) { return point >= 0xD800 && point < 0xE000; }

void every_character_has_its_utf8() {
  std::vector<std::uint32_t> one, two, four;
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    if (is_surrogate(point)) continue;
    if (point < 0x100) one.push_back(point);
    if (point < 0x10000) two.push_back(point);
    four.push_back(point);
  }
  CHECK(written<std::uint8_t>(one) == by_the_character(one), "one byte a character");
  CHECK(written<std::uint16_t>(two) == by_the_character(two), "two bytes a character");
  CHECK(written<std::uint32_t>(four) == by_the_character(four), "four bytes a character");
}

void blocks_begin_and_end_anywhere() {
  std::mt19937 random(3);
  const std::vector<std::uint32_t> some = {0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF};
  for (std::size_t count = 0; count < 70; ++count) {
    for (int turn = 0; turn < 60; ++turn) {
      std::vector<std::uint32_t> points(count);
      const auto rare = static_cast<std::uint32_t>(turn % 3 == 0 ? 1 : turn % 3 == 1 ? 3 : 20);
      for (std::uint32_t& point : points) point = random() % rare == 0 ? some[random() % some.size()] : random() % 0x80;
      CHECK(written<std::uint32_t>(points) == by_the_character(points), std::to_string(count) + " characters");
      for (std::uint32_t& point : points) point = std::min<std::uint32_t>(point, 0xFFFF);
      CHECK(written<std::uint16_t>(points) == by_the_character(points), std::to_string(count) + " characters");
      for (std::uint32_t& point : points) point &= 0xFF;
      CHECK(written<std::uint8_t>(points) == by_the_character(points), std::to_string(count) + " characters");
    }
  }
}

void a_surrogate_has_none() {
  for (const std::uint32_t surrogate : {0xD800U, 0xDBFFU, 0xDC00U, 0xDFFFU}) {
    for (std::size_t at = 0; at < 90; ++at) {
      std::vector<std::uint32_t> points(90, 'x');
      points[at] = surrogate;
      CHECK(written<std::uint16_t>(points).empty() && written<std::uint32_t>(points).empty(), std::to_string(at));
    }
  }
}

void vectors_come_back_where_they_fit() {
  KeptVectors<std::uint32_t> kept;
  constexpr std::size_t kCount = KeptVectors<std::uint32_t>::kLeastBytes / sizeof(std::uint32_t);
  std::vector<std::uint32_t> used = kept.take(2 * kCount);
  used.resize(2 * kCount, 7);
  const std::uint32_t* const where = used.data();
  kept.give_back(std::move(used));
  CHECK(kept.take(kCount / 8).data() != where, "much room for little");
  CHECK(kept.take(3 * kCount).data() != where, "too little room");
  std::vector<std::uint32_t> again = kept.take(kCount);
  CHECK(again.empty() && again.capacity() >= 2 * kCount && again.data() == where, "what fits comes back empty");
  CHECK(kept.take(kCount).data() != where, "once only");
  // Small ones are let go: there is room for one that is not behind any number of them.
  for (int i = 0; i < 100; ++i) {
    std::vector<std::uint32_t> small;
    small.reserve(kCount / 2);
    kept.give_back(std::move(small));
  }
  kept.give_back(std::move(again));
  CHECK(kept.take(kCount).data() == where, "small ones take no place");
}

void no_more_is_kept_than_told() {
  KeptVectors<std::uint32_t> kept;
  constexpr std::size_t kMost = KeptVectors<std::uint32_t>::kMostBytes / sizeof(std::uint32_t);
  std::vector<std::uint32_t> first = kept.take(kMost / 2 + 1), second = kept.take(kMost / 2 + 1);
  const std::uint32_t* const places[] = {first.data(), second.data()};
  kept.give_back(std::move(first));
  kept.give_back(std::move(second));  // would be more than kMostBytes
  CHECK(kept.take(kMost / 2 + 1).data() == places[0], "the first one is kept");
}

void threads_share_what_is_kept() {
  KeptVectors<std::uint32_t> kept;
  std::vector<std::thread> threads;
  for (std::uint32_t mine = 1; mine <= 4; ++mine) {
    threads.emplace_back([&kept, mine] {
      for (int turn = 0; turn < 200; ++turn) {
        std::vector<std::uint32_t> values = kept.take(40'000);
        CHECK(values.empty(), "nothing is left in it");
        values.assign(40'000, mine);
        CHECK(std::ranges::count(values, mine) == 40'000, "nobody else has it");
        kept.give_back(std::move(values));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void rooms_do_not_overlap() {
  const char* place = nullptr;
  {
    KeptRoom outer(1000);
    std::memset(outer.data(), 1, 1000);
    KeptRoom inner(1000);
    std::memset(inner.data(), 2, 1000);
    CHECK(outer.data()[999] == 1 && inner.data() != outer.data(), "two at a time");
    place = inner.data();  // it goes first, and an equal one does not take its place
  }
  KeptRoom again(500);
  CHECK(again.data() == place, "what is kept is large enough");
  KeptRoom larger(2000);
  std::memset(larger.data(), 3, 2000);
  CHECK(larger.data() != place, "two at a time");
}

void arrays_begin_as_zeros() {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    for (const bool large_pages : {false, true}) {
      ZeroedArray<std::uint64_t> values(count);
      if (large_pages) values.in_large_pages();
      std::uint64_t any = 0;
      for (std::size_t i = 0; i < count; ++i) any |= values[i], values[i] = i + 1;
      CHECK(any == 0, "zeros");
      CHECK(values[count - 1] == count && reinterpret_cast<std::uintptr_t>(values.get()) % 64 == 0, "ours to write");
    }
  }
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({{"every character has its UTF-8", every_character_has_its_utf8},
              {"blocks begin and end anywhere", blocks_begin_and_end_anywhere},
              {"a surrogate has none", a_surrogate_has_none},
              {"vectors come back where they fit", vectors_come_back_where_they_fit},
              {"no more is kept than told", no_more_is_kept_than_told},
              {"threads share what is kept", threads_share_what_is_kept},
              {"rooms do not overlap", rooms_do_not_overlap},
              {"arrays begin as zeros", arrays_begin_as_zeros}});
}
