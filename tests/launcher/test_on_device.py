"""The launcher on a device: ids, boundaries and marks equal the engine's and a fresh reference's. Else skipped."""

from __future__ import annotations

import random

import pytest
from emulator import documents as drawn
from emulator.device import MOST_POINTS, Host
from emulator.test_normal_forms import FORMS, cluster, longest_cluster
from support import cases, hostile, shared_data
from support.families import Family
from tokseam.kernels.cuda.launcher import Launcher, open_launcher
from tokseam.kernels.errors import NoDeviceError
from tokseam.scripts import transcripts

from .test_launcher import Document, check
from .test_normalizing import tokenizer

#: Documents of this size at most are also compared with the reference, which needs longer.
REFERENCE_CHARS = 2_000


@pytest.fixture(scope="module")
def on_device() -> Launcher:
    try:
        return open_launcher()
    except NoDeviceError as error:
        pytest.skip(f"no GPU: {error}")


def compare(family: Family, launcher: Launcher, texts: list[str], split_special: bool = False) -> None:
    """Compare everything that a launch gives of a batch, and require that it answers most of it."""
    batch = [Document(text.encode(), split_special_tokens=split_special, marked=True) for text in texts]
    left = check(family.engine, launcher, batch)
    assert len(texts) < 50 or left <= 2 * len(texts) // 3
    for text, one in zip(texts, launcher.encode(family.engine, batch), strict=True):
        if one is not None and len(text) <= REFERENCE_CHARS:
            ids = one.ids.tolist()
            assert shared_data.difference(ids, family.reference.ids(text, False, split_special)) == "", text[:300]
    if not split_special:
        found = launcher.pieces(family.engine, [document.text for document in batch])
        for text, pieces in zip(texts, found, strict=True):
            if pieces is not None:
                assert pieces.tolist() == family.engine.pieces(text).tolist(), text[:300]


def test_the_case_table(family: Family, on_device: Launcher) -> None:
    found = [
        (text, recorded)
        for case in shared_data.text_cases()
        for probe, recorded in zip(*(part or [] for part in cases.probes_of(case, family.name)), strict=False)
        for text, _ in cases.states(probe)
        if cases.is_unicode(text)
    ]
    if not found:
        pytest.skip("no text of this family's in ../shared/data/cases, or none on this machine")
    compare(family, on_device, [text for text, _ in found])


def test_a_campaign(family: Family, on_device: Launcher, rng: random.Random, effort: float) -> None:
    """Batches of all sizes of documents drawn to hurt."""
    alphabet = hostile.atoms(family.literals)
    for number in range(int(20 * effort)):
        texts = drawn.batch(rng, alphabet, family.literals, rng.choice((1, 3, 50, 400)))
        compare(family, on_device, texts, split_special=number % 4 == 3)


@pytest.mark.parametrize("form", FORMS)
def test_normal_forms(form: str, on_device: Launcher, rng: random.Random, effort: float) -> None:
    """Clusters of all kinds, in batches of all sizes: only those that are too long are left, and they alone."""
    kinds = Host(tokenizer(form)).kinds()
    for _ in range(int(10 * effort)):
        texts = ["".join(cluster(rng) for _ in range(rng.randrange(40))) for _ in range(rng.choice((1, 40, 600)))]
        texts += ["ab " * rng.randrange(30_000) + "e\u0301", "a" + "\u0334" * rng.randrange(50, 80) + "b"]
        left = check(tokenizer(form), on_device, [Document(text.encode(), marked=True) for text in texts])
        assert left == sum(longest_cluster(kinds, form, text) > MOST_POINTS for text in texts)
    assert on_device.counters.normalized > 0


def test_texts_without_an_end(family: Family, on_device: Launcher) -> None:
    for kind in drawn.hostile_texts.KINDS:
        texts = [drawn.hostile_texts.make(kind, chars, 1, family.literals) for chars in (700, 300_000)]
        compare(family, on_device, [texts[0], "x", texts[1], ""])


def test_large_texts(family: Family, on_device: Launcher) -> None:
    """A request of millions of characters, and one that is parted over several launches."""
    source = "".join(transcripts.source_texts())
    text = (source * (1 + 2_000_000 // len(source)))[:2_000_000]
    compare(family, on_device, [text, text[:1_000_000], "ab"])
    assert on_device.counters.launches > 0
