// An engine held to its contract: what the session calls in place of the bare engine.
// It cannot tell a wrong id; the session's overlap check can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "chunk_engine.hpp"
#include "code_points.hpp"

namespace tokseam {

// A proof that did not hold: the engine disagrees with what it answered before. Thrown with the session unchanged; the
// caller encodes by the reference, counts it and reports it.
struct OverlapMismatch : std::runtime_error {
  enum class Differs {
    boundary,  // no piece starts at a synchronizing position
    ids,       // the overlap's ids came out otherwise than they were
  };
  OverlapMismatch(Differs what_differs, std::size_t at)
      : std::runtime_error(what_differs == Differs::boundary ? "a synchronizing position is not a piece boundary"
                                                             : "the overlap's ids differ from the kept ones"),
        differs(what_differs),
        position(at) {}
  Differs differs;
  std::size_t position;  // code points into the text that the operation would have made: the synchronizing position
};

template <ChunkEngine Engine>
class CheckedEngine {
 public:
  CheckedEngine(const Engine& engine, bool split_special) : engine_(&engine), split_special_(split_special) {}

  bool split_special() const { return split_special_; }
  const Spellings& spellings() const { return engine_->spellings(); }

  // The first synchronizing position at or after `from`, and the last at or before `upto`, which here need not be code
  // point boundaries. An engine that answers a position outside these bounds or inside a character is broken
  // altogether; it would make the session loop, or part the character.
  std::size_t next_cut(std::string_view text, std::size_t from) const {
    from = utf8::boundary_at_or_after(text, from);
    if (from >= text.size()) return kNoCut;
    const std::size_t cut = engine_->next_cut(text, from);
    if (cut != kNoCut && (cut < from || cut == 0 || cut >= text.size() || !utf8::starts_code_point(text[cut])))
      throw std::logic_error("engine: next_cut answered a position that is none");
    return cut;
  }
  std::size_t last_cut(std::string_view text, std::size_t upto) const {
    upto = utf8::boundary_at_or_before(text, upto);
    if (upto == 0) return kNoCut;
    const std::size_t cut = engine_->last_cut(text, upto);
    if (cut != kNoCut && (cut > upto || cut == 0 || !utf8::starts_code_point(text[cut])))
      throw std::logic_error("engine: last_cut answered a position that is none");
    return cut;
  }

  // Appends the ids of a text that stands `chars_before` code points into the session's text, and writes a mark for
  // each cut, ascending, none above the ids appended. Throws OverlapMismatch for a bad mark.
  void encode(std::string_view text, std::span<const std::size_t> cuts, std::size_t chars_before,
              std::vector<std::uint32_t>& ids, std::vector<std::size_t>& marks) const {
    const EncodeMode mode{split_special_, chars_before > 0};
    const std::size_t before = ids.size();
    marks.clear();
    if (!text.empty()) engine_->encode(text, mode, cuts, ids, marks);
    check_marks(text, chars_before, cuts, ids.size() - before, marks);
  }

  static void check_marks(std::string_view text, std::size_t chars_before, std::span<const std::size_t> cuts,
                          std::size_t ids, std::span<const std::size_t> marks) {
    if (marks.size() != cuts.size()) throw std::logic_error("engine: there must be one mark for each cut");
    std::size_t cut_before = 0;
    std::size_t mark_before = 0;
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      if (cuts[k] <= cut_before || cuts[k] >= text.size())
        throw std::logic_error("cuts must ascend strictly inside the text");
      if (marks[k] == kNoMark || marks[k] < mark_before || marks[k] > ids)
        throw mismatch(OverlapMismatch::Differs::boundary, text, chars_before, cuts[k]);
      cut_before = cuts[k];
      mark_before = marks[k];
    }
  }

  static OverlapMismatch mismatch(OverlapMismatch::Differs differs, std::string_view text, std::size_t chars_before,
                                  std::size_t cut) {
    return {differs, chars_before + utf8::count_code_points(text.substr(0, cut))};
  }

 private:
  const Engine* engine_;  // never null; not owned
  bool split_special_;    // whether the literals of special tokens are text like any other
};

}  // namespace tokseam
