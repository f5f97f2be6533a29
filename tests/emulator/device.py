"""A device that is none: runs the chain of plan.py under the emulator, and checks what no kernel may do.

Each buffer lies between guards, which no kernel may touch, and holds noise before a batch, since none may count on what
was there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokseam.kernels import engine
from tokseam.kernels.cuda import plan

from . import build

#: Bytes in front of and behind each buffer, and what they hold.
GUARD_BYTES, GUARD = 256, 0xA5

#: As in device/normal_form.hpp: the most code points of a cluster, and what is known of a character.
MOST_POINTS = 64
JOINS, CHANGES = 1, 2

U32 = npt.NDArray[np.uint32]


class EmulatorError(AssertionError):
    """A kernel did what none may do: the message names the kernel and the place."""


@dataclass(frozen=True)
class Staged:
    """Documents as the device takes them, or as it made their normal forms."""

    text: npt.NDArray[np.uint8]
    begins: U32
    ids: U32
    documents: U32
    #: Of each span: the character of its document that it begins with, and whether one more stands in front of it.
    origins: npt.NDArray[np.uint64]

    @cached_property
    def leads(self) -> npt.NDArray[np.int64]:
        """How many characters begin before each byte, and before the end."""
        return np.concatenate([[0], np.cumsum((self.text & 0xC0) != 0x80)])


@dataclass(frozen=True)
class Encoded:
    """What a launch gives: all ids, and of each document where its ids and pieces begin, and its flags."""

    #: What the kernels went by: what they were given, or its normal form.
    staged: Staged
    given: Staged
    totals: dict[str, int]
    ids: U32
    starts: U32
    piece_ids: U32
    document_ids: U32
    document_pieces: U32
    flags: U32
    #: Windows of pieces without an end whose seams had to be settled one after the other.
    seams_settled: int
    by_characters: bool
    marker: str | None
    #: Of a chain that normalizes: where each piece comes from, doubled, and the end.
    piece_places: U32

    def ids_of(self, document: int) -> list[int]:
        found: list[int] = self.ids[self.document_ids[document] : self.document_ids[document + 1]].tolist()
        return found

    def pieces_of(self, document: int) -> list[int]:
        """Return where the pieces with an id start, in characters of the document.

        Where symbols are characters, the kernels part pieces further: a piece begins with a span or at the marker.
        """
        staged = self.staged
        first, last = int(self.document_pieces[document]), int(self.document_pieces[document + 1])
        places = self.starts[first:last].astype(np.int64)
        places = places[np.diff(self.piece_ids[first : last + 1].astype(np.int64)) > 0]
        spans = np.searchsorted(staged.begins, places, side="right") - 1
        begins = staged.begins[spans].astype(np.int64)
        if self.by_characters:
            at_piece = places == begins
            if self.marker is not None:
                marker = np.frombuffer(self.marker.encode(), dtype=np.uint8)
                padded = np.concatenate([staged.text, np.zeros(4, dtype=np.uint8)])
                at_piece |= (padded[places[:, None] + np.arange(len(marker))] == marker).all(axis=1)
            places, spans, begins = places[at_piece], spans[at_piece], begins[at_piece]
        points = staged.origins[spans, 0].astype(np.int64) + staged.leads[places] - staged.leads[begins]
        points -= (staged.text[places] & 0xC0) == 0x80
        points -= (staged.origins[spans, 1] != 0) & (places > begins)
        found: list[int] = points.tolist()
        return found


class Host:
    """The host's side of one tokenizer."""

    def __init__(self, tokenizer: engine.Tokenizer) -> None:
        self.library = ctypes.CDLL(str(build.host()))
        for name in ("host_open", "host_tables"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.host_normalize.restype = ctypes.c_int64
        for name in ("host_text", "host_begins", "host_ids", "host_documents", "host_origins"):
            getattr(self.library, name).restype = ctypes.c_size_t
        assert tokenizer.compiled_file is not None
        image = Path(tokenizer.compiled_file).read_bytes()
        self.opened = ctypes.c_void_p(self.library.host_open(image, ctypes.c_size_t(len(image))))
        if not self.opened:
            raise ValueError("the device does not take this tokenizer")
        self.tables = ctypes.c_void_p(self.library.host_tables(self.opened))
        described = np.zeros(7, dtype=np.uint32)
        self.library.host_describe(self.opened, described.ctypes.data_as(ctypes.c_void_p))
        self.shape = plan.Shape(int(described[0]), int(described[1]), int(described[2]), bool(described[3]))
        self.rising = bool(described[4])
        self.marker = None if described[5] == plan.NO_ID else chr(int(described[5]))
        #: The shape of the chain that normalizes; None where the device leaves suspect documents.
        self.normalizing = replace(self.shape, normalizes=True) if described[6] else None

    def __del__(self) -> None:
        if getattr(self, "opened", None):
            self.library.host_close(self.opened)

    def normalize(self, cluster: str) -> str | None:
        """Return a cluster's normal form by the kernels' own function, run here; None for one that is too long."""
        text, points = cluster.encode(), np.zeros(MOST_POINTS, dtype=np.uint32)
        count = self.library.host_normalize(
            self.opened, text, ctypes.c_size_t(len(text)), points.ctypes.data_as(ctypes.c_void_p)
        )
        return None if count < 0 else "".join(map(chr, points[:count].tolist()))

    def kinds(self) -> npt.NDArray[np.uint8]:
        """Return by code point what the kernels know of it by itself."""
        found = np.zeros(0x110000, dtype=np.uint8)
        self.library.host_kinds(self.opened, found.ctypes.data_as(ctypes.c_void_p))
        return found

    def stage(
        self, documents: Sequence[bytes], split_special: bool | Sequence[bool] = False, continued: bool = False
    ) -> Staged:
        """Stage documents, all in one mode or each in its own."""
        self.library.host_clear(self.opened)
        modes = [split_special] * len(documents) if isinstance(split_special, bool) else split_special
        for document, mode in zip(documents, modes, strict=True):
            self.library.host_add(self.opened, document, ctypes.c_size_t(len(document)), int(mode), int(continued))

        def copied(name: str, dtype: Any, each: int = 1) -> Any:
            ask = getattr(self.library, name)
            out = np.zeros(ask(self.opened, None) * each, dtype=dtype)
            ask(self.opened, out.ctypes.data_as(ctypes.c_void_p))
            return out

        return Staged(
            copied("host_text", np.uint8),
            copied("host_begins", np.uint32),
            copied("host_ids", np.uint32),
            copied("host_documents", np.uint32),
            copied("host_origins", np.uint64, 2).reshape(-1, 2),
        )


class Kernels:
    """The emulated kernels of one library."""

    def __init__(self, library: Path | None = None) -> None:
        self.library = ctypes.CDLL(str(library or build.kernels()))
        for name in ("emulated_buffers", "emulated_kernels", "emulated_launch"):
            getattr(self.library, name).restype = ctypes.c_char_p
        self.library.emulated_launch.argtypes = [
            *(ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
            *(ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64),
        ]

    def buffers(self) -> list[tuple[str, int]]:
        """Return the names of the chain's buffers in order, and the bytes of their elements."""
        words = self.library.emulated_buffers().decode().split()
        return [(name, int(item)) for name, item in zip(words[::2], words[1::2], strict=True)]

    def kernels(self) -> dict[str, int]:
        """Return the kernels' names, and the threads that each is made for."""
        words = self.library.emulated_kernels().decode().split()
        return {name: int(threads) for name, threads in zip(words[::2], words[1::2], strict=True)}


class Memory:
    """The buffers of one capacity, between guards."""

    def __init__(self, specs: list[plan.BufferSpec]) -> None:
        self.blocks = [np.empty(spec.nbytes + 2 * GUARD_BYTES, dtype=np.uint8) for spec in specs]
        self.specs = specs
        self.arrays = {
            spec.name: block[GUARD_BYTES : GUARD_BYTES + spec.nbytes].view(np.dtype(f"u{spec.item}"))
            for spec, block in zip(specs, self.blocks, strict=True)
        }
        self.pointers = np.array([block.ctypes.data + GUARD_BYTES for block in self.blocks], dtype=np.uint64)
        self.counts = np.array([spec.count for spec in specs], dtype=np.uint64)

        self.fill_guards()

    def fill_guards(self) -> None:
        for block in self.blocks:
            block[:GUARD_BYTES] = block[-GUARD_BYTES:] = GUARD

    def fill(self, noise: int) -> None:
        for block in self.blocks:
            block[GUARD_BYTES:-GUARD_BYTES] = noise

    def check(self, kernel: str) -> None:
        for spec, block in zip(self.specs, self.blocks, strict=True):
            if (block[:GUARD_BYTES] != GUARD).any() or (block[-GUARD_BYTES:] != GUARD).any():
                raise EmulatorError(f"{kernel} writes outside {spec.name}")


class Device:
    """One tokenizer on the emulated device."""

    def __init__(self, tokenizer: engine.Tokenizer, kernels: Kernels | None = None, host: Host | None = None) -> None:
        self.host = host or Host(tokenizer)
        self.kernels = kernels or Kernels()
        self._memory: dict[tuple[plan.Capacity, plan.Shape], Memory] = {}

    def run(
        self, staged: Staged, capacity: plan.Capacity | None = None, seed: int = 0, normalizing: bool = False
    ) -> Encoded:
        """Run the chain over what was staged. seed: the order of blocks and threads, and the noise in the buffers.

        normalizing: the chain that makes the normal form first; for a tokenizer that has one. Where no capacity
        is given, it gets one that has room for the normal form.
        """
        if capacity is None and normalizing:
            found = self.run(staged, _capacity(staged, 0), seed, normalizing)
            needed = found.totals["normalized"]
            return self.run(staged, _capacity(staged, needed), seed, normalizing) if found.totals["refused"] else found
        shape = self.host.normalizing if normalizing else self.host.shape
        assert shape is not None
        bytes_, spans, documents = len(staged.text), len(staged.ids), len(staged.documents) - 1
        if capacity is None:
            capacity = _capacity(staged, 0)
        if (capacity, shape) not in self._memory:
            self._memory = {(capacity, shape): Memory(plan.buffers(capacity, shape))}
        memory = self._memory[capacity, shape]
        memory.fill((seed * 37 + 0xDB) & 0xFF)
        arrays = memory.arrays
        arrays["given"][:] = (bytes_, spans, documents)
        if bytes_ <= capacity.bytes and spans <= capacity.spans and documents <= capacity.documents:
            text, begins = ("raw_text", "raw_begin") if normalizing else ("text", "span_begin")
            arrays[text][:bytes_] = staged.text
            arrays[text][bytes_ : bytes_ + 4] = 0
            arrays[begins][: spans + 1] = staged.begins
            arrays["span_id"][:spans] = staged.ids
            arrays["document_span"][: documents + 1] = staged.documents
        for number, launch in enumerate(plan.launches(capacity, shape)):
            self.launch(launch, memory, capacity, 0 if seed == 0 else seed * 1009 + number)
        totals = dict(zip(plan.TOTALS, arrays["totals"].tolist(), strict=True))
        pieces = totals["stretches"]
        done = 0 if totals["refused"] else documents
        given = staged
        if normalizing and done:
            if arrays["text"][totals["bytes"] : totals["bytes"] + 4].any():
                raise EmulatorError("no four zeros behind the normal form")
            staged = replace(
                staged, text=arrays["text"][: totals["bytes"]].copy(), begins=arrays["span_begin"][: spans + 1].copy()
            )
        return Encoded(
            staged,
            given,
            totals,
            arrays["ids"][: totals["ids"]].copy(),
            arrays["starts"][: pieces + 1].copy(),
            arrays["piece_ids"][: pieces + 1].copy(),
            arrays["document_ids"][: done + 1].copy(),
            arrays["document_pieces"][: done + 1].copy(),
            arrays["document_flags"][:done].copy(),
            int((arrays["window_giant"][: totals["windows"]] >> 31).sum()),
            self.host.shape.by_characters,
            self.host.marker,
            arrays["piece_places"][: pieces + 1].copy(),
        )

    def launch(self, launch: plan.Launch, memory: Memory, capacity: plan.Capacity, seed: int) -> None:
        limits = np.array([capacity.bytes, capacity.spans, capacity.documents], dtype=np.uint32)
        error = self.kernels.library.emulated_launch(
            f"tokseam_{launch.kernel}".encode(),
            launch.grid,
            launch.threads,
            self.host.tables,
            memory.pointers.ctypes.data,
            memory.counts.ctypes.data,
            limits.ctypes.data,
            launch.which,
            seed,
        )
        if error:
            raise EmulatorError(error.decode())
        memory.check(launch.kernel)

    def lists_rightly(self, bytes_: int) -> bool:
        """Whether the kernels that list a bitmap do so for a text of that size, which holds few bits."""
        capacity = plan.Capacity(bytes_, 1, 1)
        memory = Memory(plan.buffers(capacity, plan.Shape(0, 0, 1, False)))
        memory.fill(0xFF)  # else what an earlier listing left here might pass for this one's
        places = np.arange(5, bytes_, 1_013, dtype=np.uint32)
        memory.arrays["totals"][:] = 0
        memory.arrays["totals"][plan.TOTALS.index("bytes")] = bytes_
        bits = memory.arrays["start_bits"]
        bits[:] = 0
        np.bitwise_or.at(bits, places // 32, np.uint32(1) << (places % 32))
        for kernel, grid in (("count_words", 7), ("add_up_blocks", 1), ("list", 7)):
            self.launch(plan.Launch(kernel, grid, plan.THREADS, plan.PIECES), memory, capacity, 1)
        listed = memory.arrays["starts"][: len(places) + 1]
        total = memory.arrays["totals"][plan.TOTALS.index("stretches")]
        return bool(total == len(places) and (listed == [*places, bytes_]).all())

    def adds_up_to(self, block_sums: Sequence[int]) -> tuple[int, bool]:
        """Add up the sizes of normal forms, which blocks counted: how large the normal form is, and whether refused."""
        words = len(block_sums) * plan.WORDS_PER_BLOCK
        capacity = plan.Capacity(words * 32, 1, 1)
        shape = self.host.normalizing
        assert shape is not None
        memory = Memory(plan.buffers(capacity, shape))
        memory.arrays["totals"][:] = 0
        memory.arrays["totals"][plan.TOTALS.index("raw")] = words * 32 - 1
        memory.arrays["block_sums"][: len(block_sums)] = block_sums
        self.launch(plan.Launch("add_up_blocks", 1, plan.THREADS, plan.NORMALIZED), memory, capacity, 1)
        totals = dict(zip(plan.TOTALS, memory.arrays["totals"].tolist(), strict=True))
        return totals["normalized"], bool(totals["refused"])

    def encode(self, texts: Sequence[str | bytes], seed: int = 0, normalizing: bool = False, **mode: bool) -> Encoded:
        """Stage and run documents."""
        staged = self.host.stage([t.encode() if isinstance(t, str) else t for t in texts], **mode)
        return self.run(staged, seed=seed, normalizing=normalizing)


def _capacity(staged: Staged, needed: int) -> plan.Capacity:
    spans, documents = len(staged.ids), len(staged.documents) - 1
    return plan.Capacity(_rounded(max(len(staged.text), needed)), _rounded(max(spans, documents)), _rounded(documents))


def _rounded(size: int) -> int:
    """Return a capacity for so many: little more, so that a border is never far, and few different ones."""
    return max(64, -(-size // 64) * 64) if size < 4096 else -(-size // 4096) * 4096
