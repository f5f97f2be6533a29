"""CuPy itself, where it is installed: it has what device.py uses, compiles what that gives it, tells what is missing.

No device is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tokseam.kernels.cuda import device
from tokseam.kernels.cuda.launcher import open_launcher
from tokseam.kernels.errors import NoDeviceError

cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed", exc_type=ImportError)

USED = (
    *(
        "RawModule",
        "get_default_memory_pool",
        "get_default_pinned_memory_pool",
        "cuda.alloc",
        "cuda.alloc_pinned_memory",
    ),
    *("cuda.Stream.begin_capture", "cuda.Stream.end_capture", "cuda.Stream.synchronize", "cuda.Device", "cuda.Event"),
    *(
        "cuda.get_elapsed_time",
        "cuda.memory.OutOfMemoryError",
        "cuda.runtime.CUDARuntimeError",
        "cuda.graph.Graph.launch",
    ),
    *(
        "cuda.graph.Graph.upload",
        "cuda.driver.CUDADriverError",
        "cuda.nvrtc.NVRTCError",
        "cuda.compiler.CompileException",
    ),
    *("cuda.runtime.memcpyAsync", "cuda.runtime.memcpyHostToDevice", "cuda.runtime.memcpyDeviceToHost"),
    *("cuda.runtime.getDeviceCount", "cuda.runtime.getDeviceProperties", "cuda.runtime.memGetInfo"),
    *("cuda.runtime.driverGetVersion", "cuda.runtime.runtimeGetVersion", "RawModule.get_function"),
)


@pytest.mark.parametrize("name", USED)
def test_it_has_what_is_used(name: str) -> None:
    found = cupy
    for part in name.split("."):
        found = getattr(found, part)
    assert found is not None


def test_numbers_of_copies_are_those_of_the_fake() -> None:
    from .fake_cupy import DEVICE_TO_HOST, HOST_TO_DEVICE

    assert cupy.cuda.runtime.memcpyHostToDevice == HOST_TO_DEVICE
    assert cupy.cuda.runtime.memcpyDeviceToHost == DEVICE_TO_HOST


@pytest.mark.parametrize("architecture", [80, 90, 100, 120])
def test_its_compiler_takes_the_source(architecture: int) -> None:
    """As device.py hands it over: with the size of the chain asserted, and every kernel in what comes out."""
    nvrtc = cupy.cuda.nvrtc
    program = nvrtc.createProgram(device.kernel_source(), "kernels", [], [])
    try:
        nvrtc.compileProgram(program, (*device.kernel_options(), f"-arch=sm_{architecture}"))
        code = nvrtc.getCUBIN(program)
    finally:
        nvrtc.destroyProgram(program)
    for kernel in ("begin", "classify", "merge_short", "report_ids"):
        assert f"tokseam_{kernel}".encode() in code


def test_an_array_of_one_is_an_argument_by_value() -> None:
    """What the chain is handed over as; CuPy keeps the array's own bytes, so it may not be read-only or strided."""
    chain = np.zeros(1, dtype=np.dtype((np.void, device.CHAIN_BYTES)))
    assert chain.size == 1
    assert chain.flags.c_contiguous
    assert chain.itemsize == device.CHAIN_BYTES <= 4096  # what a kernel's arguments may take


def test_why_there_is_no_device() -> None:
    """One line, where there is none."""
    why = ""
    try:
        open_launcher().close()
    except NoDeviceError as error:
        why = str(error)
    assert "\n" not in why
