"""The kernels under the emulator: ids and pieces of batches equal the engine's and a fresh reference's."""

from __future__ import annotations

import random

import pytest
from support import hostile, shared_data
from support.cases import REFERENCE_CHARS
from support.families import Family
from tokseam.kernels.cuda import plan

from . import cases, documents
from .comparison import Subject, check_validity
from .device import Device, Encoded

#: The smallest bucket here; a launch of the real one has four times as many threads to run.
SMALL_BUCKET_BYTES = 16 * 1024

#: Drawn documents of this size at most are also compared with the reference, which needs longer.
DRAWN_CHARS = 300


def check(family: Family, device: Device, texts: list[str], seed: int, split_special: bool = False) -> Encoded:
    """Encode a batch and compare every document that is not handed back."""
    found = device.encode(texts, seed=seed, split_special=split_special)
    assert not found.totals["refused"]
    assert len(found.flags) == len(texts)
    for number, text in enumerate(texts):
        where = f"document {number} of {len(texts)}, seed {seed}: {text[:300]!r}"
        if found.flags[number]:
            assert found.flags[number] == plan.SUSPECT, where
            continue
        ids = found.ids_of(number)
        wanted = family.engine.encode(text, split_special_tokens=split_special).tolist()
        assert shared_data.difference(ids, wanted) == "", where
        if not split_special:
            assert found.pieces_of(number) == family.engine.pieces(text).tolist(), where
        if len(text) <= DRAWN_CHARS:
            assert shared_data.difference(ids, family.reference.ids(text, False, split_special)) == "", where
    assert int(found.document_ids[-1]) == len(found.ids)
    assert int(found.document_pieces[-1]) == found.totals["stretches"]
    return found


def test_generated_documents(family: Family, device: Device, rng: random.Random, effort: float) -> None:
    alphabet = hostile.atoms(family.literals)
    for number in range(int(8 * effort)):
        count = rng.choice((1, 2, 7, 40, 60))
        texts = documents.batch(rng, alphabet, family.literals, count)
        check(family, device, texts, number and rng.randrange(1, 1 << 20), split_special=number % 4 == 3)


def test_every_border(family: Family, device: Device) -> None:
    """Pieces and stretches of every size around a border, of characters of each width, alone and side by side."""
    texts = documents.at_every_border()
    found = check(family, device, texts, 11)
    assert all(found.totals[name] > 0 for name in ("middle", "large", "giant", "windows"))
    if not found.by_characters:
        assert found.totals["long"] > 0


def test_texts_without_an_end(family: Family, device: Device) -> None:
    """Every hostile shape, several windows and super-tiles long."""
    for kind in documents.hostile_texts.KINDS:
        long = 17_000 if kind in ("one letter", "digits") else 4_000
        texts = [documents.hostile_texts.make(kind, chars, 1, family.literals) for chars in (700, long)]
        found = check(family, device, [texts[0], "x", texts[1], ""], 3)
        if kind == "one letter" and not found.by_characters:
            assert found.totals["supers"] > 2


def test_seams_that_have_to_be_settled(family: Family, device: Device) -> None:
    """Periods that fit no window: what can't be joined side by side is settled in order."""
    texts = documents.with_unsettled_seams()
    found = check(family, device, texts, 2)
    assert found.totals["giant"] > 0


def test_documents_never_see_each_other(family: Family, device: Device, rng: random.Random) -> None:
    """A document's ids do not depend on its neighbours: each half of a text that is split anywhere is encoded alone."""
    alphabet = hostile.atoms(family.literals)
    whole = [hostile.hostile_text(rng, 12, alphabet) for _ in range(25)] + [
        "can't",
        "  a",
        "a  ",
        "1234567",
        "\r\n",
        "ab" * 200,
    ]
    halves = []
    for text in whole:
        at = rng.randrange(len(text) + 1)
        halves += [text[:at], text[at:]]
    check(family, device, halves, 5)


def test_suspects_are_reported(family: Family, device: Device, rng: random.Random) -> None:
    """Exactly those documents are handed back that hold a character which a normalizer may change."""
    texts = [chr(code) for code in rng.sample([*range(0xD800), *range(0xE000, 0x30000)], 300)]
    texts += ["a" + char + "b" for char in texts[:100]]
    found = check(family, device, texts, 9)
    flagged = {text for text, flag in zip(texts, found.flags.tolist(), strict=True) if flag}
    if not family.engine._facts or not flagged:
        return
    for text in texts:
        ids, changed = family.engine.encode(text).tolist(), text in flagged
        assert changed or ids == family.reference.ids(text)


def test_bad_text_is_reported(family: Family, device: Device) -> None:
    """Invalid UTF-8 is flagged for its document alone, wherever it stands; nothing is read or written outside."""
    bad = [
        b"\x80",
        b"a\xc3",
        b"\xe4\xb8",
        b"x\xff",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf0\x9f\x98",
        b"\xe4a",
        b"\xbf" * 900,
    ]
    texts: list[bytes] = []
    for one in bad:
        texts += [one, b"good ", one + b" and more", "\u00e9".encode(), one * 40]
    found = device.run(device.host.stage(texts), seed=4)
    check_validity(family.engine, found, texts)


def test_capacity(family: Family, device: Device) -> None:
    """A batch that just fits is encoded; one that is larger in any way is refused, and nothing is touched."""
    texts = ["just ", "", "fits", "<|endoftext|>", "x" * 60]
    staged = device.host.stage([text.encode() for text in texts])
    fits = (
        plan.Capacity(len(staged.text), len(staged.ids), 5)
        if len(staged.ids) >= 5
        else plan.Capacity(len(staged.text), 5, 5)
    )
    found = device.run(staged, fits, seed=1)
    assert [found.ids_of(number) for number in range(5)] == [family.engine.encode(text).tolist() for text in texts]
    for small in (
        plan.Capacity(fits.bytes - 1, fits.spans, 5),
        plan.Capacity(fits.bytes, fits.spans, 4),
        plan.Capacity(fits.bytes, len(staged.ids) - 1, min(4, len(staged.ids) - 1)),
    ):
        for seed in (0, 1, 2):  # the buffers hold other noise each time
            refused = device.run(staged, small, seed)
            assert refused.totals == dict.fromkeys(plan.TOTALS, 0) | {"refused": 1}


def test_nothing(device: Device) -> None:
    """No documents, and empty ones."""
    for texts in ([], [""], ["", "", ""]):
        found = device.encode(texts, seed=1)
        assert len(found.ids) == 0
        assert [found.ids_of(number) for number in range(len(texts))] == [[] for _ in texts]


def test_sums_over_many_blocks(family: Family, device: Device) -> None:
    """A text of several blocks of words, and of more blocks than one pass of the adding block takes in."""
    words = plan.WORDS_PER_BLOCK * 32
    found = check(family, device, ["ab, " * (words // 3), "x y " * 5], 6)
    assert len(found.staged.text) > 1.3 * words


@pytest.mark.skipif(not shared_data.text_cases(), reason="../shared/data/cases is not on this machine")
def test_cases(family: Family, subject: Subject, rng: random.Random) -> None:
    """Every state of the case table's probes, in both modes: ids as recorded and by the reference, and pieces."""
    asked = cases.table(family.name, REFERENCE_CHARS)
    cases.run(subject, asked, rng)
    assert subject.differences == []
    counts = subject.counts
    assert counts["documents"] == len(asked)
    by_pieces = counts["pieces_by_reference"] + counts["normalized"]
    assert counts["ids_by_engine"] == counts["ids_by_reference"] == by_pieces > len(asked) // 2
    assert counts["ids_as_recorded"] >= sum(one.recorded is not None for one in asked) // 2


def test_borders_of_buckets(family: Family, subject: Subject, rng: random.Random) -> None:
    """A bucket full of bytes, of documents and of spans; and one more, which it refuses and the next one takes."""
    cases.borders(subject, family.literals, rng, SMALL_BUCKET_BYTES, SMALL_BUCKET_BYTES)
    assert subject.differences == []
    assert subject.counts["refused"] >= 2
