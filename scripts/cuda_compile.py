#!/usr/bin/env python3
"""Compile the kernels for every architecture that they are for, with no GPU, and record registers and spills.

    python scripts/cuda_compile.py [--json bench/results/cuda_compile.json] [--compiler nvrtc|nvcc]

By NVRTC, which is what CuPy compiles with (`pip install nvidia-cuda-nvrtc-cu12`), and by nvcc where it is installed.
The exit status is 0 only when all of them compile, and no kernel spills. Runs nothing on a device.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

#: Ampere, Hopper, and both Blackwells.
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
SOURCE = KERNELS / "cuda" / "kernels.cu"
OPTIONS = ("-std=c++20", f"-I{KERNELS / 'native'}", f"-I{KERNELS / 'cuda'}")


class CompilationError(Exception):
    """The kernels do not compile; the message is the compiler's."""


@dataclass(frozen=True)
class Use:
    """What one kernel needs of a processor. stack_bytes: arrays of each thread that registers can't hold."""

    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    shared_bytes: int


def nvrtc_libraries() -> list[Path]:
    """Return the NVRTC libraries that pip installed here, the newest last."""
    found = []
    for package in ("nvidia.cuda_nvrtc", "nvidia.cu13"):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in spec.submodule_search_locations or [] if spec else []:
            found += sorted(path for path in Path(folder).glob("lib/libnvrtc.so.*"))
    return found


def by_nvrtc(library: Path, architecture: str, more: Sequence[str] = ()) -> str:
    """Compile to machine code; return the log. Raises CompilationError."""
    nvrtc = ctypes.CDLL(str(library))
    program = ctypes.c_void_p()
    source, name = SOURCE.read_bytes(), SOURCE.name.encode()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None) != 0:
        raise CompilationError("NVRTC makes no program")
    try:
        options = [*OPTIONS, *more, f"-arch={architecture}", "--ptxas-options=-v"]
        spelled = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = nvrtc.nvrtcCompileProgram(program, len(options), spelled)
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        text = log.value.decode(errors="replace")
        if status != 0:
            raise CompilationError(text)
        return text
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def nvrtc_version(library: Path) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    ctypes.CDLL(str(library)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"NVRTC {major.value}.{minor.value}"


def by_nvcc(nvcc: str, architecture: str, more: Sequence[str] = ()) -> str:
    """Compile to machine code; return the log. Raises CompilationError."""
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "kernels.cubin")
        command = [nvcc, *OPTIONS, *more, f"-arch={architecture}", "-cubin", "-Xptxas", "-v", str(SOURCE), "-o", target]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise CompilationError(run.stdout + run.stderr)
    return run.stdout + run.stderr


def nvcc_version(nvcc: str) -> str:
    shown = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release ([\d.]+)", shown)
    return f"nvcc {found[1] if found else 'of an unknown version'}"


#: Compiles for an architecture, with further options.
Compile = Callable[[str, Sequence[str]], str]


def compilers() -> Iterator[tuple[str, Compile]]:
    """Give each compiler that is here, with its name."""
    for library in nvrtc_libraries():
        yield nvrtc_version(library), partial(by_nvrtc, library)
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        yield nvcc_version(nvcc), partial(by_nvcc, nvcc)


def uses(log: str) -> dict[str, Use]:
    """Return what each kernel uses, out of ptxas' log."""
    found: dict[str, Use] = {}
    for part in re.split(r"Compiling entry function", log)[1:]:
        name = re.search(r"'tokseam_(\w+)'", part)

        def number(pattern: str, part: str = part) -> int:
            match = re.search(pattern, part)
            return int(match[1]) if match else 0

        if name:
            found[name[1]] = Use(
                number(r"Used (\d+) registers"),
                number(r"(\d+) bytes stack frame"),
                number(r"(\d+) bytes spill stores"),
                number(r"(\d+) bytes spill loads"),
                number(r"(\d+) bytes smem"),
            )
    return found


def check(compile_for: Compile, more: Sequence[str] = ()) -> dict[str, dict[str, Use]]:
    """Compile for all architectures; return what the kernels use on each. Raises CompilationError."""
    found = {}
    for architecture in ARCHITECTURES:
        try:
            found[architecture] = uses(compile_for(architecture, more))
        except CompilationError as error:
            raise CompilationError(f"{architecture}: {error}") from None
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--compiler", choices=("nvrtc", "nvcc"), default=None)
    options = parser.parse_args()
    records: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    status = 0
    for name, compile_for in compilers():
        if options.compiler and not name.lower().startswith(options.compiler):
            continue
        try:
            found = check(compile_for)
        except CompilationError as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        records[name] = {
            architecture: {kernel: asdict(use) for kernel, use in kernels.items()}
            for architecture, kernels in found.items()
        }
        for architecture, kernels in found.items():
            spilling = [kernel for kernel, use in kernels.items() if use.spill_stores or use.spill_loads]
            most = max(kernels, key=lambda kernel: kernels[kernel].registers)
            print(
                f"{name}, {architecture}: {len(kernels)} kernels, at most {kernels[most].registers} registers "
                f"({most}), spills: {', '.join(spilling) or 'none'}"
            )
            status = status or int(bool(spilling))
    if not records and status == 0:
        print("no compiler: install nvcc, or nvidia-cuda-nvrtc-cu12 by pip", file=sys.stderr)
        return 2
    if options.json is not None:
        options.json.write_text(json.dumps(records, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
