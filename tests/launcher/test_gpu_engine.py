"""A fresh worker on a GPU that is none: replies and seeds equal the CPU engine's, whatever the device does."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support import hostile
from support.synthetic import added, description, native, split
from tokseam.broker import protocol
from tokseam.broker.protocol import Request
from tokseam.kernels import engine
from tokseam.kernels.cuda.launcher import open_launcher
from tokseam.workers import fresh
from tokseam.workers.batch_engine import Document
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
        texts = [hostile.hostile_text(rng, rng.randrange(60), alphabet).encode() for _ in range(3)]
        if rng.random() < 0.1:
            texts[0] = b"bad \xff"
        op = rng.choice(("full", "full", "encode", "count", "batch"))
        body: Sequence[bytes] = texts[:1]
        if op == "batch":
            body = [np.array([len(text) for text in texts], dtype="<u4").tobytes(), b"".join(texts)]
        session = "s" if op == "full" else ""
        number = next(COUNTER).to_bytes(16, "big")
        request = Request(op, number, tokenizer="m", flags=rng.randrange(4), session=session, body=body)
        made.append(protocol.pack_request(request))
    return made


def answers(core: FreshCore, batch: Sequence[Sequence[Any]]) -> list[Answered]:
    """Let a core answer a batch; everything as bytes, in the order of the requests."""
    for job, frames in enumerate(batch):
        core.take(job, frames)
    core.validate()
    found = [
        Answered(one.job, one.code, [bytes(part) for part in one.frames], [bytes(part) for part in one.seed])
        for one in core.run()
    ]
    return sorted(found, key=lambda one: one.job)


def test_answers_are_the_cpus(fake: Fake, tokenizer: engine.Tokenizer, rng: random.Random) -> None:
    """Byte by byte: replies, refusals and seeds of batches of every kind of request."""
    on_gpu, on_cpu = cores(tokenizer)
    assert on_gpu.engine_name == "gpu, Fake 1000"
    seeds = 0
    for count in (1, 2, 30, 60):
        batch = requests(rng, count)
        wanted = answers(on_cpu, batch)
        assert answers(on_gpu, batch) == wanted
        seeds += sum(bool(one.seed) for one in wanted)
    assert fake.calls["graph_launch"] > 3
    assert seeds > 10
    assert on_gpu.counters["engine_failures"] == 0
    assert on_gpu.counters == on_cpu.counters


class Asked(CpuEngine):
    """The CPU engine, with what it was asked."""

    def __init__(self) -> None:
        super().__init__(1)
        self.texts: list[bytes] = []

    def encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> Sequence[engine.Marked | Exception]:
        self.texts += [bytes(one.text) for one in documents]
        return super().encode(tokenizer, documents)


def test_what_the_cpu_is_asked(fake: Fake, tokenizer: engine.Tokenizer) -> None:
    """Documents that normalization changes seed their sessions from the device too; the CPU has what no thread has room
    for, and bad text."""
    cpu = Asked()
    core = FreshCore({"m": tokenizer}, GpuEngine(open_launcher(SMALL), cpu), cpu)
    texts = [
        b"ab ab",
        "e\u0301 ab ".encode() * 200,
        "\u1100\u1161 ".encode() * 90,
        ("a" + "\u0334" * 99).encode(),
        b"\xff",
    ]
    batch = [
        protocol.pack_request(
            Request("full", next(COUNTER).to_bytes(16, "big"), tokenizer="m", flags=0, session="s", body=[text])
        )
        for text in texts
    ]
    found = answers(core, batch)
    assert [bool(one.seed) for one in found] == [True, True, True, True, False]
    assert sorted(cpu.texts) == sorted(texts[3:])
    assert found == answers(FreshCore({"m": tokenizer}, CpuEngine(1), CpuEngine(1)), batch)


FAILURES = {
    "out of memory": ("upload", 2, False),
    "out of memory, CuPy's own": ("alloc", None, False),
    "a call refused": ("graph_launch", 1, False),
    "lost in mid-batch": ("kernel_runs", 719, True),
    "lost at the first copy": ("upload", 700, True),
    "lost while it waits": ("synchronize", 999, True),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("after", [0, 5, 40])
def test_nothing_is_lost(fake: Fake, tokenizer: engine.Tokenizer, rng: random.Random, name: str, after: int) -> None:
    """Whatever happens and whenever: every request is answered, and as the CPU answers it."""
    on_gpu, on_cpu = cores(tokenizer)
    call, status, for_good = FAILURES[name]
    fake.fail(call, CUDARuntimeError(status) if status else OutOfMemoryError("Out of memory"), after, for_good)
    for _ in range(6):
        batch = requests(rng, 8)
        assert answers(on_gpu, batch) == answers(on_cpu, batch)
    if for_good and fake._dead is not None:
        assert on_gpu.counters["engine_failures"] == 1
        assert on_gpu.engine_name == "cpu, 1 thread"
    else:
        assert on_gpu.counters["engine_failures"] <= (call == "graph_launch")
        assert on_gpu.engine_name == "gpu, Fake 1000"


def test_a_device_that_keeps_refusing_is_given_up(
    fake: Fake, tokenizer: engine.Tokenizer, rng: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    on_gpu, on_cpu = cores(tokenizer)
    for number in range(FAILURES_MAX + 2):
        fake.fail("graph_launch", CUDARuntimeError(1))
        batch = requests(rng, 4)
        assert answers(on_gpu, batch) == answers(on_cpu, batch)
        assert on_gpu.counters["engine_failures"] == min(number + 1, FAILURES_MAX)
    said = [record.getMessage() for record in caplog.records if "batch engine" in record.getMessage()]
    assert len(said) == FAILURES_MAX
    assert "from now on" in said[-1]


def test_the_choice_of_an_engine(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    """One line says which it is, and why."""
    caplog.set_level(logging.INFO)
    batch_engine, cpu = fresh.engines_of(1, gpu=True)
    assert (batch_engine.name, cpu.name) == ("gpu, Fake 1000", "cpu, 1 thread")
    batch_engine.close()
    assert fake.used_bytes == 0
    fake.driver_version = 0
    fake.fail("device_count", CUDARuntimeError(35))
    batch_engine, cpu = fresh.engines_of(1, gpu=True)
    assert batch_engine is cpu
    calls = dict(fake.calls)
    batch_engine, cpu = fresh.engines_of(1, gpu=False)
    assert batch_engine is cpu
    assert fake.calls == calls
    fake.fail("memory_info", ZeroDivisionError())
    batch_engine, cpu = fresh.engines_of(1, gpu=True)
    assert batch_engine is cpu
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "whole texts are encoded on Fake 1000 (128 MiB of its memory)",
        "no GPU to encode on: no NVIDIA driver; whole texts are encoded on cpu, 1 thread",
        "no GPU to encode on; whole texts are encoded on cpu, 1 thread",
    ]
