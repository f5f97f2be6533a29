// A full, exact encode: added tokens, normalization, splitting stages, BPE (design 3.1). Immutable once built, so any
// number of
// threads may use one. It keeps nothing between calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "automaton.hpp"
#include "chunk_engine.hpp"
#include "classes.hpp"
#include "merges.hpp"
#include "normalization.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

namespace tokseam {

struct AddedLiteral {
  std::string content;  // as it is looked for: brought to NFC where it is looked for in normalized text
  std::uint32_t id;
  bool special;
  bool normalized;
};

// What kernels/compile/tables.py hands over.
struct EncoderTables {
  Classes classes;
  std::vector<Automaton> stages;
  std::optional<Normalization> normalization;
  std::vector<AddedLiteral> added_tokens;
  std::string vocabulary_bytes;               // all entries, one behind the other
  std::vector<std::uint32_t> vocabulary_ends;  // where each ends in vocabulary_bytes
  std::vector<std::uint32_t> vocabulary_ids;
  std::vector<std::uint32_t> merges;  // left, right, rank, merged id; repeated
  std::array<std::uint32_t, 256> byte_ids;  // kNoId: the vocabulary lacks the byte, and the reference drops it
  bool whole_pieces_first;                  // a piece that is a vocabulary entry becomes it without any merge
};

class Encoder {
 public:
  // A stretch of text without an added token that is matched before normalization, normalized where need be.
  struct Segment {
    std::string_view text;   // normalized
    std::size_t raw_begin;   // bytes: where it begins in the text that was handed in
    bool changed;            // normalization changed it, so byte positions in it are not those of the raw text
  };

  explicit Encoder(EncoderTables tables)
      : classes_(std::move(tables.classes)),
        stages_(std::move(tables.stages)),
        normalization_(std::move(tables.normalization)),
        vocabulary_bytes_(std::move(tables.vocabulary_bytes)),
        whole_(tables.vocabulary_ids.size()),
        merges_(tables.merges.size() / 4),
        byte_ids_(tables.byte_ids) {
    for (std::size_t i = 0; i + 3 < tables.merges.size(); i += 4)
      merges_.insert(tables.merges[i], tables.merges[i + 1], {tables.merges[i + 2], tables.merges[i + 3]});
    std::vector<std::uint32_t> symbols;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < tables.vocabulary_ids.size(); ++i) {
      const std::size_t end = tables.vocabulary_ends[i];
      const std::string_view entry = std::string_view(vocabulary_bytes_).substr(begin, end - begin);
      const std::uint32_t id = tables.vocabulary_ids[i];
      begin = end;
      if (id >= lengths_.size()) lengths_.resize(id + 1, 0);
      lengths_[id] = static_cast<std::uint32_t>(entry.size());
      // Without whole_pieces_first, an entry may be looked up whole only where its own merges end in it.
      if (!tables.whole_pieces_first) {
        merge_bytes(entry, symbols);
        if (symbols.size() != 1 || symbols[0] != id) continue;
      }
      whole_.insert(entry, id);
    }
    std::vector<std::pair<std::string_view, AddedTokens::Token>> raw, normalized;
    for (const AddedLiteral& token : tables.added_tokens)
      (token.normalized ? normalized : raw).push_back({token.content, {token.id, token.special}});
    raw_tokens_.build(raw);
    normalized_tokens_.build(normalized);
  }

  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  const Classes& classes() const { return classes_; }

  // What sessions use; chunk_engine.hpp says what each must do.
  std::size_t next_cut(std::string_view text, std::size_t from) const { return classes_.next_cut(text, from); }
  std::size_t last_cut(std::string_view text, std::size_t upto) const { return classes_.last_cut(text, upto); }

  void encode(std::string_view text, bool split_special, std::span<const std::size_t> cuts,
              std::vector<std::uint32_t>& ids, std::vector<std::size_t>& marks) const {
    struct Sink {
      const Encoder& encoder;
      std::vector<std::uint32_t>& ids;
      std::vector<std::uint32_t> symbols;
      void piece(const Segment& segment, std::size_t begin, std::size_t end) {
        encoder.encode_piece(segment.text.substr(begin, end - begin), symbols, ids);
      }
      void literal(const Segment&, std::size_t, std::size_t, std::uint32_t id) { ids.push_back(id); }
      std::size_t mark() const { return ids.size(); }
    };
    const std::size_t before = ids.size();
    Sink sink{*this, ids, {}};
    walk(text, split_special, cuts, marks, sink);
    for (std::size_t& mark : marks)
      if (mark != kNoMark) mark -= before;
  }

  // Spans of every id in code points, untrimmed: pairs (start, stop). An id that holds part of a character spans all
  // of it.
  // Returns false where the spans can't be told from here: normalization changed the text, or a byte was dropped.
  bool spans(std::string_view text, std::vector<std::uint32_t>& ids, std::vector<std::int64_t>& spans) const {
    struct Sink {
      const Encoder& encoder;
      std::string_view text;
      std::vector<std::uint32_t>& ids;
      std::vector<std::int64_t>& spans;
      std::vector<std::uint32_t> symbols;
      bool known = true;
      std::size_t at = 0;        // bytes of `text` counted so far ...
      std::int64_t points = 0;   // ... and the code points that start in them
      // Code points that start before byte `to`, which never goes back.
      std::int64_t count_to(std::size_t to) {
        for (; at < to; ++at) points += !is_continuation(text[at]);
        return points;
      }
      void span(std::size_t begin, std::size_t end) {
        std::int64_t first = count_to(begin);
        if (is_continuation(text[begin])) --first;
        spans.push_back(first);
        spans.push_back(count_to(end));
      }
      void piece(const Segment& segment, std::size_t begin, std::size_t end) {
        known = known && !segment.changed;
        const std::size_t from = ids.size();
        encoder.encode_piece(segment.text.substr(begin, end - begin), symbols, ids);
        if (!known) return;
        std::size_t here = segment.raw_begin + begin;
        for (std::size_t i = from; i < ids.size(); ++i) {
          span(here, here + encoder.lengths_[ids[i]]);
          here += encoder.lengths_[ids[i]];
        }
        known = here == segment.raw_begin + end;
      }
      void literal(const Segment& segment, std::size_t begin, std::size_t end, std::uint32_t id) {
        known = known && !segment.changed;
        ids.push_back(id);
        if (known) span(segment.raw_begin + begin, segment.raw_begin + end);
      }
      std::size_t mark() const { return 0; }
    };
    Sink sink{*this, text, ids, spans, {}};
    std::vector<std::size_t> marks;
    walk(text, false, {}, marks, sink);
    return sink.known;
  }

  // Where the pieces that hold at least one id start, in code points. Returns false where normalization changed the
  // text.
  bool pieces(std::string_view text, std::vector<std::int64_t>& starts) const {
    struct Sink {
      const Encoder& encoder;
      std::string_view text;
      std::vector<std::int64_t>& starts;
      std::vector<std::uint32_t> symbols, ids;
      bool known = true;
      std::size_t at = 0;
      std::int64_t points = 0;
      void start(std::size_t byte) {
        for (; at < byte; ++at) points += !is_continuation(text[at]);
        starts.push_back(points);
      }
      void piece(const Segment& segment, std::size_t begin, std::size_t end) {
        known = known && !segment.changed;
        ids.clear();
        encoder.encode_piece(segment.text.substr(begin, end - begin), symbols, ids);
        if (known && !ids.empty()) start(segment.raw_begin + begin);
      }
      void literal(const Segment& segment, std::size_t begin, std::size_t, std::uint32_t) {
        known = known && !segment.changed;
        if (known) start(segment.raw_begin + begin);
      }
      std::size_t mark() const { return 0; }
    };
    Sink sink{*this, text, starts, {}, {}};
    std::vector<std::size_t> marks;
    walk(text, false, {}, marks, sink);
    return sink.known;
  }

 private:
  // Up to this size a thread keeps its class buffer from call to call: sessions' windows and most messages fit.
  static constexpr std::size_t kKeptBufferBytes = std::size_t{1} << 18;

  void merge_bytes(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
    symbols.clear();
    for (const char byte : piece) {
      const std::uint32_t id = byte_ids_[static_cast<unsigned char>(byte)];
      if (id != kNoId) symbols.push_back(id);
    }
    merges_.apply(symbols);
  }

  void encode_piece(std::string_view piece, std::vector<std::uint32_t>& symbols, std::vector<std::uint32_t>& ids) const {
    const std::uint32_t id = whole_.find(piece);
    if (id != kNoId) {
      ids.push_back(id);
      return;
    }
    merge_bytes(piece, symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  // Cut out the literals of `tokens` from `text`: gap(begin, end) for what lies between, literal(begin, end, id) for
  // each.
  template <class Gap, class Literal>
  static void cut_out(const AddedTokens& tokens, std::string_view text, bool split_special, Gap&& gap,
                      Literal&& literal) {
    std::size_t begin = 0;
    if (!tokens.empty()) {
      for (std::size_t from = 0;;) {
        const AddedTokens::Found found = tokens.find(text, from);
        if (found.begin == kNone) break;
        from = found.end;
        if (split_special && found.token.special) continue;  // as the reference: seen, but left in the text
        if (begin < found.begin) gap(begin, found.begin);
        literal(found.begin, found.end, found.token.id);
        begin = found.end;
      }
    }
    if (begin < text.size()) gap(begin, text.size());
  }

  template <class Sink>
  void walk(std::string_view text, bool split_special, std::span<const std::size_t> cuts,
            std::vector<std::size_t>& marks, Sink& sink) const {
    marks.assign(cuts.size(), kNoMark);
    std::size_t cut = 0;  // cuts before this one are behind us
    std::vector<std::size_t> local;
    const auto take_cuts = [&](std::size_t begin, std::size_t end) {
      while (cut < cuts.size() && cuts[cut] < begin) ++cut;
      local.clear();
      for (std::size_t i = cut; i < cuts.size() && cuts[i] < end; ++i) local.push_back(cuts[i] - begin);
    };
    cut_out(
        raw_tokens_, text, split_special,
        [&](std::size_t begin, std::size_t end) {
          take_cuts(begin, end);
          walk_segment(text.substr(begin, end - begin), begin, split_special, local, marks.data() + cut, sink);
        },
        [&](std::size_t begin, std::size_t end, std::uint32_t id) {
          take_cuts(begin, end);
          if (!local.empty() && local[0] == 0) marks[cut] = sink.mark();
          sink.literal(Segment{text.substr(begin, end - begin), begin, false}, 0, end - begin, id);
        });
  }

  template <class Sink>
  void walk_segment(std::string_view raw, std::size_t raw_begin, bool split_special, std::vector<std::size_t>& cuts,
                    std::size_t* marks, Sink& sink) const {
    thread_local std::vector<std::uint8_t> kept_buffer;
    std::vector<std::uint8_t> large_buffer;
    std::vector<std::uint8_t>& buffer = raw.size() <= kKeptBufferBytes ? kept_buffer : large_buffer;
    if (buffer.size() < raw.size()) buffer.resize(raw.size());
    Segment segment{raw, raw_begin, false};
    std::string normalized;
    if (classes_.fill(raw, buffer.data()) && normalization_) {
      normalized = normalization_->apply(raw, buffer.data(), classes_, cuts);
      segment.text = normalized;
      segment.changed = normalized != raw;
      if (buffer.size() < normalized.size()) buffer.resize(normalized.size());
      classes_.fill(normalized, buffer.data());
    }
    std::size_t cut = 0;
    const auto pass = [&](std::size_t begin) {  // a piece begins here: is this a cut?
      while (cut < cuts.size() && cuts[cut] < begin) ++cut;
      if (cut < cuts.size() && cuts[cut] == begin) marks[cut++] = sink.mark();
    };
    cut_out(
        normalized_tokens_, segment.text, split_special,
        [&](std::size_t begin, std::size_t end) {
          split(stages_, 0, classes_, buffer.data(), begin, end, [&](std::size_t piece_begin, std::size_t piece_end) {
            pass(piece_begin);
            sink.piece(segment, piece_begin, piece_end);
          });
        },
        [&](std::size_t begin, std::size_t end, std::uint32_t id) {
          pass(begin);
          sink.literal(segment, begin, end, id);
        });
  }

  Classes classes_;
  std::vector<Automaton> stages_;
  std::optional<Normalization> normalization_;
  std::string vocabulary_bytes_;  // whole_ points into it
  Vocabulary whole_;
  Merges merges_;
  std::array<std::uint32_t, 256> byte_ids_;
  std::vector<std::uint32_t> lengths_;  // bytes of each id
  AddedTokens raw_tokens_;              // looked for before normalization
  AddedTokens normalized_tokens_;       // looked for after it
};

}  // namespace tokseam
