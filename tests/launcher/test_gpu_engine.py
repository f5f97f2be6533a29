"""A fresh worker on a GPU that is none: replies and seeds equal the CPU engine's, whatever the device does."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Sequence
from typing import Any

import pytest
from support import hostile
from support.synthetic import added, description, native, split
from tokseam.broker import protocol
from tokseam.broker.protocol import Request
from tokseam.kernels import engine
from tokseam.kernels.cuda.launcher import open_launcher
from tokseam.workers import fresh
from tokseam.workers.cpu_engine import CpuEngine
from tokseam.workers.fresh_core import FAILURES_MAX, Answered, FreshCore
from tokseam.workers.gpu_engine import GpuEngine

from .conftest import SMALL
from .fake_cupy import CUDARuntimeError, Fake, OutOfMemoryError

COUNTER = itertools.count()
LITERALS = [added("<|end|>", 900), added("#!x", 901, special=False)]


@pytest.fixture(scope="module")
def tokenizer() -> engine.Tokenizer:
    pattern = r"\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+|[^\s\p{L}\p{N}]+"
    merges = [("a", "b"), (" ", " "), ("1", "2"), ("=", "="), ("ab", "ab")]
    return native(description([split(pattern)], merges=merges, added_tokens=LITERALS, normalizer={"type": "NFC"}))[0]


def cores(tokenizer: engine.Tokenizer) -> tuple[FreshCore, FreshCore]:
    """Return a core on the fake GPU, and one that has the CPU alone."""
    cpu = CpuEngine(1)
    return (
        FreshCore({"m": tokenizer}, GpuEngine(open_launcher(SMALL), cpu), cpu),
        FreshCore({"m": tokenizer}, cpu, cpu),
    )


def requests(rng: random.Random, count: int) -> list[list[Any]]:
    """Return requests of every kind that a fresh worker answers, some of them bad."""
    alphabet = [*hostile.atoms(["<|end|>", "#!x"]), "ab ab", "e\u0301", "\u0301"]
    made = []
    for _ in range(count):
        texts = [hostile.hostile_text(rng, rng.randrange(0, 60), alphabet).encode() for _ in range(rng.choice((1, 3)))]
        if rng.random() < 0.1:
            texts[0] = b"bad \xff"
        if rng.random() < 0.5:
            fields = {"op": "full", "session": b"s", "body": texts[:1]}
        elif len(texts) == 1:
            fields = {"op": "encode", "body": texts}
        else:
            lengths = b"".join(len(text).to_bytes(4, "little") for text in texts)
            fields = {"op": "encode_batch", "body": [lengths, b"".join(texts)]}
        flags = rng.choice((0, protocol.FLAG_ADD_SPECIAL, protocol.FLAG_SPLIT_SPECIAL)) if FLAGS else 0
        made.append((fields, flags))
    return [
        protocol.pack_request(
            Request(fields.pop("op"), next(COUNTER).to_bytes(16, "big"), tokenizer="m", flags=flags, **fields)
        )
        for fields, flags in made
    ]
