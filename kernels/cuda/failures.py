"""What a failure of a device means: try again, leave a batch to the CPU, or never come back. Pure.

It sees names and numbers of errors, not their classes, which are CuPy's. CUDA's numbers stand in its runtime's headers
(cudaError) and, up to a few that mean the same, its driver's (CUresult).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

#: CUDA's numbers for a device that has no memory left.
OUT_OF_MEMORY: Final = frozenset({2})
#: No device is there, or none that may be used: none, invalid, unavailable, in a wrong compute mode.
NO_DEVICE: Final = frozenset({46, 100, 101})
#: The driver is missing, or older than the CUDA that CuPy was made for.
OLD_DRIVER: Final = frozenset({35, 36, 803, 804})
#: A call that the device refused, with nothing broken: its arguments, its resources, its state.
REFUSED: Final = frozenset({1, 9, 98, 209, 400, 600, 701, 801, 901, 906})


class Decision(Enum):
    """What to do about a failure."""

    #: Make room and launch this batch again.
    RETRY_SMALLER = "retry with less memory"
    #: This batch is the CPU's; the next one may be tried.
    LEAVE_BATCH = "leave this batch"
    #: The device, or this process's hold on it, is gone: everything is the CPU's from now on.
    LOST = "lost"


def decide(status: int | None, out_of_memory: bool, retries_left: int) -> Decision:
    """Decide about a failure while a batch was under way.

    status: CUDA's number, None where the error has none. out_of_memory: it is CuPy's own word for that. What is not
    known to be harmless counts as lost: after an illegal address, a failed launch, an uncorrectable memory error or a
    device that fell off its bus, every later call fails too, until the process ends.
    """
    if out_of_memory or status in OUT_OF_MEMORY:
        return Decision.RETRY_SMALLER if retries_left > 0 else Decision.LEAVE_BATCH
    if status in REFUSED:
        return Decision.LEAVE_BATCH
    return Decision.LOST


def explain(status: int | None, text: str, driver: int = 0, runtime: int = 0) -> str:
    """Return in one line why there is no device to launch on. driver, runtime: CUDA's version numbers, 0 if unknown."""
    first = text.strip().splitlines()[0].rstrip(".") if text.strip() else "no reason given"
    if status in OLD_DRIVER and driver == 0:
        return "no NVIDIA driver"
    if status in OLD_DRIVER:
        return f"the driver is for CUDA {_version(driver)}, CuPy for CUDA {_version(runtime)}: a newer driver is needed"
    if status in NO_DEVICE:
        return f"no device ({first})"
    return first


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
