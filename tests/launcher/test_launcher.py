"""The launcher over a CuPy that is none: ids, cuts and marks equal the engine's; what it asks of a device, and when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from emulator import documents as drawn
from support import hostile
from support.families import Family
from tokseam.kernels import engine
from tokseam.kernels.cuda.launcher import SYNCHRONIZATIONS, Launcher

from .fake_cupy import Fake


class Document(NamedTuple):
    text: bytes
    add_special_tokens: bool = False
    split_special_tokens: bool = False
    marked: bool = False


def check(tokenizer: engine.Tokenizer, launcher: Launcher, batch: Sequence[Document]) -> int:
    """Encode a batch and compare every document that is not left. Returns how many are."""
    found = launcher.encode(tokenizer, batch)
    assert len(found) == len(batch)
    for document, one in zip(batch, found, strict=True):
        if one is None:
            continue
        mode = {
            "add_special_tokens": document.add_special_tokens,
            "split_special_tokens": document.split_special_tokens,
        }
        wanted = tokenizer.encode_marked(document.text, **mode)
        where = f"{document} of {len(batch)}"
        assert one.ids.tolist() == wanted.ids.tolist(), where
        assert one.cuts.tolist() == (wanted.cuts.tolist() if document.marked else []), where
        assert one.marks.tolist() == (wanted.marks.tolist() if document.marked else []), where
        assert one.ids.dtype == one.cuts.dtype == one.marks.dtype == np.uint32
    return sum(one is None for one in found)


def test_batches_of_each_family(family: Family, launcher: Launcher, fake: Fake, rng: random.Random) -> None:
    """Mixed documents under every setting, in batches that fit no single bucket."""
    alphabet = hostile.atoms(family.literals)
    for count in (1, 3, 40):
        texts = [text.encode()[:6_000] for text in drawn.batch(rng, alphabet, family.literals, count)]
        batch = [Document(text, *(rng.random() < 0.5 for _ in range(3))) for text in texts]
        check(family.engine, launcher, batch)
    assert fake.calls["synchronize"] == SYNCHRONIZATIONS * launcher.counters.launches + launcher.counters.graphs + 1
