// From what a device says of a document (kernels/cuda/) to what people and sessions ask: where its pieces start, and how
// many ids stand before each cut.
//
// A cut is a synchronizing position, so a piece begins there (kernels/README.md, claim 5). All that is to be done is to
// find that piece on the device's side, where the text is parted into spans and may be spelled otherwise. Where the device
// normalized the text, it says of each piece where it comes from (claim 18).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "code_points.hpp"
#include "device_batch.hpp"
#include "utf8.hpp"

namespace tokseam {

// A document's pieces: where each begins in the batch's text, and how many ids of the batch stand before it. Both have
// one value more, for the end. `normalized`: by the device; then each place is given doubled, and one that is odd lies
// inside what normalization changed (cuda/normalize.cuh).
struct DevicePieces {
  std::span<const std::uint32_t> starts, ids_before;
  bool normalized = false;
};

// The marks of `cuts` (bytes of the document, ascending), counted from the document's first id. None where a cut turns
// out to be no piece's begin: whoever asks has to encode by other means.
inline std::optional<std::vector<std::size_t>> device_marks(const DeviceBatch& batch, std::size_t document,
                                                            std::string_view text, bool by_characters,
                                                            const DevicePieces& pieces,
                                                            std::span<const std::size_t> cuts) {
  std::vector<std::size_t> marks;
  marks.reserve(cuts.size());
  const auto& origins = batch.origins();
  std::size_t span = batch.documents()[document];
  const std::size_t end = batch.documents()[document + 1];
  std::size_t counted = 0, points = 0;         // bytes of `text` looked at, and the code points in them
  std::size_t placed = 0, placed_points = 0;   // the same of the span at hand, where it is spelled by characters
  const auto points_to = [&](std::size_t cut) {
    points += utf8::count_code_points(text.substr(counted, cut - counted));
    counted = cut;
    return points;
  };
  for (const std::size_t cut : cuts) {
    // Characters may be spelled by more or fewer bytes there, bytes stay as they are.
    const std::size_t here = by_characters ? points_to(cut) : cut;
    const auto origin = [&](std::size_t i) { return by_characters ? origins[i].point : origins[i].begin; };
    while (span + 1 < end && origin(span + 1) <= here) ++span, placed = placed_points = 0;
    if (span == end || origin(span) > here) return std::nullopt;
    std::size_t place = batch.begins()[span];
    const std::size_t size = batch.begins()[span + 1] - place;
    if (here > origin(span)) {
      if (batch.ids()[span] != kNoId) return std::nullopt;  // inside a literal
      const std::size_t wanted = here - origin(span) + (origins[span].prefixed ? 1 : 0);
      if (by_characters) {
        const std::string_view spelled = batch.text().substr(place, size);
        for (; placed < size && placed_points < wanted; ++placed_points) {
          do {
            ++placed;
          } while (placed < size && !utf8::starts_code_point(spelled[placed]));
        }
        place += placed;
      } else {
        place += wanted;
      }
    }
    if (pieces.normalized) place *= 2;
    const auto found = std::ranges::lower_bound(pieces.starts, static_cast<std::uint32_t>(place));
    if (found == pieces.starts.end() || *found != place) return std::nullopt;
    marks.push_back(pieces.ids_before[static_cast<std::size_t>(found - pieces.starts.begin())] - pieces.ids_before[0]);
  }
  return marks;
}

// Where the document's pieces that hold an id start, in code points. `marker`: where symbols are characters, a piece
// begins with a span or at this character; else kNoId.
inline std::vector<std::int64_t> device_pieces(const DeviceBatch& batch, const DevicePieces& pieces, bool by_characters,
                                               std::uint32_t marker) {
  std::vector<std::int64_t> found;
  const std::string_view text = batch.text();
  std::size_t span = 0, counted = 0, points = 0;  // bytes of the batch counted in this span, and the code points in them
  for (std::size_t i = 0; i + 1 < pieces.starts.size(); ++i) {
    if (pieces.ids_before[i] == pieces.ids_before[i + 1]) continue;
    const std::size_t place = pieces.starts[i];
    if (i == 0 || place >= batch.begins()[span + 1]) {
      const auto behind = std::ranges::upper_bound(batch.begins(), static_cast<std::uint32_t>(place));
      span = static_cast<std::size_t>(behind - batch.begins().begin()) - 1;
      counted = batch.begins()[span], points = 0;
    }
    const bool inside_span = place > batch.begins()[span];
    if (by_characters && inside_span && (marker == kNoId || !utf8::starts_code_point(text[place]) ||
                                         utf8_decode(text.data() + place) != marker))
      continue;
    if (place < counted) counted = batch.begins()[span], points = 0;
    points += utf8::count_code_points(text.substr(counted, place - counted));
    counted = place;
    // A piece that begins inside a character is at that character; one that stands in front is not the document's.
    const std::size_t less = (utf8::starts_code_point(text[place]) ? 0U : 1U) +
                             (batch.origins()[span].prefixed && inside_span ? 1U : 0U);
    found.push_back(static_cast<std::int64_t>(batch.origins()[span].point + points - less));
  }
  return found;
}

}  // namespace tokseam
