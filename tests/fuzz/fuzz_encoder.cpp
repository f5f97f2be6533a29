// Arbitrary bytes as a text for the real encoder over toy tables, against an encode written the plainest way: ids, spans,
// piece starts, and every cut. Real tokenizers are tried from Python (tokseam verify).
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encoder.hpp"
#include "encoder_image.hpp"
#include "fuzz_support.hpp"
#include "session.hpp"

namespace {

using namespace tokseam;
using Ids = std::vector<std::uint32_t>;

enum Kind : std::uint8_t { kLetter, kDigit, kSpace, kOther, kKinds };

constexpr std::uint32_t kS = 300, kS9 = 301;  // the literals "<s>" (special) and "<s>9"

// left, right, rank, result: in no order, and "ab" + "ab" comes before what it is made of.
const std::vector<std::uint32_t> kMerges = {'a', 'b', 7,   256, 'a', 'a', 9,   257, 256, 256, 5,   258, 257, 'b', 1,
                                            259, ' ', 'a', 8,   260, 260, 'b', 3,   261, '1', '2', 6,   262, 'b', 'c',
                                            4,   263, 'a', 263, 2,   264, 0xE4, 0xB8, 10, 265};

Kind kind_of(std::uint32_t point) {
  if ((point >= 'a' && point <= 'z') || (point >= 0x4E00 && point < 0x9FFF)) return kLetter;
  if (point >= '0' && point <= '9') return kDigit;
  return point == ' ' ? kSpace : kOther;
}

std::map<std::uint32_t, std::string> entries() {
  std::map<std::uint32_t, std::string> all;
  for (std::uint32_t byte = 0; byte < 256; ++byte) all[byte] = std::string(1, static_cast<char>(byte));
  for (int round = 0; round < 4; ++round)
    for (std::size_t i = 0; i < kMerges.size(); i += 4)
      if (all.contains(kMerges[i]) && all.contains(kMerges[i + 1]))
        all[kMerges[i + 3]] = all[kMerges[i]] + all[kMerges[i + 1]];
  return all;
}

// " ?letter+", and behind it "digit{1,2}" on every piece. Columns: letter, digit, space, other, end.
std::vector<StageTable> make_stages() {
  constexpr std::uint16_t m = Automaton::kMatch;
  return {{{0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 2 | m, m, m, m, m, 2, 0, 0, 0, 0}, 4},
          {{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, m, 3 | m, m, m, m, m, m, m, m, m}, 4}};
}

const Encoder& encoder() {
  static const Encoder made = [] {
    EncoderTables tables;
    tables.classes = {std::vector<std::uint8_t>(0x110000), std::vector<std::uint8_t>(kKinds * kKinds, 0),
                      std::vector<std::uint8_t>(kKinds, 0)};
    for (std::uint32_t point = 0; point < 0x110000; ++point) tables.classes.class_of[point] = kind_of(point);
    tables.classes.pairs[kLetter * kKinds + kSpace] = tables.classes.pairs[kLetter * kKinds + kDigit] = 1;
    tables.stages = make_stages();
    // Where a letter meets what is none is a cut for encoding, also inside literals, but where one is fenced in.
    tables.classes.segment_pairs = tables.classes.pairs;
    tables.classes.segment_pairs[kLetter * kKinds + kOther] = 1;
    tables.added_tokens = {{"<s>", {.id = kS, .special = true}, false, true}, {"<s>9", {.id = kS9}, false, true}};
    std::string bytes;
    for (const auto& [id, entry] : entries()) {
      bytes += entry;
      tables.vocabulary_ends.push_back(static_cast<std::uint32_t>(bytes.size()));
      tables.vocabulary_ids.push_back(id);
    }
    tables.vocabulary_bytes = bytes;
    tables.merges = kMerges;
    for (std::uint32_t byte = 0; byte < 256; ++byte) tables.byte_ids[byte] = byte;
    return Encoder(build_image(tables));
  }();
  return made;
}

// The encode that this is held against. Slow, and shares nothing with the encoder but the tables above.
struct Naive {
  bool split_special;
  Ids ids;
  std::vector<std::size_t> starts;  // bytes

  static std::size_t width(std::string_view text, std::size_t at) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    return end - at;
  }
  static Kind kind_at(std::string_view text, std::size_t at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) return kind_of(byte);
    if (width(text, at) != 3) return kOther;
    return kind_of((byte & 0x0FU) << 12 | (static_cast<unsigned char>(text[at + 1]) & 0x3FU) << 6 |
                   (static_cast<unsigned char>(text[at + 2]) & 0x3FU));
  }

  void merge(std::string_view piece, std::size_t begin) {
    Ids tokens;
    for (const char byte : piece) tokens.push_back(static_cast<unsigned char>(byte));
    while (true) {
      std::size_t best = tokens.size();
      std::uint32_t rank = ~0U, result = 0;
      for (std::size_t at = 0; at + 1 < tokens.size(); ++at)
        for (std::size_t i = 0; i < kMerges.size(); i += 4)
          if (kMerges[i] == tokens[at] && kMerges[i + 1] == tokens[at + 1] && kMerges[i + 2] < rank)
            best = at, rank = kMerges[i + 2], result = kMerges[i + 3];
      if (best == tokens.size()) break;
      tokens[best] = result;
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    starts.push_back(begin);
    ids.insert(ids.end(), tokens.begin(), tokens.end());
  }

  // Digits by twos; what lies between them is one piece.
  void digits(std::string_view text, std::size_t begin, std::size_t end) {
    std::size_t gap = begin;
    for (std::size_t at = begin; at < end;) {
      if (kind_at(text, at) != kDigit) {
        at += width(text, at);
        continue;
      }
      if (gap < at) merge(text.substr(gap, at - gap), gap);
      const std::size_t stop = at + 1 < end && kind_at(text, at + 1) == kDigit ? at + 2 : at + 1;
      merge(text.substr(at, stop - at), at);
      at = gap = stop;
    }
    if (gap < end) merge(text.substr(gap, end - gap), gap);
  }

  void segment(std::string_view text, std::size_t begin, std::size_t end) {
    std::size_t gap = begin;
    for (std::size_t at = begin; at < end;) {
      std::size_t stop = at;
      if (text[stop] == ' ') ++stop;
      const std::size_t letters = stop;
      while (stop < end && kind_at(text, stop) == kLetter) stop += width(text, stop);
      if (stop == letters) {
        at += width(text, at);
        continue;
      }
      if (gap < at) digits(text, gap, at);
      digits(text, at, stop);
      at = gap = stop;
    }
    if (gap < end) digits(text, gap, end);
  }

  void encode(std::string_view text) {
    std::size_t begin = 0;
    for (std::size_t at = text.find("<s>"); at != std::string_view::npos; at = text.find("<s>", at + 3)) {
      const bool longer = text.substr(at, 4) == "<s>9";
      if (split_special && !longer) continue;
      if (begin < at) segment(text.substr(0, at), begin, at);
      starts.push_back(at);
      ids.push_back(longer ? kS9 : kS);
      begin = at + (longer ? 4 : 3);
    }
    if (begin < text.size()) segment(text, begin, text.size());
  }
};

Ids encode(std::string_view text, bool split_special) {
  Ids ids;
  std::vector<std::size_t> marks;
  encoder().encode(text, {.split_special = split_special}, {}, ids, marks);
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes bytes(data, size);
  const bool split_special = (bytes.byte() & 1) != 0;
  const std::string text = bytes.text(200);
  Naive naive{split_special, {}, {}};
  naive.encode(text);
  FUZZ_CHECK(encode(text, split_special) == naive.ids);

  std::vector<std::size_t> cuts, marks;
  for (std::size_t at = encoder().next_cut(text, 1); at != kNoCut; at = encoder().next_cut(text, at + 1)) {
    FUZZ_CHECK(encoder().last_cut(text, at) == at);
    cuts.push_back(at);
  }
  Ids ids;
  encoder().encode(text, {.split_special = split_special}, cuts, ids, marks);
  FUZZ_CHECK(ids == naive.ids && marks.size() == cuts.size());
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    Ids joined = encode(std::string_view(text).substr(0, cuts[k]), split_special);
    FUZZ_CHECK(joined.size() == marks[k]);
    const Ids right = encode(std::string_view(text).substr(cuts[k]), split_special);
    joined.insert(joined.end(), right.begin(), right.end());
    FUZZ_CHECK(joined == naive.ids);
  }
  if (split_special) return 0;

  Ids spanned;
  std::vector<std::int64_t> spans, starts;
  FUZZ_CHECK(encoder().spans(text, spanned, spans) && spanned == naive.ids && spans.size() == 2 * spanned.size());
  FUZZ_CHECK(encoder().pieces(text, starts) && starts.size() == naive.starts.size());
  for (std::size_t k = 0; k < starts.size(); ++k)
    FUZZ_CHECK(utf8::offset_of_code_point(text, static_cast<std::size_t>(starts[k])) == naive.starts[k]);
  return 0;
}
