// A fresh text on several cores: parted at synchronizing positions, its sides encoded at the same time. Exact by the
// theorem alone (kernels/README.md, claims 4 and 8): nothing is looked at again where the sides meet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "chunk_engine.hpp"
#include "code_points.hpp"
#include "encoder.hpp"
#include "kept_memory.hpp"

namespace tokseam {

// A part is worth a thread of its own from here on: some 0.3 ms of work, where starting one costs 0.02 ms.
inline constexpr std::size_t kParallelPartBytes = std::size_t{1} << 16;

// To make room by: most texts have fewer ids than one for so many bytes.
inline constexpr std::size_t kBytesPerId = 3;

// Appends the ids of the whole text, encoded on at most `threads` threads, this one among them.
inline void encode_parallel(const Encoder& encoder, std::string_view text, EncodeMode mode, std::size_t threads,
                            std::vector<std::uint32_t>& ids) {
  const std::size_t count = std::clamp<std::size_t>(text.size() / kParallelPartBytes, 1, std::max<std::size_t>(threads, 1));
  std::vector<std::size_t> starts{0};
  for (std::size_t k = 1; k < count; ++k) {
    const std::size_t from = utf8::boundary_at_or_after(text, std::max(text.size() / count * k, starts.back() + 1));
    const std::size_t cut = from < text.size() ? encoder.next_cut(text, from) : kNoCut;
    if (cut == kNoCut) break;
    starts.push_back(cut);
  }
  std::vector<std::vector<std::uint32_t>> made(starts.size());
  std::vector<std::exception_ptr> errors(starts.size());
  const auto work = [&](std::size_t part) {
    try {
      const std::size_t begin = starts[part], end = part + 1 < starts.size() ? starts[part + 1] : text.size();
      if (part > 0) made[part] = kept_ids().take((end - begin) / kBytesPerId);
      std::vector<std::uint32_t>& out = part == 0 ? ids : made[part];
      if (part == 0) out.reserve(out.size() + text.size() / kBytesPerId);
      std::vector<std::size_t> marks;
      encoder.encode(text.substr(begin, end - begin), {mode.split_special, mode.continued || part > 0}, {}, out, marks);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;  // joined when they go out of scope
    others.reserve(starts.size() - 1);
    for (std::size_t part = 1; part < starts.size(); ++part) others.emplace_back(work, part);
    work(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  for (std::size_t part = 1; part < starts.size(); ++part) {
    ids.insert(ids.end(), made[part].begin(), made[part].end());
    kept_ids().give_back(std::move(made[part]));
  }
}

}  // namespace tokseam
