"""Buckets, layouts and parts: what is fixed before anything is launched."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokseam.kernels.cuda import buckets, plan
from tokseam.kernels.cuda.buckets import Limits

shapes = st.builds(plan.Shape, st.integers(0, 6), st.integers(0, 6), st.integers(1, 400), st.booleans())
SHAPE = plan.Shape(stages=1, byte_stages=0, states=24, by_characters=False)
MIB = 1 << 20


@given(st.integers(1, 1 << 24), shapes)
def test_layout_has_every_buffer_apart_and_aligned(text_bytes: int, shape: plan.Shape) -> None:
    capacity = buckets.capacity(text_bytes)
    where = buckets.layout(capacity, shape)
    assert [spec.name for spec in where.specs] == [spec.name for spec in plan.buffers(capacity, shape)]
    assert where.offsets[0] == 0
    assert all(at % buckets.ALIGNMENT_BYTES == 0 for at in where.offsets)
    ends = [at + spec.nbytes for spec, at in zip(where.specs, where.offsets, strict=True)]
    assert all(end <= at for end, at in zip(ends, where.offsets[1:], strict=False))
    assert ends[-1] <= where.nbytes < ends[-1] + buckets.ALIGNMENT_BYTES
    assert all(where.offset(spec.name) == at for spec, at in zip(where.specs, where.offsets, strict=True))


@given(st.integers(0, 1 << 36), shapes, st.sampled_from([1024, 4096, 65536]))
def test_buckets_fit_the_arena_and_grow(arena: int, shape: plan.Shape, smallest: int) -> None:
    found = buckets.buckets(arena, shape, smallest)
    assert all(buckets.layout(one, shape).nbytes <= arena for one in found)
    if not found:
        assert buckets.layout(buckets.capacity(smallest), shape).nbytes > arena
        return
    assert found[0].bytes == smallest
    for before, one in itertools.pairwise(found):
        assert 2 * before.bytes <= one.bytes <= buckets.GROWTH * before.bytes
        assert one.spans >= before.spans
        assert one.documents >= before.documents
    # Nothing of twice the size of the largest would have fitted, so that no memory is taken for nothing.
    most = 2 * found[-1].bytes + 512
    assert most > plan.MAX_BYTES or buckets.layout(buckets.capacity(most), shape).nbytes > arena


def test_an_arena_of_gigabytes_holds_the_largest_requests() -> None:
    """8 M characters of CJK are 24 MB; the default arena takes them in one launch."""
    assert buckets.buckets(Limits().arena_bytes, SHAPE)[-1].bytes >= 24_000_000


@given(st.integers(1, 1 << 28), st.integers(1, 1 << 16), st.data())
def test_choose_takes_the_smallest_that_holds(text_bytes: int, spans: int, data: st.DataObject) -> None:
    found = buckets.buckets(1 << 32, SHAPE)
    documents = data.draw(st.integers(0, spans))
    one = buckets.choose(found, text_bytes, spans, documents)

    def holds(capacity: plan.Capacity) -> bool:
        return text_bytes <= capacity.bytes and spans <= capacity.spans and documents <= capacity.documents

    assert one == next((capacity for capacity in found if holds(capacity)), None)


def test_choose_at_every_border() -> None:
    found = buckets.buckets(64 * MIB, SHAPE, 4096)
    for number, one in enumerate(found):
        behind = found[number + 1] if number + 1 < len(found) else None
        assert buckets.choose(found, one.bytes, one.spans, one.documents) is one
        assert buckets.choose(found, one.bytes + 1, 1, 1) is behind
        assert buckets.choose(found, 1, one.spans + 1, 1) is behind
        assert buckets.choose(found, 1, 1, one.documents + 1) is behind


@given(st.lists(st.integers(0, 5_000), max_size=60), st.integers(1, 6_000), st.integers(1, 20))
def test_parts_cover_all_in_order(sizes: list[int], most_bytes: int, most_documents: int) -> None:
    most = plan.Capacity(most_bytes, most_documents, most_documents)
    found = list(buckets.parts(sizes, most))
    assert [number for part in found for number in part] == list(range(len(sizes)))
    for part in found:
        assert len(part) > 0
        assert len(part) <= most_documents
        assert len(part) == 1 or sum(sizes[number] for number in part) <= most_bytes
    for part, behind in itertools.pairwise(found):  # none could have taken one more
        total = sum(sizes[number] for number in part) + sizes[behind.start]
        assert total > most_bytes or len(part) == most_documents


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_halves_come_to_an_end(start: int, count: int) -> None:
    part = range(start, start + count)
    made = buckets.halves(part)
    if count < 2:
        assert made == []
    else:
        assert [number for half in made for number in half] == list(part)
        assert all(len(half) < count for half in made)


@pytest.mark.parametrize(
    ("free", "arena"),
    [(0, 0), (100 * MIB, 0), (128 * MIB, 64 * MIB), (1 << 30, 1 << 29), (140 << 30, 4 << 30)],
)
def test_arena_is_a_share_of_what_is_free(free: int, arena: int) -> None:
    assert Limits().arena(free) == arena


def test_smaller_arenas_end() -> None:
    limits, sizes = Limits(), [Limits().arena_bytes]
    while sizes[-1]:
        sizes.append(limits.smaller_arena(sizes[-1]))
    assert sizes[-2] == limits.arena_least_bytes
    assert len(sizes) == 8
