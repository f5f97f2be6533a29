"""What a launch costs at least: bytes that each kernel moves, operations, launches, copies; and the floor on a card.

    python -m tokseam.kernels.cuda.cost [--bytes N] [--states N] [--stages N] [--normalizing]

So that a measured time can be read as a multiple of the floor. A model, and simple on purpose: each access of a kernel
is named with the unit that it happens once for, its size comes from plan.py's buffers, and how many units a text has is
a `Profile`, which a launch's own counts give too. A test compares the buffers named here with those that the kernels'
source touches. What it leaves out makes a floor lower, never higher: caches that miss, atomics that collide, lanes that
diverge, tables that don't fit the cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from . import plan

#: The least that a device moves for an access by itself.
SECTOR_BYTES: Final = 32


@dataclass(frozen=True)
class Profile:
    """What a text comes to, by byte of it."""

    spans: float
    documents: float
    pieces: float
    tokens: float
    #: Pieces that are no vocabulary entry, by who merges them; and windows of the giant ones.
    short: float
    middle: float
    large: float
    giant: float
    windows: float
    #: Stretches that are scanned by tiles, their tiles and super-tiles.
    long: float
    tiles: float
    supers: float

    @classmethod
    def of(cls, totals: Mapping[str, int]) -> Profile:
        """Return the profile of a launch, by the counts that stood on the device behind it (plan.TOTALS)."""
        size = max(1, totals["bytes"])
        renamed = {"pieces": "stretches", "tokens": "ids"}
        return cls(**{name: totals[renamed.get(name, name)] / size for name in cls.__dataclass_fields__})


def _profile(pieces: float, tokens: float, short: float, middle: float) -> Profile:
    """Return the profile of one long document without literals, and without anything that is scanned by tiles."""
    return Profile(0, 0, pieces, tokens, short, middle, large=0, giant=0, windows=0, long=0, tiles=0, supers=0)


#: Real texts under Qwen 3, as the emulated kernels counted them over 200,000 characters each.
PROFILES: Final = {
    "English": _profile(0.257, 0.277, 0.0152, 0),
    "code": _profile(0.219, 0.238, 0.0151, 0.00002),
    "Chinese": _profile(0.0775, 0.243, 0.0328, 0.00985),
    # A million times one letter: one stretch, one piece.
    "one letter": Profile(
        *(0, 0, 1e-6, 1 / 8, 0, 0, 0),
        giant=1e-6,
        windows=1 / plan.WINDOW_BYTES,
        long=1e-6,
        tiles=1 / plan.TILE_BYTES,
        supers=1 / (plan.TILE_BYTES * plan.TILES_PER_SUPER),
    ),
}


class Card(NamedTuple):
    """A device, by its maker's data sheet."""

    name: str
    memory_bytes_per_s: float
    #: 32-bit integer operations: processors * lanes * clock.
    operations_per_s: float
    #: To and from the host.
    link_bytes_per_s: float


#: PCIe 5.0 with 16 lanes, one way, without its framing.
_PCIE5: Final = 55e9
H200: Final = Card("H200", 4.8e12, 132 * 64 * 1.98e9, _PCIE5)
RTX_PRO_6000: Final = Card("RTX PRO 6000 (the paper's)", 1.79e12, 188 * 128 * 2.6e9, _PCIE5)
CARDS: Final = (H200, RTX_PRO_6000)

#: Seconds between two kernels of a graph where the second one waits for the first, at least.
NODE_S: Final = 1.0e-6


class Access(NamedTuple):
    """A kernel's access to a buffer: once for each `unit`, `times` over.

    alone: it is not one of many side by side, so that a whole sector moves, or all of the buffer where that is less.
    """

    buffer: str
    unit: str
    times: float = 1
    alone: bool = False


class Cost(NamedTuple):
    """What a kernel does: its accesses, and operations by unit. Operations are those of its loops, by their source."""

    accesses: tuple[Access, ...]
    operations: tuple[tuple[str, float], ...]


#: A read and a write back.
_UPDATE: Final = 2


def _each(unit: str, *names: str, times: float = 1) -> tuple[Access, ...]:
    return tuple(Access(name, unit, times) for name in names)


def _alone(unit: str, *names: str) -> tuple[Access, ...]:
    return tuple(Access(name, unit, 1, alone=True) for name in names)


#: A bitmap is read and written word by word, also where its bits are set one by one: the cache gathers them.
_OWNER: Final = _each("tiles", "tile_long", "long_begin", "long_end", "long_tile")
_SUPER_OWNER: Final = _each("supers", "super_long", "long_begin", "long_end", "long_super")
_DOCUMENTS: Final = _each("documents", "document_span", "span_begin")
#: A warp's region: symbols are made from the text, merged where they stand, and put down.
_REGION: Final = ("text", "symbols")


def _merge(unit: str, listed: str) -> tuple[Access, ...]:
    return (
        Access(listed, unit),
        *_alone(unit, "starts", "text", "symbols"),
        Access("token_bits", unit, _UPDATE),
    )


#: What a merge costs in operations by byte of its piece: a thread looks at all pairs for each merge, a warp at those
#: of its lanes; both probe the table of merges about twice for each.
_THREAD_MERGE: Final = 400.0
_WARP_MERGE: Final = 60.0

COSTS: Final[dict[str, Cost]] = {
    "begin": Cost(
        (*_each("words", "start_bits", "closed_bits", "token_bits"), *_each("documents", "document_flags")),
        (("words", 8),),
    ),
    "raw_borders": Cost(
        (*_each("spans", "raw_begin"), *_each("spans", "cluster_bits", times=_UPDATE)),
        (("spans", 15),),
    ),
    "mark_clusters": Cost(
        (*_each("bytes", "raw_text"), *_each("words", "cluster_bits", times=_UPDATE)), (("bytes", 45),)
    ),
    # Of text in which few clusters are normalized, as all are by this model.
    "measure_clusters": Cost((*_each("bytes", "raw_text"), *_each("words", "cluster_bits", "ranks")), (("bytes", 40),)),
    "write_clusters": Cost(
        (*_each("bytes", "raw_text", "text", "places"), *_each("words", "cluster_bits", "ranks")), (("bytes", 55),)
    ),
    "place_spans": Cost((*_each("spans", "raw_begin", "span_begin"), *_alone("spans", "places")), (("spans", 60),)),
    "borders": Cost(
        (*_each("spans", "span_begin", "span_id"), *_each("spans", "start_bits", "closed_bits", times=_UPDATE)),
        (("spans", 20),),
    ),
    "classify": Cost(
        (*_each("bytes", "text", "classes"), *_each("words", "start_bits", times=_UPDATE)), (("bytes", 60),)
    ),
    "classify_characters": Cost(
        (*_each("bytes", "text"), *_each("words", "start_bits", times=_UPDATE)), (("bytes", 70),)
    ),
    "classify_bytes": Cost(_each("bytes", "text", "classes"), (("bytes", 6),)),
    "count_words": Cost((*_each("words", "start_bits"), *_each("blocks", "block_sums")), (("words", 12),)),
    "add_up_blocks": Cost(_each("blocks", "block_sums", times=_UPDATE), (("blocks", 20),)),
    "list": Cost(
        (*_each("words", "start_bits", "ranks"), *_each("blocks", "block_sums"), *_each("stretches", "starts")),
        (("words", 40), ("stretches", 8)),
    ),
    "split": Cost(
        (
            *_each("stretches", "starts"),
            *_each("bytes", "classes"),
            *_each("words", "closed_bits"),
            *_each("words", "start_bits", times=_UPDATE),
            *_each("long", "long_begin", "long_end", "long_tile", "long_super"),
        ),
        (("bytes", 10), ("stretches", 20)),
    ),
    "lay_tiles": Cost(
        (
            *_each("long", "long_begin", "long_end", "long_tile", "long_super"),
            *_each("tiles", "tile_long", "tile_entries"),
            *_each("supers", "super_long", "super_entries"),
        ),
        (("tiles", 8),),
    ),
    "map_tiles": Cost(
        (*_OWNER, *_each("long_bytes", "classes"), *_each("tile_states", "tile_maps")),
        (("long_transitions", 8),),
    ),
    "map_supers": Cost(
        (
            *_SUPER_OWNER,
            Access("long_tile", "supers"),
            *_each("tile_states", "tile_maps"),
            *_each("super_states", "super_states", "super_lasts"),
        ),
        (("tile_states", 12),),
    ),
    "rest_supers": Cost(
        (
            *_each("long", "long_begin", "long_end", "long_super"),
            *_each("super_states", "super_states", "super_lasts", "super_rests"),
        ),
        (("super_states", 16),),
    ),
    "rest_tiles": Cost(
        (
            *_SUPER_OWNER,
            Access("long_tile", "supers"),
            *_each("tile_states", "tile_maps", "tile_rests"),
            *_each("super_states", "super_rests"),
        ),
        (("tile_states", 16),),
    ),
    "step_tiles": Cost(
        (*_OWNER, *_each("long_bytes", "classes", "steps", "exits"), *_each("tile_states", "tile_rests")),
        (("long_bytes", 120),),
    ),
    "exit_supers": Cost(
        (*_SUPER_OWNER, *_each("long_bytes", "exits"), *_each("super_places", "super_exits")),
        (("long_bytes", 12),),
    ),
    "enter_supers": Cost(
        (
            *_each("long", "long_begin", "long_end", "long_super"),
            *_alone("supers", "super_exits", "exits"),
            *_each("supers", "super_entries"),
        ),
        (("supers", 20),),
    ),
    "enter_tiles": Cost(
        (
            *_SUPER_OWNER,
            Access("long_tile", "supers"),
            *_each("supers", "super_entries"),
            *_alone("tiles", "exits"),
            *_each("tiles", "tile_entries"),
        ),
        (("tiles", 12),),
    ),
    "mark_tiles": Cost(
        (
            *_OWNER,
            *_each("tiles", "tile_entries"),
            *_each("long_bytes", "steps"),
            *_each("long_words", "start_bits", times=_UPDATE),
            *_each("long_words", "closed_bits"),
        ),
        (("long_bytes", 6),),
    ),
    "put_literals": Cost(
        (*_each("spans", "span_begin", "span_id"), *_alone("literals", "symbols", "token_bits")), (("spans", 10),)
    ),
    "look_up": Cost(
        (
            *_each("pieces", "starts"),
            *_each("words", "closed_bits"),
            *_each("bytes", "text"),
            *_alone("pieces", "symbols"),
            *_each("words", "token_bits", times=_UPDATE),
            *_each("short", "short_pieces"),
            *_each("middle", "middle_pieces"),
            *_each("large", "large_pieces"),
            *_each("giant", "giant_pieces", "giant_window", "giant_unsettled"),
        ),
        (("bytes", 8), ("pieces", 60)),
    ),
    "report_pieces": Cost(
        (*_DOCUMENTS, *_alone("documents", "ranks", "start_bits"), *_each("documents", "document_pieces")),
        (("documents", 20),),
    ),
    "report_places": Cost(
        (*_each("pieces", "starts", "piece_places"), *_alone("pieces", "places")),
        (("pieces", 8),),
    ),
    "merge_short": Cost(_merge("short", "short_pieces"), (("short_bytes", _THREAD_MERGE),)),
    "merge_middle": Cost(_merge("middle", "middle_pieces"), (("middle_bytes", _WARP_MERGE),)),
    "merge_large": Cost(_merge("large", "large_pieces"), (("large_bytes", _WARP_MERGE),)),
    "lay_windows": Cost(
        (*_each("giant", "giant_pieces", "giant_window", "starts"), *_each("windows", "window_giant")),
        (("windows", 4),),
    ),
    "merge_windows": Cost(
        (
            *_each("windows", "window_giant", "giant_pieces", "giant_window", "starts"),
            *_each("window_bytes", *_REGION),
            *_each("window_words", "token_bits"),
        ),
        (("window_bytes", _WARP_MERGE),),
    ),
    "merge_seams": Cost(
        (
            *_each("windows", "window_giant", "giant_pieces", "giant_window", "starts"),
            *_each("seam_bytes", *_REGION),
            *_each("seam_words", "token_bits", times=_UPDATE),
            Access("giant_unsettled", "giant"),
        ),
        (("seam_bytes", _WARP_MERGE),),
    ),
    # Seams that could not be joined are settled one after the other: what that costs depends on the text, and a floor
    # has nothing of it but the question whether there is one.
    "settle": Cost(_each("giant", "giant_unsettled"), (("giant", 4),)),
    "report_ids": Cost(
        (
            *_DOCUMENTS,
            *_alone("documents", "ranks"),
            *_each("documents", "document_ids"),
            *_each("pieces", "starts", "piece_ids"),
            *_each("words", "ranks", "token_bits"),
        ),
        (("pieces", 16),),
    ),
}

#: Of the bitmap of tokens, in the place of `list`'s last two accesses: ids are gathered from where their tokens begin.
_LIST_TOKENS: Final = Cost(
    (
        *_each("words", "token_bits", "ranks"),
        *_each("blocks", "block_sums"),
        *_alone("tokens", "symbols"),
        *_each("tokens", "ids"),
    ),
    (("words", 40), ("tokens", 8)),
)
_COUNT_TOKENS: Final = Cost((*_each("words", "token_bits"), *_each("blocks", "block_sums")), (("words", 12),))

#: Of a chain that normalizes: one more bitmap to empty, and the sums of sizes, which stand where their ranks will.
_BEGIN_NORMALIZING: Final = Cost((*COSTS["begin"].accesses, Access("cluster_bits", "words")), (("words", 10),))
_COUNT_NORMALIZED: Final = Cost((*_each("words", "ranks"), *_each("blocks", "block_sums")), (("words", 12),))
_LIST_NORMALIZED: Final = Cost(
    (*_each("words", "ranks", times=_UPDATE), *_each("blocks", "block_sums")), (("words", 30),)
)

#: What a kernel does by its `which`, where that is not what COSTS says.
_OTHERWISE: Final = {
    ("list", plan.TOKENS): _LIST_TOKENS,
    ("count_words", plan.TOKENS): _COUNT_TOKENS,
    ("begin", plan.NORMALIZING): _BEGIN_NORMALIZING,
    ("count_words", plan.NORMALIZED): _COUNT_NORMALIZED,
    ("list", plan.NORMALIZED): _LIST_NORMALIZED,
}


def cost_of(launch: plan.Launch) -> Cost:
    """Return what one launch of a chain does."""
    return _OTHERWISE.get((launch.kernel, launch.which), COSTS[launch.kernel])


#: Bytes of the mean piece of each kind, for the operations of merges.
_SHORT_BYTES, _MIDDLE_BYTES, _LARGE_BYTES = 12, 60, 300
#: Bytes around a seam that are merged again: the shortest reach on either side.
_SEAM_BYTES = 2 * 64


def units(profile: Profile, shape: plan.Shape) -> dict[str, float]:
    """Return how many of each unit there are for a byte of text."""
    long_bytes = min(1.0, profile.tiles * plan.TILE_BYTES)
    window_bytes = profile.windows * plan.WINDOW_BYTES
    seam_bytes = profile.windows * _SEAM_BYTES
    return {
        "bytes": 1.0,
        "words": 1 / 32,
        "blocks": 1 / (32 * plan.WORDS_PER_BLOCK),
        # Of a stage that comes: no more than the pieces in the end, of which every begin stays one.
        "stretches": profile.pieces,
        "literals": max(0.0, profile.spans - profile.documents) / 2,
        "long_bytes": long_bytes,
        "long_words": long_bytes / 32,
        "long_transitions": long_bytes * shape.states,
        "tile_states": profile.tiles * shape.states,
        "super_states": profile.supers * shape.states,
        "super_places": profile.supers * plan.TILE_BYTES,
        "short_bytes": profile.short * _SHORT_BYTES,
        "middle_bytes": profile.middle * _MIDDLE_BYTES,
        "large_bytes": profile.large * _LARGE_BYTES,
        "window_bytes": window_bytes,
        "window_words": window_bytes / 32,
        "seam_bytes": seam_bytes,
        "seam_words": seam_bytes / 32,
        **{name: float(getattr(profile, name)) for name in Profile.__dataclass_fields__},
    }


class Row(NamedTuple):
    """A kernel over all its launches of a chain, for a byte of text."""

    kernel: str
    launches: int
    bytes_moved: float
    operations: float


def rows(capacity: plan.Capacity, shape: plan.Shape, profile: Profile) -> list[Row]:
    """Return what each kernel of a chain costs, in the order of its first launch."""
    specs = {spec.name: spec for spec in plan.buffers(capacity, shape)}
    count = units(profile, shape)
    found: dict[str, Row] = {}
    for launch in plan.launches(capacity, shape):
        cost = cost_of(launch)
        moved = 0.0
        for access in cost.accesses:
            spec = specs[access.buffer]
            if access.alone:
                all_of_it = spec.item * spec.count / capacity.bytes
                moved += min(SECTOR_BYTES * count[access.unit], all_of_it) * access.times
            else:
                moved += spec.item * count[access.unit] * access.times
        operations = sum(each * count[unit] for unit, each in cost.operations)
        before = found.get(launch.kernel, Row(launch.kernel, 0, 0.0, 0.0))
        found[launch.kernel] = Row(
            launch.kernel, before.launches + 1, before.bytes_moved + moved, before.operations + operations
        )
    return list(found.values())


class Floor(NamedTuple):
    """Seconds that a launch takes at least on a card, by what it is bound by."""

    memory: float
    operations: float
    nodes: float
    link: float

    @property
    def device(self) -> float:
        """Kernels alone: memory and operations side by side, but no faster than one node follows the other."""
        return max(self.memory, self.operations, self.nodes)

    @property
    def request(self) -> float:
        """With the copies of text and ids, which don't overlap with kernels in a single request."""
        return self.device + self.link


def floor(card: Card, text_bytes: int, capacity: plan.Capacity, shape: plan.Shape, profile: Profile) -> Floor:
    """Return the floor for a text of so many bytes in a bucket."""
    found = rows(capacity, shape, profile)
    return Floor(
        memory=text_bytes * sum(row.bytes_moved for row in found) / card.memory_bytes_per_s,
        operations=text_bytes * sum(row.operations for row in found) / card.operations_per_s,
        nodes=sum(row.launches for row in found) * NODE_S,
        link=text_bytes * (1 + 4 * profile.tokens) / card.link_bytes_per_s,
    )


def table(text_bytes: int, shape: plan.Shape, profiles: Mapping[str, Profile] = PROFILES) -> str:
    """Return the page's tables, as Markdown."""
    capacity = plan.Capacity(text_bytes, max(1, text_bytes // 16), max(1, text_bytes // 16))
    lines: list[str] = []
    names = list(profiles)
    lines += _head("kernel", "launches", *(f"{name}: bytes" for name in names), *(f"{name}: op." for name in names))
    by_profile = [rows(capacity, shape, profile) for profile in profiles.values()]
    slight = 0
    for several in zip(*by_profile, strict=True):
        if all(row.bytes_moved < 0.005 and row.operations < 0.05 for row in several):
            slight += several[0].launches
            continue
        moved, operations = [f"{row.bytes_moved:.2f}" for row in several], [f"{row.operations:.1f}" for row in several]
        lines.append(_line(f"`{several[0].kernel}`", str(several[0].launches), *moved, *operations))
    lines.append(_line("others, each under 0.005 bytes", str(slight), *[""] * (2 * len(names))))
    launches = sum(row.launches for row in by_profile[0])
    moved = [f"**{sum(row.bytes_moved for row in found):.1f}**" for found in by_profile]
    operations = [f"**{sum(row.operations for row in found):.0f}**" for found in by_profile]
    lines += [_line("all, by byte of text", f"**{launches}**", *moved, *operations), ""]
    lines += _head("floor, ms", "text", "memory", "operations", "nodes", "link", "kernels", "request", "kernels, GB/s")
    for card in CARDS:
        for name, profile in profiles.items():
            least = floor(card, text_bytes, capacity, shape, profile)
            times = [f"{1000 * seconds:.3f}" for seconds in (*least, least.device, least.request)]
            lines.append(_line(card.name, name, *times, f"{text_bytes / least.device / 1e9:.1f}"))
    return "\n".join(lines)


def _head(*cells: str) -> list[str]:
    return [_line(*cells), "|" + " --- |" * len(cells)]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="tokseam.kernels.cuda.cost", description="The floor of a launch.")
    parser.add_argument("--bytes", type=int, default=1_000_000, help="bytes of text")
    parser.add_argument("--stages", type=int, default=1, help="splitting stages over characters")
    parser.add_argument("--states", type=int, default=15, help="the most states of a stage")
    parser.add_argument("--normalizing", action="store_true", help="the chain that makes normal forms first")
    options = parser.parse_args(arguments)
    print(table(options.bytes, plan.Shape(options.stages, 0, options.states, False, options.normalizing)))


if __name__ == "__main__":
    main()
