"""One launch of the kernels: which buffers it needs, how large, and which kernels run in which order.

Pure: it allocates nothing and launches nothing. Whoever does either (a GPU's launcher, the emulator of the tests) goes
by this list, so that the chain is written once. What the kernels do stands in their headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: As in chain.cuh, portable.cuh and merge.cuh; a test compares the kernels' own.
TILE_BYTES = 256
TILES_PER_SUPER = 64
WINDOW_BYTES = 768
WORDS_PER_BLOCK = 1024
THREADS = 256
LARGE_THREADS = 128
WARP = 32
THREAD_BYTES, WARP_BYTES = 32, 128

#: Counts that stay on the device, in the order of chain.cuh.
TOTALS = (
    *("bytes", "spans", "documents", "stretches", "ids", "long", "tiles", "supers"),
    *("short", "middle", "large", "giant", "windows", "refused", "raw", "normalized"),
)

#: What can be said of a document whose ids are not to be used.
BAD_TEXT, SUSPECT, UNSETTLED, LONG_CLUSTER = 1, 2, 4, 8

#: No id: a span that is text.
NO_ID = 0xFFFFFFFF

#: Positions have 31 bits on the device, where some are doubled, and a bitmap has a bit behind the last byte.
MAX_BYTES = (1 << 31) - 64

#: What the kernels of compact.cuh list: the stretches of the next stage, all pieces, or tokens; and what they only add
#: up: the bytes of normal forms.
STRETCHES, PIECES, TOKENS, NORMALIZED = 0, 1, 2, 3

#: `which` of the kernels that do something else in a chain that normalizes.
NORMALIZING = 1

#: The most blocks of a launch: kernels loop over what there is, so more would only come and go. Four times what the
#: largest devices hold at once (132 processors of 8 blocks of 256 threads), so that blocks that have less to do make
#: room.
MAX_BLOCKS = 4 * 132 * 8


@dataclass(frozen=True)
class Capacity:
    """How much one launch takes at most."""

    bytes: int
    spans: int
    documents: int

    def __post_init__(self) -> None:
        if not (0 < self.bytes <= MAX_BYTES and 0 < self.spans <= MAX_BYTES and 0 < self.documents <= self.spans):
            raise ValueError(f"no capacity for a launch: {self}")


@dataclass(frozen=True)
class Shape:
    """What the chain depends on of a tokenizer.

    stages, byte_stages: splitting stages over characters, and behind them over bytes. states: the most states of one.
    by_characters: BPE over characters, in place of stages. normalizes: a chain that makes the normal form of its batch
    first; it takes longer, and is for documents that another one found suspect.
    """

    stages: int
    byte_stages: int
    states: int
    by_characters: bool
    normalizes: bool = False


@dataclass(frozen=True)
class BufferSpec:
    """A buffer: its name, the bytes of an element (they are unsigned), and how many elements."""

    name: str
    item: int
    count: int

    @property
    def nbytes(self) -> int:
        return self.item * self.count


class Launch(NamedTuple):
    """One kernel: `tokseam_<kernel>`, with the chain by value and `which` as its arguments."""

    kernel: str
    grid: int
    threads: int
    which: int = 0


def buffers(capacity: Capacity, shape: Shape) -> list[BufferSpec]:
    """Return all buffers in the order of chain.cuh."""
    size = capacity.bytes
    words = size // 32 + 1
    # A stretch for tiles is longer than a tile, so it has less than two tiles for each that it fills.
    long = size // (TILE_BYTES + 1) + 1
    tiles = size // TILE_BYTES + long
    supers = tiles // TILES_PER_SUPER + long
    giants = size // (WINDOW_BYTES + 1) + 1
    windows = size // WINDOW_BYTES + giants
    # Of what comes in, which the normal form may not be larger than either.
    raw = size if shape.normalizes else 0
    sizes = {
        "given": (4, 3),
        "text": (1, size + 4),
        "span_begin": (4, capacity.spans + 1),
        "span_id": (4, capacity.spans),
        "document_span": (4, capacity.documents + 1),
        "raw_text": (1, raw and raw + 4),
        "raw_begin": (4, raw and capacity.spans + 1),
        "totals": (4, len(TOTALS)),
        "ids": (4, size),
        "starts": (4, size + 1),
        "piece_ids": (4, size + 1),
        "piece_places": (4, raw and raw + 1),
        "document_ids": (4, capacity.documents + 1),
        "document_pieces": (4, capacity.documents + 1),
        "document_flags": (4, capacity.documents),
        "cluster_bits": (4, raw and words),
        "places": (4, raw),
        "classes": (1, size),
        "start_bits": (4, words),
        "closed_bits": (4, words),
        "token_bits": (4, words),
        "symbols": (4, size),
        "ranks": (4, words),
        "block_sums": (4, -(-words // WORDS_PER_BLOCK)),
        "long_begin": (4, long),
        "long_end": (4, long),
        "long_tile": (4, long),
        "long_super": (4, long),
        "tile_long": (4, tiles),
        "tile_maps": (4, tiles * shape.states),
        "tile_rests": (4, tiles * shape.states),
        "tile_entries": (4, tiles),
        "super_long": (4, supers),
        "super_states": (4, supers * shape.states),
        "super_lasts": (4, supers * shape.states),
        "super_rests": (4, supers * shape.states),
        "super_exits": (4, supers * TILE_BYTES),
        "super_entries": (4, supers),
        "steps": (4, size),
        "exits": (4, size),
        "short_pieces": (4, size),
        "middle_pieces": (4, size // (THREAD_BYTES + 1) + 1),
        "large_pieces": (4, size // (WARP_BYTES + 1) + 1),
        "giant_pieces": (4, giants),
        "giant_window": (4, giants),
        "giant_unsettled": (4, giants),
        "window_giant": (4, windows),
    }
    return [BufferSpec(name, item, count) for name, (item, count) in sizes.items()]


def launches(capacity: Capacity, shape: Shape) -> list[Launch]:
    """Return the launches of one batch in order. They depend on the capacity alone, never on what is in the batch."""
    size, words = capacity.bytes, capacity.bytes // 32 + 1
    count = {spec.name: spec.count for spec in buffers(capacity, shape)}
    chain: list[Launch] = []

    def add(kernel: str, work: int, per_block: int = THREADS, threads: int = THREADS, which: int = 0) -> None:
        chain.append(Launch(kernel, min(MAX_BLOCKS, max(1, -(-work // per_block))), threads, which))

    def listed(which: int) -> None:
        add("count_words", words, WORDS_PER_BLOCK, which=which)
        chain.append(Launch("add_up_blocks", 1, THREADS, which))
        add("list", words, WORDS_PER_BLOCK, which=which)

    def staged(stage: int) -> None:
        listed(STRETCHES)
        add("split", size, which=stage)
        long, tiles, supers = count["long_begin"], count["tile_long"], count["super_long"]
        add("lay_tiles", long, 1)
        add("map_tiles", tiles * shape.states, which=stage)
        add("map_supers", supers * shape.states, which=stage)
        add("rest_supers", long, 1, which=stage)
        add("rest_tiles", supers, 1, which=stage)
        add("step_tiles", tiles, 1, which=stage)
        add("exit_supers", supers * TILE_BYTES)
        add("enter_supers", long)
        add("enter_tiles", supers)
        add("mark_tiles", tiles, which=stage)

    which = NORMALIZING if shape.normalizes else 0
    add("begin", words, which=which)
    if shape.normalizes:
        add("raw_borders", capacity.spans)
        add("mark_clusters", size)
        add("measure_clusters", size)
        listed(NORMALIZED)
        add("write_clusters", size)
        add("place_spans", capacity.spans + 1)
    add("borders", capacity.spans)
    add("classify_characters" if shape.by_characters else "classify", size, which=which)
    for stage in range(shape.stages):
        staged(stage)
    if shape.byte_stages:
        add("classify_bytes", size)
    for stage in range(shape.byte_stages):
        staged(shape.stages + stage)
    listed(PIECES)
    add("report_pieces", capacity.documents + 1)
    if shape.normalizes:
        add("report_places", size + 1)
    add("put_literals", capacity.spans)
    add("look_up", size)
    add("merge_short", size)
    add("merge_middle", count["middle_pieces"], THREADS // WARP)
    add("merge_large", count["large_pieces"], LARGE_THREADS // WARP, LARGE_THREADS)
    add("lay_windows", count["giant_pieces"], 1)
    add("merge_windows", count["window_giant"], LARGE_THREADS // WARP, LARGE_THREADS)
    add("merge_seams", count["window_giant"], LARGE_THREADS // WARP, LARGE_THREADS)
    add("settle", count["giant_pieces"], LARGE_THREADS // WARP, LARGE_THREADS)
    listed(TOKENS)
    add("report_ids", size + 1)
    return chain
