"""Builds the emulated kernels and the host side of a batch as shared libraries, once for each state of the sources."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
NATIVE, CUDA = ROOT / "kernels" / "native", ROOT / "kernels" / "cuda"
BUILT = ROOT / "build" / "emulator"

FLAGS = ["-std=c++20", "-fPIC", "-shared"]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]


def compiler() -> str | None:
    """Return the C++ compiler, or None where there is none."""
    return shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


def _digest(sources: list[Path], *more: str) -> str:
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for text in more:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:20]


@dataclass(frozen=True)
class Compiling:
    """A library that the compiler is at work on, or that is there already."""

    source: Path
    target: Path
    made: Path
    process: subprocess.Popen[str] | None

    def finish(self) -> Path:
        """Wait for the compiler and return the library. Raises RuntimeError with what it says."""
        if self.process is not None and not self.target.exists():
            _, said = self.process.communicate()
            if self.process.returncode != 0:
                raise RuntimeError(f"{self.source.name} does not compile:\n{said[-4000:]}")
            self.made.replace(self.target)
        return self.target

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def _start(source: Path, includes: list[Path], target: Path, *options: str) -> Compiling:
    made = target.with_suffix(".making")
    if target.exists():
        return Compiling(source, target, made, None)
    target.parent.mkdir(parents=True, exist_ok=True)
    found = compiler()
    if found is None:
        raise RuntimeError("no C++ compiler")
    command = [found, *FLAGS, *options, *(f"-I{include}" for include in includes), str(source), "-o", str(made)]
    return Compiling(
        source, target, made, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    )


def _compile(source: Path, includes: list[Path], target: Path, *options: str) -> Path:
    return _start(source, includes, target, *options).finish()


def kernel_sources() -> list[Path]:
    return sorted([*CUDA.glob("*.cu"), *CUDA.glob("*.cuh"), *(NATIVE / "device").glob("*.hpp")])


def kernels() -> Path:
    """Return the library of the kernels as they are."""
    own = [HERE / "emulated_kernels.cpp", HERE / "cuda_emulator.hpp", HERE / "fiber.hpp"]
    target = BUILT / f"kernels-{_digest([*kernel_sources(), *own])}.so"
    return _compile(own[0], [HERE, CUDA, NATIVE], target, "-O2", *WARNINGS)


def faulty_kernels(fault: str, change: Callable[[Path], None]) -> Compiling:
    """Begin with the library of kernels that `change` damaged: it is given a copy of kernels/ to edit."""
    folder = BUILT / "faults" / fault
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CUDA, folder / "cuda", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(NATIVE / "device", folder / "native" / "device")
    change(folder)
    return _start(
        HERE / "emulated_kernels.cpp", [HERE, folder / "cuda", folder / "native"], folder / "kernels.so", "-O1"
    )


def host() -> Path:
    """Return the library of the host's side."""
    source = HERE / "emulated_host.cpp"
    target = BUILT / f"host-{_digest([source, *sorted(NATIVE.rglob('*.hpp'))])}.so"
    return _compile(source, [HERE, NATIVE], target, "-O2", *WARNINGS)


def program(source: str) -> Path:
    """Return the library of a test's own kernels, given as text that includes what it needs."""
    headers = [HERE / "cuda_emulator.hpp", HERE / "fiber.hpp"]
    target = BUILT / f"program-{_digest(headers, source)}.so"
    path = target.with_suffix(".cpp")
    if not target.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return _compile(path, [HERE, CUDA, NATIVE], target, "-O1", *WARNINGS)
