"""A fake device, a launcher on it, and small tokenizers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from emulator import build
from tokseam.kernels.cuda.buckets import Limits
from tokseam.kernels.cuda.launcher import Launcher, open_launcher

from .fake_cupy import Fake

#: Little memory, small buckets: three of them.
SMALL = Limits(arena_bytes=4 << 20, arena_least_bytes=1 << 20, smallest_bytes=2048, tokenizers=2)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    if build.compiler() is None:
        pytest.skip("no C++ compiler to build the emulated kernels with")
    made = Fake()
    monkeypatch.setitem(sys.modules, "cupy", made.module)
    yield made
    made.check_guards()


@pytest.fixture
def launcher(fake: Fake) -> Iterator[Launcher]:
    made = open_launcher(SMALL)
    yield made
    made.close()
