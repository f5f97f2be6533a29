"""How a batch becomes launches: capacity buckets, where a bucket's buffers lie, and which documents go together. Pure.

A launch costs in proportion to its capacity (grids, see plan.py), and a captured graph is one capacity's, so there are
a few of them, each several times the one before. All lie in one block of device memory, the arena, from its begin: one
launch runs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from . import plan

#: Bytes of text of the smallest bucket, and how many times the one before the next one is: a batch fills its bucket
#: to a quarter at least, and what a launch costs beside its work is small for the smallest one.
SMALLEST_BYTES: Final = 64 * 1024
GROWTH: Final = 4
#: Bytes of text for each span that a bucket has room for, and spans besides. Shorter documents fill it by their number.
BYTES_PER_SPAN: Final = 16
SPANS_BESIDE: Final = 1024

#: Where a buffer begins is a multiple of this: what a device reads at once, and what its allocator would give.
ALIGNMENT_BYTES: Final = 256


class Layout(NamedTuple):
    """Where the buffers of a capacity lie in the arena, in the order of chain.cuh."""

    specs: tuple[plan.BufferSpec, ...]
    offsets: tuple[int, ...]
    nbytes: int

    def offset(self, name: str) -> int:
        return next(at for spec, at in zip(self.specs, self.offsets, strict=True) if spec.name == name)


def layout(capacity: plan.Capacity, shape: plan.Shape) -> Layout:
    """Lay out a capacity's buffers one behind the other."""
    specs = tuple(plan.buffers(capacity, shape))
    offsets, end = [], 0
    for spec in specs:
        offsets.append(end)
        end += -(-spec.nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return Layout(specs, tuple(offsets), end)


def capacity(text_bytes: int) -> plan.Capacity:
    """Return the capacity of the bucket for so many bytes of text."""
    spans = text_bytes // BYTES_PER_SPAN + SPANS_BESIDE
    return plan.Capacity(text_bytes, spans, spans)


def buckets(arena_bytes: int, shape: plan.Shape, smallest_bytes: int = SMALLEST_BYTES) -> list[plan.Capacity]:
    """Return the buckets whose buffers fit into the arena, the smallest first; none where it is too small for any.

    The last one is cut to what the arena has room for, unless that would hardly be more than the one before.
    """
    found: list[plan.Capacity] = []
    size = smallest_bytes
    while size < plan.MAX_BYTES and layout(capacity(size), shape).nbytes <= arena_bytes:
        found.append(capacity(size))
        size *= GROWTH
    if not found:
        return found
    largest = _most(found[-1].bytes, min(size, plan.MAX_BYTES), arena_bytes, shape)
    if largest >= 2 * found[-1].bytes:
        found.append(capacity(largest))
    return found


def _most(fits: int, too_large: int, arena_bytes: int, shape: plan.Shape) -> int:
    """Return the most bytes of text that fit, between two sizes, to within 512."""
    while too_large - fits > 512:
        middle = (fits + too_large) // 2
        if layout(capacity(middle), shape).nbytes <= arena_bytes:
            fits = middle
        else:
            too_large = middle
    return fits


def choose(found: Sequence[plan.Capacity], text_bytes: int, spans: int, documents: int) -> plan.Capacity | None:
    """Return the smallest bucket that has room for a staged batch; None where none has."""
    for one in found:
        if text_bytes <= one.bytes and spans <= one.spans and documents <= one.documents:
            return one
    return None


def parts(sizes: Sequence[int], most: plan.Capacity) -> Iterator[range]:
    """Yield which documents to stage together, by their bytes before staging, in order.

    What staging adds is not known yet: a part that turns out too large is halved (`halves`). A document that alone is
    larger than the bucket is a part of its own.
    """
    first, size = 0, 0
    for place, one in enumerate(sizes):
        if place > first and (size + one > most.bytes or place - first >= most.documents):
            yield range(first, place)
            first, size = place, 0
        size += one
    if first < len(sizes):
        yield range(first, len(sizes))


def halves(documents: range) -> list[range]:
    """Return the halves of a part that did not fit; none for a single document, which fits no bucket."""
    if len(documents) < 2:
        return []
    middle = documents.start + len(documents) // 2
    return [range(documents.start, middle), range(middle, documents.stop)]


@dataclass(frozen=True)
class Limits:
    """What a launcher may take of a device and of the host's pinned memory."""

    #: Bytes of the arena at most; less where the device has less to spare.
    arena_bytes: int = 4 * 1024**3
    #: The share of the free device memory that the arena may take: other processes use the device too.
    free_share: float = 0.5
    #: Below this a launcher gives up: batches would be too small to pay.
    arena_least_bytes: int = 64 * 1024**2
    #: Bytes of text of the smallest bucket.
    smallest_bytes: int = SMALLEST_BYTES
    #: Tokenizers that have their tables and graphs on the device; the one that was not used for longest goes.
    tokenizers: int = 8

    def arena(self, free_bytes: int) -> int:
        """Return how large an arena to ask for, on a device with so much free memory; 0: it is not worth it."""
        wanted = min(self.arena_bytes, int(free_bytes * self.free_share)) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        return wanted if wanted >= self.arena_least_bytes else 0

    def smaller_arena(self, nbytes: int) -> int:
        """Return what to ask for next where an arena of `nbytes` was refused; 0: give up."""
        smaller = nbytes // 2 // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        return smaller if smaller >= self.arena_least_bytes else 0
