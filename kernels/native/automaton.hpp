// One splitting stage: a leftmost-first DFA run over a class buffer (classes.hpp). Built by
// kernels/compile/automaton.py; how it runs and splits is device/stage.hpp's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "classes.hpp"
#include "device/stage.hpp"
#include "image.hpp"

namespace tokseam {

using device::Behavior;
inline constexpr int kBehaviors = 5;

class Automaton {
 public:
  static constexpr std::uint16_t kMatch = device::Stage::kMatch, kState = device::Stage::kState;
  static constexpr std::uint16_t kDead = device::Stage::kDead, kStart = device::Stage::kStart;

  // transitions: states rows of classes + 1 columns, the last one for the end of the text.
  // Throws std::invalid_argument for a table that a text could lead out of.
  // Stored with one more column, before the end's: the inner bytes of a character, which change nothing.
  static void write(ImageWriter& writer, Section section, std::uint32_t index, const std::uint16_t* transitions,
                    std::size_t states, std::size_t classes, Behavior behavior) {
    if (states <= kStart) throw std::invalid_argument("automaton: no start state");
    std::vector<std::uint16_t> stored{static_cast<std::uint16_t>(classes), static_cast<std::uint16_t>(behavior)};
    stored.reserve(kSettings + states * (classes + 2));
    for (std::size_t state = 0; state < states; ++state) {
      const std::uint16_t* row = transitions + state * (classes + 1);
      for (std::size_t column = 0; column <= classes; ++column)
        if ((row[column] & kState) >= states) throw std::invalid_argument("automaton: a state that is none");
      if ((row[classes] & kState) != kDead) throw std::invalid_argument("automaton: it goes on behind the end");
      stored.insert(stored.end(), row, row + classes);
      stored.push_back(static_cast<std::uint16_t>(state));
      stored.push_back(row[classes]);
    }
    writer.add(section, stored, index);
  }

  // All stages of a section, in order.
  static std::vector<Automaton> read_all(const Image& image, Section section, std::size_t classes) {
    std::vector<Automaton> stages;
    for (std::uint32_t index = 0; image.has(section, index); ++index)
      stages.push_back({image, section, index, classes});
    return stages;
  }

  // classes: how many numbers a class buffer for it may hold, besides the inner one.
  Automaton(const Image& image, Section section, std::uint32_t index, std::size_t classes) {
    const std::size_t stride = classes + 2;
    const auto stored = image.get<std::uint16_t>(section, index);
    Image::require(stored.size() >= kSettings && stored[0] == classes && stored[1] < kBehaviors, section);
    const auto table = stored.subspan(kSettings);
    const std::size_t states = table.size() / stride;
    Image::require(states > kStart && table.size() % stride == 0, section);
    for (std::size_t i = 0; i < table.size(); ++i) {
      Image::require((table[i] & kState) < states, section);
      if (i % stride == classes + 1) Image::require((table[i] & kState) == kDead, section);
      // An empty match would never move on.
      if (i / stride == kStart) Image::require((table[i] & kMatch) == 0, section);
    }
    stage_ = {table.data(), static_cast<std::uint32_t>(stride), static_cast<std::uint32_t>(states),
              static_cast<Behavior>(stored[1])};
  }

  // How it splits.
  const device::Stage& stage() const { return stage_; }

  static constexpr std::size_t kSettings = 2;  // in front of the stored table: classes, behavior

 private:
  device::Stage stage_;
};

// Numbers of the classes that are `plain`, the same for two that no stage tells apart in a text of such classes alone.
// Of those that are plain, some that most others are told apart behind are left out: then many are alike that differ
// only behind an apostrophe, say.
inline std::vector<std::uint8_t> classes_alike(const std::vector<Automaton>& stages, std::vector<bool>& plain) {
  const auto number = [&](const std::vector<bool>& of, std::vector<std::uint8_t>& numbers) {
    std::vector<std::vector<std::uint16_t>> columns;  // of each kind
    numbers.assign(of.size(), 0);
    std::vector<std::vector<std::uint16_t>> all(of.size());
    for (const Automaton& automaton : stages) {
      const device::Stage& stage = automaton.stage();
      std::vector<bool> seen(stage.states);
      std::vector<std::uint32_t> open{device::Stage::kStart};
      seen[device::Stage::kStart] = seen[device::Stage::kDead] = true;
      while (!open.empty()) {
        const std::uint32_t state = open.back();
        open.pop_back();
        for (std::size_t c = 0; c < of.size(); ++c) {
          if (!of[c]) continue;
          const std::uint16_t next = stage.entry(state, static_cast<std::uint32_t>(c));
          all[c].push_back(next);
          if (seen[next & device::Stage::kState]) continue;
          seen[next & device::Stage::kState] = true;
          open.push_back(next & device::Stage::kState);
        }
      }
    }
    for (std::size_t c = 0; c < of.size(); ++c) {
      if (!of[c]) continue;
      const auto place = std::ranges::find(columns, all[c]);
      numbers[c] = static_cast<std::uint8_t>(place - columns.begin());
      if (place == columns.end()) columns.push_back(all[c]);
    }
    return columns.size();
  };
  constexpr std::size_t kMostLeftOut = 2;
  std::vector<std::uint8_t> numbers, tried;
  std::size_t kinds = number(plain, numbers);
  for (std::size_t left_out = 0; left_out < kMostLeftOut; ++left_out) {
    std::size_t best = kinds, best_class = plain.size();
    for (std::size_t c = 0; c < plain.size(); ++c) {
      if (!plain[c]) continue;
      plain[c] = false;
      const std::size_t count = number(plain, tried) + 1;
      plain[c] = true;
      if (count < best) best = count, best_class = c;
    }
    if (best_class == plain.size()) break;
    plain[best_class] = false;
    kinds = number(plain, numbers);
  }
  return numbers;
}

// Split [begin, end) by the stages from `stage` on and hand each piece to `piece(begin, end)`, in order. `inner` is the
// class of the inner bytes of a character.
template <class Piece>
void split(const std::vector<Automaton>& stages, std::size_t stage, std::uint8_t inner, const std::uint8_t* classes,
           std::size_t begin, std::size_t end, Piece&& piece) {
  if (stage == stages.size()) {
    piece(begin, end);
    return;
  }
  stages[stage].stage().split(classes, inner, begin, end, [&](std::size_t from, std::size_t to, bool kept) {
    if (kept) split(stages, stage + 1, inner, classes, from, to, piece);
  });
}

}  // namespace tokseam
