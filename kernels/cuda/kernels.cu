// The kernels by the names that plan.py launches them by. Each is handed the chain, by value, and which stage or bitmap
// it is for. What they do stands in the headers.
// PERF: the second launch bound leaves each thread 64 registers, which keeps all kernels from spilling
// (scripts/cuda_compile.py); twice as many threads a processor would not hide more latency than that costs.
#include "compact.cuh"
#include "merge.cuh"
#include "normalize.cuh"
#include "pieces.cuh"
#include "split.cuh"
#include "text.cuh"
#include "tiles.cuh"
#include "windows.cuh"

#define TOKSEAM_KERNEL(name, threads, call)                                                                          \
  extern "C" __global__ void __launch_bounds__(threads, 1024 / (threads)) tokseam_##name(const tokseam::cuda::Chain chain,            \
                                                                        [[maybe_unused]] const unsigned which) { \
    tokseam::cuda::call;                                                                                             \
  }

#define TOKSEAM_KERNELS(X)                                              \
  X(begin, tokseam::cuda::kThreads, begin(chain, which))                \
  X(raw_borders, tokseam::cuda::kThreads, raw_borders(chain))           \
  X(mark_clusters, tokseam::cuda::kThreads, mark_clusters(chain))       \
  X(measure_clusters, tokseam::cuda::kThreads, measure_clusters(chain)) \
  X(write_clusters, tokseam::cuda::kThreads, write_clusters(chain))     \
  X(place_spans, tokseam::cuda::kThreads, place_spans(chain))           \
  X(borders, tokseam::cuda::kThreads, borders(chain))                   \
  X(classify, tokseam::cuda::kThreads, classify(chain, which))          \
  X(classify_characters, tokseam::cuda::kThreads, classify_characters(chain)) \
  X(classify_bytes, tokseam::cuda::kThreads, classify_bytes(chain))     \
  X(count_words, tokseam::cuda::kThreads, count_words(chain, which))    \
  X(add_up_blocks, tokseam::cuda::kThreads, add_up_blocks(chain, which)) \
  X(list, tokseam::cuda::kThreads, list(chain, which))                  \
  X(split, tokseam::cuda::kThreads, split(chain, which))                \
  X(lay_tiles, tokseam::cuda::kThreads, lay_tiles(chain))               \
  X(map_tiles, tokseam::cuda::kThreads, map_tiles(chain, which))        \
  X(map_supers, tokseam::cuda::kThreads, map_supers(chain, which))      \
  X(rest_supers, tokseam::cuda::kThreads, rest_supers(chain, which))    \
  X(rest_tiles, tokseam::cuda::kThreads, rest_tiles(chain, which))      \
  X(step_tiles, tokseam::cuda::kThreads, step_tiles(chain, which))      \
  X(exit_supers, tokseam::cuda::kThreads, exit_supers(chain))           \
  X(enter_supers, tokseam::cuda::kThreads, enter_supers(chain))         \
  X(enter_tiles, tokseam::cuda::kThreads, enter_tiles(chain))           \
  X(mark_tiles, tokseam::cuda::kThreads, mark_tiles(chain, which))      \
  X(put_literals, tokseam::cuda::kThreads, put_literals(chain))         \
  X(look_up, tokseam::cuda::kThreads, look_up(chain))                   \
  X(report_pieces, tokseam::cuda::kThreads, report_pieces(chain))       \
  X(report_places, tokseam::cuda::kThreads, report_places(chain))       \
  X(merge_short, tokseam::cuda::kThreads, merge_short(chain))           \
  X(merge_middle, tokseam::cuda::kThreads, merge_middle(chain))         \
  X(merge_large, tokseam::cuda::kLargeThreads, merge_large(chain))      \
  X(lay_windows, tokseam::cuda::kThreads, lay_windows(chain))           \
  X(merge_windows, tokseam::cuda::kLargeThreads, merge_windows(chain))  \
  X(merge_seams, tokseam::cuda::kLargeThreads, merge_seams(chain))      \
  X(settle, tokseam::cuda::kLargeThreads, settle(chain))                \
  X(report_ids, tokseam::cuda::kThreads, report_ids(chain))

TOKSEAM_KERNELS(TOKSEAM_KERNEL)
