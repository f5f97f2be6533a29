// A full, exact encode: added tokens, normalization, splitting stages, BPE (design 3.1). Immutable, so any number of
// threads may use one. What it keeps between calls changes no answer (segment_cache.hpp), and no table is its
// own: those lie in its image (encoder_image.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "automaton.hpp"
#include "bpe.hpp"
#include "character_masks.hpp"
#include "characters.hpp"
#include "chunk_engine.hpp"
#include "classes.hpp"
#include "close_numbers.hpp"
#include "code_points.hpp"
#include "crossings.hpp"
#include "cut_masks.hpp"
#include "image.hpp"
#include "known_chunks.hpp"
#include "normalization.hpp"
#include "piece_ends.hpp"
#include "resolver.hpp"
#include "segments.hpp"
#include "text_places.hpp"
#include "spellings.hpp"
#include "utf8.hpp"
#include "vocabulary.hpp"

namespace tokseam {

class Encoder {
 public:
  // A stretch of text without an added token that is matched before normalization, normalized where need be.
  struct Segment {
    std::string_view text;  // normalized
    std::size_t raw_begin;  // bytes: where it begins in the text that was handed in
    // Normalization changed it, so byte positions in it are not those of the raw text ...
    bool changed = false;
    // ... or it is Characters' (literals that were cut out raw are not): one character for one, behind the prefix.
    bool characters = false;
    bool prefixed = false;
    // With prefixed, of a segment of bytes: one byte stands in front that the raw text does not have.
    std::size_t raw(std::size_t byte) const { return raw_begin + (prefixed && byte > 0 ? byte - 1 : byte); }
  };

  // Throws BadImage for one that a text could lead out of.
  explicit Encoder(Image image)
      : image_(std::move(image)),
        classes_(image_),
        stages_(Automaton::read_all(image_, Section::stages, classes_.count())),
        byte_classes_(image_.get_sized<std::uint8_t>(Section::byte_classes, 256)),
        byte_stages_(Automaton::read_all(image_, Section::byte_stages,
                                         std::size_t{1} + *std::ranges::max_element(byte_classes_))),
        bpe_(image_),
        whole_(image_),
        space_in_front_(image_.get_sized<std::uint32_t>(Section::settings, 1)[0] != 0),
        lengths_(image_, Section::lengths),
        spellings_(image_, whole_),
        raw_tokens_(image_, kRawLiterals),
        normalized_tokens_(image_, kNormalizedLiterals),
        fenced_tokens_(image_, kFencedLiterals),
        surroundings_(image_) {
    for (std::uint32_t index = 0; image_.has(Section::normalization_settings, index); ++index)
      normalizations_.emplace_back(image_, index);
    if (characters()) {
      character_masks_.emplace(*characters());
      return;
    }
    crossings_.emplace(image_);
    const std::size_t count = classes_.count();
    const auto bytes = [&](Section section, std::size_t size) {
      return image_.get_sized<std::uint8_t>(section, size).data();
    };
    masks_.emplace(classes_, bytes(Section::segment_pairs, count * count), bytes(Section::looking_on, 3 * count),
                   bytes(Section::looking_back, 3 * count), bytes(Section::seamless, count * count), &*crossings_);
    shapes_ = ascii_shapes();
    if (image_.has(Section::whole_segments)) whole_segments_ = image_.get<std::uint64_t>(Section::whole_segments);
  }

  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  const Image& image() const { return image_; }
  const Classes& classes() const { return classes_; }

  // Forget all segments encoded so far, as a new process has none: for measuring.
  void forget_segments() const {
    caches_.clear();
    known_chunks_.clear();
  }

  // What of texts that came before is recognised (fresh_text.hpp).
  KnownChunks& known_chunks() const { return known_chunks_; }

  // Whether the vocabulary entry `id` is, as a segment of a text, just itself in every mode; for building an image.
  bool whole_as_segment(std::string_view entry, std::uint32_t id) const {
    if (characters() || entry.empty() || !utf8::valid(entry)) return false;
    if (raw_tokens_.find(entry, 0).begin != kNone || normalized_tokens_.find(entry, 0).begin != kNone) return false;
    std::vector<std::uint32_t> ids;
    walk_ids(entry, {false, true}, ids);
    return ids.size() == 1 && ids[0] == id;
  }

  // What sessions use; chunk_engine.hpp says what each must do.
  std::size_t next_cut(std::string_view text, std::size_t from) const {
    return characters() ? characters()->next_cut(text, from) : classes_.next_cut(text, from);
  }
  std::size_t last_cut(std::string_view text, std::size_t upto) const {
    return characters() ? characters()->last_cut(text, upto) : classes_.last_cut(text, upto);
  }

  const Spellings& spellings() const { return spellings_; }

  void encode(std::string_view text, EncodeMode mode, std::span<const std::size_t> cuts,
              std::vector<std::uint32_t>& ids, std::vector<std::size_t>& marks) const {
    const std::size_t before = ids.size();
    marks.assign(cuts.size(), kNoMark);
    if (masks_)
      encode_segments(*masks_, text, mode, cuts, ids, marks);
    else
      encode_segments(*character_masks_, text, mode, cuts, ids, marks);
    for (std::size_t& mark : marks)
      if (mark != kNoMark) mark -= before;
  }

  // Spans of every id in code points, untrimmed: pairs (start, stop). An id that holds part of a character spans all
  // of it.
  // Returns false where the spans can't be told from here: normalization changed the text, or a byte was dropped.
  bool spans(std::string_view text, std::vector<std::uint32_t>& ids, std::vector<std::int64_t>& spans) const {
    SpanSink<Encoder> sink(*this, text, ids, spans);
    std::vector<std::size_t> marks;
    walk(text, {}, {}, marks, sink);
    return sink.known();
  }

  // Where the pieces that hold at least one id start, in code points. Returns false where normalization changed the
  // text.
  bool pieces(std::string_view text, std::vector<std::int64_t>& starts) const {
    PieceSink<Encoder> sink(*this, text, starts);
    std::vector<std::size_t> marks;
    walk(text, {}, {}, marks, sink);
    return sink.known();
  }

  // What text_places.hpp asks. In bytes; with characters(), in code points. 0 for an id that no entry has.
  std::size_t length_of(std::uint32_t id) const { return id < lengths_.size() ? lengths_[id] : 0; }
  const std::optional<Characters>& characters() const { return bpe_.characters(); }
  // Appends the ids of a piece.
  void encode_piece(std::string_view piece, std::vector<std::uint32_t>& symbols,
                    std::vector<std::uint32_t>& ids) const {
    const std::uint32_t id = whole_.find(piece);
    if (id != kNoId)
      ids.push_back(id);
    else
      bpe_.append(piece, symbols, ids);
  }

  // What resolver.hpp asks.
  const Vocabulary& whole() const { return whole_; }
  const Bpe& bpe() const { return bpe_; }
  bool is_whole_segment(std::uint32_t id) const {
    return id / 64 < whole_segments_.size() && (whole_segments_[id / 64] >> id % 64 & 1) != 0;
  }

  // Tells parts.piece(text) and parts.id(id) of what a text falls into; parts.view(text), of a piece that is a view
  // into the text itself.
  template <class Parts>
  void walk_parts(std::string_view text, EncodeMode mode, PieceEnds& ends, const Parts& parts) const {
    if (walk_plain(text, mode, ends, parts)) return;
    struct Sink {
      const Parts& parts;
      void piece(const Segment& segment, std::size_t begin, std::size_t end) {
        parts.piece(segment.text.substr(begin, end - begin));
      }
      void literal(const Segment&, std::size_t, std::size_t, std::uint32_t id) { parts.id(id); }
      void boundary(const Segment&, std::size_t) {}
      std::size_t mark() const { return 0; }
    };
    Sink sink{parts};
    std::vector<std::size_t> marks;
    walk(text, mode, {}, marks, sink);
  }

 private:
  // PERF: what most segments are: short, without a literal, as normalization leaves them, parted by stages over
  // characters alone. False, with nothing told, for any other text.
  template <class Parts>
  bool walk_plain(std::string_view text, EncodeMode mode, PieceEnds& ends, const Parts& parts) const {
    if (text.size() > kPlainBytes || characters() || !byte_stages_.empty() || (space_in_front_ && !mode.continued))
      return false;
    Shape shape;
    if (shapes_ && text.size() <= Shape::kMostBytes && shapes_->find(text, shape)) {
      std::uint32_t left = ends.through(shape, [&] { return ends_of_pieces(text); });
      for (std::size_t begin = 0; left != 0; left &= left - 1) {
        const auto end = static_cast<std::size_t>(std::countr_zero(left)) + 1;
        parts.view(text.substr(begin, end - begin));
        begin = end;
        if (end == text.size()) return true;
      }
    }
    if (raw_tokens_.is_in(text) || normalized_tokens_.is_in(text)) return false;
    std::array<std::uint8_t, kPlainBytes> classes;
    if (classes_.fill(text, classes.data())) return false;
    split(stages_, 0, classes_.inner(), classes.data(), 0, text.size(),
          [&](std::size_t from, std::size_t to) { parts.view(text.substr(from, to - from)); });
    return true;
  }

  // As PieceEnds has them, of a text that has a shape.
  std::uint32_t ends_of_pieces(std::string_view text) const {
    std::array<std::uint8_t, Shape::kMostBytes> classes;
    classes_.fill(text, classes.data());
    std::uint32_t ends = 0;
    std::size_t done = 0;
    split(stages_, 0, classes_.inner(), classes.data(), 0, text.size(), [&](std::size_t from, std::size_t to) {
      if (from != done) return;  // some of the text is dropped
      ends |= std::uint32_t{1} << (to - 1);
      done = to;
    });
    return done == text.size() ? ends : 0;
  }

  // None where an ASCII character may be normalized away.
  std::optional<AsciiShapes> ascii_shapes() const {
    std::array<std::uint8_t, 128> classes, numbers;
    std::vector<bool> plain(classes_.count());
    for (std::uint32_t byte = 0; byte < classes.size(); ++byte) {
      classes[byte] = classes_.of(byte);
      if (classes_.suspect(classes[byte])) return std::nullopt;
      plain[classes[byte]] = true;
    }
    const std::vector<std::uint8_t> alike = classes_alike(stages_, plain);
    if (std::ranges::any_of(alike, [](std::uint8_t kind) { return kind >= AsciiShapes::kMostClasses; }))
      return std::nullopt;
    for (std::uint32_t byte = 0; byte < numbers.size(); ++byte) {
      const auto first = static_cast<unsigned char>(byte);
      const bool literal = raw_tokens_.may_begin(first) || normalized_tokens_.may_begin(first);
      numbers[byte] = literal || !plain[classes[byte]] ? AsciiShapes::kCloser : alike[classes[byte]];
    }
    return AsciiShapes(numbers);
  }

  // The ids by way of the pieces: what every other way must come to.
  void walk_ids(std::string_view text, EncodeMode mode, std::vector<std::uint32_t>& ids) const {
    struct Sink {
      const Encoder& encoder;
      std::vector<std::uint32_t>& ids;
      std::vector<std::uint32_t>& symbols;
      void piece(const Segment& segment, std::size_t begin, std::size_t end) {
        encoder.encode_piece(segment.text.substr(begin, end - begin), symbols, ids);
      }
      void literal(const Segment&, std::size_t, std::size_t, std::uint32_t id) { ids.push_back(id); }
      void boundary(const Segment&, std::size_t) {}
      std::size_t mark() const { return ids.size(); }
    };
    thread_local std::vector<std::uint32_t> symbols;
    Sink sink{*this, ids, symbols};
    std::vector<std::size_t> marks;
    walk(text, mode, {}, marks, sink);
  }

  // Each segment by itself. The first one may get something in front, which makes it another text than elsewhere.
  template <class Masks>
  void encode_segments(const Masks& masks, std::string_view text, EncodeMode mode, std::span<const std::size_t> cuts,
                       std::vector<std::uint32_t>& ids, std::vector<std::size_t>& marks) const {
    std::size_t start = 0;
    if ((space_in_front_ || (characters() && characters()->prefixes())) && !mode.continued && !text.empty()) {
      start = next_cut(text, utf8::boundary_at_or_after(text, 1));
      if (start == kNoCut) start = text.size();
      walk_ids(text.substr(0, start), mode, ids);
    }
    const EncodeMode inner{mode.split_special, true};
    const auto cache = caches_.lend();
    if (text.size() >= kSeedingBytes) seed(*cache, inner, text.size());
    Resolver<Encoder, EncodeMode> resolve(*this, inner, (*cache).piece_ends());
    const auto parts = [&](std::string_view beside, std::size_t at) { return begins_piece(beside, at, inner); };
    SegmentEncoder(masks, fenced_tokens_, space_in_front_, *cache, mode.split_special, resolve, parts).encode(text, start, cuts, marks.data(), ids);
  }

  // PERF: what text consists of most are the first entries of a vocabulary: a large text finds them in the cache, where
  // a look-up waits for memory but once. A very large one, also the others.
  void seed(SegmentCache& cache, EncodeMode mode, std::size_t bytes) const {
    const std::uint64_t told = mode.split_special ? SegmentCache::kSplitSpecial : 0;
    std::size_t& done = cache.seeded_to(told);
    const bool all = bytes >= kAllSeedsBytes;
    if (done > 0 && !all) return;
    if (done == 0) cache.expect_much();
    std::array<SegmentCache::Seed, 32> some;
    std::size_t waiting = 0, seen = 0;
    const auto keep = [&] {
      for (std::size_t i = 0; i < waiting; ++i) cache.keep(some[i]);
      waiting = 0;
      cache.grow();
    };
    done = whole_.for_each(
        [&](std::string_view entry, std::uint32_t id) {
          if (entry.size() <= SegmentCache::kShortBytes && is_whole_segment(id))
            some[waiting++] = cache.seed_of(entry, told, id);
          if (waiting == some.size()) keep();
          return all || ++seen < kFirstSeeds;
        },
        done);
    keep();
  }

  // Whether a piece begins at text[at], by the stages themselves.
  bool begins_piece(std::string_view text, std::size_t at, EncodeMode mode) const {
    struct Sink {
      std::size_t count = 0;
      void piece(const Segment&, std::size_t, std::size_t) { ++count; }
      void literal(const Segment&, std::size_t, std::size_t, std::uint32_t) { ++count; }
      void boundary(const Segment&, std::size_t) {}
      std::size_t mark() const { return count; }
    };
    Sink sink;
    std::vector<std::size_t> marks;
    walk(text, mode, std::span(&at, 1), marks, sink);
    return marks[0] != kNoMark;
  }

  static constexpr std::size_t kSeedingBytes = std::size_t{1} << 16;
  static constexpr std::size_t kFirstSeeds = std::size_t{1} << 15;
  static constexpr std::size_t kAllSeedsBytes = std::size_t{1} << 17;  // a part of a text on several cores, too

  static constexpr std::size_t kPlainBytes = 256;

  // Up to this size a thread keeps its class buffer from call to call: sessions' windows and most messages fit.
  static constexpr std::size_t kKeptBufferBytes = std::size_t{1} << 18;

  // Every byte counts by itself behind ByteLevel; no class has this number.
  static constexpr std::uint8_t kNoInner = 0xFF;

  template <class Sink>
  void walk(std::string_view text, EncodeMode mode, std::span<const std::size_t> cuts,
            std::vector<std::size_t>& marks, Sink& sink) const {
    marks.assign(cuts.size(), kNoMark);
    std::size_t cut = 0;  // cuts before this one are behind us
    std::vector<std::size_t> local;
    const auto take_cuts = [&](std::size_t begin, std::size_t end) {
      while (cut < cuts.size() && cuts[cut] < begin) ++cut;
      local.clear();
      for (std::size_t i = cut; i < cuts.size() && cuts[i] < end; ++i) local.push_back(cuts[i] - begin);
    };
    raw_tokens_.cut_out(
        text, mode.split_special, surroundings_,
        [&](std::size_t begin, std::size_t end) {
          take_cuts(begin, end);
          walk_segment(text.substr(begin, end - begin), begin, mode, local, marks.data() + cut, sink);
        },
        [&](std::size_t begin, std::size_t end, std::uint32_t id) {
          take_cuts(begin, end);
          if (!local.empty() && local[0] == 0) marks[cut] = sink.mark();
          sink.literal(Segment{text.substr(begin, end - begin), begin}, 0, end - begin, id);
        });
  }

  template <class Sink>
  void walk_segment(std::string_view raw, std::size_t raw_begin, EncodeMode mode, std::vector<std::size_t>& cuts,
                    std::size_t* marks, Sink& sink) const {
    if (characters()) return walk_characters(raw, raw_begin, mode, cuts, marks, sink);
    thread_local std::vector<std::uint8_t> kept_buffer;
    std::vector<std::uint8_t> large_buffer;
    std::vector<std::uint8_t>& buffer = raw.size() <= kKeptBufferBytes ? kept_buffer : large_buffer;
    if (buffer.size() < raw.size()) buffer.resize(raw.size());
    Segment segment{raw, raw_begin};
    std::string normalized, kept;  // `kept` is what segment.text looks at, once anything was normalized
    bool suspect = classes_.fill(raw, buffer.data());
    if (suspect) {
      for (const Normalization& normalization : normalizations_) {
        if (!suspect) break;
        normalized = normalization.apply(segment.text, buffer.data(), classes_, cuts);
        // Each step counts: one may undo what another did to the text, but not to where its characters come from.
        segment.changed = segment.changed || normalized != segment.text;
        std::swap(normalized, kept);
        segment.text = kept;
        if (buffer.size() < kept.size()) buffer.resize(kept.size());
        suspect = classes_.fill(kept, buffer.data());
      }
    }
    CutMarks pass{cuts, marks};
    normalized_tokens_.cut_out(
        segment.text, mode.split_special, surroundings_,
        [&](std::size_t begin, std::size_t end) {
          const bool goes_on = mode.continued && raw_begin == 0 && begin == 0;
          if (!space_in_front_ || goes_on || segment.text[begin] == ' ') {
            split_bytes(segment, begin, end, buffer.data(), sink, [&](std::size_t from, std::size_t to) {
              pass(from, to, sink);
            });
            return;
          }
          // The stretch with its space, as a segment of its own. No cut lies where it begins.
          const std::string with_space = ' ' + std::string(segment.text.substr(begin, end - begin));
          std::vector<std::uint8_t> classes(with_space.size());
          classes_.fill(with_space, classes.data());
          const Segment stretch{with_space, raw_begin + begin, segment.changed, false, true};
          split_bytes(stretch, 0, with_space.size(), classes.data(), sink, [&](std::size_t from, std::size_t to) {
            pass(begin + (from > 0 ? from - 1 : 0), begin + to - 1, sink);
          });
        },
        [&](std::size_t begin, std::size_t end, std::uint32_t id) {
          pass(begin, end, sink);
          sink.literal(segment, begin, end, id);
        });
    pass.finish(segment.text.size(), sink);
  }

  // Split [begin, end) of a segment by all stages; `before(begin, end)` is told of each piece before the sink is.
  template <class Sink, class Before>
  void split_bytes(const Segment& segment, std::size_t begin, std::size_t end, const std::uint8_t* classes, Sink& sink,
                   Before&& before) const {
    const auto piece = [&](std::size_t from, std::size_t to) {
      before(from, to);
      sink.piece(segment, from, to);
    };
    std::vector<std::uint8_t> bytes;  // classes of one piece's bytes
    split(stages_, 0, classes_.inner(), classes, begin, end, [&](std::size_t from, std::size_t to) {
      if (byte_stages_.empty()) return piece(from, to);
      bytes.clear();
      for (std::size_t at = from; at < to; ++at)
        bytes.push_back(byte_classes_[static_cast<unsigned char>(segment.text[at])]);
      split(byte_stages_, 0, kNoInner, bytes.data(), 0, to - from,
            [&](std::size_t inside, std::size_t outside) { piece(from + inside, from + outside); });
    });
  }

  template <class Sink>
  void walk_characters(std::string_view raw, std::size_t raw_begin, EncodeMode mode, std::vector<std::size_t>& cuts,
                       std::size_t* marks, Sink& sink) const {
    Segment segment{raw, raw_begin, false, true};
    const bool at_start = raw_begin == 0;
    const std::string normalized =
        characters()->normalized(raw, at_start, at_start && mode.continued, cuts, segment.prefixed);
    segment.text = normalized;
    CutMarks pass{cuts, marks};
    normalized_tokens_.cut_out(
        segment.text, mode.split_special, surroundings_,
        [&](std::size_t begin, std::size_t end) {
          characters()->split(
              segment.text, begin, end, [&](std::size_t at) { sink.boundary(segment, at); },
              [&](std::size_t part_begin, std::size_t part_end) {
                pass(part_begin, part_end, sink);
                sink.piece(segment, part_begin, part_end);
              });
        },
        [&](std::size_t begin, std::size_t end, std::uint32_t id) {
          pass(begin, end, sink);
          sink.literal(segment, begin, end, id);
        });
    pass.finish(segment.text.size(), sink);
  }

  // Notes how many ids stand before each cut, as pieces come one after the other. A cut may lie between two pieces, in
  // text that belongs to none; one inside a piece gets no mark.
  struct CutMarks {
    const std::vector<std::size_t>& cuts;
    std::size_t* marks;
    std::size_t next = 0;
    std::size_t done = 0;  // where the piece before ended
    template <class Sink>
    void operator()(std::size_t begin, std::size_t end, const Sink& sink) {
      for (; next < cuts.size() && cuts[next] <= begin; ++next)
        if (cuts[next] >= done) marks[next] = sink.mark();
      done = end;
    }
    template <class Sink>
    void finish(std::size_t size, const Sink& sink) {
      (*this)(size, size, sink);
    }
  };

  Image image_;  // all that follows looks into it
  Classes classes_;
  std::vector<Automaton> stages_;
  std::span<const std::uint8_t> byte_classes_;
  std::vector<Automaton> byte_stages_;
  std::vector<Normalization> normalizations_;
  Bpe bpe_;
  Vocabulary whole_;
  bool space_in_front_;
  CloseNumbers lengths_;
  Spellings spellings_;
  AddedTokens raw_tokens_;         // looked for before normalization
  AddedTokens normalized_tokens_;  // looked for after it
  AddedTokens fenced_tokens_;      // those that masks_ do not know
  Surroundings surroundings_;
  std::optional<Crossings> crossings_;             // none with characters(), as masks_
  std::optional<CutMasks> masks_;                  // none with characters()
  std::optional<AsciiShapes> shapes_;              // what most text consists of; none with characters()
  std::optional<CharacterMasks> character_masks_;  // only with characters()
  std::span<const std::uint64_t> whole_segments_;  // bit by id; see whole_as_segment
  // What these hold changes no answer.
  mutable SegmentCaches caches_;
  mutable KnownChunks known_chunks_{KnownChunks::kDefaultBytes};
};

}  // namespace tokseam
