"""The batch engine on a GPU: kernels/cuda/launcher.py, and the CPU engine for the documents that it leaves.

Limits: sizes, launches and what a failure means are the launcher's matter; who takes over from it is fresh_core.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tokseam.kernels import engine
from tokseam.kernels.cuda.launcher import Launcher
from tokseam.kernels.errors import DeviceError

from .batch_engine import BatchEngine, BatchEngineError, Document

#: Bytes of texts in a batch: some 5 to 10 ms of a device's work, which whoever comes next has to wait for.
BATCH_BYTES: Final = 32 * 1024 * 1024
#: Texts in a batch: what one pass of the worker's loop may hold up the replies of the first for.
BATCH_DOCUMENTS: Final = 1024


class GpuEngine:
    """A batch engine on a launcher's device. `cpu` encodes the documents that the device leaves."""

    batch_bytes = BATCH_BYTES
    batch_documents = BATCH_DOCUMENTS

    def __init__(self, launcher: Launcher, cpu: BatchEngine) -> None:
        self.name = f"gpu, {launcher.name}"
        self._launcher = launcher
        self._cpu = cpu

    def encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> Sequence[engine.Marked | Exception]:
        """Encode a batch; see BatchEngine. Raises BatchEngineError."""
        try:
            answered = self._launcher.encode(tokenizer, documents)
        except DeviceError as error:
            raise BatchEngineError(str(error), error.lost) from error
        left = [number for number, one in enumerate(answered) if one is None]
        by_cpu = iter(self._cpu.encode(tokenizer, [documents[number] for number in left]) if left else ())
        return [next(by_cpu) if one is None else one for one in answered]

    def close(self) -> None:
        self._launcher.close()
