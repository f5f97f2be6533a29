"""Tokenizers put together at random, on the emulated device: all behaviors of stages, stages over bytes, bytes that the
vocabulary lacks, ranks in any order, literals that look around, a space in front, BPE over characters."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import hostile
from support.pipelines import character_pipeline, pipeline
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

from . import documents
from .device import Device, Host, Kernels

#: What the vocabularies of these tokenizers can make something of.
FEW = ("a", "b", " ", "c", "ab", "1", "12", "é", "\n", "A", "'", "s", "\u2581", ">")


def text(rng: random.Random, few: list[str], alphabet: list[str]) -> str:
    kind = rng.random()
    if kind < 0.4:
        return hostile.hostile_text(rng, rng.randrange(0, 60), alphabet)
    if kind < 0.8:
        return "".join(rng.choices(few, k=rng.choice((3, 31, 33, 127, 129, 250, 260, 500, 770, 1_600))))
    if kind < 0.93:
        return rng.choice(few) * rng.choice(documents.BORDERS) + rng.choice(few)
    return "".join(rng.choices(rng.choices(few, k=2), k=rng.choice((1_000, 20_000))))


@pytest.mark.parametrize("make", [pipeline, character_pipeline])
def test_random_pipelines(
    make: Callable[[random.Random], dict[str, Any]],
    rng: random.Random,
    effort: float,
    kernels: Kernels,
    tmp_path: Path,
) -> None:
    native = 0
    while native < 6 * effort:
        described = make(rng)
        path = tmp_path / "tokenizer.json"
        path.write_text(json.dumps(described))
        try:
            tokenizer = engine.load(path)
        except BadTokenizerError:
            continue
        if tokenizer.status != "native":
            continue
        native += 1
        device = Device(tokenizer, kernels, Host(tokenizer))
        literals = [token["content"] for token in described["added_tokens"]]
        alphabet = hostile.atoms(literals)
        for _ in range(3):
            texts = [text(rng, [*FEW, *literals], alphabet) for _ in range(rng.choice((1, 5, 30)))]
            split = rng.random() < 0.3
            shown = {key: value for key, value in described.items() if key not in ("model", "decoder", "version")}
            found = device.encode(texts, seed=rng.randrange(1_000), split_special=split)
            for number, one in enumerate(texts):
                if found.flags[number]:
                    continue
                where = f"{one[:300]!r}\n{json.dumps(shown)}"
                assert found.ids_of(number) == tokenizer.encode(one, split_special_tokens=split).tolist(), where
                if not split:
                    assert found.pieces_of(number) == tokenizer.pieces(one).tolist(), where
            if device.host.normalizing is None:
                continue
            found = device.encode(texts, seed=rng.randrange(1_000), normalizing=True, split_special=split)
            for number, one in enumerate(texts):
                where = f"normalized: {one[:300]!r}\n{json.dumps(shown)}"
                if not found.flags[number]:
                    assert found.ids_of(number) == tokenizer.encode(one, split_special_tokens=split).tolist(), where
