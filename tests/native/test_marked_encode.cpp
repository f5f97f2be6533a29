// A whole text encoded for a session on several threads: the same ids, cuts and marks as on one, and a session seeded
// with them is the one that encodes its text itself.
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

}  // namespace

int main() {
  return test::run({{"threads mark the same", test_threads_mark_the_same},
                    {"a text without cuts", test_a_text_without_cuts}});
}
