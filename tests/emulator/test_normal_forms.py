"""Normal forms on the device: the kernels' own function on every character, and the chain that normalizes under the
emulator, against the engine, a fresh reference and the reference's normalizers (kernels/README.md, claim 18)."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support import hostile
from support.families import fresh_reference, literals_of
from support.synthetic import added, description, native, split
from tokenizers import normalizers
from tokseam.kernels import engine
from tokseam.kernels.cuda import plan
from tokseam.scripts.tokenizer_catalogue import shared_folder

from . import build
from .comparison import check_validity
from .device import CHANGES, JOINS, MOST_POINTS, Device, Encoded, Host, Kernels

sys.path.insert(0, str(build.ROOT))

from bench.verify_all import unpacked

FORMS = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")
PATTERN = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"
MERGES = [("a", "b"), (" ", " "), ("1", "2"), (" ", "a"), ("x", "y"), ("f", "i"), ("ab", "x")]
#: Whole pieces that only a normal form has.
ENTRIES = ["\u00e9", "a\u0301", "\uac01", "\u2260", "\u1112\u1161", "\u00c5", "K", "\u0915\u093c"]
#: Where pieces come from is checked in texts up to this size: that normalizes both sides of each.
PLACES_CHARS = 2_000
#: A starter that composes with nothing, and that no normal form has but for itself.
FENCE = "\n"

#: What meets in a cluster: starters that compose or not, marks of many orders, starters that compose with what is in
#: front, jamo and syllables, singletons, composites that are excluded, what decomposes to several starters.
FEW = (
    *("a", "e", "A", "=", "<", "x", "1", " ", "\n", "\u00e9", "\u1e69", "\u1ea5", "\u4e2d", "\U00010400", "\u0130"),
    *("\u0301", "\u0301", "\u0308", "\u0323", "\u0327", "\u0338", "\u0345", "\u0334", "\u05b8", "\u3099", "\u0344"),
    *("\u09c7", "\u09be", "\u09d7", "\u0b47", "\u0b3e", "\u1025", "\u102e", "\U000110a5", "\U000110ba", "\u304b"),
    *("\u1100", "\u1112", "\u1161", "\u1175", "\u11a7", "\u11a8", "\u11c2", "\uac00", "\uac01", "\ud7a3", "\u115f"),
    *("\u212b", "\u2126", "\u212a", "\u037e", "\u0958", "\u0f43", "\u0f73", "\ufb1d", "\U0001d15e", "\u2adc"),
    *("\ufb01", "\ufdfa", "\uff21", "\u00bd", "\u00a0", "\u00a8", "\u3131", "\u320e", "\u01c4", "\u1e9b"),
)


@dataclass(frozen=True)
class Formed:
    """A tokenizer with a form, on the emulated device."""

    tokenizer: engine.Tokenizer
    reference: Any
    normalizer: Any
    device: Device

    def normalized(self, text: str) -> str:
        found: str = self.normalizer.normalize_str(text)
        return found


@cache
def formed(form: str) -> Formed:
    literals = [added("<|end|>", 900), added("#!e", 901, special=False)]
    described = description(
        [split(PATTERN)],
        merges=MERGES,
        entries=ENTRIES,
        added_tokens=literals,
        normalizer={"type": form},
        model={"ignore_merges": True},
    )
    tokenizer, reference = native(described)
    return Formed(tokenizer, reference, getattr(normalizers, form)(), Device(tokenizer, Kernels(), Host(tokenizer)))


@pytest.fixture(params=FORMS)
def each(request: pytest.FixtureRequest) -> Formed:
    return formed(request.param)


@cache
def characters() -> list[str]:
    """Return every character but the fence."""
    return [chr(code) for code in [*range(0xD800), *range(0xE000, 0x110000)] if chr(code) != FENCE]


def in_bulk(one: Formed, texts: list[str]) -> list[str]:
    """Normalize texts without a fence in one call."""
    return one.normalized(FENCE.join(texts)).split(FENCE)


def cluster(rng: random.Random, most: int = 8) -> str:
    return "".join(rng.choices(FEW, k=rng.randrange(1, most)))


def longest_cluster(kinds: npt.NDArray[np.uint8], form: str, text: str) -> int:
    """Return to how many code points a cluster of the text decomposes at most."""
    decomposed = getattr(normalizers, form.replace("C", "D") if form != "Lowercase" else form)()
    longest = length = 0
    for char in text:
        parts = len(decomposed.normalize_str(char))
        length = length + parts if kinds[ord(char)] & JOINS else parts
        longest = max(longest, length)
    return longest


def check(one: Formed, texts: list[str], seed: int = 0, literals: bool = False, **mode: bool) -> Encoded:
    """Run documents through the chain that normalizes, and compare all that it says of those that it does not flag."""
    found = one.device.encode(texts, seed=seed, normalizing=True, **mode)
    assert not found.totals["refused"]
    assert found.totals["normalized"] == found.totals["bytes"] == len(found.staged.text)
    for number, text in enumerate(texts):
        if found.flags[number]:
            continue
        ids, where = found.ids_of(number), f"document {number} of {len(texts)}, seed {seed}: {text[:300]!r}"
        split_special = mode.get("split_special", False)
        assert ids == one.tokenizer.encode(text, split_special_tokens=split_special).tolist(), where
        if literals:
            continue
        normalized = one.normalized(text)
        first, last = found.staged.documents[number : number + 2]
        begin, end = found.staged.begins[first], found.staged.begins[last]
        assert found.staged.text[begin:end].tobytes().decode() == normalized, where
        assert ids == one.reference.encode(text, add_special_tokens=False).ids, where
        assert found.pieces_of(number) == one.tokenizer.pieces(normalized).tolist(), where
        if len(text) < PLACES_CHARS:
            check_places(one, found, number, text)
    assert int(found.document_ids[-1]) == len(found.ids)
    return found


def check_places(one: Formed, found: Encoded, number: int, text: str) -> None:
    """Where pieces come from: at an even place, the sides of the text become the sides of its normal form."""
    span = int(found.staged.documents[number])
    pieces = slice(int(found.document_pieces[number]), int(found.document_pieces[number + 1]))
    places = found.piece_places[pieces].astype(np.int64) - 2 * int(found.given.begins[span])
    starts = found.starts[pieces].astype(np.int64) - int(found.staged.begins[span])
    raw, normalized = text.encode(), one.normalized(text)
    assert (np.diff(places) >= 0).all(), text
    for place, start in zip(places.tolist(), starts.tolist(), strict=True):
        at = place // 2
        if place % 2 == 1 or (raw[at] & 0xC0) == 0x80:
            assert start > 0, text
            continue
        before, behind = one.normalized(raw[:at].decode()), one.normalized(raw[at:].decode())
        assert len(before.encode()) == start, text
        assert before + behind == normalized, text


# ---- characters by themselves ----


def test_every_character(each: Formed) -> None:
    """The kernels' function makes of every character what the reference does, and knows which it changes."""
    kinds = each.device.host.kinds()
    made = in_bulk(each, characters())
    for char, wanted in zip(characters(), made, strict=True):
        changes = wanted != char
        assert bool(kinds[ord(char)] & CHANGES) == changes, ascii(char)
        if changes or kinds[ord(char)] or ord(char) % 16 == 0:
            assert each.device.host.normalize(char) == wanted, ascii(char)


def test_every_character_that_begins_a_cluster(each: Formed) -> None:
    """Claim 18: whatever stands in front, a character that does not join leaves it alone, and is left alone."""
    kinds = each.device.host.kinds()
    begins = [char for char in characters() if not kinds[ord(char)] & JOINS]
    assert len(begins) > 1_000_000
    alone = in_bulk(each, begins)
    rng = random.Random(1)
    for front in ("e\u0323", "\u1100", "\uac00", "\u09c7", cluster(rng)):
        made, left = in_bulk(each, [front + char for char in begins]), each.normalized(front)
        wrong = [char for char, one, own in zip(begins, made, alone, strict=True) if one != left + own]
        assert wrong == [], ascii(wrong[:10])


def test_random_clusters(each: Formed, rng: random.Random, effort: float) -> None:
    """The kernels' function makes of any characters at all what the reference does."""
    for _ in range(int(20_000 * effort)):
        text = cluster(rng, 12)
        made = each.device.host.normalize(text)
        wanted = each.normalized(text)
        assert made == wanted if made is not None else len(text) > MOST_POINTS // 18, ascii(text)


# ---- the chain ----


def test_random_documents(each: Formed, rng: random.Random, effort: float) -> None:
    """Clusters of all kinds among plain text, in batches of all sizes."""
    alphabet = hostile.atoms([])
    for number in range(int(12 * effort)):
        texts = []
        for _ in range(rng.choice((1, 2, 30, 80))):
            kind = rng.random()
            if kind < 0.5:
                texts.append("".join(cluster(rng) for _ in range(rng.randrange(12))))
            elif kind < 0.8:
                texts.append(hostile.hostile_text(rng, rng.randrange(40), alphabet))
            else:
                texts.append(
                    "".join(rng.choice(("ab ", "x1", "\u4e2d", cluster(rng))) for _ in range(rng.randrange(200)))
                )
        check(each, texts, number and rng.randrange(1, 1 << 20))


def test_every_character_in_a_document(each: Formed, effort: float) -> None:
    """All that do anything, and a part of the others, before and behind a mark and a starter."""
    kinds = each.device.host.kinds()
    apart = max(1, int(24 / effort))
    chosen = [char for char in characters() if kinds[ord(char)] or ord(char) % apart == 0]
    texts = []
    for begin in range(0, len(chosen), 50):
        some = chosen[begin : begin + 50]
        texts += ["".join("x" + char + "\u0323" for char in some), "".join(some)]
    for begin in range(0, len(texts), 200):
        check(each, texts[begin : begin + 200], begin)


def test_clusters_over_every_border(each: Formed) -> None:
    """Clusters that begin and end around the borders of words and of the blocks that sums are made of."""
    tails = ("e\u0301\u0323", "\u1100\u1161\u11a8", "\u09c7\u09be", "\ufdfa\u0301", "a" + "\u0301\u0327" * 20 + "b")
    check(each, ["x" * before + tail + "y" for tail in tails for before in range(40)], 3)
    block = plan.WORDS_PER_BLOCK * 32
    texts = ["\u00e9 " * ((block - 20) // 3) + "z" * before + tails[0] + tails[1] + "y" for before in range(14, 24, 3)]
    assert any(len(text.encode()) > block for text in texts)
    for text in texts:
        check(each, [text, "A" + text[-12:]], 5)


def test_long_clusters_are_handed_back(each: Formed) -> None:
    """One code point too many for a thread flags its document, and no other; however many there are."""
    marks = [count for limit in (MOST_POINTS, 4 * MOST_POINTS) for count in range(limit - 3, limit + 3)]
    texts = []
    for count in (*marks, 1_000, 70_000):
        texts += ["a" + "\u0334" * count + "b", "\u0301" * count, "e\u0301", "ab" + "\U0001d165" * count]
    texts += ["\ufdfa" * 100, "\u1100" + "\u1161" * 400 + "x"]
    found = check(each, texts, 2)
    form = next(form for form in FORMS if formed(form) is each)
    kinds = each.device.host.kinds()
    for number, text in enumerate(texts):
        too_long = longest_cluster(kinds, form, text) > MOST_POINTS
        assert found.flags[number] == (plan.LONG_CLUSTER if too_long else 0), ascii(text[:70])
    assert {0, plan.LONG_CLUSTER} == set(found.flags.tolist()) or each is formed("Lowercase")


def test_a_span_begins_a_cluster(each: Formed, rng: random.Random) -> None:
    """Marks, and what else composes with what is in front, behind a literal and at a document's begin."""
    starts = ("\u0301", "\u0323\u0301a", "\u1161", "\u11a8", "\u09be", "\u0345e", "\u0301" * 3, "")
    texts = [
        "e" + literal + start + rest for literal in ("<|end|>", "#!e") for start in starts for rest in ("", "\u0301b")
    ]
    texts += [before + "<|end|><|end|>" + start for before in ("", "e\u0301", "\u1100") for start in starts]
    texts += [end for start in starts for end in (start, "e", "\uac00", "\u09c7")]  # neighbours in the batch
    for seed in range(4):
        rng.shuffle(texts)
        check(each, texts, seed, literals=True, split_special=seed == 3)
        check(each, [text for text in texts if "<" not in text and "#" not in text], seed)


def test_growth_beyond_the_capacity(each: Formed) -> None:
    """A normal form that just fits is made; one that has a byte more is refused, and its size is told."""
    texts = ["\u0344\u0958" * 9, "\ufdfa" * 5, "\u0130" * 30, "e\u0301" * 20, "plain"]
    staged = each.device.host.stage([text.encode() for text in texts])
    size = len("".join(each.normalized(text) for text in texts).encode())
    for capacity in {max(size, len(staged.text)), len(staged.text), size + 40}:
        found = each.device.run(staged, plan.Capacity(capacity, 5, 5), seed=2, normalizing=True)
        assert found.totals["normalized"] == size
        assert found.totals["refused"] == (size > capacity)
        if size > capacity:
            assert not any(found.totals[name] for name in ("bytes", "raw", "spans", "documents", "stretches", "ids"))
        else:
            assert [found.ids_of(number) for number in range(5)] == [each.tokenizer.encode(t).tolist() for t in texts]
    if size > len(staged.text):
        assert each.device.run(staged, plan.Capacity(size - 1, 5, 5), seed=2, normalizing=True).totals["refused"]
    too_small = plan.Capacity(len(staged.text) - 1, 5, 5)
    assert each.device.run(staged, too_small, seed=2, normalizing=True).totals["refused"]


def test_sums_that_31_bits_do_not_hold() -> None:
    """A size that is beyond every capacity is told as the largest that there is, and refused."""
    device = formed("NFC").device
    most = plan.WORDS_PER_BLOCK * 32 * 4 * MOST_POINTS  # of a block: a cluster a byte, each as large as one may be
    assert device.adds_up_to([most] * 600) == (0x7FFFFFFF, True)
    assert device.adds_up_to([100, 200, 5] * 200) == (61_000, False)


def test_bad_text_is_reported(each: Formed) -> None:
    """Invalid UTF-8 flags its document alone, and nothing is read or written outside."""
    bad = (
        b"\x80",
        b"e\xcc",
        b"\xe4\xb8",
        b"x\xff\xcc\x81",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"\xcc\xcc\x81",
        b"\xbf" * 900,
    )
    texts: list[bytes] = []
    for one in bad:
        texts += [one, "e\u0301".encode(), one + b" and more", "\u0301a".encode(), one * 40, b"\x81"]
    found = each.device.run(each.device.host.stage(texts), seed=4, normalizing=True)
    check_validity(each.tokenizer, found, texts)


def test_nothing(each: Formed) -> None:
    for texts in ([], [""], ["", "\u0301", ""]):
        check(each, texts, 1)


# ---- which tokenizers ----

_WIDE = {"normalizer": {"type": "NFKC"}}


@pytest.mark.parametrize(
    ("change", "normalizes"),
    [
        ({}, True),
        ({"normalizer": None}, False),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}}, True),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]}}, False),
        ({"added_tokens": [added("<a>", 900)]}, True),  # looked for before
        *(
            ({"added_tokens": [added(literal, 900, normalized=True)]}, normalizes)
            for literal, normalizes in (
                ("  ", True),
                ("|||IP_ADDRESS|||", True),
                ("[unused0]", True),
                ("<x|", True),  # what is in front of another starter is left alone
                ("<", False),  # composes with U+0338
                ("a", False),
                ("[K]", False),  # U+212A becomes K
                ("[;]", False),  # U+037E becomes ;
                ("[\u00e9]", False),  # comes of two
                ("[\u0301]", False),  # is put in order
                ("[\u1161]", False),
                ("[\u1100]", False),
                ("[\uac00]", False),
                ("\u4e2d", True),
                ("\u8c48]", False),  # U+F900 becomes it
            )
        ),
        ({"added_tokens": [added("  ", 900, normalized=True, lstrip=True)]}, False),
        ({"added_tokens": [added("|||", 900, normalized=True, single_word=True)]}, False),
        (_WIDE | {"added_tokens": [added("  ", 900, normalized=True)]}, False),  # U+00A0 becomes a space
        (_WIDE | {"added_tokens": [added("\u4e2d", 900, normalized=True)]}, False),
        ({"normalizer": {"type": "NFD"}, "added_tokens": [added("[e]", 900, normalized=True)]}, False),
        ({"normalizer": {"type": "NFD"}, "added_tokens": [added("[0]", 900, normalized=True)]}, True),
    ],
)
def test_which_tokenizers(change: dict[str, Any], normalizes: bool) -> None:
    described = description([split(PATTERN)], **{"normalizer": {"type": "NFC"}} | change)
    assert (Host(native(described)[0]).normalizing is not None) == normalizes


def test_a_space_in_front() -> None:
    first = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    described = description([], normalizer={"type": "NFC"}, pre_tokenizer=first)
    assert Host(native(described)[0]).normalizing is None


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_literals_that_are_looked_for_in_normalized_text(form: str, rng: random.Random, effort: float) -> None:
    """They are cut out of the text as it is; what surrounds them, or looks like them, may be anything."""
    wanted = ("  ", "|||IP|||", "|", "[0]", "_") if form == "NFC" else ("  ", "|||", "|", "[0]", "_")
    literals = [added(one, 900 + number, normalized=True) for number, one in enumerate(wanted)]
    literals.append(added("<|end|>", 950))
    described = description([split(PATTERN)], merges=MERGES, added_tokens=literals, normalizer={"type": form})
    tokenizer, reference = native(described)
    one = Formed(tokenizer, reference, None, Device(tokenizer, Kernels(), Host(tokenizer)))
    parts = [
        *wanted,
        "|",
        "||",
        "|||IP",
        "I",
        "P|||",
        "\u0301",
        "\u0338",
        "\u1100",
        "\u0334",
        "\u00a0",
        "e",
        "\u00cd",
        "\u212a",
    ]
    for number in range(int(6 * effort)):
        texts = ["".join(rng.choices(parts, k=rng.randrange(1, 20))) for _ in range(80)]
        found = check(one, texts, number, literals=True)
        assert not found.flags.any()
        for at, text in enumerate(texts):
            assert found.ids_of(at) == reference.encode(text, add_special_tokens=False).ids, ascii(text)


# ---- real tokenizers ----

REAL = ("qwen1", "qwen2", "qwen3", "qwen3_6", "command_r", "claude", "gpt_neox", "modernbert")


@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers(name: str, tmp_path: Path, rng: random.Random, effort: float) -> None:
    """Suspect documents of each real tokenizer with a form: none is handed back but for its length."""
    shared = shared_folder()
    packed = shared / "data" / "tokenizers" / f"{name}.json.xz" if shared else None
    if packed is None or not packed.exists():
        pytest.skip(f"no copy of the {name} tokenizer in ../shared/data/tokenizers")
    path = unpacked(packed, tmp_path)
    tokenizer, reference, literals = engine.load(path), fresh_reference(path), literals_of(path)
    device = Device(tokenizer, Kernels(), Host(tokenizer))
    alphabet = hostile.atoms(literals)
    form = json.loads(path.read_bytes())["normalizer"]["type"]
    kinds = device.host.kinds()
    for number in range(int(4 * effort)):
        texts = [hostile.hostile_text(rng, rng.randrange(1, 40), alphabet) for _ in range(25)]
        texts += ["".join(rng.choice((cluster(rng), rng.choice(alphabet))) for _ in range(20)) for _ in range(25)]
        plain = device.encode(texts, seed=number)
        texts = [text for text, flags in zip(texts, plain.flags.tolist(), strict=True) if flags == plan.SUSPECT]
        found = device.encode(texts, seed=number, normalizing=True)
        assert len(texts) > 20
        for at, text in enumerate(texts):
            if longest_cluster(kinds, form, text) > MOST_POINTS:
                assert found.flags[at] == plan.LONG_CLUSTER
                continue
            assert found.flags[at] == 0, ascii(text)
            assert found.ids_of(at) == tokenizer.encode(text).tolist(), ascii(text)
            assert found.ids_of(at) == reference.ids(text, False, False), ascii(text)
