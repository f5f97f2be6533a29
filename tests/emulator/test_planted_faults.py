"""Faults planted in the kernels, one at a time, must be caught: by a wrong answer, or by what the emulator refuses.

Each is a change of the source at build time; the kernels themselves have no switch. What the emulator can't see, an
atomic operation that is none, is not among them.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest
from support.synthetic import added, description, native, split
from tokseam.kernels import engine
from tokseam.kernels.cuda import plan

from . import build
from .device import Device, EmulatorError, Encoded, Host, Kernels

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
#: In an order that rises nowhere: what ranks last makes parts of what ranks first.
MERGES = [
    *(("ab", "a"), ("aa", "aa"), ("ab", "c"), ("c", "ab"), ("b", "c"), ("a", "b"), ("a", "a"), ("d", "e"), ("e", "de")),
    (" ", "a"),
    *((" a", "b"), (" ", " "), ("1", "2"), ("=", "="), ("==", "=="), ("e", "a"), ("x", "y"), ("xy", "x"), ("'", "s")),
]
#: Every merge ranks behind those that make its parts; the longest entry fills most of a window.
RISING = [("a" * (1 << k), "a" * (1 << k)) for k in range(9)] + [("b", "a"), ("=", "=")]
LITERALS = [added("<|end|>", 900), added("#!x", 901, special=False)]

#: After so many seconds a fault counts as one that never ends; sound kernels need two.
FAULT_LIMIT_S = 30

#: As seen from the kernels' folder.
NORMAL_FORM = "../native/device/normal_form.hpp"

FEW = ("a", "b", "c", "ab", "de", "x", "y", " ", "  ", "1", "=", "\n", "é", "中", "'s", "<|end|>", "#!x", "<|en")


@cache
def tokenizers() -> list[engine.Tokenizer]:
    """Return tokenizers that come to every kernel: small, and loaded once."""
    dropped = [split(r"\s+", "Removed"), split(r"[a-c]+", "MergedWithNext"), split(r"\p{N}", "MergedWithPrevious")]
    # Next to no pair of a and b is synchronizing for these, so all of a text of them is one stretch.
    looking_on = [
        [split("a(?!b)", behavior)] for behavior in ("Isolated", "MergedWithPrevious", "MergedWithNext", "Removed")
    ]
    inverted = [split("a+b", "Removed", invert=True)]
    characters = description([], pre_tokenizer=None)
    characters |= {"normalizer": {"type": "Prepend", "prepend": "\u2581"}}
    letters = ["<unk>", *"\u2581abcxy1=", "\u2581a", "ab", "xy", "abc", *(f"<0x{byte:02X}>" for byte in range(256))]
    characters["model"] |= {
        "vocab": {entry: number for number, entry in enumerate(letters)},
        "merges": [["\u2581", "a"], ["a", "b"], ["ab", "c"], ["x", "y"]],
        "unk_token": "<unk>",
        "byte_fallback": True,
    }
    return [
        native(described)[0]
        for described in (
            description(
                [split(PATTERN)], merges=MERGES, added_tokens=LITERALS, entries=["aa", "ab", "abc", "de", "xy"]
            ),
            description(dropped, merges=RISING, entries=["a" * 512], normalizer={"type": "NFC"}),
            description([split(PATTERN)], merges=MERGES, added_tokens=LITERALS, normalizer={"type": "NFKC"}),
            description(inverted, merges=RISING[:5], without=b"=z"),
            *(description(stages, merges=RISING[:5]) for stages in looking_on),
            characters,
        )
    ]


def batches() -> list[list[str]]:
    rng = random.Random(3)
    sizes = sorted({border + more for border in (32, 64, 128, 256, 512, 768, 1536) for more in (-1, 0, 1)})
    rows = [["".join(rng.choices("abcdexy", k=size)) for size in sizes], ["a" * size for size in sizes]]
    rows += [["".join(rng.choices(FEW, k=rng.randrange(1, 60))) for _ in range(40)] for _ in range(2)]
    rows.append(
        [
            "a" * 5_000 + "b",
            "b" + "a" * 5_000,
            "12" * 9_000,
            "=" * 3_000,
            " " * 2_000,
            "ab" * 900,
            "aab" * 900,
            "é" * 700,
        ]
    )
    rows.append(
        ["".join(rng.choices("ab", k=20_000)), "xyx" * 700, "a, " * 6_000, "中" * 600, "", "e\u0301", "\u0301x"]
    )
    return rows


def to_normalize() -> list[list[str]]:
    """Return documents for the chain that normalizes: all that clusters may hold, at every place of a word."""
    rng = random.Random(4)
    tails = (
        "e\u0301",
        "\u1100\u1161\u11a8x",
        "\u0958",
        "\ufdfa\u0301",
        "e\u0301\u0323",
        "a\u0334\u0345\u0301",
        "\u09c7\u09be",
    )
    rows = [["x" * before + tail + "b" for before in range(34) for tail in tails[:2]]]
    rows.append(
        ["\u0301", "e", "\u0301a", "\u1161", "\u1100", "<|end|>\u0301", "e#!x\u0323", "\u11a8", "\uac00", "", "ab"]
    )
    rows.append(["".join(rng.choices((*tails, *"ab =\u0338", "\uac00\u11a8", "\u212b"), k=30)) for _ in range(40)])
    rows.append(["e\u0346\u0301", "\u09c7\u0334\u09be", "\uac01\u11a8", "\uac00\u11a7", "\u1112\u1176", "\u1e9b\u0323"])
    rows.append(["a" + "\u0334" * count for count in (62, 63, 64, 65, 255, 256, 257, 500)] + ["\u0344\u0958" * 300])
    rows.append(["ab, " * 9_000 + "e\u0301 " * 30])
    return rows


def made(found: Encoded) -> bytes:
    """Return the normal forms of a batch, and where its pieces come from and its spans begin, as bytes."""
    return b"".join(array.tobytes() for array in (found.staged.text, found.piece_places, found.staged.begins))


@cache
def normal_forms(tokenizer: engine.Tokenizer) -> list[bytes]:
    """Return what sound kernels make of the documents to normalize (test_normal_forms.py looks at it by itself)."""
    device = Device(tokenizer, Kernels(), host(tokenizer))
    return [made(device.encode(row, normalizing=True)) for row in to_normalize()]


def in_normal_form(tokenizer: engine.Tokenizer, device: Device) -> str:
    """Return the first thing that is wrong with what the chain that normalizes makes, or ''."""
    for number, row in enumerate(to_normalize()):
        found = device.encode(row, seed=number, normalizing=True)
        for at, text in enumerate(row):
            marks = text.count("\u0334")
            if found.flags[at] != (plan.LONG_CLUSTER if marks >= 64 else 0):
                return f"normalized, flags {found.flags[at]}: {text[:60]!r}"
            if not found.flags[at] and found.ids_of(at) != tokenizer.encode(text).tolist():
                return f"normalized wrongly: {text[:60]!r} of {len(text)}"
        if made(found) != normal_forms(tokenizer)[number]:
            return f"other places, or another text: row {number}"
    bad = device.run(device.host.stage([b"e\xcc", b"\x81", b"e\xcc\x81"]), normalizing=True)
    if [flags & plan.BAD_TEXT for flags in bad.flags.tolist()] != [plan.BAD_TEXT, plan.BAD_TEXT, 0]:
        return f"bad text that is to be normalized is flagged {bad.flags.tolist()}"
    grows = device.host.stage(["\u0958".encode() * 20])
    told = device.run(grows, plan.Capacity(64, 4, 4), normalizing=True).totals
    if (told["refused"], told["normalized"]) != (1, 120):
        return f"a normal form that does not fit is taken: {told}"
    return ""


@cache
def wanted(tokenizer: engine.Tokenizer) -> list[list[tuple[list[int], list[int]]]]:
    return [[(tokenizer.encode(text).tolist(), tokenizer.pieces(text).tolist()) for text in row] for row in batches()]


@cache
def host(tokenizer: engine.Tokenizer) -> Host:
    return Host(tokenizer)


def findings(kernels: Kernels) -> str:
    """Return the first thing that is wrong with these kernels, or ''."""
    try:
        if not sums_are_right(kernels):
            return "wrong sums of a long bitmap"
        for tokenizer in tokenizers():
            device = Device(tokenizer, kernels, host(tokenizer))
            for number, row in enumerate(batches()):
                found = device.encode(row, seed=number)
                for at, text in enumerate(row):
                    if found.flags[at]:
                        if not found.flags[at] & (plan.SUSPECT | plan.UNSETTLED):
                            return f"flagged: {text[:60]!r}"
                        continue
                    ids, pieces = wanted(tokenizer)[number][at]
                    if found.ids_of(at) != ids or found.pieces_of(at) != pieces:
                        return f"wrong: {text[:60]!r} of {len(text)}"
            if device.host.normalizing is not None and (wrong := in_normal_form(tokenizer, device)):
                return wrong
            bad = device.run(device.host.stage([b"\xe4\xb8", b"\xad", b"ok"]))
            if bad.flags.tolist() != [plan.BAD_TEXT, plan.BAD_TEXT, 0]:
                return f"bad text is flagged {bad.flags.tolist()}"
            large = device.host.stage([b"a" * 200])
            if not device.run(large, plan.Capacity(128, 4, 4)).totals["refused"]:
                return "a batch that does not fit is taken"
    except EmulatorError as error:
        return str(error)
    return ""


def sums_are_right(kernels: Kernels) -> bool:
    """Whether the listing of a bitmap of more blocks than one pass of the adding block takes is right."""
    device = Device(tokenizers()[0], kernels, host(tokenizers()[0]))
    return device.lists_rightly(plan.WORDS_PER_BLOCK * 32 * (plan.THREADS + 3))


@dataclass(frozen=True)
class Fault:
    """A change of one file."""

    file: str
    old: str
    new: str


FAULTS: dict[str, Fault] = {
    "a document's border is lost": Fault(
        "text.cuh", "    set_bit(b.start_bits, place);\n", "    if (span != 3) set_bit(b.start_bits, place);\n"
    ),
    "a character reaches over a border": Fault(
        "text.cuh", "next_set(begins, place + 1, place + width) != place + width", "false"
    ),
    "a literal is taken for text": Fault("text.cuh", "set_bit(b.closed_bits, place);", "continue;"),
    "a suspect is passed over": Fault("text.cuh", "flag(chain, b.span_begin, place, kSuspect);", "{}"),
    "the pair of classes the wrong way round": Fault(
        "text.cuh",
        "classes.synchronizing(classes.of(point_before(text, place)), number)",
        "classes.synchronizing(number, classes.of(point_before(text, place)))",
    ),
    "a batch that does not fit": Fault("text.cuh", "bytes <= chain.capacity_bytes && ", ""),
    "a missing barrier in the scan": Fault(
        "compact.cuh", "room[warp] = upto;\n  __syncthreads();", "room[warp] = upto;"
    ),
    "room used again too early": Fault("compact.cuh", "  __syncthreads();  // `room` may be used again\n", ""),
    "a lost carry between blocks": Fault("compact.cuh", "= carried + before;", "= before;"),
    "a lost carry in a block": Fault("compact.cuh", "    carried += sum;\n      if", "      if"),
    "the last stretch has no end": Fault("compact.cuh", "= b.totals[kBytes];", "= b.totals[kBytes] - 1;"),
    "a match in tiles has no end": Fault("tiles.cuh", "set_bit(b.start_bits, stop);", "{}"),
    "a dropped match counts": Fault("split.cuh", "if (!kept) set_bit", "if (false) set_bit"),
    "an attempt forgets what comes": Fault("tiles.cuh", "if (later != kNone32) match = later;", ""),
    "a rest forgets its own tile": Fault("tiles.cuh", "later != kNone32 ? later : here.last;", "later;"),
    "doubling stops one short": Fault("tiles.cuh", "reach < kTileBytes;", "reach < kTileBytes / 2;"),
    "a missing barrier between doublings": Fault(
        "tiles.cuh", "      jumps[threadIdx.x] = jump;\n      __syncthreads();", "      jumps[threadIdx.x] = jump;"
    ),
    "a thread leaves before a barrier": Fault(
        "tiles.cuh",
        "    if (place < tile.end) b.steps[place] = step;",
        "    if (place >= tile.end) return;\n    b.steps[place] = step;",
    ),
    "an orbit skips the super-tile behind": Fault(
        "tiles.cuh",
        "b.super_entries[b.long_super[one] + super] = at;",
        "b.super_entries[b.long_super[one] + super] = super == 1 ? kNone32 : at;",
    ),
    "a gap that is dropped counts": Fault("tiles.cuh", "behavior == Behavior::gaps_dropped &&", "false &&"),
    "a wrong threshold of a thread": Fault(
        "pieces.cuh", "length > 0 && length <= kThreadBytes", "length > 0 && length < kThreadBytes"
    ),
    "a wrong threshold of a warp": Fault(
        "pieces.cuh",
        "length > kThreadBytes && length <= kWarpBytes",
        "length > kThreadBytes && length <= kWarpBytes + 1",
    ),
    "a warp's appends all go to one place": Fault(
        "pieces.cuh", "number + count_bits(lanes & bits_below(lane_index()))", "number"
    ),
    "tokens of a second word are lost": Fault("merge.cuh", "if (place % 32 != 0 &&", "if (false &&"),
    "the rightmost of equals first": Fault("merge.cuh", "if (ranks[at] < best)", "if (ranks[at] <= best)"),
    "ranks are taken to rise": Fault("merge.cuh", "chain.tables.rising != 0 &&", ""),
    "a run begins anew in each word": Fault("merge.cuh", "(below == 0 ? odd : 0)", "0"),
    "a missing barrier before a merge": Fault("merge.cuh", "merges.made(rank);\n  __syncwarp();", "merges.made(rank);"),
    "the pair before keeps its rank": Fault(
        "merge.cuh", "if (lane == 1 && before != kNone32)", "if (lane == 1 && before == kNone32 && false)"
    ),
    "seams are joined unproved": Fault("windows.cuh", "joined = keeps_first", "joined = true || keeps_first"),
    "a seam's right side is not looked at": Fault("windows.cuh", "(to_end || keeps_last", "(true || keeps_last"),
    "a span's first mark composes with what is in front": Fault(
        "normalize.cuh", "set_bit(b.cluster_bits, b.raw_begin[span]);", "{}"
    ),
    "a mark begins a cluster": Fault(
        "normalize.cuh", "(form.kind(utf8_decode(text + place)) & NormalForm::kJoins) == 0", "true"
    ),
    "bad text is normalized": Fault(
        "normalize.cuh", "if (width == 0) flag(chain, b.raw_begin, place, kBadText);", "if (width == 0) {}"
    ),
    "a cluster ends too early": Fault(
        "normalize.cuh", "place + NormalForm::kMostBytes + 1 : bytes", "place + 9 : bytes"
    ),
    "a long cluster is no news": Fault("normalize.cuh", "    flag(chain, b.raw_begin, place, kLongCluster);\n", ""),
    "what changes alone is kept": Fault(
        "normalize.cuh",
        "== end - place && (form.kind(utf8_decode(text)) & NormalForm::kChanges) == 0",
        "== end - place",
    ),
    "a word forgets its last cluster": Fault(
        "normalize.cuh",
        "if (lane_index() == kWarpThreads - 1) b.ranks[word] = upto;",
        "if (lane_index() == kWarpThreads - 2) b.ranks[word] = upto;",
    ),
    "a cluster is written behind itself": Fault(
        "normalize.cuh", "scan_in_warp(one.size) - one.size + b", "scan_in_warp(one.size) + b"
    ),
    "the inside of a cluster has a place": Fault("normalize.cuh", "origin = 2 * place + 1;", "origin = 2 * place;"),
    "no zeros behind the normal form": Fault("normalize.cuh", "b.text[b.totals[kBytes] + i] = 0;", "{}"),
    "a span begins behind its first byte": Fault(
        "normalize.cuh", "if (b.places[middle] < place)", "if (b.places[middle] <= place)"
    ),
    "pieces come from where they are": Fault("normalize.cuh", "b.places[b.starts[i]] : 2", "2 * b.starts[i] : 2"),
    "the end comes from elsewhere": Fault("normalize.cuh", "2 * b.totals[kRaw];\n}", "b.totals[kRaw];\n}"),
    "a normal form that does not fit": Fault("compact.cuh", "if (bytes <= chain.capacity_bytes) {", "{"),
    "bitmaps keep what lies behind the raw text": Fault(
        "text.cuh", "which == kNormalizing ? chain.capacity_bytes : bytes;", "bytes;"
    ),
    "what is suspect in a normal form": Fault(
        "text.cuh", "which != kNormalizing && classes.suspect", "classes.suspect"
    ),
    "sizes are counted as bits": Fault(
        "compact.cuh", "which == kListNormalized ? chain.buffers.ranks[word] : count_bits", "count_bits"
    ),
    "equal marks change places": Fault(
        NORMAL_FORM, "points[at - 1] >> kOrderShift > own", "points[at - 1] >> kOrderShift >= own"
    ),
    "marks stay where they are": Fault(NORMAL_FORM, "for (; own != 0 && at", "for (; false && at"),
    "a mark composes over its equal": Fault(NORMAL_FORM, "(last_order < own ||", "(last_order <= own ||"),
    "a starter composes over a mark": Fault(
        NORMAL_FORM, "(last_order == 0 && made - 1 == starter)", "(last_order == 0 || own == 0)"
    ),
    "a syllable takes a second final": Fault(NORMAL_FORM, "(first - kHangul) % kTCount == 0 && second", "second"),
    "one code point too few": Fault(
        NORMAL_FORM, "static constexpr u32 kMostPoints = 64;", "static constexpr u32 kMostPoints = 63;"
    ),
    "an old token stays": Fault("windows.cuh", "    atomicAnd(at(b.token_bits, word), kept);\n", ""),
}


def change(folder: Path, fault: Fault) -> None:
    path = folder / "cuda" / fault.file
    source = path.read_text()
    assert source.count(fault.old) == 1, f"{fault.file} has {source.count(fault.old)} of what the fault changes"
    path.write_text(source.replace(fault.old, fault.new))


def test_sound_kernels_pass(kernels: Kernels) -> None:
    assert findings(kernels) == ""


def findings_aside(library: Path) -> str:
    """As findings(), in a process of its own: a fault may crash, or never end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(FAULT_LIMIT_S)
        os.write(writing, findings(Kernels(library)).encode()[:4096])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return found if status == 0 else f"the process ended by signal {status & 0x7F}"


class Ahead:
    """The kernels of the faults to come, one compiled while the one before it is tried."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._started: dict[str, build.Compiling] = {}

    def library(self, name: str) -> Path:
        at = self._names.index(name)
        for one in self._names[at : at + 2]:
            if one not in self._started:
                fault = FAULTS[one]
                self._started[one] = build.faulty_kernels(
                    one.replace(" ", "-").replace("'", ""), partial(change, fault=fault)
                )
        return self._started[name].finish()

    def stop(self) -> None:
        for one in self._started.values():
            one.stop()


@pytest.fixture(scope="module")
def ahead(request: pytest.FixtureRequest) -> Iterator[Ahead]:
    """Knows which faults are to be tried."""
    named = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    found = Ahead([spec.params["name"] for spec in named if spec is not None])
    yield found
    found.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One fault in three, since each is a build; all of them from an effort of 2 on."""
    if "name" in metafunc.fixturenames:
        names = list(FAULTS)
        metafunc.parametrize("name", names if metafunc.config.getoption("--effort") >= 2 else names[::3])


def test_fault_is_caught(name: str, ahead: Ahead) -> None:
    assert findings_aside(ahead.library(name)) != "", "nobody noticed"
