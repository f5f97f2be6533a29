// A whole text encoded for a session on several threads: the same ids, cuts and marks as on one, and a session seeded
// with them is the one that encodes its text itself.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "encoder.hpp"
#include "marked_encode.hpp"
#include "session.hpp"
#include "toy_image.hpp"

using namespace tokseam;

namespace {

std::string random_text(std::mt19937& random, std::size_t bytes) {
  static const std::vector<std::string> parts{"ab",  "a ", "aa aba", "<s>", "  ", "1", "e\u0301", "\u00E9", "\u4E00 ",
                                              " aab", "\n", "<w>",    "zz"};
  std::string text;
  while (text.size() < bytes) text += parts[random() % parts.size()];
  return text;
}

void check_seeds(const Encoder& encoder, const std::string& text, bool split_special) {
  Session<Encoder> itself(encoder, split_special), seeded(encoder, split_special);
  const Splice whole = itself.reset(text);
  for (const std::size_t threads : {1, 2, 5, 64}) {
    MarkedText made = encode_marked(encoder, text, split_special, threads);
    const std::string where = std::to_string(text.size()) + " bytes, " + std::to_string(threads) + " threads";
    CHECK(made.ids == whole.ids, where);
    CHECK(made.cuts == itself.plan_cuts(text), where);
    seeded.seed(text, made.cuts, std::move(made.ids), made.marks);
    seeded.validate();
    CHECK(seeded.chunk_count() == itself.chunk_count() && seeded.mark_count() == itself.mark_count(), where);
  }
  const Splice one = itself.append(" ab aa"), other = seeded.append(" ab aa");
  CHECK(one.start == other.start && one.stop == other.stop && one.ids == other.ids, "after an append");
}

void test_threads_mark_the_same() {
  std::mt19937 random(7);
  const Encoder bytes(test::toy_byte_image()), characters(test::toy_character_image());
  for (const std::size_t size : {0, 1, 300, 5'000, 70'000, 140'000, 700'000}) {
    const std::string text = size == 0 ? "" : random_text(random, size);
    check_seeds(bytes, text, false);
    check_seeds(bytes, text, true);
    check_seeds(characters, text, false);
  }
}

void test_a_text_without_cuts() {
  const Encoder encoder(test::toy_byte_image());
  check_seeds(encoder, std::string(300'000, '1'), false);
  check_seeds(encoder, std::string(200'000, 'z') + " a" + std::string(200'000, 'z'), false);
}

// Texts that came before, whole, behind and in front of others, with a change inside: ids and marks are those of an
// encode that recognises nothing, and a session seeded with them goes on as one that encoded its text itself.
void check_recognised(const Image& image) {
  std::mt19937 random(19);
  const Encoder knowing(image), other(image);
  std::vector<std::string> passages;
  for (const std::size_t size : {25'000, 60'000, 110'000}) passages.push_back(random_text(random, size));
  std::size_t found = 0, marks_found = 0;
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (std::size_t count = 1 + random() % 3; count > 0; --count) {
      std::string passage = passages[random() % passages.size()];
      if (random() % 3 == 0) passage.insert(random() % 2 == 0 ? 0 : passage.find("ab", passage.size() / 2), "1 ab");
      text += passage;
    }
    const bool split_special = random() % 4 == 0;
    const std::vector<std::size_t> cuts = Session<Encoder>(knowing, split_special).plan_cuts(text);
    for (const TextPart& part : part_text(knowing, text, {split_special, false})) {
      const std::span<const std::size_t> inside = cuts_inside(cuts, part.begin, part.end);
      std::vector<std::size_t> marks;
      if (!part.found || !detail::append_marks(*part.found, part.begin, inside, 0, marks)) continue;
      ++found;
      marks_found += marks.size();
    }
    MarkedText made = encode_marked(knowing, text, split_special, 1 + random() % 2);
    const std::string where = "round " + std::to_string(round);
    std::vector<std::uint32_t> ids;
    std::vector<std::size_t> marks;
    other.encode(text, {split_special, false}, made.cuts, ids, marks);
    CHECK(made.ids == ids, where);
    CHECK(made.marks == marks, where);

    Session<Encoder> itself(other, split_special), seeded(knowing, split_special);
    itself.reset(text);
    CHECK(made.cuts == itself.plan_cuts(text), where);
    seeded.seed(text, made.cuts, std::move(made.ids), made.marks);
    if (round % 10 == 0) seeded.validate();
    CHECK(seeded.mark_count() == itself.mark_count(), where);
    const std::size_t at = random() % seeded.chars();
    for (const bool append : {true, false}) {
      const Splice one = append ? itself.append(" ab aa") : itself.edit(at, at, "b a");
      const Splice same = append ? seeded.append(" ab aa") : seeded.edit(at, at, "b a");
      CHECK(one.start == same.start && one.stop == same.stop && one.ids == same.ids, where);
    }
  }
  CHECK(found > 100 && marks_found > 1'000, "something was recognised");
}

void test_recognised_bytes() { check_recognised(test::toy_byte_image()); }
void test_recognised_characters() { check_recognised(test::toy_character_image()); }

}  // namespace

int main() {
  return test::run({{"threads mark the same", test_threads_mark_the_same},
                    {"a text without cuts", test_a_text_without_cuts},
                             {"recognised, bytes", test_recognised_bytes},
                             {"recognised, characters", test_recognised_characters}});
}
