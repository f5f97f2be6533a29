"""Fixtures of the service's tests: a tier for all of them, two with other fresh paths, the ways to one surface."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from service_support import DEEPSEEK, FAST, driven_connection
from tokenizers import Tokenizer
from tokseam.client import Embedded, connect
from tokseam.scripts.serve import RunningTier, running_tier


@pytest.fixture(scope="session")
def deepseek() -> Path:
    return DEEPSEEK


@pytest.fixture(scope="session")
def reference() -> Callable[[str], list[int]]:
    """The contract: a full encode by the reference."""
    tokenizer = Tokenizer.from_file(str(DEEPSEEK))

    def encode(text: str, add_special_tokens: bool = False) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    return encode


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder whose sockets have short paths, which pytest's own does not promise."""
    folder = Path(tempfile.mkdtemp(prefix="ts-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def endpoint() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="ts-"))
    yield f"ipc://{folder}/front.sock"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tier(short_folder: Path) -> Iterator[RunningTier]:
    """A tier of two repair workers, shared by the tests that do it no harm; its broker checks its invariants."""
    with running_tier(
        {"ds": DEEPSEEK},
        endpoint=f"ipc://{short_folder}/front.sock",
        repair_workers=2,
        arguments=[*FAST, "--validate"],
    ) as running:
        yield running


@pytest.fixture(scope="session")
def forced_tier(short_folder: Path) -> Iterator[RunningTier]:
    """A tier whose fresh worker encodes every whole text, however short."""
    with running_tier(
        {"ds": DEEPSEEK},
        endpoint=f"ipc://{short_folder}/forced.sock",
        repair_workers=2,
        arguments=[*FAST, "--validate", "--fresh-threshold", "0"],
    ) as running:
        yield running


@pytest.fixture(scope="session")
def plain_tier(short_folder: Path) -> Iterator[RunningTier]:
    """A tier without a fresh worker."""
    with running_tier(
        {"ds": DEEPSEEK},
        endpoint=f"ipc://{short_folder}/plain.sock",
        repair_workers=2,
        arguments=[*FAST, "--validate", "--fresh-workers", "0", "--shadow-rate", "0"],
    ) as running:
        yield running


@pytest.fixture(scope="session")
def embedded() -> Embedded:
    return Embedded({"ds": DEEPSEEK})


@pytest.fixture(params=["embedded", "threads", "asyncio", "threads, all fresh", "threads, none fresh"])
def surface(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The same surface three times, and over tiers whose fresh worker encodes every whole text, or is not there."""
    tiers = {"threads": "tier", "threads, all fresh": "forced_tier", "threads, none fresh": "plain_tier"}
    if request.param == "embedded":
        yield request.getfixturevalue("embedded")
    elif request.param in tiers:
        with connect(request.getfixturevalue(tiers[request.param]).endpoint) as made:
            yield made
    else:
        with driven_connection(request.getfixturevalue("tier").endpoint) as made:
            yield made
