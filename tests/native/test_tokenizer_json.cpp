// Reading vocabulary and merges out of a tokenizer.json: what is there is read, what is damaged is read or refused, and
// nothing outside the text is looked at. That it reads as Python does is tested from Python.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "tokenizer_json.hpp"

using namespace tokseam;

namespace {

const std::string kContent =
    R"({"version": "1.0", "added_tokens": [{"id": 7, "content": "<s>]}\""}],
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u00e9\ud83d\ude42\n": 3, "": 4, "\u4e00": 5, "abab": 6},
 "x": [[{}], "\\"], "merges": ["a b", ["ab", "ab"]]}, "tail": null})";

void test_what_is_there() {
  const auto read = TokenizerJson::read(kContent);
  CHECK(read.has_value(), "");
  CHECK(read->entries().size() == 7, "");
  CHECK(read->find("\xC3\xA9\xF0\x9F\x99\x82\n") == 3 && read->find("") == 4 && read->find("c") == kNoId, "");
  CHECK((read->merges() == std::vector<std::uint32_t>{0, 1, 0, 2, 2, 2, 1, 6}), "");
  CHECK(read->rest().find("\"vocab\": {},") != std::string::npos, "");
  CHECK(read->rest().find("\"merges\": []}, \"tail\": null}") != std::string::npos, "");
  const EntryList occurring = read->occurring("xaby", 8);
  CHECK(occurring.size() == 3 && occurring[2] == "ab" && occurring.ids[2] == 2, "");
  std::vector<std::uint32_t> alphabet(256);
  for (std::uint32_t byte = 0; byte < 256; ++byte) alphabet[byte] = byte;
  CHECK(read->byte_level(alphabet).size() == 4, "a, b, ab, abab: the others are empty or hold more than bytes");
}

void test_many_merges() {
  std::string vocab = "\"a\": 0", merges, entry = "a";
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 1; i < 200; ++i) {
    merges += (i > 1 ? "," : "") + std::string("[\"") + entry + "\",\"a\"]";
    entry += "a";
    vocab += ",\"" + entry + "\": " + std::to_string(i);
    expected.insert(expected.end(), {i - 1, 0, i - 1, i});
  }
  const auto read = TokenizerJson::read("{\"model\":{\"merges\":[" + merges + "],\"vocab\":{" + vocab + "}}}");
  CHECK(read.has_value() && read->merges() == expected, "");
}

void test_damage() {
  static constexpr std::string_view kBytes = "\"\\{}[]:, 0u\xC3\x80\xFF";
  std::mt19937 random(3);
  std::size_t understood = 0;
  for (int round = 0; round < 60000; ++round) {
    std::string content = kContent;
    for (std::size_t n = 1 + random() % 3; n > 0 && !content.empty(); --n) {
      const std::size_t at = random() % content.size();
      switch (random() % 4) {
        case 0: content[at] = kBytes[random() % kBytes.size()]; break;
        case 1: content.erase(at, 1 + random() % 8); break;
        case 2: content.insert(at, 1, kBytes[random() % kBytes.size()]); break;
        default: content.resize(at + 1); break;
      }
    }
    // In memory of just its size, so that the sanitizer sees a look behind its end.
    const std::vector<char> exact(content.begin(), content.end());
    const auto read = TokenizerJson::read({exact.data(), exact.size()});
    if (!read) continue;
    ++understood;
    for (std::size_t i = 0; i < read->entries().size(); ++i)
      CHECK(read->find(read->entries()[i]) == read->entries().ids[i], "");
    read->byte_level(std::vector<std::uint32_t>(256, 'a'));
  }
  CHECK(understood > 300, "some of it still reads");
}

}  // namespace

int main() {
  return test::run({{"what is there", test_what_is_there},
                    {"more merges than a batch", test_many_merges},
                    {"damage", test_damage}});
}
