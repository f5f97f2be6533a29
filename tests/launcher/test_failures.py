"""What a failure means: every number that CUDA has, and none."""

from __future__ import annotations

import pytest
from tokseam.kernels.cuda import failures
from tokseam.kernels.cuda.failures import Decision, decide, explain

#: After these the process has no use of the device any more (CUDA's own words: it "leaves the process in an
#: inconsistent state"), or the device is gone.
STICKY = {
    *(
        214,
        220,
        226,
        700,
        702,
        709,
        710,
        714,
        715,
        716,
        717,
        718,
        719,
        721,
        802,
        805,
        806,
        807,
        808,
        809,
        810,
        911,
        999,
    ),
}


@pytest.mark.parametrize("status", [*range(1000), None])
def test_every_number_has_one_meaning(status: int | None) -> None:
    with_retries, without = decide(status, False, 1), decide(status, False, 0)
    if status in failures.OUT_OF_MEMORY:
        assert (with_retries, without) == (Decision.RETRY_SMALLER, Decision.LEAVE_BATCH)
    else:
        assert with_retries is without
        assert without is (Decision.LEAVE_BATCH if status in failures.REFUSED else Decision.LOST)
    if status in STICKY:
        assert without is Decision.LOST


@pytest.mark.parametrize("status", [None, 2, 1, 700])
def test_out_of_memory_by_name(status: int | None) -> None:
    assert decide(status, True, 2) is Decision.RETRY_SMALLER
    assert decide(status, True, 0) is Decision.LEAVE_BATCH


def test_no_number_is_in_two_sets() -> None:
    sets = (failures.OUT_OF_MEMORY, failures.NO_DEVICE, failures.OLD_DRIVER, failures.REFUSED)
    assert sum(map(len, sets)) == len(frozenset().union(*sets))


@pytest.mark.parametrize(
    ("status", "text", "driver", "runtime", "said"),
    [
        (35, "cudaErrorInsufficientDriver: ...", 0, 13000, "no NVIDIA driver"),
        (35, "whatever", 11040, 12080, "the driver is for CUDA 11.4, CuPy for CUDA 12.8: a newer driver is needed"),
        (100, "cudaErrorNoDevice: no CUDA-capable device is detected", 1, 1, None),
        (719, "cudaErrorLaunchFailure: unspecified launch failure\nand more", 1, 1, None),
        (None, "", 0, 0, "no reason given"),
    ],
)
def test_explained_in_one_line(status: int | None, text: str, driver: int, runtime: int, said: str | None) -> None:
    line = explain(status, text, driver, runtime)
    assert "\n" not in line
    assert line == said if said else line.rstrip(")").endswith(text.splitlines()[0])
