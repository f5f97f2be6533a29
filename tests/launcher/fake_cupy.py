"""A CuPy that is none: what kernels/cuda/device.py uses of it, over host memory, with kernels run by the emulator.

As on a device, what is put on a stream is done later: when the host waits. So a launcher that reads too early reads
noise, and one that overwrites what is still to be copied sends that. Memory is noise until written; a copy must lie in
one allocation that still has an owner. Calls are recorded, and failures injected by what is about to happen
(`Fake.fail`).

Not here: time, and anything that runs side by side.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np
from emulator import build
from tokseam.kernels import _native
from tokseam.kernels.cuda import plan

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
#: Bytes of a pattern behind each allocation, which nothing may touch.
GUARD_BYTES, GUARD, NOISE = 64, 0xA5, 0xDB
#: Blocks of a launch at most: kernels take any grid, and a fiber a thread costs.
GRID_MOST = 3


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(text or f"cudaError{status}: injected")
        self.status = status


class CUDADriverError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(f"CUDA_ERROR_{status}: injected")
        self.status = status


class NVRTCError(RuntimeError):
    pass


class CompileException(Exception):  # noqa: N818
    pass


class OutOfMemoryError(MemoryError):
    pass


class FakeError(AssertionError):
    """What a device would have answered by undefined behaviour."""


class Allocation:
    """Memory of the device, or pinned: noise at first, and a guard behind it."""

    def __init__(self, fake: Fake, nbytes: int, pinned: bool) -> None:
        self.array = np.full(nbytes + GUARD_BYTES, NOISE, dtype=np.uint8)
        self.array[nbytes:] = GUARD
        self.nbytes = nbytes
        self.ptr = self.array.ctypes.data
        if not pinned:
            fake.allocations[self.ptr] = self


class Stream:
    """Work in order, done when the host waits."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake
        self.ptr = id(self)
        self._queued: list[Callable[[], None]] = []
        self._captured: list[Callable[[], None]] | None = None

    def __enter__(self) -> Stream:
        self._fake.current = self
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._fake.current = None

    def put(self, work: Callable[[], None]) -> None:
        (self._queued if self._captured is None else self._captured).append(work)

    def begin_capture(self) -> None:
        self._fake.happens("begin_capture")
        if self._captured is not None:
            raise CUDARuntimeError(901)
        self._captured = []

    def end_capture(self) -> Graph:
        captured, self._captured = self._captured, None
        self._fake.happens("end_capture")
        if captured is None:
            raise CUDARuntimeError(903)
        return Graph(self._fake, captured)

    def synchronize(self) -> None:
        if self._captured is not None:
            raise CUDARuntimeError(900)
        queued, self._queued = self._queued, []
        self._fake.happens("synchronize")
        for work in queued:
            work()
        self._fake.check_guards()


class Graph:
    def __init__(self, fake: Fake, nodes: list[Callable[[], None]]) -> None:
        self._fake = fake
        self.nodes = nodes

    def upload(self, stream: Stream) -> None:
        self._fake.happens("graph_upload")

    def launch(self, stream: Stream) -> None:
        self._fake.happens("graph_launch")
        for node in self.nodes:
            stream.put(node)


class Event:
    """A place on a stream: the number of kernels that ran before it, a millisecond each."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake
        self.kernels = -1

    def record(self, stream: Stream) -> None:
        def mark() -> None:
            self.kernels = self._fake.calls["kernel_runs"]

        stream.put(mark)


class Fake:
    """The device behind the module: its memory, what it was asked, and which call is to fail how."""

    def __init__(self, memory_bytes: int = 256 * 1024 * 1024, library: Path | None = None) -> None:
        self.memory_bytes = memory_bytes
        self.allocations: weakref.WeakValueDictionary[int, Allocation] = weakref.WeakValueDictionary()
        self.calls: Counter[str] = Counter()
        #: Bytes that were taken when more was asked for, each time.
        self.used_at_allocs: list[int] = []
        self.current: Stream | None = None
        #: By call: after how many more of it which error is raised; an error that stays is raised ever after.
        self._failures: dict[str, tuple[int, BaseException]] = {}
        self._for_good: BaseException | None = None
        self._dead: BaseException | None = None
        self.loaded: set[str] = set()
        self.sources: list[str] = []
        self.driver_version = self.runtime_version = 13000
        self.capability = "90"
        self._library = ctypes.CDLL(str(library or build.kernels()))
        self._library.emulated_launch.restype = ctypes.c_char_p
        self._library.emulated_launch.argtypes = [
            *(ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
            *(ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64),
        ]
        self.module = self._module()

    # ---- failures ----

    def fail(self, call: str, error: BaseException, after: int = 0, for_good: bool = False) -> None:
        """Let `call` fail once, after so many that succeed; for_good: and every call of any kind from then on."""
        self._failures[call] = (after, error)
        if for_good:
            self._for_good = error

    def happens(self, call: str) -> None:
        self.calls[call] += 1
        if self._dead is not None:
            raise self._dead
        if call not in self._failures:
            return
        left, error = self._failures.pop(call)
        if left:
            self._failures[call] = (left - 1, error)
            return
        if error is self._for_good:
            self._dead = error
        try:
            raise error
        finally:
            del error  # or its traceback would keep it, and what its frames hold

    # ---- memory ----

    @property
    def used_bytes(self) -> int:
        return sum(one.nbytes for one in self.allocations.values())

    def check_guards(self) -> None:
        for one in list(self.allocations.values()):
            if (one.array[one.nbytes :] != GUARD).any():
                raise FakeError("something wrote behind an allocation")

    def _owner(self, pointer: int, nbytes: int) -> Allocation:
        for one in list(self.allocations.values()):
            if one.ptr <= pointer and pointer + nbytes <= one.ptr + one.nbytes:
                return one
        raise FakeError(f"{nbytes} bytes at {pointer:#x} lie in no allocation")

    def _alloc(self, nbytes: int) -> Allocation:
        self.happens("alloc")
        self.used_at_allocs.append(self.used_bytes)
        if self.used_bytes + nbytes > self.memory_bytes:
            raise OutOfMemoryError(f"Out of memory allocating {nbytes:,} bytes")
        return Allocation(self, nbytes, pinned=False)

    def _alloc_pinned(self, nbytes: int) -> Any:
        self.happens("alloc_pinned")
        return Allocation(self, nbytes, pinned=True).array[:nbytes]

    def _copy(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        self.happens("upload" if kind == HOST_TO_DEVICE else "download")

        def copy() -> None:
            self._owner(target if kind == HOST_TO_DEVICE else source, nbytes)
            ctypes.memmove(target, source, nbytes)

        assert self.streams[stream] is not None
        self.streams[stream].put(copy)

    # ---- kernels ----

    def _function(self, name: str) -> Callable[[tuple[int, ...], tuple[int, ...], tuple[Any, ...]], None]:
        self.happens("get_function")

        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            self.happens("kernel")
            chain, which = arguments
            assert isinstance(chain, np.ndarray)
            assert chain.size == 1, "only an array of one element is handed over by value"
            assert isinstance(which, np.uint32)
            assert self.current is not None, "a kernel outside the stream"
            if self.current._captured is not None and name not in self.loaded:
                raise CUDARuntimeError(900, "a kernel is loaded while a graph is captured")
            self.loaded.add(name)
            self.current.put(self._work(name, grid[0], block[0], chain.tobytes(), int(which)))

        return launch

    def _work(self, name: str, grid: int, threads: int, chain: bytes, which: int) -> Callable[[], None]:
        tables = chain[: _native.DEVICE_TABLES_BYTES]
        rest = np.frombuffer(chain, dtype=np.uint8)[_native.DEVICE_TABLES_BYTES :]
        capacity, pointers = rest[-16:].view(np.uint32).copy(), rest[:-16].view(np.uint64).copy()
        items = [spec.item for spec in plan.buffers(plan.Capacity(1, 1, 1), plan.Shape(0, 0, 1, False))]

        def run() -> None:
            self.happens("kernel_runs")
            ends = [*pointers[1:].tolist(), 0]
            arena = self._owner(int(pointers[0]), 1)
            ends[-1] = arena.ptr + arena.nbytes
            room = zip(pointers.tolist(), ends, items, strict=True)
            counts = np.array([(end - at) // item for at, end, item in room], dtype=np.uint64)
            error = self._library.emulated_launch(
                name.encode(),
                min(grid, GRID_MOST),
                threads,
                tables,
                pointers.ctypes.data,
                counts.ctypes.data,
                capacity.ctypes.data,
                which,
                0,
            )
            if error:
                raise FakeError(error.decode())

        return run

    # ---- the module ----

    def _module(self) -> Any:
        self.streams: dict[int, Stream] = {}

        def stream(non_blocking: bool = False) -> Stream:
            self.happens("stream")
            made = Stream(self)
            self.streams[made.ptr] = made
            return made

        def raw_module(code: str, options: tuple[str, ...], backend: str) -> Any:
            self.happens("compile")
            self.sources.append(code)
            return SimpleNamespace(get_function=self._function)

        def device_count() -> int:
            self.happens("device_count")
            return 1

        def memory_info() -> tuple[int, int]:
            self.happens("memory_info")
            return self.memory_bytes - self.used_bytes, self.memory_bytes

        pool = SimpleNamespace(free_all_blocks=lambda: self.happens("free_all_blocks"))
        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDeviceCount=device_count,
            getDeviceProperties=lambda number: {"name": b"Fake 1000"},
            driverGetVersion=lambda: self.driver_version,
            runtimeGetVersion=lambda: self.runtime_version,
            memGetInfo=memory_info,
            memcpyAsync=self._copy,
            memcpyHostToDevice=HOST_TO_DEVICE,
            memcpyDeviceToHost=DEVICE_TO_HOST,
        )
        cuda = SimpleNamespace(
            runtime=runtime,
            driver=SimpleNamespace(CUDADriverError=CUDADriverError),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            compiler=SimpleNamespace(CompileException=CompileException),
            nvrtc=SimpleNamespace(NVRTCError=NVRTCError),
            Stream=stream,
            Event=lambda: Event(self),
            get_elapsed_time=lambda before, after: float(after.kernels - before.kernels),
            Device=lambda number: SimpleNamespace(compute_capability=self.capability),
            alloc=self._alloc,
            alloc_pinned_memory=self._alloc_pinned,
        )
        return SimpleNamespace(
            cuda=cuda,
            RawModule=raw_module,
            get_default_memory_pool=lambda: pool,
            get_default_pinned_memory_pool=lambda: pool,
        )
