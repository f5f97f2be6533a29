// Texts by their segments, against the same one segment at a time: whatever is in the cache, wherever marks are asked
// for, however many segments are unknown at once.
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "check.hpp"
#include "image.hpp"
#include "segment_cache.hpp"
#include "segments.hpp"

namespace {

using namespace tokseam;
using tokseam::test::Case;

// A segment begins at each '|'.
struct BarMasks {
  std::uint64_t at(std::string_view text, std::size_t at) const {
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < 64 && at + i < text.size(); ++i)
      if (at + i > 0 && text[at + i] == '|') mask |= std::uint64_t{1} << i;
    return mask;
  }
  bool is_pair(std::string_view text, std::size_t at) const { return text[at] == '|'; }
  bool is_cut(std::string_view text, std::size_t at) const { return text[at] == '|'; }
};

// So many ids that entries hold them, need their ring, or are none at all.
void ids_of(std::string_view segment, std::vector<std::uint32_t>& ids) {
  std::uint32_t sum = 17;
  for (const char c : segment) sum = sum * 31 + static_cast<unsigned char>(c);
  const std::size_t count = sum % 9 == 0 ? segment.size() : sum % 9 - 1;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(sum + static_cast<std::uint32_t>(i));
}

struct Resolve {
  std::vector<std::uint32_t> made;
  std::vector<std::size_t> made_ends;
  std::size_t resolved = 0, most = 0;
  void encode(std::string_view segment, std::vector<std::uint32_t>& ids) { ids_of(segment, ids); }
  void resolve(std::span<const std::string_view> segments) {
    made.clear();
    made_ends.clear();
    for (const std::string_view segment : segments) {
      ids_of(segment, made);
      made_ends.push_back(made.size());
    }
    resolved += segments.size();
    most = std::max(most, segments.size());
  }
  std::span<const std::uint32_t> ids() const { return made; }
  std::span<const std::size_t> ends() const { return made_ends; }
};

struct Fenced {
  Image image;
  AddedTokens literals;
  explicit Fenced(const std::vector<std::pair<std::string_view, AddedTokens::Token>>& given)
      : image(image_of(given)), literals(image, kFencedLiterals) {}
  static Image image_of(const std::vector<std::pair<std::string_view, AddedTokens::Token>>& given) {
    ImageWriter writer;
    AddedTokens::write(writer, kFencedLiterals, given);
    return writer.finish();
  }
};

std::string draw_text(std::mt19937& random, std::size_t segments, std::size_t alphabet) {
  std::string text;
  for (std::size_t i = 0; i < segments; ++i) {
    if (i > 0) text += '|';
    // Short, long and huge ones, and such as no cache takes.
    const std::size_t kind = random() % 64;
    const std::size_t most = kind < 48 ? 6 : kind < 58 ? 20 : kind < 63 ? 130 : 5000;
    for (std::size_t size = random() % most; size > 0; --size) text += static_cast<char>('a' + random() % alphabet);
  }
  return text;
}

void test_as_one_by_one() {
  std::mt19937 random(11);
  const auto parts = [](std::string_view text, std::size_t at) { return text[at] == '|'; };
  const Fenced none({});
  SegmentCache cache;
  Resolve resolve;
  for (int round = 0; round < 600; ++round) {
    const std::string text = draw_text(random, 1 + random() % 700, 1 + random() % 20);
    std::vector<std::size_t> bars, cuts;
    for (std::size_t at = 1; at < text.size(); ++at)
      if (text[at] == '|') bars.push_back(at);
    const std::size_t share = random() % 5;  // of bars that are to get a mark
    for (const std::size_t bar : bars)
      if (random() % 4 < share) cuts.push_back(bar);

    std::vector<std::uint32_t> expected;
    std::vector<std::size_t> expected_marks;
    std::size_t begin = 0, cut = 0;
    for (std::size_t k = 0; k <= bars.size(); ++k) {
      const std::size_t end = k < bars.size() ? bars[k] : text.size();
      if (end > begin) ids_of(std::string_view(text).substr(begin, end - begin), expected);
      if (cut < cuts.size() && cuts[cut] == end) expected_marks.push_back(expected.size()), ++cut;
      begin = end;
    }

    const bool anew = random() % 8 == 0;
    SegmentCache other;
    std::vector<std::size_t> marks(cuts.size(), kNoMark);
    std::vector<std::uint32_t> ids;
    SegmentEncoder(BarMasks{}, none.literals, false, anew ? other : cache, random() % 2 == 0, resolve, parts)
        .encode(text, 0, cuts, marks.data(), ids);
    CHECK(ids == expected, "ids that differ");
    CHECK(marks == expected_marks, "marks that differ");
  }
  CHECK(resolve.most > 64, "many unknown at once");

  // What is kept is not asked for again.
  const std::string text = draw_text(random, 500, 3);
  std::vector<std::uint32_t> first, second;
  SegmentCache fresh;
  SegmentEncoder(BarMasks{}, none.literals, false, fresh, false, resolve, parts).encode(text, 0, {}, nullptr, first);
  const std::size_t before = resolve.resolved;
  SegmentEncoder(BarMasks{}, none.literals, false, fresh, false, resolve, parts).encode(text, 0, {}, nullptr, second);
  CHECK(first == second, "the same text twice");
  CHECK(resolve.resolved - before < 25, "nearly all is kept");
}

void test_no_literal_is_parted() {
  const Fenced one({{"<x|y>", {.id = 1}}});
  const auto parts = [](std::string_view text, std::size_t at) { return text[at] == '|'; };
  struct Seen : Resolve {
    std::vector<std::string> segments;
    void resolve(std::span<const std::string_view> given) {
      segments.assign(given.begin(), given.end());
      Resolve::resolve(given);
    }
  } seen;
  SegmentCache cache;
  std::vector<std::uint32_t> ids;
  const std::string text = "aaaaaa|bbbbb<x|y>ccccc|ddd<x|y|>|eee";
  SegmentEncoder(BarMasks{}, one.literals, false, cache, false, seen, parts).encode(text, 0, {}, nullptr, ids);
  CHECK((seen.segments == std::vector<std::string>{"aaaaaa", "|bbbbb<x|y>ccccc", "|ddd<x", "|y", "|>", "|eee"}),
        "cut at every bar but that of the literal");
}

// The cache grows while much is put into it: what it holds stays right, and there.
void test_a_growing_cache() {
  struct One {
    std::vector<std::uint32_t> made;
    std::vector<std::size_t> made_ends;
    std::size_t resolved = 0;
    static std::uint32_t id_of(std::string_view segment) {
      return static_cast<std::uint32_t>(std::stoul(std::string(segment.substr(1))));
    }
    void encode(std::string_view, std::vector<std::uint32_t>&) const {}
    void resolve(std::span<const std::string_view> segments) {
      made.clear();
      made_ends.clear();
      for (const std::string_view segment : segments) {
        made.push_back(id_of(segment));
        made_ends.push_back(made.size());
      }
      resolved += segments.size();
    }
    std::span<const std::uint32_t> ids() const { return made; }
    std::span<const std::size_t> ends() const { return made_ends; }
  } resolve;
  const Fenced none({});
  const auto parts = [](std::string_view, std::size_t) { return true; };
  SegmentCache cache;
  std::string text;
  std::vector<std::uint32_t> expected, ids, again;
  for (std::uint32_t i = 0; i < 300'000; ++i) {
    expected.push_back(static_cast<std::uint32_t>(std::uint64_t{i} * 7919 % 1'000'003));
    text += '|' + std::to_string(expected.back());
  }
  SegmentEncoder(BarMasks{}, none.literals, false, cache, false, resolve, parts).encode(text, 0, {}, nullptr, ids);
  CHECK(ids == expected && resolve.resolved == ids.size(), "as it grows");
  SegmentEncoder(BarMasks{}, none.literals, false, cache, false, resolve, parts).encode(text, 0, {}, nullptr, again);
  CHECK(again == expected, "and then");
  CHECK(resolve.resolved < ids.size() + ids.size() / 2, "more than half of so many are kept");
}

SegmentCache::Key key_of(std::string_view segment, std::uint64_t mode, char behind) {
  std::array<char, SegmentCache::kKeyBytes> bytes;
  bytes.fill(behind);
  segment.copy(bytes.data(), segment.size());
  return SegmentCache::key_of(bytes.data(), SegmentCache::frames(mode)[segment.size()]);
}

// A key stands for its segment and mode, whatever stands behind it in the text.
void test_keys() {
  std::vector<std::string> segments;
  for (std::size_t size = 1; size <= SegmentCache::kShortBytes; ++size)
    for (const char letter : {'\0', 'a', '\xff'}) segments.emplace_back(size, letter);
  std::vector<SegmentCache::Key> keys;
  for (const std::string& segment : segments) {
    for (const std::uint64_t mode : {std::uint64_t{0}, SegmentCache::kSplitSpecial}) {
      keys.push_back(key_of(segment, mode, '\0'));
      CHECK(keys.back() == key_of(segment, mode, '\xff') && keys.back() == key_of(segment, mode, 'a'),
            "bytes behind the segment count");
      CHECK(!keys.back().is_long(), "a short one");
    }
  }
  for (const std::uint64_t hash : {std::uint64_t{0}, std::uint64_t{1} << 63}) {
    keys.push_back(SegmentCache::Key::of_long(hash));
    CHECK(keys.back().is_long() && keys.back().hash() == hash, "a long one");
  }
  keys.push_back(SegmentCache::kNoKey);
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t k = 0; k < keys.size(); ++k) CHECK((keys[i] == keys[k]) == (i == k), "one key for two");
}

// Where three segments share a set of two, the one that was not used for longest gives way.
void test_what_was_used_last_stays() {
  SegmentCache cache;
  const SegmentCache::Key first = key_of("0", 0, ' ');
  std::vector<SegmentCache::Key> alike{first};
  for (int number = 1; alike.size() < 3; ++number) {
    const SegmentCache::Key key = key_of(std::to_string(number), 0, ' ');
    if (cache.sets().of(key) == cache.sets().of(first)) alike.push_back(key);
  }
  SegmentCache::Entry* const set = cache.sets().of(first);
  const auto id_of = [&](const SegmentCache::Key& key) {
    const SegmentCache::Entry* entry = SegmentCache::find(key, set);
    return entry == nullptr ? -1 : static_cast<int>(entry->ids.ids[0]);
  };
  const auto keep = [&](std::size_t i, bool aside = false) {
    const std::uint32_t id = static_cast<std::uint32_t>(i);
    cache.keep(alike[i], set, std::span(&id, 1), aside);
  };
  keep(0);
  keep(1);
  CHECK(id_of(alike[0]) == 0 && set[0].key == alike[0], "what is found is in front");
  keep(2);
  CHECK(id_of(alike[1]) == -1, "the one not used for longest is gone");
  CHECK(id_of(alike[0]) == 0 && id_of(alike[2]) == 2, "the others are not");
  CHECK(cache.find_aside(alike[1], set) == nullptr, "nor is it anywhere else");
  keep(1, true);
  const SegmentCache::Entry* const put_aside = cache.find_aside(alike[0], set);
  CHECK(id_of(alike[0]) == -1 && put_aside != nullptr && put_aside->ids.ids[0] == 0, "unless it was put aside");
}

const SegmentCache::Entry* find_anywhere(SegmentCache& cache, const SegmentCache::Key& key) {
  SegmentCache::Entry* const set = cache.sets().of(key);
  const SegmentCache::Entry* const found = SegmentCache::find(key, set);
  return found != nullptr ? found : cache.find_aside(key, set);
}

// Whatever is thrown out, put aside or moved when the table grows: what is found is what was kept.
void test_what_is_found_was_kept() {
  std::mt19937 random(21);
  SegmentCache cache;
  std::size_t found = 0, grown = 0;
  SegmentCache::Sets before = cache.sets();
  for (int round = 0; round < 1'500'000; ++round) {
    const std::uint32_t number = static_cast<std::uint32_t>(random() % 150'000);
    const std::uint64_t mode = number % 3 == 0 ? SegmentCache::kSplitSpecial : 0;
    const SegmentCache::Key key = key_of(std::to_string(number), mode, ' ');
    const SegmentCache::Entry* const entry = find_anywhere(cache, key);
    if (entry != nullptr) {
      CHECK(entry->ids.count == 1 && entry->ids.ids[0] == number, "another one's ids");
      ++found;
    } else {
      cache.keep(key, cache.sets().of(key), std::span(&number, 1), random() % 4 != 0);
    }
    if (random() % 1'000 == 0) cache.grow();
    grown += cache.sets().shift != before.shift;
    before = cache.sets();
  }
  CHECK(grown == 2, "up to the bound");
  CHECK(found > 1'000'000, std::to_string(found) + " were found");
}

// A text that comes again and again finds nearly all of its segments, in a table as full as it gets before it grows.
void test_what_comes_again_is_found() {
  SegmentCache cache;
  const std::size_t count = (std::size_t{3} << 14) - 1;
  std::size_t missed = 0;
  for (int turn = 0; turn < 6; ++turn) {
    missed = 0;
    for (std::size_t number = 0; number < count; ++number) {
      const SegmentCache::Key key = key_of(std::to_string(number), 0, ' ');
      if (find_anywhere(cache, key) != nullptr) continue;
      ++missed;
      const std::uint32_t id = 7;
      cache.keep(key, cache.sets().of(key), std::span(&id, 1), true);
    }
  }
  CHECK(missed < count / 25, std::to_string(missed) + " of " + std::to_string(count) + " are not");
}

}  // namespace

int main() {
  return tokseam::test::run({{"as one by one", test_as_one_by_one},
                             {"no literal is parted", test_no_literal_is_parted},
                             {"a growing cache", test_a_growing_cache},
                             {"keys", test_keys},
                             {"what was used last stays", test_what_was_used_last_stays},
                             {"what is found was kept", test_what_is_found_was_kept},
                             {"what comes again is found", test_what_comes_again_is_found}});
}
