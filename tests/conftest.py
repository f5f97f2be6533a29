"""Fixtures and switches of the test suite.

Tokenizers come from installed packages, this user's cache (scripts/fetch_tokenizers) or ../shared; a missing one skips
its tests with the reason, or fails them under TOKSEAM_REQUIRE_TOKENIZERS=1.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import families
from tokseam.kernels import cache
from tokseam.scripts.tokenizer_catalogue import name_shared_folder

CHECKOUT = Path(__file__).parents[1]

name_shared_folder(CHECKOUT)


def _cache_of_our_own() -> None:
    """Give this run a cache folder of its own, which shares this user's probed tables and nothing else.

    The many tokenizers made to order would drive this user's compiled files out of it.
    """
    mine = Path(tempfile.mkdtemp(prefix="tokseam-tests-"))
    atexit.register(shutil.rmtree, mine, ignore_errors=True)
    for kind in ("classes", "normalization"):
        shared = cache.cache_dir() / kind
        with contextlib.suppress(OSError):
            shared.mkdir(parents=True, exist_ok=True)
            (mine / kind).symlink_to(shared.resolve(), target_is_directory=True)
    os.environ["TOKSEAM_CACHE_DIR"] = str(mine)


_cache_of_our_own()

_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
settings.register_profile("ci", max_examples=40, deadline=None, derandomize=True, suppress_health_check=_QUIET)
settings.register_profile("hunt", max_examples=2_000, deadline=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("TOKSEAM_HYPOTHESIS", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tokseam")
    group.addoption("--seed", type=int, default=20260101, help="seed of all sampled and random tests (default fixed)")
    group.addoption("--effort", type=float, default=1.0, help="scales how much text and how many steps are tried")
    group.addoption("--full", action="store_true", help="whole texts of ../shared/data/multi instead of slices")


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--effort"))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A generator seeded by --seed and the test's name, so that one test's draws don't depend on another's."""
    return random.Random(f"{request.config.getoption('--seed')} {request.node.name}")


def _load(name: str) -> families.Family:
    family = families.load(name)
    if family is None:
        reason = f"no copy of the {name} tokenizer: run scripts/fetch_tokenizers --only {name}"
        if os.environ.get("TOKSEAM_REQUIRE_TOKENIZERS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return family


# Session fixtures with parameters: pytest runs all tests of one family together and then frees its tables.
@pytest.fixture(scope="session", params=families.NATIVE)
def family(request: pytest.FixtureRequest) -> families.Family:
    """Each family that the engine must answer natively."""
    return _load(request.param)


@pytest.fixture(scope="session", params=families.BY_REFERENCE)
def reference_family(request: pytest.FixtureRequest) -> families.Family:
    """Each family that the reference answers for now."""
    return _load(request.param)


@pytest.fixture(scope="session", params=families.ALL)
def any_family(request: pytest.FixtureRequest) -> families.Family:
    return _load(request.param)
