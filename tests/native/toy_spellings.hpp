// Spellings of a few ids, in an image of their own: some in the vocabulary, some apart.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "image.hpp"
#include "spellings.hpp"
#include "vocabulary.hpp"

namespace tokseam::test {

class ToySpellings {
 public:
  using Texts = std::map<std::uint32_t, std::string>;

  // Every second entry stands in the vocabulary as its text is; with a marker, all that are given as `entries`.
  explicit ToySpellings(const Texts& texts) : ToySpellings(texts, every_second(texts), {}) {}
  ToySpellings(const Texts& texts, const Texts& entries, const Spellings::Marker& marker)
      : image_(made(texts, entries, marker)), vocabulary_(image_), spellings_(image_, vocabulary_) {}

  const Spellings& spellings() const { return spellings_; }

 private:
  static Texts every_second(const Texts& texts) {
    Texts some;
    bool taken = false;
    for (const auto& [id, text] : texts)
      if ((taken = !taken)) some.emplace(id, text);
    return some;
  }

  static Image made(const Texts& texts, const Texts& entries, const Spellings::Marker& marker) {
    // What stands behind is what short entries need to be copied from where they are.
    constexpr std::uint32_t kBehind = (1u << 20) - 1;
    const std::string behind(2 * Spellings::kLongest, '\xFF');
    std::vector<Vocabulary::Entry> stored;
    for (const auto& [id, entry] : entries) stored.push_back({entry, id});
    stored.push_back({behind, kBehind});
    ImageWriter writer;
    Vocabulary::write(writer, stored);
    const Image image = writer.finish();
    Spellings::write(writer, texts, Vocabulary(image), marker);
    return writer.finish();
  }

  Image image_;
  Vocabulary vocabulary_;
  Spellings spellings_;
};

}  // namespace tokseam::test
