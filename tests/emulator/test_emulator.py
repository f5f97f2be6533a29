"""The emulator is tried itself: what it must refuse, by name and place, and what CUDA's operations must answer."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import pytest

from . import build

#: Small kernels, each with something wrong or something to show; `out` has 64 numbers.
SOURCE = r"""
#include "cuda_emulator.hpp"
#define TOKSEAM_EMULATED
#include "portable.cuh"

using namespace tokseam::cuda;

namespace {

// Sound ones.
void warp_sum(Buffer<u32> out) {
  u32 value = threadIdx.x;
  for (u32 by = 16; by > 0; by /= 2) value += __shfl_xor_sync(kAllLanes, value, by);
  out[threadIdx.x] = value;
}
void votes(Buffer<u32> out) {
  const u32 odd = __ballot_sync(kAllLanes, threadIdx.x % 2 == 1);
  const bool all = __all_sync(kAllLanes, threadIdx.x < 64), any = __any_sync(kAllLanes, threadIdx.x == 40);
  const u32 least = __reduce_min_sync(kAllLanes, 100 - threadIdx.x), first = __shfl_sync(kAllLanes, threadIdx.x, 3);
  const u32 up = __shfl_up_sync(kAllLanes, threadIdx.x, 2);
  if (threadIdx.x == 33) out[0] = odd, out[1] = all, out[2] = any, out[3] = least, out[4] = first, out[5] = up;
}
void turned_around(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, values, 64);
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];
}
void half_a_warp(Buffer<u32> out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __ballot_sync(0xFFFF, true);
}
void counted(Buffer<u32> out) {
  if (thread_index() == 0) out[0] = 0;
  if (blockIdx.x == 0) __syncthreads();
  atomicAdd(at(out, 1), 1U);
  atomicOr(at(out, 2), 1U << threadIdx.x % 32);
}
void shared_bits(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, bits, 2);
  if (threadIdx.x < 2) bits[threadIdx.x] = 0;
  __syncthreads();
  shared_or(bits, threadIdx.x / 32, u32{1} << threadIdx.x % 32);
  __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = bits[threadIdx.x];
}

// Wrong ones.
void divergent_barrier(Buffer<u32>) {
  if (threadIdx.x < 40) __syncthreads();
}
void two_barriers(Buffer<u32>) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
void divergent_ballot(Buffer<u32> out) {
  if (threadIdx.x != 7) out[0] = __ballot_sync(kAllLanes, true);
}
void ballot_meets_barrier(Buffer<u32> out) {
  if (threadIdx.x % 32 == 5)
    __syncthreads();
  else
    out[0] = __ballot_sync(kAllLanes, true);
}
void two_shuffles(Buffer<u32> out) {
  if (threadIdx.x % 2 == 0)
    out[0] = __shfl_sync(kAllLanes, 1U, 0);
  else
    out[1] = __shfl_sync(kAllLanes, 1U, 0);
}
void not_in_its_mask(Buffer<u32> out) {
  out[0] = __ballot_sync(0xFF, true);
}
void outside_shared(Buffer<u32>) {
  TOKSEAM_SHARED(u32, values, 63);
  values[threadIdx.x] = 1;
}
void outside_shared_by_offset(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, values, 64);
  const Shared<u32> part = values + 32;
  if (threadIdx.x < 32) part[threadIdx.x] = 1;
  __syncthreads();
  out[0] = part[32 + threadIdx.x];
}
void outside_buffer(Buffer<u32> out) { out[threadIdx.x + 1] = 1; }
void unwritten(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, values, 64);
  if (threadIdx.x != 9) values[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
void no_barrier_before_reading(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, values, 64);
  values[threadIdx.x] = 1;
  out[threadIdx.x] = values[threadIdx.x / 2];
}
void no_barrier_before_writing(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, values, 64);
  values[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];
  values[threadIdx.x] = 2;
}
void syncwarp_between_warps(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, values, 64);
  values[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = values[63 - threadIdx.x];
}
void shuffle_is_no_barrier(Buffer<u32> out) {
  TOKSEAM_SHARED(u32, values, 64);
  values[threadIdx.x] = __shfl_sync(kAllLanes, threadIdx.x, 0);
  __ballot_sync(kAllLanes, true);
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
void atomic_and_plain(Buffer<u32>) {
  TOKSEAM_SHARED(u32, bits, 1);
  if (threadIdx.x == 0) bits[0] = 0;
  __syncthreads();
  if (threadIdx.x == 1) bits[0] = 5;
  shared_or(bits, 0, u32{1});
}

struct Named {
  const char* name;
  void (*kernel)(Buffer<u32>);
};
constexpr Named kNamed[] = {
    {"warp_sum", warp_sum}, {"votes", votes}, {"turned_around", turned_around}, {"half_a_warp", half_a_warp},
    {"counted", counted}, {"shared_bits", shared_bits}, {"divergent_barrier", divergent_barrier},
    {"two_barriers", two_barriers}, {"divergent_ballot", divergent_ballot},
    {"ballot_meets_barrier", ballot_meets_barrier}, {"two_shuffles", two_shuffles},
    {"not_in_its_mask", not_in_its_mask}, {"outside_shared", outside_shared},
    {"outside_shared_by_offset", outside_shared_by_offset}, {"outside_buffer", outside_buffer},
    {"unwritten", unwritten}, {"no_barrier_before_reading", no_barrier_before_reading},
    {"no_barrier_before_writing", no_barrier_before_writing}, {"syncwarp_between_warps", syncwarp_between_warps},
    {"shuffle_is_no_barrier", shuffle_is_no_barrier}, {"atomic_and_plain", atomic_and_plain},
};
std::string answer;

}  // namespace

extern "C" const char* run(const char* name, unsigned grid, unsigned threads, unsigned seed, std::uint32_t* out) {
  for (const Named& one : kNamed)
    if (std::strcmp(one.name, name) == 0) {
      const Buffer<u32> buffer(out, 64, "out");
      answer = emulator::launch(grid, threads, seed, [&] { one.kernel(buffer); });
      return answer.c_str();
    }
  return "no such kernel";
}
"""

Run = Callable[..., tuple[str, list[int]]]


@pytest.fixture(scope="module")
def run() -> Run:
    library = ctypes.CDLL(str(build.program(SOURCE)))
    library.run.restype = ctypes.c_char_p

    def launched(name: str, grid: int = 1, threads: int = 64, seed: int = 0) -> tuple[str, list[int]]:
        out = (ctypes.c_uint32 * 64)()
        error = library.run(name.encode(), grid, threads, seed, out).decode()
        return error, list(out)

    return launched


_RACE = r"a race: values\[\d+\] is (read|written) with no barrier|values\[\d+\] is read, and nobody wrote it"

#: Each wrong kernel, and what the refusal must say, whatever the order of threads.
REFUSED = {
    "divergent_barrier": r"a divergent __syncthreads at .*: thread \d+ has ended",
    "two_barriers": r"a divergent __syncthreads at .*: thread \d+ is at ",
    "divergent_ballot": r"a divergent __ballot_sync at .*: not all lanes of the mask arrive",
    "ballot_meets_barrier": r"a divergent __ballot_sync at .*: not all lanes of the mask arrive",
    "two_shuffles": r"a divergent __shfl_sync at .*: others are at __shfl_sync",
    "not_in_its_mask": r"a divergent __ballot_sync at .*: its own lane is not in the mask",
    "outside_shared": r"outside shared memory: values\[63\] of 63, at .* thread 63\)",
    "outside_shared_by_offset": r"outside shared memory: values\[\d+\] of 64",
    "outside_buffer": r"outside a buffer: out\[64\] of 64, at .* thread 63\)",
    "unwritten": r"values\[9\] is read, and nobody wrote it, at .* thread 9\)",
    "no_barrier_before_reading": _RACE,
    "no_barrier_before_writing": _RACE,
    "syncwarp_between_warps": _RACE,
    "shuffle_is_no_barrier": _RACE,
    "atomic_and_plain": r"a race: bits\[0\] is written with no barrier",
}


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("name", REFUSED)
def test_refuses(run: Run, name: str, seed: int) -> None:
    error, _ = run(name, seed=seed)
    assert re.search(REFUSED[name], error), error
    assert re.search(r"at program-\w+\.cpp:\d+", error), "the line in the source"


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_warp_operations(run: Run, seed: int) -> None:
    error, out = run("warp_sum", seed=seed)
    assert error == ""
    assert out == [sum(range(32))] * 32 + [sum(range(32, 64))] * 32
    error, out = run("votes", seed=seed)
    assert error == ""
    assert out[:6] == [0xAAAAAAAA, 1, 1, 100 - 63, 35, 33]
    error, out = run("half_a_warp", seed=seed)
    assert error == ""
    assert out[:17] == [0xFFFF] * 16 + [0]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_shared_memory_and_atomics(run: Run, seed: int) -> None:
    assert run("turned_around", seed=seed) == ("", list(range(63, -1, -1)))
    assert run("shared_bits", seed=seed)[1][:2] == [0xFFFFFFFF] * 2
    error, out = run("counted", grid=5, seed=seed)
    assert error == ""
    assert out[1:3] == [5 * 64, 0xFFFFFFFF]


def test_launch_of_too_many_threads_is_refused(run: Run) -> None:
    assert "too many" in run("warp_sum", threads=1025)[0]
    assert "no or too many" in run("warp_sum", threads=0)[0]
