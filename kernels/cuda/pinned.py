"""Host memory that the device reads and writes by itself, taken once and used again for every launch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .device import Device

#: Where an array begins is a multiple of this: a line of the host's cache.
ALIGNMENT_BYTES = 64


class Pinned:
    """Pinned memory that grows to what was asked for most, and is used from its begin each time."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._memory = np.empty(0, dtype=np.uint8)
        self._used = 0

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    def begin(self, *nbytes: int) -> None:
        """Make room for arrays of so many bytes. What was taken before is gone."""
        wanted = max(1, sum(map(_padded, nbytes)))
        if wanted > self._memory.nbytes:
            self._memory = np.empty(0, dtype=np.uint8)  # given back before more is taken
            self._memory = self._device.pinned(1 << (wanted - 1).bit_length())
        self._used = 0

    def u8(self, count: int) -> npt.NDArray[np.uint8]:
        taken = self._memory[self._used : self._used + count]
        self._used += _padded(count)
        return taken

    def u32(self, count: int) -> npt.NDArray[np.uint32]:
        return self.u8(4 * count).view(np.uint32)


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
