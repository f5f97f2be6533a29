// Pieces of short segments found by their shape against the stages themselves, over stages drawn at random: what one
// segment leaves behind must be right for every other of its shape.
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "automaton.hpp"
#include "check.hpp"
#include "encoder.hpp"
#include "encoder_image.hpp"
#include "piece_ends.hpp"

namespace {

using namespace tokseam;

constexpr std::string_view kLiteral = "<a";
constexpr std::string_view kAlphabet = "abcdefgh'. 01<";

// Of a vocabulary of the bytes alone.
Image with_bytes(EncoderTables& tables) {
  std::string bytes;
  for (std::uint32_t b = 0; b < 256; ++b) {
    bytes.push_back(static_cast<char>(b));
    tables.vocabulary_ends.push_back(b + 1);
    tables.vocabulary_ids.push_back(b);
    tables.byte_ids[b] = b;
  }
  tables.vocabulary_bytes = bytes;
  return build_image(tables);
}

// Each character of the alphabet has one of `classes` classes; all that is no ASCII has the last one.
Image draw_image(std::mt19937& random, std::size_t classes) {
  constexpr std::uint16_t m = Automaton::kMatch;
  EncoderTables tables;
  tables.classes.class_of.assign(0x110000, static_cast<std::uint8_t>(classes - 1));
  for (const char c : kAlphabet)
    tables.classes.class_of[static_cast<unsigned char>(c)] = static_cast<std::uint8_t>(random() % classes);
  tables.classes.pairs.assign(classes * classes, 0);
  tables.classes.suspect.assign(classes, 0);
  for (std::size_t stages = 1 + random() % 2; stages > 0; --stages) {
    const std::size_t states = 3 + random() % 4;
    std::vector<std::uint16_t> table(classes + 1, 0);
    for (std::size_t state = 1; state < states; ++state)
      for (std::size_t column = 0; column <= classes; ++column) {
        // Most characters are alike in most states.
        const std::size_t drawn = random() % 4 == 0 ? random() : state;
        const auto next = static_cast<std::uint16_t>(column == classes ? 0 : drawn % states);
        table.push_back(state > 1 && random() % 2 == 0 ? next | m : next);
      }
    tables.stages.push_back({table, states, static_cast<Behavior>(random() % 5)});
  }
  if (random() % 2 == 0) tables.added_tokens = {{std::string(kLiteral), {.id = 300}, false}};
  return with_bytes(tables);
}

// Where the pieces begin, of a text that holds no literal.
struct Parts {
  std::string_view text;
  std::vector<std::int64_t>& starts;
  void view(std::string_view piece) const { starts.push_back(piece.data() - text.data()); }
  void piece(std::string_view) const { tokseam::test::fail(__FILE__, __LINE__, "all of it is plain"); }
  void id(std::uint32_t) const { tokseam::test::fail(__FILE__, __LINE__, "there is no literal"); }
};

void test_against_the_stages() {
  std::mt19937 random(41);
  std::size_t several = 0;
  for (int round = 0; round < 300; ++round) {
    const Encoder encoder(draw_image(random, 2 + random() % 8));
    PieceEnds ends;
    for (int number = 0; number < 400; ++number) {
      std::string text;
      for (std::size_t size = 1 + random() % (random() % 8 == 0 ? 20 : 8); size > 0; --size)
        text.push_back(kAlphabet[random() % kAlphabet.size()]);
      if (text.find(kLiteral) != std::string::npos) continue;
      std::vector<std::int64_t> starts, expected;
      encoder.walk_parts(text, {}, ends, Parts{text, starts});
      CHECK(encoder.pieces(text, expected) && starts == expected, text);
      several += starts.size() > 1;
    }
  }
  CHECK(several > 5'000, "texts of several pieces");
}

// Stages that tell all ASCII characters apart.
void test_many_kinds() {
  constexpr std::size_t kClasses = 129;
  constexpr std::uint16_t m = Automaton::kMatch;
  EncoderTables tables;
  tables.classes.class_of.assign(0x110000, kClasses - 1);
  for (std::uint8_t c = 0; c < 128; ++c) tables.classes.class_of[c] = c;
  tables.classes.pairs.assign(kClasses * kClasses, 0);
  tables.classes.suspect.assign(kClasses, 0);
  // From the start each leads to a state of its own, where all but itself ends a match.
  std::vector<std::uint16_t> table(kClasses + 1, 0);
  for (std::uint16_t c = 0; c < kClasses; ++c) table.push_back(c < 128 ? static_cast<std::uint16_t>(2 + c) : 0);
  table.push_back(0);
  for (std::uint16_t state = 0; state < 128; ++state) {
    for (std::uint16_t c = 0; c < kClasses; ++c) table.push_back(c == state ? static_cast<std::uint16_t>(2 + c) : m);
    table.push_back(m);
  }
  tables.stages.push_back({table, 130, Behavior::isolated});
  const Encoder encoder(with_bytes(tables));
  PieceEnds ends;
  for (const char last : {'\x7f', '~', 'x'})
    for (const std::string& text : {std::string("a"), std::string("a") + last, std::string("aa") + last + last}) {
      std::vector<std::int64_t> starts, expected;
      encoder.walk_parts(text, {}, ends, Parts{text, starts});
      CHECK(encoder.pieces(text, expected) && starts == expected, text);
    }
}

void test_shapes() {
  std::mt19937 random(42);
  for (int round = 0; round < 2000; ++round) {
    std::array<std::uint8_t, 128> numbers;
    for (std::uint8_t& number : numbers)
      number = random() % 50 == 0 ? AsciiShapes::kCloser : static_cast<std::uint8_t>(random() % 5);
    const AsciiShapes shapes(numbers);
    std::string text(random() % (Shape::kMostBytes + 1), ' ');
    for (char& c : text) c = static_cast<char>(random() % (random() % 64 == 0 ? 256 : 128));
    Shape found{1, 2}, portable{3, 4};
    const bool plain = shapes.find(text, found);
    CHECK(plain == shapes.find_portable(text, portable), "a closer look");
    CHECK(!plain || found == portable, "the shape");
    bool closer = false;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      closer = closer || byte >= 0x80 || numbers[byte] >= AsciiShapes::kCloser;
    }
    CHECK(plain == !closer, "what needs a closer look");
  }
}

}  // namespace

int main() {
  return tokseam::test::run({{"shapes, by either path", test_shapes},
                             {"ends, against the stages", test_against_the_stages},
                             {"more kinds than a shape can tell", test_many_kinds}});
}
