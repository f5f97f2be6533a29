"""The kernels compile for every architecture with the compilers that are here, and none spills registers to memory.

CI gets NVRTC by pip (the `test` extra); without it and without nvcc this is skipped.
"""

from __future__ import annotations

import ctypes

import pytest
from tokseam.kernels.cuda import plan
from tokseam.scripts import cuda_compile

from . import build

COMPILERS = dict(cuda_compile.compilers())


@pytest.mark.parametrize(
    "name", COMPILERS or [pytest.param("", marks=pytest.mark.skip("neither NVRTC nor nvcc is here"))]
)
def test_kernels_compile(name: str) -> None:
    # The tables that the host's compiler lays out must be what this one reads.
    same_layout = f"-DTOKSEAM_TABLES_BYTES={ctypes.CDLL(str(build.host())).host_tables_bytes()}"
    launched = {
        launch.kernel
        for shape in (plan.Shape(1, 1, 9, False, normalizes=True), plan.Shape(0, 0, 1, True))
        for launch in plan.launches(plan.Capacity(1 << 20, 64, 64), shape)
    }
    for architecture, kernels in cuda_compile.check(COMPILERS[name], [same_layout]).items():
        assert set(kernels) == launched, architecture
        for kernel, use in kernels.items():
            assert 0 < use.registers <= 64, (architecture, kernel, use)
            assert use.spill_stores == use.spill_loads == 0, (architecture, kernel, use)
            assert use.shared_bytes <= 48 << 10, (architecture, kernel, use)


def test_log_is_read() -> None:
    log = (
        "ptxas info    : Compiling entry function 'tokseam_split' for 'sm_90'\n"
        "ptxas info    : Function properties for tokseam_split\n"
        "    256 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
        "ptxas info    : Used 52 registers, used 0 barriers, 26800 bytes smem, 1220 bytes cmem[0]\n"
    )
    assert cuda_compile.uses(log) == {"split": cuda_compile.Use(52, 256, 16, 20, 26800)}


def test_another_layout_is_refused() -> None:
    if not COMPILERS:
        pytest.skip("neither NVRTC nor nvcc is here")
    compile_for = next(iter(COMPILERS.values()))
    with pytest.raises(cuda_compile.CompilationError, match="lays the tables out otherwise"):
        compile_for("sm_90", ["-DTOKSEAM_TABLES_BYTES=8"])
