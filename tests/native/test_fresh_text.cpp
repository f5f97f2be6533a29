// Texts whose chunks are recognised, against an encoder that recognises nothing; and the bounds of what is kept.
#include <algorithm>
#include <array>
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
  known.keep(42, "some text", 0, ids, {});
  CHECK(known.find(42, "some text", 0) != nullptr, "");
  CHECK(known.find(42, "some texu", 0) == nullptr, "");
  CHECK(known.find(42, "some text", 1) == nullptr, "");
  CHECK(known.find(43, "some text", 0) == nullptr, "");
  known.keep(42, "others", 0, ids, {});
  CHECK(known.find(42, "some text", 0) == nullptr && known.find(42, "others", 0)->ids == ids, "the later one stays");
  CHECK(!known.seen(9) && known.seen(9) && !known.seen(std::uint64_t{9} << 50), "");
}

// Lines' ends, 64 bytes at a time, against one by one.
void test_chosen_lines() {
  std::mt19937 random(17);
  std::string text = draw_lines(random, 40'000) + std::string(9'000, 'a');
  for (int i = 0; i < 3'000; ++i) text.insert(random() % text.size(), 1, '\n');
  std::vector<std::size_t> lines;
  for (std::size_t at = 0; at + 8 <= text.size(); ++at)
    if (text[at] == '\n' && detail::chosen_line(text, at, at + 1) == at) lines.push_back(at);
  CHECK(lines.size() > 20 && lines.size() < 200, "about one line in 64: " + std::to_string(lines.size()));
  for (int i = 0; i < 3'000; ++i) {
    const std::size_t from = random() % (text.size() - 8), last = from + random() % (text.size() - 8 - from);
    const auto first = std::ranges::lower_bound(lines, from);
    const std::size_t expected = first == lines.end() || *first >= last ? last : *first;
    CHECK(detail::chosen_line(text, from, last) == expected, std::to_string(from) + " to " + std::to_string(last));
  }
}

// What stands behind what, as texts had it last: bounded, and nothing that was forgotten.
void test_links_are_of_last_time() {
  KnownChunks known(1'000'000);
  const std::vector<std::uint32_t> ids{1, 2, 3};
  for (const std::uint64_t hash : {1U, 2U, 3U}) known.keep(hash, std::string(100, static_cast<char>('a' + hash)), 0, ids, {});
  const auto behind = [&](std::uint64_t hash) {
    std::array<KnownChunks::Found, 4> run;
    std::vector<std::uint64_t> hashes;
    for (std::size_t i = 0, count = known.behind(hash, run); i < count; ++i) hashes.push_back(run[i]->hash);
    return hashes;
  };
  using Hashes = std::vector<std::uint64_t>;
  CHECK(behind(1).empty() && behind(9).empty(), "no text had them yet");
  known.came(Hashes{1, 2, 3});
  CHECK(behind(1) == (Hashes{2, 3}) && behind(2) == Hashes{3} && behind(3).empty(), "in order");
  known.came(Hashes{1, 9, 3});
  CHECK(behind(1) == (Hashes{2, 3}), "what is not kept is no link");
  known.came(Hashes{1, 3});
  CHECK(behind(1) == Hashes{3}, "the last time counts");
  known.came(Hashes{2, 2});
  CHECK(behind(2) == Hashes(4, 2), "a chunk behind itself, as far as was asked");
  known.came(Hashes{3, 1});
  CHECK(behind(2) == Hashes(4, 2) && behind(3) == (Hashes{1, 3, 1, 3}), "in a circle");
  known.set_most_bytes(known.bytes() - 1);  // 2 is the longest unused
  CHECK(behind(2).empty() && behind(1) == (Hashes{3, 1, 3, 1}), "the longest unused goes first");
  known.set_most_bytes(known.bytes() - 1);
  CHECK(known.bytes() > 0 && behind(3).empty() && behind(1).empty(), "nothing forgotten is found");
  known.came(Hashes{1, 2, 3});
  CHECK(behind(1).empty() && behind(2).empty(), "nor linked");
  known.set_most_bytes(0);
  known.came(Hashes{1, 2, 3});
  CHECK(behind(1).empty() && behind(2).empty() && behind(3).empty(), "switched off");
}

// A chunk is planted behind the first one of a text, with the text's own bytes and an id that no text has: where that
// id comes out, the chunk was followed. It must be where it may end there, and nowhere else.
void check_following(const Image& image) {
  constexpr std::uint32_t kPlanted = 9999;
  constexpr std::uint64_t kPlantedHash = 42;
  std::mt19937 random(11);
  const Encoder knowing(image), other(image);
  KnownChunks& known = knowing.known_chunks();
  const std::string text = draw_lines(random, 60'000);
  const std::vector<std::uint32_t> expected = plain(other, text, {});
  for (int again = 0; again < 2; ++again) {
    std::vector<std::uint32_t> ids;
    encode_fresh(knowing, text, {}, 1, ids);
  }
  const std::vector<TextPart> parts = part_text(knowing, text, {});
  CHECK(parts.size() > 3 && parts[0].found && parts[1].found, "the text is known");
  const std::size_t begin = parts[0].end;

  const auto follows = [&](std::size_t end, std::uint64_t mode) {
    known.keep(kPlantedHash, std::string_view(text).substr(begin, end - begin), mode, std::vector{kPlanted},
               {});
    known.came(std::vector<std::uint64_t>{parts[0].hash, kPlantedHash});
    std::vector<std::uint32_t> ids;
    encode_fresh(knowing, text, {}, 1, ids);
    if (std::ranges::find(ids, kPlanted) != ids.end()) {
      // Everything else is as it is without.
      std::vector<std::uint32_t> parted = plain(other, text.substr(0, begin), {});
      parted.push_back(kPlanted);
      const std::vector<std::uint32_t> rest = plain(other, text.substr(end), {false, true});
      parted.insert(parted.end(), rest.begin(), rest.end());
      CHECK(ids == parted, "ids around a chunk that was followed");
      return true;
    }
    CHECK(ids == expected, "ids that differ");
    return false;
  };

  int cuts = 0, others = 0;
  for (std::size_t end = begin + detail::kLeastChunkBytes; cuts < 20 || others < 20; ++end) {
    CHECK(end < text.size(), "cuts of both kinds");
    if (!utf8::starts_code_point(text[end])) continue;
    const bool cut = knowing.next_cut(text, end) == end;
    if (++(cut ? cuts : others) > 20) continue;
    CHECK(follows(end, 2) == cut, "a chunk ends at a synchronizing position of this text: " + std::to_string(end));
  }
  const std::size_t short_end = knowing.next_cut(text, utf8::boundary_at_or_after(text, begin + 1000));
  CHECK(!follows(short_end, 2), "no crumbs");
  CHECK(follows(text.size(), 2), "at the text's end");
  CHECK(!follows(text.size(), 0) && !follows(text.size(), 3), "another mode is another chunk");
  known.set_most_bytes(0);
  known.set_most_bytes(KnownChunks::kDefaultBytes);
  std::vector<std::uint32_t> ids;
  encode_fresh(knowing, text, {}, 1, ids);
  CHECK(ids == expected, "all is forgotten");
}

void test_following_bytes() { check_following(test::toy_byte_image()); }
void test_following_characters() { check_following(test::toy_character_image()); }

// Texts that share their beginnings and go on in turns as one and as the other, and grow at their ends.
void test_texts_in_turns() {
  std::mt19937 random(13);
  for (const Image& image : {test::toy_byte_image(), test::toy_character_image()}) {
    const Encoder knowing(image), other(image);
    const std::string shared = draw_lines(random, 40'000);
    std::vector<std::string> texts;
    for (int i = 0; i < 3; ++i) texts.push_back(shared + draw_lines(random, 30'000) + shared);
    for (const char* more : {"", "x", " a", "\u0301", "\u0301 a", "<w>", "1", "\n", "b b"})
      texts.push_back(texts[0] + more + (random() % 2 == 0 ? draw_lines(random, 9'000) : ""));
    std::vector<std::vector<std::uint32_t>> expected;
    for (const std::string& text : texts) expected.push_back(plain(other, text, {}));
    for (int turn = 0; turn < 60; ++turn) {
      const std::size_t which = turn < 12 ? static_cast<std::size_t>(turn) : random() % texts.size();
      std::vector<std::uint32_t> ids;
      encode_fresh(knowing, texts[which], {}, 1, ids);
      CHECK(ids == expected[which], "text " + std::to_string(which) + ", turn " + std::to_string(turn));
    }
  }
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
                             {"chosen lines", test_chosen_lines},
                             {"links are of last time", test_links_are_of_last_time},
                             {"following, bytes", test_following_bytes},
                             {"following, characters", test_following_characters},
                             {"texts in turns", test_texts_in_turns},
                             {"many threads", test_many_threads}});
}
