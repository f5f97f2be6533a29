// Arbitrary changes to the image of a toy tokenizer, under a checksum that fits: it is refused, or answers something.
#include <cstddef>
#include <cstdint>
#include <string>

#include "encoder.hpp"
#include "fuzz_support.hpp"
#include "toy_image.hpp"

namespace {

using namespace tokseam;

constexpr std::size_t kMaxChanges = 16;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Image of_bytes = test::toy_byte_image(), of_characters = test::toy_character_image();
  fuzz::Bytes bytes(data, size);
  test::LyingImage image((bytes.byte() & 1) != 0 ? of_bytes : of_characters);
  const std::string text = bytes.text(60);
  for (std::size_t n = 0; n < kMaxChanges && !bytes.empty(); ++n) {
    const std::size_t at = static_cast<std::size_t>(bytes.byte()) << 8 | bytes.byte();
    image[at % image.size()] = static_cast<std::byte>(bytes.byte());
  }
  try {
    const Encoder encoder(image.open_as_sound());
    if (!text.empty()) test::ask(encoder, text);
  } catch (const BadImage&) {
  }
  return 0;
}
