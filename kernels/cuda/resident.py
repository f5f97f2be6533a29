"""A tokenizer on the device: its tables, and the chains that are launched for it, captured as graphs.

What a chain is made of is plan.py's matter; when one is launched, and over what, launcher.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from .. import _native, engine
from . import buckets, plan
from .buckets import Layout, Limits
from .device import Block, Device, packed_chain


class Captured(NamedTuple):
    """A chain's launches over one capacity: where the buffers lie, the kernels' first argument, and the graph."""

    where: Layout
    packed: Any
    graph: Any


@dataclass
class Chain:
    """One way to launch batches of a tokenizer."""

    batch: _native.DeviceBatch
    tables: bytes
    shape: plan.Shape
    #: The smallest first.
    buckets: list[plan.Capacity]
    #: So far.
    captured: dict[plan.Capacity, Captured] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The buffer for the text of a batch."""
        return "raw_text" if self.shape.normalizes else "text"

    @property
    def begins(self) -> str:
        """The buffer for where its spans begin."""
        return "raw_begin" if self.shape.normalizes else "span_begin"

    @property
    def places(self) -> str:
        """The buffer that says where pieces begin in that text; see DeviceBatch.marks."""
        return "piece_places" if self.shape.normalizes else "starts"

    def capture(self, device: Device, arena: Block, capacity: plan.Capacity) -> Captured:
        """Capture the launches of a bucket."""
        where = buckets.layout(capacity, self.shape)
        packed = packed_chain(self.tables, [arena.pointer + at for at in where.offsets], capacity)
        launches = plan.launches(capacity, self.shape)
        # Once by hand, over nothing: a kernel is loaded when it first runs.
        nothing = np.zeros(3, dtype=np.uint32)
        device.upload(arena.pointer + where.offset("given"), nothing)
        device.upload(arena.pointer + where.offset(self.begins), nothing[:1])
        device.upload(arena.pointer + where.offset("document_span"), nothing[:1])
        device.enqueue(launches, packed)
        device.synchronize()
        self.captured[capacity] = Captured(where, packed, device.record(launches, packed))
        return self.captured[capacity]


@dataclass
class Resident:
    """A tokenizer that has its tables on the device."""

    image: Block
    #: For every document.
    plain: Chain
    #: For those that the other one found suspect; None for a tokenizer whose normal form is not made on the device.
    normalizing: Chain | None


def make_resident(device: Device, arena: Block, tokenizer: engine.Tokenizer, limits: Limits) -> Resident | None:
    """Bring a tokenizer's tables to the device; None for one that it does not take, or has no room to launch for."""
    batch = tokenizer.device_batch()
    if batch is None:
        return None
    shape = plan.Shape(*batch.shape)
    found = buckets.buckets(arena.nbytes, shape, limits.smallest_bytes)
    if not found:
        return None
    beside = -(-batch.image.nbytes // buckets.ALIGNMENT_BYTES) * buckets.ALIGNMENT_BYTES
    image = device.allocate(beside + batch.beside.nbytes)
    device.upload(image.pointer, batch.image)
    device.upload(image.pointer + beside, batch.beside)
    device.synchronize()
    plain = Chain(batch, batch.tables(image.pointer, image.pointer + beside), shape, found)
    normalizing = None
    if batch.normalizes:
        shape = replace(shape, normalizes=True)
        found = buckets.buckets(arena.nbytes, shape, limits.smallest_bytes)
        normalizing = Chain(batch, plain.tables, shape, found) if found else None
    return Resident(image, plain, normalizing)
