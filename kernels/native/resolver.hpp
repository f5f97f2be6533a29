// The ids of segments that no cache has. The pieces of many of them are looked up together and merged together, so that
// their waits for memory overlap; what comes out is what each would be by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bpe.hpp"
#include "piece_ends.hpp"
#include "vocabulary.hpp"

namespace tokseam {

// Engine: walk_parts(text, mode, ends, sink) tells sink.piece(text) and sink.id(id), in order, of what a text falls
// into, and sink.view(text) of a piece that is a view into it; whole() is the vocabulary that pieces are looked up in;
// is_whole_segment(id): whether that entry of it, as a segment, is just itself; bpe() merges the other pieces.
template <class Engine, class Mode>
class Resolver {
 public:
  Resolver(const Engine& engine, Mode mode, PieceEnds& ends)
      : engine_(engine), mode_(mode), ends_(ends), room_(room()) {}

  // Sets ids() and ends().
  void resolve(std::span<const std::string_view> segments) {
    room_.clear();
    room_.ends.clear();
    room_.ids.clear();
    room_.found.resize(segments.size());
    engine_.whole().find_all(segments, room_.found.data());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const std::uint32_t id = room_.found[i];
      if (id != kNoId && engine_.is_whole_segment(id)) {
        room_.parts.push_back({nullptr, 0, 0, id});
      } else {
        const std::size_t first = room_.parts.size();
        engine_.walk_parts(segments[i], mode_, ends_, Collect{room_});
        // One piece, which was looked up already.
        if (room_.parts.size() == first + 1 && room_.parts[first].view == segments[i].data() &&
            room_.parts[first].size == segments[i].size())
          room_.parts[first].id = id, room_.parts[first].known = true;
      }
      room_.part_ends.push_back(room_.parts.size());
    }
    look_up();
    merge();
    for (std::size_t i = 0, part = 0; i < segments.size(); part = room_.part_ends[i++]) {
      append(part, room_.part_ends[i], room_.ids);
      room_.ends.push_back(room_.ids.size());
    }
  }

  // Those of all segments that were resolved last, one behind the other, and where each one's end.
  std::span<const std::uint32_t> ids() const { return room_.ids; }
  std::span<const std::size_t> ends() const { return room_.ends; }

  // Appends the ids of one segment of any size.
  void encode(std::string_view segment, std::vector<std::uint32_t>& ids) {
    room_.clear();
    engine_.walk_parts(segment, mode_, ends_, Stream{*this, ids});
    flush(ids);
    room_.let_go();
  }

 private:
  // An id, or a piece, whose id is looked for unless that is `known`: a view, or bytes[begin .. begin + size).
  struct Part {
    const char* view;
    std::size_t begin, size;
    std::uint32_t id = kNoId;
    bool known = false;
  };

  struct Room {
    std::vector<char> bytes;
    std::vector<Part> parts;
    std::vector<std::size_t> part_ends;    // by segment
    std::vector<std::size_t> asked;        // the parts in question, ...
    std::vector<std::string_view> pieces;  // ... their texts, ...
    std::vector<std::uint32_t> found;      // ... and the ids of them
    std::size_t merged_parts = 0;          // of the parts that were merged, those that are handed out
    std::vector<std::size_t> starts;       // where in `merged` the ids of each are, ...
    std::vector<std::uint32_t> counts;     // ... and how many
    std::vector<std::uint32_t> merged, work;
    std::vector<std::uint32_t> ids;
    std::vector<std::size_t> ends;

    void clear() {
      bytes.clear();
      parts.clear();
      part_ends.clear();
    }
    // What is much, of a piece that was long.
    void let_go() {
      constexpr std::size_t kMostKept = std::size_t{1} << 20;  // elements
      if (bytes.capacity() > kMostKept) std::vector<char>().swap(bytes);
      for (std::vector<std::uint32_t>* const some : {&merged, &work})
        if (some->capacity() > kMostKept) std::vector<std::uint32_t>().swap(*some);
    }
    std::string_view text_of(const Part& part) const {
      return {part.view != nullptr ? part.view : bytes.data() + part.begin, part.size};
    }
  };

  struct Collect {
    Room& room;
    void piece(std::string_view text) const {
      room.parts.push_back({nullptr, room.bytes.size(), text.size()});
      room.bytes.insert(room.bytes.end(), text.begin(), text.end());
    }
    void view(std::string_view text) const { room.parts.push_back({text.data(), 0, text.size()}); }
    void id(std::uint32_t id) const { room.parts.push_back({nullptr, 0, 0, id}); }
  };

  // PERF: kept from call to call; bounded, for a batch of segments is, and a stream of pieces is flushed, and lets go of
  // what one long piece needed.
  static Room& room() {
    static thread_local Room kept;
    return kept;
  }

  struct Stream {
    static constexpr std::size_t kTogether = 512;
    Resolver& resolver;
    std::vector<std::uint32_t>& ids;
    void piece(std::string_view text) const {
      Collect{resolver.room_}.piece(text);
      if (resolver.room_.parts.size() >= kTogether) resolver.flush(ids);
    }
    void view(std::string_view text) const { Collect{resolver.room_}.view(text); }
    void id(std::uint32_t id) const { Collect{resolver.room_}.id(id); }
  };

  void flush(std::vector<std::uint32_t>& ids) {
    look_up();
    merge();
    append(0, room_.parts.size(), ids);
    room_.clear();
  }

  static bool is_long(const Part& part) { return part.size > MergeLanes::kMostSymbols; }

  void look_up() {
    room_.asked.clear();
    room_.pieces.clear();
    for (std::size_t i = 0; i < room_.parts.size(); ++i) {
      const Part& part = room_.parts[i];
      if (part.id != kNoId || part.known) continue;
      room_.asked.push_back(i);
      room_.pieces.push_back(room_.text_of(part));
    }
    room_.found.resize(room_.asked.size());
    engine_.whole().find_all(room_.pieces, room_.found.data());
    for (std::size_t k = 0; k < room_.asked.size(); ++k) room_.parts[room_.asked[k]].id = room_.found[k];
  }

  // Pieces that are no entry, but for long ones, which are merged as they are handed out.
  void merge() {
    room_.pieces.clear();
    room_.starts.clear();
    std::size_t end = 0;
    for (const Part& part : room_.parts) {
      if (part.id != kNoId || is_long(part)) continue;
      room_.pieces.push_back(room_.text_of(part));
      room_.starts.push_back(end);
      end += part.size;  // a piece has at most one id a byte
    }
    room_.merged.resize(end);
    room_.counts.resize(room_.pieces.size());
    room_.merged_parts = 0;
    engine_.bpe().merge_all(room_.pieces, room_.starts, room_.merged.data(), room_.counts.data());
  }

  void append(std::size_t from, std::size_t to, std::vector<std::uint32_t>& ids) {
    for (std::size_t i = from; i < to; ++i) {
      const Part& part = room_.parts[i];
      if (part.id != kNoId) {
        ids.push_back(part.id);
      } else if (is_long(part)) {
        engine_.bpe().append(room_.text_of(part), room_.work, ids);
      } else {
        const std::size_t k = room_.merged_parts++;
        const std::uint32_t* made = room_.merged.data() + room_.starts[k];
        ids.insert(ids.end(), made, made + room_.counts[k]);
      }
    }
  }

  const Engine& engine_;
  Mode mode_;
  PieceEnds& ends_;
  Room& room_;  // PERF: in a shared library a thread's own is far away: found once
};

}  // namespace tokseam
