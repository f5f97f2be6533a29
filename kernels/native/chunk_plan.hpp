// How a text is parted: how large chunks are, where marks stand in them, which of them keep their text, and the cutting
// of a text into all that. Pure; it takes marks as they come and knows neither an engine nor a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "chunk.hpp"
#include "id_planes.hpp"
#include "spellings.hpp"

namespace tokseam {

// How large chunks are. A template parameter of Session so that tests can reach every edge with short texts.
struct ChunkLimits {
  // Bytes after which a chunk ends at the next mark. An edit copies one to three chunks, at memory speed, so less is
  // hardly quicker; each chunk costs 84 bytes, a header and a node, beside its content, which at 4096 bytes (some 1,000
  // tokens) is 0.1 bytes a token on top of 7.
  static constexpr std::size_t kTargetBytes = 4096;

  // Bytes below which a chunk is not left to itself. Without it, edit after edit would leave crumbs, and crumbs cost
  // more than they hold.
  static constexpr std::size_t kMinBytes = 1024;

  // Bytes of a chunk up to which it is copied for the sake of a crumb beside it. Four targets: longer ones hold a long
  // stretch without a synchronizing position.
  static constexpr std::size_t kLongBytes = 16384;

  // Bytes after which the next synchronizing position becomes a mark. An edit encodes about as much beside the change,
  // so less is quicker; each mark costs 4 bytes, which at 256 bytes is 0.06 bytes a token.
  static constexpr std::size_t kMarkBytes = 256;

  // Bytes that the last mark stays away from the end of the text: what an append encodes again and compares.
  static constexpr std::size_t kTailBytes = 64;

  // Bytes between two marks up to which a window is extended by them to have an overlap. Longer ones hold a long
  // stretch without a synchronizing position, which is not worth encoding again for this.
  static constexpr std::size_t kOverlapMaxBytes = 4096;

  // Bytes a token up to which a chunk keeps its text, with all that it costs. Above, where tokens are long, the text is
  // spelled from the ids when it is asked for, at some 5 GB/s (spellings.hpp). So a session has at most so many, but for
  // its last chunk and those that are not spelled by their ids.
  static constexpr std::size_t kTokenBytes = 9;

  // As kTargetBytes, of a chunk that costs more than that: an edit spells it, and compares what comes of it.
  static constexpr std::size_t kSpelledTargetBytes = 2048;
};

// Whether a chunk with its text would cost more than kTokenBytes a token.
template <class Limits>
bool costs_much(std::size_t bytes, std::size_t ids, std::size_t marks, std::size_t width) {
  return Chunk::bytes_without_text(marks, ids, width) + bytes + Chunk::kNodeBytes > Limits::kTokenBytes * ids;
}

// Whether a chunk of this text keeps it. PERF: the bytes are compared once, here, and only where that pays.
template <class Limits>
Chunk::Text text_form(std::string_view text, std::span<const std::uint32_t> ids, std::size_t marks,
                      const Spellings& spellings) {
  const bool much = costs_much<Limits>(text.size(), ids.size(), marks, id_planes::width_of(ids));
  return much && spellings.spells(ids, text) ? Chunk::Text::spelled : Chunk::Text::kept;
}

// Parts a text at some of its marks, which ascend strictly inside it. Each chunk keeps what marks are not too close,
// and the last chunk keeps the last one, where the next append will begin. `at_end`: the session's text ends with it.
// `spellings`: what the chunks' texts will be asked of.
template <class Limits>
std::vector<Ref<Chunk>> make_chunks(std::string_view text, std::span<const std::uint32_t> ids,
                                    std::span<const Mark> marks, bool at_end, const Spellings& spellings) {
  static_assert(Limits::kMinBytes <= Limits::kTargetBytes && Limits::kTargetBytes <= Limits::kLongBytes);
  std::vector<Ref<Chunk>> chunks;
  if (text.empty()) return chunks;
  Mark begin;                // of the chunk at hand ...
  std::vector<Mark> inside;  // ... and its marks, counted from there
  const auto close = [&](const Mark& end, bool last) {
    const std::string_view own_text = text.substr(begin.at, end.at - begin.at);
    const auto own_ids = ids.subspan(begin.ids, end.ids - begin.ids);
    // PERF: every append replaces the session's last chunk. Narrow ids there would cost it 0.4 us, a tenth of a short
    // one (`python -m bench append`, 16 characters), and a text that is compared and spelled again some more.
    chunks.push_back(last ? Chunk::make(own_text, own_ids, inside, Chunk::Ids::plain)
                          : Chunk::make(own_text, own_ids, inside, Chunk::Ids::narrow,
                                        text_form<Limits>(own_text, own_ids, inside.size(), spellings)));
    begin = end;
    inside.clear();
  };
  constexpr std::size_t kLikelyWidth = 3;
  chunks.reserve(text.size() / Limits::kTargetBytes + 1);
  for (std::size_t k = 0; k < marks.size(); ++k) {
    const std::size_t size = marks[k].at - begin.at;
    // A crumb is left at the end of a chunk, except of a long one: that would have to be copied with every append.
    const bool full = size >= Limits::kTargetBytes ||
                      (size >= Limits::kSpelledTargetBytes &&
                       costs_much<Limits>(size, marks[k].ids - begin.ids, inside.size(), kLikelyWidth));
    if (full &&
        (text.size() - marks[k].at >= Limits::kMinBytes || size > Limits::kLongBytes)) {
      close(marks[k], false);
      continue;
    }
    const std::size_t behind_last = size - (inside.empty() ? 0 : inside.back().at);
    if (2 * behind_last >= Limits::kMarkBytes || k + 1 == marks.size())
      inside.push_back({size, marks[k].ids - begin.ids});
  }
  close({text.size(), ids.size()}, at_end);
  return chunks;
}

}  // namespace tokseam
