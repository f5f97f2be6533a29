"""The emulated device of each family; without a C++ compiler all of it is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.families import Family

from . import build
from .comparison import Subject, normalizes
from .device import Device, Kernels


@pytest.fixture(scope="session", autouse=True)
def _compiler() -> None:
    if build.compiler() is None:
        pytest.skip("no C++ compiler to build the emulated kernels with")


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    return Kernels()


@pytest.fixture(scope="session")
def device(family: Family, kernels: Kernels) -> Device:
    """Each native family's tables on the emulated device."""
    return Device(family.engine, kernels)


@pytest.fixture
def subject(family: Family, device: Device) -> Subject:
    """Each native family on the emulated device, with counts of its own."""
    return Subject(family.engine, device, family.reference, not family.is_tiktoken and normalizes(Path(family.source)))
