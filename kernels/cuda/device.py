"""One GPU by way of CuPy: memory, copies, kernels, graphs, on one stream. The only file that touches CuPy.

Thin on purpose: what is launched, when, and over what is launcher.py's matter, and what a failure means failures.py's.
Everything is put on the stream and returns at once, but `synchronize`, which is counted. CuPy is imported by
`open_device` alone, so that nothing here is needed where there is none.
"""

from __future__ import annotations

import contextlib
import hashlib
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _native
from ..errors import NoDeviceError
from . import failures, plan

#: The oldest devices that kernels are written for: they reduce over a warp in one instruction.
LEAST_CAPABILITY: Final = 80
#: What NVRTC is told besides where the headers lie.
LANGUAGE: Final = "-std=c++20"

_CUDA = Path(__file__).resolve().parent
_NATIVE = _CUDA.parent / "native"

#: Bytes of the chain that kernels are handed by value: tables, a pointer a buffer, three capacities, and padding.
CHAIN_BYTES: Final = (
    _native.DEVICE_TABLES_BYTES + 8 * len(plan.buffers(plan.Capacity(1, 1, 1), plan.Shape(0, 0, 1, False))) + 16
)


class Failure(NamedTuple):
    """An error of the device: CUDA's number for it, where it has one, and whether its memory is all taken."""

    status: int | None
    out_of_memory: bool
    text: str


class Block(NamedTuple):
    """Device memory, which is given back with the last reference to `owner`."""

    pointer: int
    nbytes: int
    owner: Any


def kernel_files() -> list[Path]:
    """Return all files that the kernels are compiled from."""
    return sorted([*_CUDA.glob("*.cu"), *_CUDA.glob("*.cuh"), *(_NATIVE / "device").glob("*.hpp")])


def kernel_options() -> tuple[str, ...]:
    """Return the compiler's options."""
    return (LANGUAGE, f"-I{_CUDA}", f"-I{_NATIVE}")


def kernel_source() -> str:
    """Return the source to compile: it names its headers, and their content, by which a compiler's cache tells them."""
    digest = hashlib.sha256()
    for path in kernel_files():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return (
        f"// {digest.hexdigest()}\n"
        '#include "kernels.cu"\n'
        f'static_assert(sizeof(tokseam::cuda::Chain) == {CHAIN_BYTES}, "the host lays out the chain otherwise");\n'
    )


def packed_chain(tables: bytes, pointers: Sequence[int], capacity: plan.Capacity) -> npt.NDArray[Any]:
    """Return the kernels' first argument: CuPy hands an array of one element over by value."""
    limits = np.array([capacity.bytes, capacity.spans, capacity.documents, 0], dtype=np.uint32)
    packed = tables + np.array(pointers, dtype=np.uint64).tobytes() + limits.tobytes()
    if len(packed) != CHAIN_BYTES:
        raise ValueError(f"a chain has {CHAIN_BYTES} bytes, not {len(packed)}")
    chain: npt.NDArray[Any] = np.frombuffer(packed, dtype=np.dtype((np.void, CHAIN_BYTES))).copy()
    return chain


class Device:
    """An open device. One thread at a time. Methods raise what CuPy raises; `failure_of` tells what that is."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._cuda = cupy.cuda
        self._runtime = cupy.cuda.runtime
        self._stream = cupy.cuda.Stream(non_blocking=True)
        name = self._runtime.getDeviceProperties(0)["name"]
        self.name: str = name.decode() if isinstance(name, bytes) else str(name)
        self.capability = int(cupy.cuda.Device(0).compute_capability)
        self.kernels: dict[str, Any] = {}
        #: How often the host waited for the device.
        self.synchronizations = 0

    def compile(self, names: Sequence[str]) -> None:
        """Compile the kernels, or take them out of CuPy's cache, and load these."""
        module = self._cupy.RawModule(code=kernel_source(), options=kernel_options(), backend="nvrtc")
        self.kernels = {name: module.get_function(f"tokseam_{name}") for name in names}

    def free_bytes(self) -> int:
        """Return how much device memory nobody has."""
        free, _ = self._runtime.memGetInfo()
        return int(free)

    def allocate(self, nbytes: int) -> Block:
        """Take device memory."""
        memory = self._cuda.alloc(nbytes)
        return Block(int(memory.ptr), nbytes, memory)

    def give_back(self) -> None:
        """Give back what has no owner any more and CuPy keeps for later."""
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Take host memory that the device reads and writes by itself; given back with the array."""
        return np.frombuffer(self._cuda.alloc_pinned_memory(nbytes), dtype=np.uint8, count=nbytes)

    def upload(self, pointer: int, source: npt.NDArray[Any]) -> None:
        """Copy to the device. The source must stay as it is until the next `synchronize`."""
        if source.nbytes:
            self._runtime.memcpyAsync(
                pointer, source.ctypes.data, source.nbytes, self._runtime.memcpyHostToDevice, self._stream.ptr
            )

    def download(self, target: npt.NDArray[Any], pointer: int) -> None:
        """Copy from the device. The target is filled after the next `synchronize`."""
        if target.nbytes:
            self._runtime.memcpyAsync(
                target.ctypes.data, pointer, target.nbytes, self._runtime.memcpyDeviceToHost, self._stream.ptr
            )

    def enqueue(self, launches: Sequence[plan.Launch], chain: npt.NDArray[Any]) -> None:
        """Launch kernels one after the other."""
        with self._stream:
            for one in launches:
                self.kernels[one.kernel]((one.grid,), (one.threads,), (chain, np.uint32(one.which)))

    def record(self, launches: Sequence[plan.Launch], chain: npt.NDArray[Any]) -> Any:
        """Return a graph of the same launches. All kernels must have run before: loading one can't be recorded."""
        self._stream.begin_capture()
        try:
            self.enqueue(launches, chain)
        except BaseException:
            with contextlib.suppress(Exception):
                self._stream.end_capture()
            raise
        graph = self._stream.end_capture()
        graph.upload(self._stream)
        return graph

    def launch(self, graph: Any) -> None:
        """Launch a graph."""
        graph.launch(self._stream)

    def seconds_of(self, graph: Any, repeats: int) -> float:
        """Launch a graph several times and wait: the median time of one, by the device's clock."""
        return self._median(lambda: graph.launch(self._stream), repeats)

    def seconds_of_each(self, launches: Sequence[plan.Launch], chain: npt.NDArray[Any], repeats: int) -> list[float]:
        """Launch kernels one by one, all of the chain several times, and wait: the median time of each."""
        rounds = []
        for _ in range(repeats):
            marks = [self._mark()]
            for one in launches:
                self.enqueue([one], chain)
                marks.append(self._mark())
            self.synchronize()
            rounds.append([self._seconds_between(a, b) for a, b in pairwise(marks)])
        return [statistics.median(times) for times in zip(*rounds, strict=True)]

    def _median(self, launch: Callable[[], None], repeats: int) -> float:
        times = []
        for _ in range(repeats):
            before = self._mark()
            launch()
            after = self._mark()
            self.synchronize()
            times.append(self._seconds_between(before, after))
        return statistics.median(times)

    def _mark(self) -> Any:
        event = self._cuda.Event()
        event.record(self._stream)
        return event

    def _seconds_between(self, before: Any, after: Any) -> float:
        return float(self._cuda.get_elapsed_time(before, after)) / 1000

    def synchronize(self) -> None:
        """Wait until everything on the stream is done."""
        self.synchronizations += 1
        self._stream.synchronize()

    def failure_of(self, error: BaseException) -> Failure | None:
        """Return what an error says of the device; None for one that is not the device's."""
        return failure_of(self._cupy, error)


def failure_of(cupy: Any, error: BaseException) -> Failure | None:
    """As Device.failure_of."""
    text = str(error)
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
        return Failure(None, True, text)
    if isinstance(error, (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)):
        return Failure(int(error.status), False, text)
    if isinstance(error, (cupy.cuda.nvrtc.NVRTCError, cupy.cuda.compiler.CompileException)):
        return Failure(None, False, text)
    return None


def open_device(kernels: Sequence[str]) -> Device:
    """Open the first device that this process may see (CUDA_VISIBLE_DEVICES says which), with its kernels compiled.

    Raises NoDeviceError, with the reason in one line.
    """
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            raise NoDeviceError("CuPy is not installed (`pip install tokseam[gpu]`)") from None
        raise NoDeviceError(f"CuPy does not import: {_first_line(error)}") from None
    except Exception as error:  # it meets CUDA's libraries here, and whatever is wrong with them
        raise NoDeviceError(f"CuPy does not import: {_first_line(error)}") from None
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise NoDeviceError("no device")
        device = Device(cupy)
        if device.capability < LEAST_CAPABILITY:
            have, need = f"{device.capability / 10:.1f}", f"{LEAST_CAPABILITY / 10:.1f}"
            raise NoDeviceError(f"{device.name} has compute capability {have}; the kernels need {need}")
        device.compile(kernels)
    except NoDeviceError:
        raise
    except Exception as error:
        raise NoDeviceError(_why(cupy, error)) from None
    return device


def _why(cupy: Any, error: Exception) -> str:
    driver = runtime = 0
    with contextlib.suppress(Exception):
        driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    if isinstance(error, (cupy.cuda.nvrtc.NVRTCError, cupy.cuda.compiler.CompileException)):
        return f"the kernels do not compile here: {_first_line(error)}"
    failure = failure_of(cupy, error)
    return failures.explain(failure.status if failure else None, str(error) or repr(error), driver, runtime)


def _first_line(error: BaseException) -> str:
    """Return the first line with words in it: CuPy draws lines around what it says."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if any(map(str.isalpha, line))), repr(error))
