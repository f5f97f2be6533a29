"""Ids and positions between Python and the wire's little-endian uint32, without a Python loop over them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import BadRequestError, InternalError

if TYPE_CHECKING:
    from tokseam.broker.protocol import Buffer

#: Bytes of text in one message of a batch: some tens of milliseconds of work, so that several workers share a batch.
BATCH_BYTES = 256 * 1024


def numbers(body: Buffer) -> npt.NDArray[np.uint32]:
    """Return a body as an array that the caller owns."""
    if len(body) % 4:
        raise InternalError(f"{len(body)} bytes are no sequence of uint32")
    return np.frombuffer(body, dtype="<u4").astype(np.uint32)


def as_list(ids: npt.NDArray[np.uint32]) -> list[int]:
    """Return ids as a list. Equal ids share one number: to make one for each is most of what a list costs."""
    made: list[int] = _native().list_of(ids)
    return made


def id_list(body: Buffer) -> list[int]:
    """Return a body as a list."""
    if len(body) % 4:
        raise InternalError(f"{len(body)} bytes are no sequence of uint32")
    made: list[int] = _native().list_of_packed(bytes(body))
    return made


@cache
def _native() -> Any:
    from tokseam.kernels import _native as native  # here, so that errors and types load without the engine

    return native


def positions(body: Buffer) -> npt.NDArray[np.int64]:
    return numbers(body).astype(np.int64)


def packed_ids(ids: Sequence[int] | npt.NDArray[np.uint32]) -> bytes:
    """Pack ids. Raises BadRequestError naming the position of the first that is no uint32."""
    try:
        given = np.asarray(ids)
        if given.size == 0:
            return b""
        if given.ndim == 1 and given.dtype.kind in "iu" and int(given.min()) >= 0 and int(given.max()) < 2**32:
            return given.astype("<u4", copy=False).tobytes()
    except (ValueError, OverflowError, TypeError):
        pass
    for position, one in enumerate(ids):
        if not isinstance(one, (int, np.integer)) or isinstance(one, bool) or not 0 <= one < 2**32:
            raise BadRequestError(f"ids: entry {position} is {one!r:.40}, not an id", position)
    return np.array([int(one) for one in ids], dtype="<u4").tobytes()


def batches(texts: Sequence[bytes]) -> list[list[Buffer]]:
    """Group encoded texts into bodies of about BATCH_BYTES: byte lengths, then the texts one after the other."""
    groups: list[list[Buffer]] = []
    group: list[bytes] = []
    size = 0
    for text in texts:
        if group and size + len(text) > BATCH_BYTES:
            groups.append(_body(group))
            group, size = [], 0
        group.append(text)
        size += len(text)
    if group:
        groups.append(_body(group))
    return groups


def _body(texts: list[bytes]) -> list[Buffer]:
    return [np.array([len(text) for text in texts], dtype="<u4").tobytes(), b"".join(texts)]


def flat_ids(counts: Buffer, ids: Buffer) -> list[list[int]]:
    """Split a batch's ids by text."""
    ends = np.cumsum(numbers(counts), dtype=np.int64).tolist()
    flat = id_list(ids)
    if (ends[-1] if ends else 0) != len(flat):
        raise InternalError("a batch's counts do not come to its ids")
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
