"""An engine loaded before a fork is the same in the child, whatever other threads were doing as the process forked."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.families import Family
from support.forks import LIMIT_S, in_a_child
from support.hostile import PARAGRAPHS
from support.synthetic import description, split
from tokseam.client import Embedded
from tokseam.client.errors import ClosedError
from tokseam.kernels import engine
from tokseam.kernels.reference import HuggingFaceReference

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@contextlib.contextmanager
def busy(*work: Callable[[], object]) -> Iterator[None]:
    """Have threads do this over and over meanwhile."""
    stop = threading.Event()

    def again(one: Callable[[], object]) -> None:
        while not stop.is_set():
            one()

    threads = [threading.Thread(target=again, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(description([split(r"\p{L}+| ?[^\s\p{L}]+|\s+")], merges=[("o", "n"), ("on", "e")])))
    return path


def test_a_child_encodes_while_threads_did(family: Family, effort: float) -> None:
    rng = random.Random(family.name)
    large = ["".join(rng.choices(PARAGRAPHS, k=1_500)) for _ in range(2)]
    small = PARAGRAPHS[:20]
    tier = Embedded({"t": family.engine})
    wanted = [tier.encode(text) for text in (*large, *small)]

    def look() -> None:
        assert [tier.encode(text, threads=2) for text in (*large, *small)] == wanted
        session = tier.session("child")
        assert session.encode(large[0]) == wanted[0]
        assert session.encode(large[1]) == wanted[1]

    def encode_large() -> None:
        tier.encode_array(rng.choice(large), threads=2)

    def encode_small() -> None:
        for text in small:
            tier.encode_array(text)

    with busy(encode_large, encode_large, encode_small, encode_small):
        for number in range(int(4 * effort)):
            assert in_a_child(look), f"fork {number}"
            assert tier.encode(large[1], threads=2) == wanted[1]


def test_a_child_does_not_wait_for_a_counter(source: Path) -> None:
    tier = Embedded({"t": source})
    with tier._lock:
        assert in_a_child(lambda: tier.encode("one"))


def test_a_session_in_the_midst_of_a_change_is_closed_in_a_child(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = Embedded({"t": source})
    idle, changing = tier.session("idle"), tier.session("changing")
    ids = idle.encode("one two")
    assert changing.encode("one two") == ids
    within, go_on = threading.Event(), threading.Event()
    done = changing._done

    def slowly(*change: Any) -> Any:
        within.set()
        go_on.wait(LIMIT_S)
        return done(*change)

    monkeypatch.setattr(changing, "_done", slowly)
    call = threading.Thread(target=changing.encode, args=("one two on",))
    call.start()
    assert within.wait(LIMIT_S)

    def look() -> None:
        for use in (
            lambda: changing.append(" one"),
            lambda: changing.ids,
            lambda: changing.text,
            lambda: changing.memory_bytes,
            lambda: changing.fork("twin"),
        ):
            with pytest.raises(ClosedError, match="'changing' is closed"):
                use()
        changing.close()
        assert idle.ids == ids
        assert idle.encode("one two on") == tier.encode("one two on")
        assert tier.stats()["sessions"] == 1

    assert in_a_child(look)
    go_on.set()
    call.join()
    assert changing.text == "one two on"
    assert changing.ids == tier.encode("one two on")


def test_a_session_that_another_thread_only_read_is_free_in_a_child(source: Path) -> None:
    tier = Embedded({"t": source})
    session = tier.session("read")
    ids = session.encode("one two")
    with session._lock:  # as its readers do

        def look() -> None:
            assert session.ids == ids
            assert session.append(" on") == tier.encode("one two on")
            assert tier.stats()["sessions"] == 1

        assert in_a_child(look)


@pytest.mark.parametrize("native", [True, False])
def test_a_reference_in_use_is_made_again_in_a_child(source: Path, native: bool) -> None:
    if not native:
        described = json.loads(source.read_text())
        described["model"]["dropout"] = 0.0
        described["normalizer"] = {"type": "Strip", "strip_left": True, "strip_right": True}
        source.write_text(json.dumps(described))
    tokenizer = engine.load(source)
    assert (tokenizer.status == "native") == native
    tier = Embedded({"t": tokenizer})
    text = "one two on " * 5_000
    ids = tier.encode(text)
    assert tier.decode(ids) == HuggingFaceReference.from_json(source.read_bytes()).decode(ids, False)

    def look() -> None:
        assert tier.decode(ids) == decoded
        assert tier.encode(text) == ids

    decoded = tier.decode(ids)
    with busy(lambda: tier.decode(ids), lambda: tier.encode(text)):
        for number in range(5):
            time.sleep(0.01)
            assert in_a_child(look), f"fork {number}"
