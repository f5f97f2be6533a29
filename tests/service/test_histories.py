"""Sessions built by random appends, edits and forks: embedded, over both clients, and by several processes at once."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from client_histories import live
from service_support import client_processes
from tokenizers import Tokenizer
from tokseam.client import connect
from tokseam.scripts.serve import RunningTier

STEPS = 60


@pytest.fixture(scope="module")
def tokenizer(deepseek: Path) -> Tokenizer:
    return Tokenizer.from_file(str(deepseek))


@pytest.mark.parametrize("seed", range(3))
def test_random_lives(surface: Any, tokenizer: Tokenizer, seed: int) -> None:
    paths = live(surface, tokenizer, seed, STEPS)
    assert sum(paths.values()) > STEPS // 2


def test_several_processes(tier: RunningTier, deepseek: Path) -> None:
    with connect(tier.endpoint) as client:
        before = client.stats()["broker"]["stale"]
        for paths in client_processes(deepseek, tier.endpoint, 100):
            assert sum(paths.values()) > 50
        assert client.stats()["broker"]["stale"] == before, "nobody lost a session"


def test_several_processes_on_one_session_id(tier: RunningTier, deepseek: Path) -> None:
    """They overwrite each other's state at the worker all the time; no answer may be of another's text."""
    with connect(tier.endpoint) as client:
        before = client.stats()["broker"]["stale"]
        client_processes(deepseek, tier.endpoint, 60, f"fought-over-{uuid.uuid4()}")
        assert client.stats()["broker"]["stale"] > before


def test_threads_share_a_tier(tier: RunningTier, tokenizer: Tokenizer) -> None:
    trouble: list[BaseException] = []
    with connect(tier.endpoint) as client:
        shared = client.session("shared-by-threads")

        def run(seed: int) -> None:
            try:
                live(client, tokenizer, 2000 + seed, 25)
                for _ in range(20):
                    shared.append_patch(f"{seed} ")
            except BaseException as error:
                trouble.append(error)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not trouble
        assert shared.ids == tokenizer.encode(shared.text, add_special_tokens=False).ids
        assert sorted(shared.text.split()) == sorted("0123" * 20)
