"""Launches: documents of one tokenizer in, ids out, by the kernels of this folder.

A launch is: documents staged in pinned memory, copied up, one captured graph, counts copied down and waited for, ids
(and pieces, where a session is to be seeded) copied down and waited for. So the host waits twice, which is checked; all
else is put on one stream. Ids come as views of one array, never as a list.

A document that the device can't answer (bad UTF-8, a character that normalization may change, no bucket for it) is left
to whoever asked; a device that fails raises DeviceError, and is not asked again once it is lost.

Limits: it knows no CuPy (device.py does), decides nothing about sizes and failures (buckets.py, failures.py), and takes
the kernels' order from plan.py. One thread at a time.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .. import _native, engine
from ..errors import DeviceError, NoDeviceError
from . import buckets, failures, plan
from .buckets import Layout, Limits
from .device import Block, Device, open_device, packed_chain

#: Times that the host waits for the device in one launch.
SYNCHRONIZATIONS: Final = 2
#: Times that a batch is tried again with less memory.
RETRIES: Final = 2

_NONE = np.empty(0, dtype=np.uint32)


class Document(Protocol):
    """One text of a batch."""

    @property
    def text(self) -> bytes | bytearray | memoryview:
        """UTF-8, not checked yet."""

    @property
    def add_special_tokens(self) -> bool: ...
    @property
    def split_special_tokens(self) -> bool: ...
    @property
    def marked(self) -> bool:
        """Whether cuts and marks are wanted too."""


class MemoryUse(NamedTuple):
    """Bytes that a launcher holds."""

    #: Of the device: the buffers of all buckets.
    arena: int
    #: Of the device: tokenizers' tables.
    tables: int
    #: Of the host, pinned.
    pinned: int


class Measured(NamedTuple):
    """What the kernels of a launch took, in seconds by the device's clock."""

    capacity: plan.Capacity
    shape: plan.Shape
    totals: dict[str, int]
    #: The whole graph, and one of the kernels up to the pieces.
    kernels: float
    pre_tokenization: float
    #: Each kernel by itself, over all its launches: more than their part of the graph.
    by_kernel: dict[str, float]


@dataclass
class Counters:
    """What a launcher did so far."""

    launches: int = 0
    graphs: int = 0
    documents: int = 0
    #: Documents that were left to whoever asked.
    left: int = 0
    #: Batches that were tried again with less memory.
    retries: int = 0


@dataclass
class Resident:
    """A tokenizer that has its tables on the device."""

    batch: _native.DeviceBatch
    shape: plan.Shape
    image: Block
    tables: bytes
    buckets: list[plan.Capacity]
    #: Captured so far, with where their buffers lie.
    graphs: dict[plan.Capacity, tuple[Layout, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Launched:
    """What one launch came to; arrays as plan.py's buffers of nearly the same names."""

    capacity: plan.Capacity
    totals: dict[str, int]
    flags: engine.Ids
    ids_before: engine.Ids
    pieces_before: engine.Ids
    ids: engine.Ids
    starts: engine.Ids
    piece_ids: engine.Ids

    def pieces_of(self, document: int) -> tuple[engine.Ids, engine.Ids]:
        """Return where a document's pieces begin and the ids before each, with one more of both for the end."""
        inside = slice(int(self.pieces_before[document]), int(self.pieces_before[document + 1]) + 1)
        return self.starts[inside], self.piece_ids[inside]


class Pinned:
    """Pinned memory that grows to what was asked for most, and is used from its begin each time."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._memory = np.empty(0, dtype=np.uint8)
        self._used = 0

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    def begin(self, nbytes: int) -> None:
        """Make room for `nbytes` over all arrays to come. What was taken before is gone."""
        if nbytes > self._memory.nbytes:
            self._memory = np.empty(0, dtype=np.uint8)  # given back before more is taken
            self._memory = self._device.pinned(1 << (nbytes - 1).bit_length())
        self._used = 0

    def u8(self, count: int) -> npt.NDArray[np.uint8]:
        taken = self._memory[self._used : self._used + count]
        self._used += -(-count // 64) * 64
        return taken

    def u32(self, count: int) -> npt.NDArray[np.uint32]:
        return self.u8(4 * count).view(np.uint32)


def _padded(*counts: int) -> int:
    """Return the bytes of so many 4-byte values in arrays of Pinned."""
    return sum(-(-4 * count // 64) * 64 for count in counts)


class Launcher:
    """An open device with what is resident on it. Raises NoDeviceError where its memory does not pay."""

    def __init__(self, device: Device, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.counters = Counters()
        self._device = device
        self._residents: OrderedDict[str, Resident | None] = OrderedDict()
        self._inputs, self._outputs = Pinned(device), Pinned(device)
        #: Why the device is not used any more; '' while it is.
        self._lost = ""
        self._arena: Block | None = None
        try:
            self._take_arena(self.limits.arena(device.free_bytes()))
        except DeviceError as error:
            raise NoDeviceError(str(error)) from None

    @property
    def name(self) -> str:
        return self._device.name

    @property
    def memory(self) -> MemoryUse:
        tables = sum(one.image.nbytes for one in self._residents.values() if one is not None)
        return MemoryUse(self._arena.nbytes if self._arena else 0, tables, self._inputs.nbytes + self._outputs.nbytes)

    def encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> list[engine.Marked | None]:
        """Return for each document its ids (a template's included), cuts and marks; None for one that is left.

        Raises DeviceError.
        """
        if self._lost:
            raise DeviceError(self._lost, lost=True)
        for retries_left in range(RETRIES, -1, -1):
            try:
                return self._encode(tokenizer, documents)
            except Exception as error:
                self._after(error, retries_left)
        raise AssertionError("the last try was not decided about")

    def encode_arrays(
        self, tokenizer: engine.Tokenizer, texts: Sequence[bytes]
    ) -> tuple[engine.Ids, engine.Ids, list[int]] | None:
        """Encode texts in one launch: all ids, where each text's begin (and the last one's end), and which are left.

        No object is made for a text: for thousands of small ones. A text that is left has ids that mean nothing. None
        for texts that fit no bucket. Raises what the device raises.
        """
        staged = self._staged(tokenizer, texts)
        if staged is None:
            return None
        launched = self._run(*staged, with_pieces=False)
        return launched.ids, launched.ids_before, np.flatnonzero(launched.flags).tolist()

    def pieces(self, tokenizer: engine.Tokenizer, texts: Sequence[bytes]) -> list[engine.Positions | None]:
        """Return for each text where its pieces with an id start, as Tokenizer.pieces does; None for one that is left.

        For checks of boundaries: in one launch, without another try. Raises what the device raises.
        """
        staged = self._staged(tokenizer, texts)
        if staged is None:
            return [None] * len(texts)
        launched = self._run(*staged, with_pieces=True)
        batch = staged[0].batch
        return [
            None if launched.flags[number] else batch.pieces(*launched.pieces_of(number))
            for number in range(len(texts))
        ]

    def measure(self, tokenizer: engine.Tokenizer, texts: Sequence[bytes], repeats: int) -> Measured | None:
        """Time the kernels of one launch over texts by the device's clock, copies and waits left out.

        None for texts that fit no bucket. Raises what the device raises.
        """
        staged = self._staged(tokenizer, texts)
        if staged is None:
            return None
        resident, capacity, size = staged
        launched = self._run(resident, capacity, size, with_pieces=False)
        where, graph = self._graph(resident, capacity)
        assert self._arena is not None
        chain = packed_chain(resident.tables, [self._arena.pointer + at for at in where.offsets], capacity)
        launches = plan.launches(capacity, resident.shape)
        split = 1 + max(at for at, one in enumerate(launches) if one.kernel == "report_pieces")
        pre_tokenization = self._device.record(launches[:split], chain)
        by_kernel: dict[str, float] = {}
        for one, seconds in zip(launches, self._device.seconds_of_each(launches, chain, repeats), strict=True):
            by_kernel[one.kernel] = by_kernel.get(one.kernel, 0.0) + seconds
        return Measured(
            launched.capacity,
            resident.shape,
            launched.totals,
            self._device.seconds_of(graph, repeats),
            self._device.seconds_of(pre_tokenization, repeats),
            by_kernel,
        )

    def _staged(
        self, tokenizer: engine.Tokenizer, texts: Sequence[bytes]
    ) -> tuple[Resident, plan.Capacity, tuple[int, int, int]] | None:
        """Stage texts for one launch; None where they fit no bucket."""
        resident = self._resident(tokenizer)
        if resident is None:
            return None
        size = resident.batch.stage(list(texts), [False] * len(texts))
        capacity = buckets.choose(resident.buckets, *size)
        return None if capacity is None else (resident, capacity, size)

    def close(self) -> None:
        """Give back the device's memory."""
        self._residents.clear()
        self._arena = None
        self._lost = self._lost or "the launcher is closed"
        with contextlib.suppress(Exception):  # a device that is lost has nothing to give back
            self._device.give_back()

    def _after(self, error: Exception, retries_left: int) -> None:
        """Decide about a failure: return to try again, or raise."""
        failure = self._device.failure_of(error)
        if failure is None:
            raise error
        decision = failures.decide(failure.status, failure.out_of_memory, retries_left)
        if decision is not failures.Decision.LOST:
            try:
                self._device.synchronize()  # what is under way still reads the batch
                if decision is failures.Decision.RETRY_SMALLER:
                    traceback.clear_frames(error.__traceback__)  # they hold on to device memory
                    self.counters.retries += 1
                    self._shrink()
                    return
            except DeviceError:
                raise
            except Exception as again:
                failure = self._device.failure_of(again)
                if failure is None:
                    raise
                decision = failures.decide(failure.status, failure.out_of_memory, 0)
        message = f"{self.name}: {failures.explain(failure.status, failure.text)}"
        lost = decision is failures.Decision.LOST
        if lost:
            self._lost = message
        raise DeviceError(message, lost) from error

    # ---- device memory ----

    def _take_arena(self, nbytes: int) -> None:
        """Take the arena, or a smaller one. Raises DeviceError where the smallest that pays can't be had."""
        while nbytes > 0:
            try:
                self._arena = self._device.allocate(nbytes)
                return
            except Exception as error:
                failure = self._device.failure_of(error)
                if failure is None or not (failure.out_of_memory or failure.status in failures.OUT_OF_MEMORY):
                    raise
                nbytes = self.limits.smaller_arena(nbytes)
        least = self.limits.arena_least_bytes >> 20
        self._lost = f"{self.name}: not {least} MiB of device memory are free"
        raise DeviceError(self._lost, lost=True)

    def _shrink(self) -> None:
        """Give everything back and take an arena of half the size."""
        before = self._arena.nbytes if self._arena else 0
        self._residents.clear()
        self._arena = None
        self._device.give_back()
        self._take_arena(self.limits.smaller_arena(before))

    def _resident(self, tokenizer: engine.Tokenizer) -> Resident | None:
        """Return the tokenizer with its tables on the device; None for one that the device does not take."""
        key = tokenizer.sha256
        if key not in self._residents:
            while len(self._residents) >= self.limits.tokenizers:
                self._residents.popitem(last=False)
            self._residents[key] = self._made_resident(tokenizer)
        self._residents.move_to_end(key)
        return self._residents[key]

    def _made_resident(self, tokenizer: engine.Tokenizer) -> Resident | None:
        assert self._arena is not None
        batch = tokenizer.device_batch()
        if batch is None:
            return None
        shape = plan.Shape(*batch.shape)
        found = buckets.buckets(self._arena.nbytes, shape, self.limits.smallest_bytes)
        if not found:
            return None
        image = self._device.allocate(batch.image.nbytes)
        self._device.upload(image.pointer, batch.image)
        self._device.synchronize()
        return Resident(batch, shape, image, batch.tables(image.pointer), found)

    def _graph(self, resident: Resident, capacity: plan.Capacity) -> tuple[Layout, Any]:
        """Return the captured launches of a bucket, and where its buffers lie."""
        if capacity not in resident.graphs:
            assert self._arena is not None
            where = buckets.layout(capacity, resident.shape)
            chain = packed_chain(resident.tables, [self._arena.pointer + at for at in where.offsets], capacity)
            chain_of_launches = plan.launches(capacity, resident.shape)
            # Once by hand, over nothing: a kernel is loaded when it first runs.
            nothing = np.zeros(3, dtype=np.uint32)
            self._device.upload(self._arena.pointer + where.offset("given"), nothing)
            self._device.upload(self._arena.pointer + where.offset("span_begin"), nothing[:1])
            self._device.upload(self._arena.pointer + where.offset("document_span"), nothing[:1])
            self._device.enqueue(chain_of_launches, chain)
            self._device.synchronize()
            resident.graphs[capacity] = (where, self._device.record(chain_of_launches, chain))
            self.counters.graphs += 1
        return resident.graphs[capacity]

    # ---- a batch ----

    def _encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> list[engine.Marked | None]:
        found: list[engine.Marked | None] = [None] * len(documents)
        resident = self._resident(tokenizer)
        if resident is not None:
            todo = deque(buckets.parts([len(one.text) for one in documents], resident.buckets[-1]))
            while todo:
                part = todo.popleft()
                staged = [documents[number] for number in part]
                size = resident.batch.stage([one.text for one in staged], [one.split_special_tokens for one in staged])
                capacity = buckets.choose(resident.buckets, *size)
                if capacity is None:
                    todo.extendleft(reversed(buckets.halves(part)))
                else:
                    found[part.start : part.stop] = self._launch(tokenizer, resident, capacity, size, staged)
        self.counters.documents += len(documents)
        self.counters.left += sum(one is None for one in found)
        return found

    def _launch(
        self,
        tokenizer: engine.Tokenizer,
        resident: Resident,
        capacity: plan.Capacity,
        size: tuple[int, int, int],
        documents: Sequence[Document],
    ) -> list[engine.Marked | None]:
        """Run one staged batch through a bucket, and cut the answer into those of its documents."""
        launched = self._run(resident, capacity, size, any(one.marked for one in documents))
        found: list[engine.Marked | None] = []
        for number, document in enumerate(documents):
            own = launched.ids[launched.ids_before[number] : launched.ids_before[number + 1]]
            seams: tuple[engine.Ids, engine.Ids] | None = (_NONE, _NONE)
            if document.marked and not launched.flags[number]:
                seams = resident.batch.marks(
                    number, document.text, document.split_special_tokens, *launched.pieces_of(number)
                )
            if launched.flags[number] or seams is None:
                found.append(None)
            else:
                found.append(engine.Marked(tokenizer.surrounded(own) if document.add_special_tokens else own, *seams))
        return found

    def _run(
        self, resident: Resident, capacity: plan.Capacity, size: tuple[int, int, int], with_pieces: bool
    ) -> Launched:
        """Copy a staged batch up, launch, and copy down what it came to."""
        where, graph = self._graph(resident, capacity)
        waited = self._device.synchronizations
        self._put_in(resident, where, size)
        self._device.launch(graph)
        count = size[2]
        counts, flags, ids_before, pieces_before = self._take_out(
            where, totals=len(plan.TOTALS), document_flags=count, document_ids=count + 1, document_pieces=count + 1
        )
        totals = dict(zip(plan.TOTALS, counts.tolist(), strict=True))
        if totals["refused"]:
            raise AssertionError(f"the device refused a batch of {size} in {capacity}")
        pieces = totals["stretches"] + 1 if with_pieces else 0
        ids, starts, piece_ids = self._take_out(where, ids=totals["ids"], starts=pieces, piece_ids=pieces)
        if self._device.synchronizations - waited != SYNCHRONIZATIONS:
            raise AssertionError(f"a launch waited {self._device.synchronizations - waited} times")
        self.counters.launches += 1
        return Launched(capacity, totals, flags, ids_before, pieces_before, ids, starts, piece_ids)

    def _put_in(self, resident: Resident, where: Layout, size: tuple[int, int, int]) -> None:
        """Copy a staged batch to the device."""
        assert self._arena is not None
        text_bytes, spans, documents = size
        self._inputs.begin(text_bytes + 4 + 64 + _padded(3, spans + 1, spans, documents + 1))
        text, given = self._inputs.u8(text_bytes + 4), self._inputs.u32(3)
        begins, ids, firsts = (self._inputs.u32(count) for count in (spans + 1, spans, documents + 1))
        resident.batch.put_into(text, begins, ids, firsts)
        text[text_bytes:] = 0
        given[:] = size
        sources: dict[str, npt.NDArray[Any]] = {
            "given": given,
            "text": text,
            "span_begin": begins,
            "span_id": ids,
            "document_span": firsts,
        }
        for name, source in sources.items():
            self._device.upload(self._arena.pointer + where.offset(name), source)

    def _take_out(self, where: Layout, **counts: int) -> list[npt.NDArray[np.uint32]]:
        """Copy the first values of buffers to the host, wait, and return them in memory of their own."""
        assert self._arena is not None
        self._outputs.begin(_padded(*counts.values()) or 1)
        pinned = [self._outputs.u32(count) for count in counts.values()]
        for name, target in zip(counts, pinned, strict=True):
            self._device.download(target, self._arena.pointer + where.offset(name))
        self._device.synchronize()
        return [values.copy() for values in pinned]


def open_launcher(limits: Limits | None = None) -> Launcher:
    """Open the device and its kernels. Raises NoDeviceError, with the reason in one line."""
    every = plan.Shape(stages=1, byte_stages=1, states=1, by_characters=False)
    characters = plan.Shape(stages=0, byte_stages=0, states=1, by_characters=True)
    least = plan.Capacity(1, 1, 1)
    names = {one.kernel for shape in (every, characters) for one in plan.launches(least, shape)}
    device = open_device(sorted(names))
    try:
        return Launcher(device, limits)
    except NoDeviceError:
        raise
    except Exception as error:
        failure = device.failure_of(error)
        if failure is None:
            raise
        raise NoDeviceError(f"{device.name}: {failures.explain(failure.status, failure.text)}") from None
