"""The cost model: it names what the kernels' source touches, and adds up."""

from __future__ import annotations

import re
from functools import cache

import pytest
from emulator import build
from tokseam.kernels.cuda import buckets, cost, plan
from tokseam.kernels.cuda.cost import PROFILES, Profile

SHAPES = [
    plan.Shape(1, 0, 15, False),
    plan.Shape(3, 2, 40, False),
    plan.Shape(0, 0, 1, True),
    plan.Shape(1, 0, 15, False, normalizes=True),
]
#: What a floor leaves out: counts, which are in every cache, and what is written for bad text alone.
NOT_COUNTED = {"totals", "given"}
FOR_BAD_TEXT = {"document_flags", "document_span", "span_begin", "raw_begin"}


@cache
def functions() -> dict[str, str]:
    """Return the bodies of all device functions, by name."""
    found: dict[str, str] = {}
    for path in build.CUDA.glob("*.cuh"):
        source = re.sub(r"//[^\n]*", "", path.read_text())
        for match in re.finditer(r"__device__ inline\s[^;{}()]*?\b(\w+)\([^;{}]*?\)\s*(?:const\s*)?\{", source):
            end, depth = match.end(), 1
            while depth:
                depth += (source[end] == "{") - (source[end] == "}")
                end += 1
            found[match[1]] = found.get(match[1], "") + source[match.end() : end]
    return found


def touched(function: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the buffers that a device function names, or one that it calls."""
    body = functions()[function]
    found = set(re.findall(r"(?:\bb|\bbuffers)\.(\w+)", body))
    for called in set(re.findall(r"\b(\w+)\(", body)) & set(functions()) - seen - {function}:
        found |= touched(called, seen | {function})
    return found & {spec.name for spec in plan.buffers(plan.Capacity(1, 1, 1), SHAPES[0])}


def kernels() -> list[str]:
    return re.findall(r"X\((\w+), tokseam", (build.CUDA / "kernels.cu").read_text())


def test_every_kernel_has_a_cost() -> None:
    assert set(cost.COSTS) == set(kernels())


@pytest.mark.parametrize("kernel", kernels())
def test_a_cost_names_what_the_source_touches(kernel: str) -> None:
    # Some kernels do several things.
    named = {
        access.buffer
        for shape in SHAPES
        for launch in plan.launches(buckets.capacity(1 << 20), shape)
        for access in cost.cost_of(launch).accesses
        if launch.kernel == kernel
    }
    real = touched(kernel) - NOT_COUNTED
    if kernel == "settle":  # only whether there is something to settle
        assert named == {"giant_unsettled"} <= real
        return
    assert named <= real, f"{kernel} does not touch {named - real}"
    flags = kernel.startswith("classify") or kernel.endswith("clusters")
    assert real - named <= (FOR_BAD_TEXT | {"closed_bits"} if flags else set())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PROFILES)
def test_rows_are_the_chains(shape: plan.Shape, name: str) -> None:
    capacity = buckets.capacity(1 << 20)
    found = cost.rows(capacity, shape, PROFILES[name])
    launches = plan.launches(capacity, shape)
    assert sum(row.launches for row in found) == len(launches)
    assert [row.kernel for row in found] == list(dict.fromkeys(launch.kernel for launch in launches))
    assert all(row.bytes_moved >= 0 and row.operations >= 0 for row in found)


def test_a_floor_by_hand() -> None:
    """A shape without stages and a text of nothing but bytes: what is left can be added up on paper."""
    nothing = Profile(*[0.0] * len(Profile.__dataclass_fields__))
    capacity = buckets.capacity(1 << 20)
    found = {row.kernel: row for row in cost.rows(capacity, plan.Shape(0, 1, 9, False), nothing)}
    assert found["begin"].bytes_moved == 3 * 4 / 32  # three bitmaps
    assert found["classify"].bytes_moved == 2 + 2 * 4 / 32  # text and classes; a bitmap there and back
    assert found["classify_bytes"].bytes_moved == 2
    assert found["mark_tiles"].bytes_moved == found["merge_short"].bytes_moved == 0
    least = cost.floor(cost.H200, 4_800_000, capacity, plan.Shape(0, 1, 9, False), nothing)
    assert least.memory == pytest.approx(sum(row.bytes_moved for row in found.values()) * 1e-6)
    assert least.link == pytest.approx(4_800_000 / 55e9)
    assert least.device == max(least.memory, least.operations, least.nodes)


def test_profile_of_a_launch() -> None:
    totals = dict.fromkeys(plan.TOTALS, 0) | {"bytes": 1000, "stretches": 200, "ids": 250, "tiles": 2, "short": 10}
    profile = Profile.of(totals)
    assert (profile.pieces, profile.tokens, profile.tiles, profile.short) == (0.2, 0.25, 0.002, 0.01)
    assert Profile.of(dict.fromkeys(plan.TOTALS, 0)).pieces == 0


def test_long_stretches_cost_more() -> None:
    """One stretch over all of the text: tiles, maps and orbits come on top."""
    capacity, shape = buckets.capacity(1 << 20), SHAPES[0]
    plain = PROFILES["English"]
    tiled = Profile(**{**vars(plain), "long": 1e-6, "tiles": 1 / 256, "supers": 1 / 16384})
    assert sum(row.bytes_moved for row in cost.rows(capacity, shape, tiled)) > 15 + sum(
        row.bytes_moved for row in cost.rows(capacity, shape, plain)
    )


def test_the_page_is_what_the_code_prints() -> None:
    page = (build.CUDA / "COST.md").read_text()
    assert cost.table(1_000_000, plan.Shape(1, 0, 15, by_characters=False)) in page, (
        "kernels/cuda/COST.md: put in what `python -m tokseam.kernels.cuda.cost` prints"
    )
    normalizing = cost.table(1_000_000, plan.Shape(1, 0, 15, False, normalizes=True)).splitlines()
    rest = page[page.index("a chain that normalizes") : page.index("How to read it")].splitlines()
    rows = [line for line in rest if line.startswith("|")]
    assert len(rows) > 5
    assert [line for line in normalizing if line in rows] == rows, (
        "the same with --normalizing, of the kernels that are more"
    )
