// The chunk tree against a vector of the same chunks.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "chunk_text.hpp"
#include "chunk_tree.hpp"
#include "toy_spellings.hpp"

namespace tokseam::test {
namespace {

using Chunks = std::vector<Ref<Chunk>>;

Ref<Chunk> draw_chunk(std::mt19937& random) {
  static const std::vector<std::string> characters = {"a", "b", "\xC3\xA9", "\xF0\x9F\x98\x80"};
  std::string text = characters[random() % characters.size()];
  for (std::size_t n = random() % 9; n > 0; --n) text += characters[random() % characters.size()];
  std::vector<std::uint32_t> ids(random() % 5);  // none at all is allowed
  const std::size_t width = 8 * (1 + random() % 4);
  for (std::uint32_t& id : ids) id = static_cast<std::uint32_t>(random()) >> (32 - width);
  return Chunk::make(text, ids);
}

Chunks draw_chunks(std::mt19937& random, std::size_t count) {
  Chunks chunks;
  for (std::size_t i = 0; i < count; ++i) chunks.push_back(draw_chunk(random));
  return chunks;
}

void check_same(const ChunkTree& tree, const Chunks& chunks) {
  tree.validate();
  Sums sums;
  std::size_t index = 0;
  tree.visit<&Sums::chunks>(0, chunks.size(), [&](const Chunk& chunk, std::size_t from, std::size_t to) {
    CHECK(index < chunks.size() && &chunk == chunks[index].get(), "chunk " + std::to_string(index));
    CHECK(from == 0 && to == 1, "a chunk is one unit");
    CHECK(tree.before(index) == sums, "the sums before chunk " + std::to_string(index));
    sums += chunk.sums();
    ++index;
  });
  CHECK(index == chunks.size(), "all chunks are visited");
  CHECK(tree.sums() == sums, "the sums");
  CHECK(tree.before(chunks.size()) == sums, "the sums before the end");
}

void check_walks(const ChunkTree& tree, const Chunks& chunks) {
  for (const std::size_t most : {std::size_t{0}, chunks.size() / 2, chunks.size()}) {
    std::size_t seen = 0;
    tree.walk([&](const Chunk& chunk) {
      CHECK(&chunk == chunks[seen].get(), "forward");
      return ++seen < most;
    });
    CHECK(seen == std::min(chunks.size(), std::max<std::size_t>(most, 1)), "no further than asked");
    seen = 0;
    tree.walk_back([&](const Chunk& chunk) {
      CHECK(&chunk == chunks[chunks.size() - 1 - seen].get(), "backward");
      return ++seen < most;
    });
    CHECK(seen == std::min(chunks.size(), std::max<std::size_t>(most, 1)), "no further than asked");
  }
}

void random_replacements() {
  std::mt19937 random(3);
  Chunks chunks = draw_chunks(random, 5);
  ChunkTree tree = ChunkTree::build(chunks);
  std::vector<std::pair<ChunkTree, Chunks>> kept;  // older versions: they must stay as they were
  for (int step = 0; step < 4000; ++step) {
    const std::size_t first = random() % (chunks.size() + 1);
    const bool shrink = chunks.size() > 300;
    const std::size_t gone = std::min<std::size_t>(random() % (shrink ? 200 : 4), chunks.size() - first);
    const std::size_t added = random() % 50 == 0 ? random() % 100 : random() % 5;
    const Chunks fresh = draw_chunks(random, added);
    tree = tree.replaced(first, first + gone, fresh);
    const auto at = chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(first),
                                 chunks.begin() + static_cast<std::ptrdiff_t>(first + gone));
    chunks.insert(at, fresh.begin(), fresh.end());
    if (step % 10 == 0) check_same(tree, chunks);
    if (step % 100 == 0) check_walks(tree, chunks);
    if (step % 400 == 0) kept.emplace_back(tree, chunks);
  }
  for (const auto& [old_tree, old_chunks] : kept) check_same(old_tree, old_chunks);
}

template <std::size_t Sums::*By>
void check_positions(const ChunkTree& tree, const Chunks& chunks) {
  std::size_t at = 0;
  Sums before;
  for (const Ref<Chunk>& chunk : chunks) {
    for (std::size_t i = 0; i < chunk->sums().*By; ++i, ++at) {
      const ChunkTree::Found found = tree.find<By>(at);
      CHECK(found.chunk == chunk.get() && found.before == before, "unit " + std::to_string(at));
    }
    before += chunk->sums();
  }
  CHECK_THROWS(std::out_of_range, tree.find<By>(at));
  // Every range gives its units in order, cut at the chunks.
  for (std::size_t start = 0; start <= at; start += 1 + start % 7) {
    for (std::size_t stop = start; stop <= at; stop += 1 + stop % 11) {
      std::size_t expected = start;
      tree.visit<By>(start, stop, [&](const Chunk& chunk, std::size_t from, std::size_t to) {
        const ChunkTree::Found found = tree.find<By>(expected);
        CHECK(found.chunk == &chunk && found.before.*By + from == expected, "range from " + std::to_string(start));
        CHECK(from < to && to <= chunk.sums().*By, "units inside the chunk");
        expected += to - from;
      });
      CHECK(expected == stop, "range to " + std::to_string(stop));
    }
  }
}

void positions() {
  std::mt19937 random(4);
  for (const std::size_t count : {0u, 1u, 2u, 3u, 30u}) {
    const Chunks chunks = draw_chunks(random, count);
    const ChunkTree tree = ChunkTree::build(chunks);
    check_positions<&Sums::bytes>(tree, chunks);
    check_positions<&Sums::chars>(tree, chunks);
    check_positions<&Sums::ids>(tree, chunks);
    check_positions<&Sums::chunks>(tree, chunks);
  }
}

void one_end_only() {
  // The orders that unbalance a careless tree: always at one end, or joins of very different heights.
  std::mt19937 random(5);
  for (const bool at_front : {true, false}) {
    ChunkTree tree;
    Chunks chunks;
    for (int i = 0; i < 500; ++i) {
      const std::size_t at = at_front ? 0 : chunks.size();
      const Chunks fresh = draw_chunks(random, 1);
      tree = tree.replaced(at, at, fresh);
      chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(at), fresh.front());
    }
    check_same(tree, chunks);
    for (std::size_t keep = chunks.size(); keep > 0; keep /= 2) {
      tree = at_front ? tree.replaced(0, chunks.size() - keep, {}) : tree.replaced(keep, chunks.size(), {});
      if (at_front) chunks.erase(chunks.begin(), chunks.end() - static_cast<std::ptrdiff_t>(keep));
      chunks.resize(keep);
      check_same(tree, chunks);
    }
  }
}

void chunk_content() {
  const std::vector<std::uint32_t> ids = {7, 0xFFFFFFFF, 0};
  const Ref<Chunk> chunk = Chunk::make("a\xC3\xA9\xF0\x9F\x98\x80z", ids);
  CHECK((chunk->sums() == Sums{8, 4, 3, 1, sizeof(Chunk) + 3 * 4 + 8}), "sums");
  std::vector<std::uint32_t> kept(3);
  CHECK(chunk->copy_ids(0, 3, kept.data()) == kept.data() + 3 && kept == ids, "ids");
  const std::vector<std::size_t> offsets = {0, 1, 3, 7, 8};
  // The length is refused before a byte is read, so there need not be that many.
  const std::string_view too_long("a", std::size_t{1} << 32);
  CHECK_THROWS(std::length_error, Chunk::make(too_long, {}));
  const ToySpellings toy({{7, "a\xC3"}, {0xFFFFFFFF, "\xA9\xF0\x9F\x98\x80"}, {0, "z"}}, {}, {});
  const Ref<Chunk> spelled = Chunk::make(chunk->kept_text(), ids, {}, Chunk::Ids::narrow, Chunk::Text::spelled);
  CHECK((spelled->sums() == Sums{8, 4, 3, 1, sizeof(Chunk) + 3 * 4}), "sums without the text");
  ChunkTexts texts(toy.spellings());
  for (const Ref<Chunk>& one : {chunk, spelled}) {
    CHECK(texts.of(*one) == chunk->kept_text(), "the text");
    for (std::size_t n = 0; n < offsets.size(); ++n) {
      CHECK(texts.offset_of(*one, n) == offsets[n], std::to_string(n));
      CHECK(texts.chars_before(*one, offsets[n]) == n, std::to_string(n));
    }
  }
}

// Texts of chunks that are asked about in turn, long ones among them; and ids that spell something else after all.
void texts_of_chunks() {
  const ToySpellings toy({{1, "abc"}, {2, std::string(Spellings::kLongest, 'x')}});
  std::vector<Ref<Chunk>> chunks;
  std::vector<std::string> want;
  for (const std::size_t count : {1u, 3u, 40u, 600u, 2u}) {
    for (const std::uint32_t id : {1u, 2u}) {
      std::string text;
      for (std::size_t k = 0; k < count; ++k) text += id == 1 ? "abc" : std::string(Spellings::kLongest, 'x');
      const std::vector<std::uint32_t> ids(count, id);
      chunks.push_back(Chunk::make(text, ids, {}, Chunk::Ids::narrow, Chunk::Text::spelled));
      want.push_back(text);
    }
  }
  std::mt19937 random(6);
  ChunkTexts texts(toy.spellings());
  for (int draw = 0; draw < 500; ++draw) {
    const std::size_t a = random() % chunks.size(), b = random() % chunks.size();
    const std::string_view first = texts.of(*chunks[a]), second = texts.of(*chunks[b]);
    CHECK(first == want[a] && second == want[b], "both stay while no third one is asked about");
  }
  const std::vector<std::uint32_t> ids = {1, 1};
  for (const std::string_view wrong : {"abcab", "abcabca"}) {
    const Ref<Chunk> broken = Chunk::make(wrong, ids, {}, Chunk::Ids::narrow, Chunk::Text::spelled);
    CHECK_THROWS(std::logic_error, texts.of(*broken));
  }
}

void ids_of_every_width() {
  // Just below and at what two, three and four bytes hold, at one place among others; all stretches of them.
  const std::vector<Mark> marks = {{1, 1}, {3, 2}};
  for (const std::size_t count : {0u, 1u, 2u, 3u, 17u, 100u}) {
    for (const std::uint32_t most : {0u, 0xFFFFu, 0x10000u, 0xFFFFFFu, 0x1000000u, 0xFFFFFFFFu}) {
      std::vector<std::uint32_t> ids(count);
      for (std::size_t k = 0; k < count; ++k) ids[k] = static_cast<std::uint32_t>(k * 2'654'435'761u) & most;
      if (count > 0) ids[count / 2] = most;
      const Ref<Chunk> chunk = Chunk::make("abcdefg", ids, marks);
      const std::size_t width = count == 0 || most < 0x10000 ? 2 : most < 0x1000000 ? 3 : 4;
      CHECK(chunk->allocated_bytes() == sizeof(Chunk) + 2 * Chunk::kMarkBytes + count * width + 7, "what it takes");
      const Ref<Chunk> plain = Chunk::make("abcdefg", ids, marks, Chunk::Ids::plain);
      CHECK(plain->allocated_bytes() == sizeof(Chunk) + 2 * Chunk::kMarkBytes + count * 4 + 7, "what it takes, plain");
      const Ref<Chunk> spelled = Chunk::make("abcdefg", ids, marks, Chunk::Ids::narrow, Chunk::Text::spelled);
      CHECK(spelled->allocated_bytes() == sizeof(Chunk) + 2 * Chunk::kMarkBytes + count * width, "without its text");
      CHECK(!spelled->keeps_text() && spelled->byte_count() == 7 && spelled->sums().chars == 7, "whose length stays");
      CHECK(chunk->kept_text() == "abcdefg" && chunk->mark(0) == marks[0] && chunk->mark(1) == marks[1], "what is around");
      for (std::size_t start = 0; start <= count; ++start) {
        for (std::size_t stop = start; stop <= count; ++stop) {
          std::vector<std::uint32_t> kept(stop - start + 1, 0xABCD);
          CHECK(chunk->copy_ids(start, stop, kept.data()) == kept.data() + (stop - start), "where they end");
          CHECK(std::equal(kept.begin(), kept.end() - 1, ids.begin() + static_cast<std::ptrdiff_t>(start)), "ids");
          CHECK(kept.back() == 0xABCD, "no more than asked");
          plain->copy_ids(start, stop, kept.data());
          CHECK(std::equal(kept.begin(), kept.end() - 1, ids.begin() + static_cast<std::ptrdiff_t>(start)), "plain");
        }
      }
    }
  }
}

}  // namespace
}  // namespace tokseam::test

int main() {
  using namespace tokseam::test;
  return run({
      {"a chunk gives back what it holds", chunk_content},
      {"texts of chunks", texts_of_chunks},
      {"ids of every width", ids_of_every_width},
      {"find and visit by every unit", positions},
      {"growth and cuts at one end", one_end_only},
      {"random replacements, older versions unchanged", random_replacements},
  });
}
