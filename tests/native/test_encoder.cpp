// The encoder's parts without Python: the vector path against the portable one, classes, added tokens, merges, and a
// whole encode of a toy tokenizer under hostile cuts. Real tokenizers are tested from Python against the reference.
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "encoder.hpp"
#include "encoder_image.hpp"
#include "session.hpp"

using namespace tokseam;

namespace {

// Letters, digits, the space, and the rest, as four classes.
constexpr std::size_t kLetter = 0, kDigit = 1, kSpace = 2, kOther = 3, kClasses = 4;

std::vector<std::uint8_t> class_table() {
  std::vector<std::uint8_t> table(0x110000, kOther);
  for (std::uint32_t c = 'a'; c <= 'z'; ++c) table[c] = kLetter;
  for (std::uint32_t c = 0x4E00; c < 0x9FFF; ++c) table[c] = kLetter;
  for (std::uint32_t c = '0'; c <= '9'; ++c) table[c] = kDigit;
  table[' '] = kSpace;
  return table;
}

ClassTables make_classes() {
  ClassTables tables{class_table(), std::vector<std::uint8_t>(kClasses * kClasses, 0),
                     std::vector<std::uint8_t>(kClasses, 0)};
  tables.pairs[kLetter * kClasses + kSpace] = 1;
  return tables;
}

// " ?letter+" as a DFA; everything else is a gap. Columns: letter, digit, space, other, end.
StageTable make_stage() {
  constexpr std::uint16_t m = Automaton::kMatch;
  return {{0, 0, 0, 0, 0,      //
           2, 0, 3, 0, 0,      // start
           2 | m, m, m, m, m,  // letters
           2, 0, 0, 0, 0},     // a space
          4};
}

Image make_image() {
  EncoderTables tables;
  tables.classes = make_classes();
  tables.stages = {make_stage()};
  tables.added_tokens = {{"<s>", {.id = 300, .special = true}, false}, {"<s>9", {.id = 301}, false}};
  std::string bytes;
  for (std::uint32_t b = 0; b < 256; ++b) {
    bytes.push_back(static_cast<char>(b));
    tables.vocabulary_ends.push_back(static_cast<std::uint32_t>(bytes.size()));
    tables.vocabulary_ids.push_back(b);
    tables.byte_ids[b] = b;
  }
  bytes += "abaa";
  tables.vocabulary_bytes = bytes;
  tables.vocabulary_ends.insert(tables.vocabulary_ends.end(), {258, 260});
  tables.vocabulary_ids.insert(tables.vocabulary_ids.end(), {256, 257});
  tables.merges = {'a', 'b', 7, 256, 'a', 'a', 9, 257};
  return build_image(tables);
}

Encoder make_encoder() { return Encoder(make_image()); }

std::vector<std::uint32_t> encode(const Encoder& encoder, std::string_view text, bool split = false) {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> marks;
  encoder.encode(text, {.split_special = split}, {}, ids, marks);
  return ids;
}

void test_vector_path() {
  const auto table = class_table();
  const AsciiClasses ascii(table.data());
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 100, ' ');
    for (char& c : text) c = static_cast<char>(random() % (round % 3 ? 128 : 131));
    std::vector<std::uint8_t> expected(text.size() + 1, 0xEE), found(text.size() + 1, 0xEE);
    const std::size_t run = ascii.fill_portable(text.data(), text.size(), expected.data());
    std::size_t at = 0;
    while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80)
      at += ascii.fill(text.data() + at, text.size() - at, found.data() + at);
    CHECK(at == run, "");
    for (std::size_t i = 0; i < run; ++i) CHECK(found[i] == table[static_cast<unsigned char>(text[i])], "");
    CHECK(found.back() == 0xEE, "");
  }
}

void test_added_tokens() {
  const Encoder encoder = make_encoder();
  CHECK((encode(encoder, "<s>9<s>a") == std::vector<std::uint32_t>{301, 300, 'a'}), "");
  CHECK((encode(encoder, "<s") == std::vector<std::uint32_t>{'<', 's'}), "");
  CHECK((encode(encoder, "<s><s>9", true) == std::vector<std::uint32_t>{'<', 's', '>', 301}), "");
}

void test_merges() {
  const Encoder encoder = make_encoder();
  CHECK((encode(encoder, "aab") == std::vector<std::uint32_t>{'a', 256}), "");
  CHECK((encode(encoder, "aaa b") == std::vector<std::uint32_t>{257, 'a', ' ', 'b'}), "");
  std::string long_piece(10001, 'a');
  CHECK(encode(encoder, long_piece).size() == 5001, "");
}

void test_cuts() {
  const Encoder encoder = make_encoder();
  std::mt19937 random(2);
  const std::vector<std::string> parts = {"a", "ab", " ", "7", "<s>", "<s>9", "<s", "\xE4\xB8\x80", "\xF0\x9F\x99\x82", "b"};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t n = random() % 30; n > 0; --n) text += parts[random() % parts.size()];
    std::vector<std::size_t> cuts, marks;
    for (std::size_t at = encoder.next_cut(text, 1); at != kNoCut; at = encoder.next_cut(text, at + 1)) {
      CHECK(encoder.last_cut(text, at) == at, "");
      cuts.push_back(at);
    }
    std::vector<std::uint32_t> ids;
    encoder.encode(text, {}, cuts, ids, marks);
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      CHECK(marks[k] != kNoMark, "");
      CHECK(encode(encoder, text.substr(0, cuts[k])).size() == marks[k], "");
    }
    std::vector<std::uint32_t> spanned;
    std::vector<std::int64_t> spans, starts;
    CHECK(encoder.spans(text, spanned, spans), "");
    CHECK(spanned == ids && spans.size() == 2 * ids.size(), "");
    CHECK(encoder.pieces(text, starts), "");
    Session<Encoder> session(encoder);
    for (std::size_t at = 0; at < text.size(); at += utf8_width(text[at]))
      session.append(std::string_view(text).substr(at, utf8_width(text[at])));
    std::vector<std::uint32_t> kept(session.id_count());
    session.copy_ids(kept.data());
    CHECK(kept == ids, "");
  }
}

void test_broken_tables_are_refused() {
  EncoderTables tables;
  tables.classes = make_classes();
  tables.stages = {{{0, 0, 0, 0, 0, 9, 0, 0, 0, 0}, 2}};  // leads out
  CHECK_THROWS(std::invalid_argument, build_image(tables));
  tables.stages = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 2}};  // goes on behind the end
  CHECK_THROWS(std::invalid_argument, build_image(tables));
  tables.stages = {{{0, 0, 0, 0, 0}, 2}};
  CHECK_THROWS(std::invalid_argument, build_image(tables));
  tables.stages = {make_stage()};
  tables.classes.pairs.pop_back();
  CHECK_THROWS(std::invalid_argument, build_image(tables));
}

}  // namespace

int main() {
  return test::run({{"the vector path is the portable one", test_vector_path},
                    {"added tokens: leftmost, longest", test_added_tokens},
                    {"merges: short and long pieces", test_merges},
                    {"cuts, spans and sessions agree with a whole encode", test_cuts},
                    {"broken tables are refused", test_broken_tables_are_refused}});
}
