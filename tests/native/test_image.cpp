// Images: laid out and read back, refused when they are not whole, and harmless when they lie.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "encoder.hpp"
#include "flat_map.hpp"
#include "image.hpp"
#include "toy_image.hpp"

using namespace tokseam;

namespace {

const std::string kText =
    "ab <s>  aab\xC3\xA9 e\xCC\x81\xCC\xA3 1a1 <w>\t\xE4\xB8\x80 \xED\x95\x9C \xF0\x9F\x99\x82 aaaaaaaa";

void test_sections() {
  ImageWriter writer;
  writer.add(Section::facts, "facts");
  writer.add(Section::lengths, std::vector<std::uint32_t>{1, 2, 3}, 7);
  const Image image = writer.finish();
  CHECK(image.get<char>(Section::facts).size() == 5, "");
  CHECK(image.get<std::uint32_t>(Section::lengths, 7)[2] == 3, "");
  CHECK(reinterpret_cast<std::uintptr_t>(image.get<std::uint32_t>(Section::lengths, 7).data()) % 64 == 0, "");
  CHECK(!image.has(Section::lengths, 0), "");
  CHECK_THROWS(BadImage, image.get<char>(Section::merges));
  CHECK_THROWS(BadImage, image.get<std::uint16_t>(Section::facts));
  CHECK_THROWS(BadImage, image.get_sized<std::uint32_t>(Section::lengths, 2, 7));
  ImageWriter other;
  other.add(Section::facts, "others");
  other.add_all_but(image, Section::facts);
  const Image dressed = other.finish({1});
  CHECK(dressed.get<char>(Section::facts).size() == 6 && dressed.get<std::uint32_t>(Section::lengths, 7)[0] == 1, "");
}

void test_maps() {
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < 5000; ++i) keys.push_back(random() % 8000), values.push_back(i);
  ImageWriter writer;
  FlatMap::write(writer, Section::composed, Section::composites, keys, values);
  FlatMap::write(writer, Section::ordered, Section::orders, {}, {});
  const Image image = writer.finish();
  const FlatMap map(image, Section::composed, Section::composites), none(image, Section::ordered, Section::orders);
  std::vector<std::uint32_t> expected(8000, kNoId);
  for (std::size_t i = 0; i < keys.size(); ++i) expected[keys[i]] = values[i];
  for (std::uint64_t key = 0; key < 8000; ++key) {
    CHECK(map.find(key, kNoId) == expected[key], "");
    CHECK(none.find(key, kNoId) == kNoId, "");
  }
}

void test_every_flipped_bit_is_found() {
  test::LyingImage image(test::toy_byte_image());
  image.open();
  std::mt19937 random(1);
  for (std::size_t at = 0; at < image.size(); at += at < 512 ? 1 : 1 + random() % 64) {
    for (int bit = 0; bit < 8; ++bit) {
      image[at] ^= std::byte{1} << bit;
      CHECK_THROWS(BadImage, image.open());
      image[at] ^= std::byte{1} << bit;
    }
  }
  image.open();
}

// Whatever an image says under a checksum that fits, it is refused or answers; the sanitizers watch.
void test_lies_are_harmless() {
  std::mt19937 random(2);
  std::size_t refused = 0, answered = 0;
  for (const Image& sound : {test::toy_byte_image(), test::toy_character_image()}) {
    CHECK(test::ask(Encoder(sound), kText) > 30, "");
    for (int round = 0; round < 6000; ++round) {
      test::LyingImage image(sound);
      for (std::size_t n = 1 + random() % 4; n > 0; --n) {
        // Half of them among the first kilobytes, where the small tables and the directory are.
        const std::size_t at = random() % (random() % 2 ? image.size() : std::min<std::size_t>(image.size(), 4096));
        image[at] = static_cast<std::byte>(random() % 3 ? random() : 0xFF);
      }
      try {
        const Encoder encoder(image.open_as_sound());
        test::ask(encoder, kText);
        ++answered;
      } catch (const BadImage&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 1000 && answered > 1000, "both happen");
}

void test_a_stage_that_matches_nothing_is_refused() {
  EncoderTables tables;
  tables.classes = {std::vector<std::uint8_t>(0x110000, 0), {0}, {0}};
  tables.stages = {{{0, 0, Automaton::kMatch, 0}, 2}};  // it would never move on
  CHECK_THROWS(BadImage, Encoder(build_image(tables)));
}

}  // namespace

int main() {
  return test::run({{"sections", test_sections},
                    {"sets and maps", test_maps},
                    {"every flipped bit is found", test_every_flipped_bit_is_found},
                    {"images that lie are harmless", test_lies_are_harmless},
                    {"a stage that matches nothing is refused", test_a_stage_that_matches_nothing_is_refused}});
}
