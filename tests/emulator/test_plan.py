"""plan.py and the kernels agree on names, order and sizes; and what a plan promises of every capacity."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tokseam.kernels.cuda import plan

from . import build
from .device import Kernels

SHAPE = plan.Shape(stages=2, byte_stages=1, states=17, by_characters=False)
NORMALIZING = replace(SHAPE, normalizes=True)
CAPACITY = plan.Capacity(1 << 20, 4_096, 512)


def constants() -> dict[str, int]:
    """Return the kernels' constants that are plain numbers, or made of such."""
    found: dict[str, int] = {}
    for path in build.kernel_sources():
        for names in re.findall(r"^constexpr u32 (k.*);$", path.read_text(), flags=re.MULTILINE):
            for name, value in re.findall(r"(k\w+) = ([\w *]+)", names):
                factors = [found.get(part, int(part, 0) if part[0].isdigit() else 0) for part in value.split(" * ")]
                found[name] = 1
                for factor in factors:
                    found[name] *= factor
    return found


def test_buffers_are_the_kernels_own(kernels: Kernels) -> None:
    assert kernels.buffers() == [(spec.name, spec.item) for spec in plan.buffers(CAPACITY, SHAPE)]


def test_launches_name_kernels_with_their_threads(kernels: Kernels) -> None:
    known = kernels.kernels()
    launched = [*plan.launches(CAPACITY, SHAPE), *plan.launches(CAPACITY, NORMALIZING)]
    for launch in launched:
        assert known[f"tokseam_{launch.kernel}"] == launch.threads, launch
        assert 0 < launch.grid <= plan.MAX_BLOCKS
    by_characters = plan.launches(CAPACITY, plan.Shape(0, 0, 1, True))
    assert {f"tokseam_{launch.kernel}" for launch in [*launched, *by_characters]} == set(known), (
        "a kernel that nobody runs"
    )


def test_constants_are_the_kernels_own() -> None:
    found = constants()
    pairs = {
        "kTileBytes": plan.TILE_BYTES,
        "kTilesPerSuper": plan.TILES_PER_SUPER,
        "kWindowBytes": plan.WINDOW_BYTES,
        "kWordsPerBlock": plan.WORDS_PER_BLOCK,
        "kThreads": plan.THREADS,
        "kWarpThreads": plan.WARP,
        "kThreadBytes": plan.THREAD_BYTES,
        "kWarpBytes": plan.WARP_BYTES,
        "kNormalizing": plan.NORMALIZING,
    }
    assert {name: found[name] for name in pairs} == pairs
    assert found["kLargeWarps"] * found["kWarpThreads"] == plan.LARGE_THREADS
    chain = (build.CUDA / "chain.cuh").read_text()
    totals = re.findall(r"^  k(\w+),", chain[chain.index("enum Total") : chain.index("kTotals,")], flags=re.MULTILINE)
    assert tuple(name.lower() for name in totals) == plan.TOTALS
    flags = dict(re.findall(r"^  k(\w+) = (\d+),", chain[chain.index("enum Flag") :], flags=re.MULTILINE))
    assert flags == {
        "BadText": str(plan.BAD_TEXT),
        "Suspect": str(plan.SUSPECT),
        "Unsettled": str(plan.UNSETTLED),
        "LongCluster": str(plan.LONG_CLUSTER),
    }
    compact = (build.CUDA / "compact.cuh").read_text()
    listed = re.search(r"enum Listed : u32 \{ (.*) \};", compact)
    assert listed is not None
    assert listed[1].replace("kList", "").upper().split(", ") == ["STRETCHES", "PIECES", "TOKENS", "NORMALIZED"]
    assert (plan.STRETCHES, plan.PIECES, plan.TOKENS, plan.NORMALIZED) == (0, 1, 2, 3)


def test_a_chain_that_normalizes_is_the_plain_one_with_more() -> None:
    """It makes the text that the plain one is given, and goes on as that does. Its own buffers take nothing there."""
    plain, normalizing = plan.launches(CAPACITY, SHAPE), plan.launches(CAPACITY, NORMALIZING)
    at = [launch.kernel for launch in normalizing].index("borders")
    kernels = [launch.kernel for launch in normalizing[:1] + normalizing[at:]]
    assert [kernel for kernel in kernels if kernel != "report_places"] == [launch.kernel for launch in plain]
    assert all(launch.which in (0, plan.NORMALIZED) for launch in normalizing[1:at])
    more = dict.fromkeys(("raw_text", "raw_begin", "piece_places", "cluster_bits", "places"), 0)
    sizes = {spec.name: spec.nbytes for spec in plan.buffers(CAPACITY, SHAPE)}
    assert {name: sizes[name] for name in more} == more
    other = {spec.name: spec.nbytes for spec in plan.buffers(CAPACITY, NORMALIZING)}
    assert {name for name in sizes if other[name] != sizes[name]} == set(more)
    assert sum(other.values()) - sum(sizes.values()) < 10 * CAPACITY.bytes


@pytest.mark.parametrize("size", [1, 31, 32, 255, 256, 257, 768, 769, 1_000, 16_384, 100_000])
def test_lists_hold_the_worst(size: int) -> None:
    """The lists of stretches, tiles and pieces have room for the text that fills them most."""
    count = {spec.name: spec.count for spec in plan.buffers(plan.Capacity(size, 1, 1), SHAPE)}

    def most(longer_than: int, each: int) -> tuple[int, int]:
        """Return how many parts longer than that fit, and how many units of `each` bytes they can take at most."""
        best = (0, 0)
        for length in (longer_than + 1, longer_than + each, longer_than + each + 1, size):
            if longer_than < length <= size:
                parts = size // length
                units = parts * -(-length // each)
                best = (max(best[0], parts), max(best[1], units))
        return best

    long, tiles = most(plan.TILE_BYTES, plan.TILE_BYTES)
    assert long <= count["long_begin"]
    assert tiles <= count["tile_long"]
    assert most(plan.TILE_BYTES, plan.TILE_BYTES * plan.TILES_PER_SUPER)[1] <= count["super_long"]
    giants, windows = most(plan.WINDOW_BYTES, plan.WINDOW_BYTES)
    assert giants <= count["giant_pieces"]
    assert windows <= count["window_giant"]
    assert size // (plan.THREAD_BYTES + 1) <= count["middle_pieces"]
    assert size // (plan.WARP_BYTES + 1) <= count["large_pieces"]
    assert size // 32 + 1 <= count["start_bits"]


def test_memory_is_bounded() -> None:
    """At most 64 bytes of device memory for a byte of text, whatever the tokenizer's states."""
    for states in (2, 60, 120):
        shape = plan.Shape(1, 0, states, False)
        total = sum(spec.nbytes for spec in plan.buffers(plan.Capacity(1 << 26, 1 << 16, 1 << 16), shape))
        assert total < 64 * (1 << 26), (states, total / (1 << 26))


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 2), (plan.MAX_BYTES + 1, 1, 1)])
def test_no_capacity(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no capacity"):
        plan.Capacity(*wrong)
