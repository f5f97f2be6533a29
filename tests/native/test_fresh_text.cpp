// Texts whose chunks are recognised, against an encoder that recognises nothing; and the bounds of what is kept.
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "fresh_text.hpp"
#include "toy_image.hpp"

namespace {

using namespace tokseam;
using tokseam::test::Case;

std::string draw_lines(std::mt19937& random, std::size_t bytes) {
  constexpr const char* kWords[] = {"ab", "a", "aab", "ba", " ", "  ", "1", "<s>", "<w>", "\u00e9", "e\u0301", "\u4e00", "c"};
  std::string text;
  while (text.size() < bytes) {
    for (std::size_t words = random() % 12; words > 0; --words) text += kWords[random() % std::size(kWords)], text += ' ';
    text += '\n';
  }
  return text;
}

std::vector<std::uint32_t> plain(const Encoder& encoder, const std::string& text, EncodeMode mode) {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> marks;
  encoder.encode(text, mode, {}, ids, marks);
  return ids;
}

// The same passages again and again: whole texts, their beginnings, behind other text, with a change inside.
void check_recognition(const Image& image) {
  std::mt19937 random(3);
  const Encoder knowing(image), other(image);
  std::vector<std::string> passages;
  for (int i = 0; i < 4; ++i) passages.push_back(draw_lines(random, 30'000 + random() % 60'000));
  std::size_t most = 0;
  for (int round = 0; round < 120; ++round) {
    std::string text;
    for (std::size_t parts = 1 + random() % 3; parts > 0; --parts) {
      std::string passage = passages[random() % passages.size()];
      if (random() % 3 == 0) passage.insert(random() % 20'000, "x");
      if (random() % 4 == 0) passage.resize(random() % passage.size());
      while (!passage.empty() && !utf8::valid(passage)) passage.pop_back();
      if (random() % 4 == 0) text += draw_lines(random, random() % 3000);
      text += passage;
    }
    const EncodeMode mode{random() % 3 == 0, random() % 3 == 0};
    std::vector<std::uint32_t> ids{7};
    encode_fresh(knowing, text, mode, 1 + random() % 3, ids);
    std::vector<std::uint32_t> expected = plain(other, text, mode);
    expected.insert(expected.begin(), 7);
    CHECK(ids == expected, "ids that differ");
    most = std::max(most, knowing.known_chunks().bytes());
  }
  CHECK(most > 100'000, "something is kept");
  knowing.known_chunks().set_most_bytes(50'000);
  CHECK(knowing.known_chunks().bytes() <= 50'000, "what is too much is dropped");
  for (int again = 0; again < 3; ++again) {
    std::vector<std::uint32_t> ids;
    encode_fresh(knowing, passages[0], {}, 1, ids);
    CHECK(ids == plain(other, passages[0], {}), "ids that differ");
    CHECK(knowing.known_chunks().bytes() <= 50'000, "the bound holds");
  }
  knowing.known_chunks().set_most_bytes(0);
  CHECK(knowing.known_chunks().bytes() == 0 && !knowing.known_chunks().enabled(), "switched off");
}

void test_bytes() { check_recognition(test::toy_byte_image()); }
void test_characters() { check_recognition(test::toy_character_image()); }

// A chunk of the same hash but other bytes is not taken for it.
void test_bytes_decide() {
  KnownChunks known(1'000'000);
  const std::vector<std::uint32_t> ids{1, 2, 3};
  known.keep(42, "some text", 0, ids);
  CHECK(known.find(42, "some text", 0) != nullptr, "");
  CHECK(known.find(42, "some texu", 0) == nullptr, "");
  CHECK(known.find(42, "some text", 1) == nullptr, "");
  CHECK(known.find(43, "some text", 0) == nullptr, "");
  known.keep(42, "others", 0, ids);
  CHECK(known.find(42, "some text", 0) == nullptr && known.find(42, "others", 0)->ids == ids, "the later one stays");
  CHECK(!known.seen(9) && known.seen(9) && !known.seen(std::uint64_t{9} << 50), "");
}

void test_many_threads() {
  std::mt19937 random(5);
  const Encoder encoder(test::toy_byte_image());
  std::vector<std::string> texts;
  std::vector<std::vector<std::uint32_t>> expected;
  for (int i = 0; i < 3; ++i) {
    texts.push_back(draw_lines(random, 60'000));
    expected.push_back(plain(encoder, texts.back(), {}));
  }
  encoder.known_chunks().set_most_bytes(200'000);
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 12; ++i) {
          std::vector<std::uint32_t> ids;
          encode_fresh(encoder, texts[(t + i) % 3], {}, 1, ids);
          wrong[t] += ids != expected[(t + i) % 3];
        }
      });
  }
  for (const int count : wrong) CHECK(count == 0, "");
}

}  // namespace

int main() {
  return tokseam::test::run({{"bytes", test_bytes},
                             {"characters", test_characters},
                             {"bytes decide", test_bytes_decide},
                             {"many threads", test_many_threads}});
}
