"""Launches: documents of one tokenizer in, ids out, by the kernels of this folder.

A launch is: documents staged in pinned memory, copied up, one captured graph, counts copied down and waited for, ids
(and pieces, where a session is to be seeded) copied down and waited for. So the host waits twice, which is checked; all
else is put on one stream. Ids come as views of one array, never as a list.

Documents in which a launch finds a character that normalization may change are launched once more, by a chain that
makes their normal form first, where the device can for the tokenizer. A document that it can't answer (bad UTF-8, a
normal form that is not for it, no bucket) is left to whoever asked; a device that fails raises DeviceError, and is not
asked again once it is lost.

Limits: it knows no CuPy (device.py does), decides nothing about sizes and failures (buckets.py, failures.py), and takes
the kernels' order from plan.py. One thread at a time.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .. import engine
from ..errors import DeviceError, NoDeviceError
from . import buckets, failures, plan
from .buckets import Layout, Limits
from .device import Block, Device, open_device
from .pinned import Pinned
from .resident import Captured, Chain, Resident, make_resident

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
    #: Documents that were answered in a normal form that the device made.
    normalized: int = 0
    #: Documents that were left to whoever asked.
    left: int = 0
    #: Batches that were tried again with less memory.
    retries: int = 0


@dataclass(frozen=True)
class Launched:
    """What one launch came to; arrays as plan.py's buffers of nearly the same names.

    starts: where pieces begin in the batch's text, as the chain says it (Chain.places).
    """

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

        No object is made for a text: for thousands of small ones. A text that is left has ids that mean nothing; those
        that normalization may change are among them. None for texts that fit no bucket. Raises what the device raises.
        """
        staged = self._staged(tokenizer, texts)
        if staged is None:
            return None
        launched = self._run(*staged, with_pieces=False)
        return launched.ids, launched.ids_before, np.flatnonzero(launched.flags).tolist()

    def pieces(self, tokenizer: engine.Tokenizer, texts: Sequence[bytes]) -> list[engine.Positions | None]:
        """Return for each text where its pieces with an id start, as Tokenizer.pieces does; None for one that is left.

        For checks of boundaries: in one launch, so that documents that normalization may change are left, and without
        another try. Raises what the device raises.
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
        chain, capacity, size = staged
        launched = self._run(chain, capacity, size, with_pieces=False)
        captured = self._captured(chain, capacity)
        launches = plan.launches(capacity, chain.shape)
        split = 1 + max(at for at, one in enumerate(launches) if one.kernel == "report_pieces")
        pre_tokenization = self._device.record(launches[:split], captured.packed)
        by_kernel: dict[str, float] = {}
        times = self._device.seconds_of_each(launches, captured.packed, repeats)
        for one, seconds in zip(launches, times, strict=True):
            by_kernel[one.kernel] = by_kernel.get(one.kernel, 0.0) + seconds
        return Measured(
            launched.capacity,
            chain.shape,
            launched.totals,
            self._device.seconds_of(captured.graph, repeats),
            self._device.seconds_of(pre_tokenization, repeats),
            by_kernel,
        )

    def _staged(
        self, tokenizer: engine.Tokenizer, texts: Sequence[bytes]
    ) -> tuple[Chain, plan.Capacity, tuple[int, int, int]] | None:
        """Stage texts for one plain launch; None where they fit no bucket."""
        resident = self._resident(tokenizer)
        if resident is None:
            return None
        chain = resident.plain
        size = chain.batch.stage(list(texts), [False] * len(texts))
        capacity = buckets.choose(chain.buckets, *size)
        return None if capacity is None else (chain, capacity, size)

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
            assert self._arena is not None
            self._residents[key] = make_resident(self._device, self._arena, tokenizer, self.limits)
        self._residents.move_to_end(key)
        return self._residents[key]

    def _captured(self, chain: Chain, capacity: plan.Capacity) -> Captured:
        """Return the captured launches of a bucket."""
        if capacity not in chain.captured:
            assert self._arena is not None
            chain.capture(self._device, self._arena, capacity)
            self.counters.graphs += 1
        return chain.captured[capacity]

    # ---- a batch ----

    def _encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> list[engine.Marked | None]:
        found: list[engine.Marked | None] = [None] * len(documents)
        resident = self._resident(tokenizer)
        if resident is not None:
            suspects = self._encode_by(resident.plain, tokenizer, documents, range(len(documents)), found)
            if suspects and resident.normalizing is not None:
                self._encode_by(resident.normalizing, tokenizer, documents, suspects, found)
                self.counters.normalized += sum(found[number] is not None for number in suspects)
        self.counters.documents += len(documents)
        self.counters.left += sum(one is None for one in found)
        return found

    def _encode_by(
        self,
        chain: Chain,
        tokenizer: engine.Tokenizer,
        documents: Sequence[Document],
        numbers: Sequence[int],
        found: list[engine.Marked | None],
    ) -> list[int]:
        """Encode the documents of these numbers, put what they come to into `found`, and return which are suspect."""
        suspects: list[int] = []
        todo = deque(buckets.parts([len(documents[number].text) for number in numbers], chain.buckets[-1]))
        while todo:
            part = todo.popleft()
            chosen = numbers[part.start : part.stop]
            staged = [documents[number] for number in chosen]
            size = chain.batch.stage([one.text for one in staged], [one.split_special_tokens for one in staged])
            launched = self._launch(chain, size, any(one.marked for one in staged))
            if launched is None:
                todo.extendleft(reversed(buckets.halves(part)))
                continue
            for place, number in enumerate(chosen):
                found[number] = _answer(tokenizer, chain, launched, place, documents[number])
            suspects += [chosen[place] for place in np.flatnonzero(launched.flags == plan.SUSPECT).tolist()]
        return suspects

    def _launch(self, chain: Chain, size: tuple[int, int, int], with_pieces: bool) -> Launched | None:
        """Run the staged batch through the smallest bucket that has room for it; None where none has.

        How large its normal form is turns out in a launch; so there may be another one, through a larger bucket.
        """
        capacity = buckets.choose(chain.buckets, *size)
        while capacity is not None:
            launched = self._run(chain, capacity, size, with_pieces)
            if not launched.totals["refused"]:
                return launched
            capacity = buckets.choose(chain.buckets, launched.totals["normalized"], *size[1:])
        return None

    def _run(self, chain: Chain, capacity: plan.Capacity, size: tuple[int, int, int], with_pieces: bool) -> Launched:
        """Copy a staged batch up, launch, and copy down what it came to: nothing where its normal form has no room."""
        where, _, graph = self._captured(chain, capacity)
        waited = self._device.synchronizations
        self._put_in(chain, where, size)
        self._device.launch(graph)
        count = size[2]
        counts, flags, ids_before, pieces_before = self._take_out(
            where, totals=len(plan.TOTALS), document_flags=count, document_ids=count + 1, document_pieces=count + 1
        )
        totals = dict(zip(plan.TOTALS, counts.tolist(), strict=True))
        if totals["refused"] and totals["normalized"] <= capacity.bytes:
            raise AssertionError(f"the device refused a batch of {size} in {capacity}")
        pieces = totals["stretches"] + 1 if with_pieces and not totals["refused"] else 0
        ids, starts, piece_ids = self._take_out(
            where, **{"ids": totals["ids"], chain.places: pieces, "piece_ids": pieces}
        )
        if self._device.synchronizations - waited != SYNCHRONIZATIONS:
            raise AssertionError(f"a launch waited {self._device.synchronizations - waited} times")
        self.counters.launches += 1
        return Launched(capacity, totals, flags, ids_before, pieces_before, ids, starts, piece_ids)

    def _put_in(self, chain: Chain, where: Layout, size: tuple[int, int, int]) -> None:
        """Copy a staged batch to the device."""
        assert self._arena is not None
        text_bytes, spans, documents = size
        self._inputs.begin(text_bytes + 4, *(4 * count for count in (3, spans + 1, spans, documents + 1)))
        text, given = self._inputs.u8(text_bytes + 4), self._inputs.u32(3)
        begins, ids, firsts = (self._inputs.u32(count) for count in (spans + 1, spans, documents + 1))
        chain.batch.put_into(text, begins, ids, firsts)
        text[text_bytes:] = 0
        given[:] = size
        sources: dict[str, npt.NDArray[Any]] = {
            "given": given,
            chain.text: text,
            chain.begins: begins,
            "span_id": ids,
            "document_span": firsts,
        }
        for name, source in sources.items():
            self._device.upload(self._arena.pointer + where.offset(name), source)

    def _take_out(self, where: Layout, **counts: int) -> list[npt.NDArray[np.uint32]]:
        """Copy the first values of buffers to the host, wait, and return them in memory of their own."""
        assert self._arena is not None
        self._outputs.begin(*(4 * count for count in counts.values()))
        pinned = [self._outputs.u32(count) for count in counts.values()]
        for name, target in zip(counts, pinned, strict=True):
            self._device.download(target, self._arena.pointer + where.offset(name))
        self._device.synchronize()
        return [values.copy() for values in pinned]


def _answer(
    tokenizer: engine.Tokenizer, chain: Chain, launched: Launched, place: int, document: Document
) -> engine.Marked | None:
    """Cut the answer of one document of a batch out; None for one that the launch has no answer for."""
    if launched.flags[place]:
        return None
    seams: tuple[engine.Ids, engine.Ids] | None = (_NONE, _NONE)
    if document.marked:
        split, pieces = document.split_special_tokens, launched.pieces_of(place)
        seams = chain.batch.marks(place, document.text, split, *pieces, normalized=chain.shape.normalizes)
    if seams is None:
        return None
    own = launched.ids[launched.ids_before[place] : launched.ids_before[place + 1]]
    return engine.Marked(tokenizer.surrounded(own) if document.add_special_tokens else own, *seams)


def open_launcher(limits: Limits | None = None) -> Launcher:
    """Open the device and its kernels. Raises NoDeviceError, with the reason in one line."""
    every = plan.Shape(stages=1, byte_stages=1, states=1, by_characters=False, normalizes=True)
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
