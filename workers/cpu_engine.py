"""The batch engine on processor cores: long texts are parted over them at synchronizing positions, short ones dealt.

It needs no memory but that of the answers, so it is what takes over from every other batch engine. Limits: how a text
is parted is the engine's matter (kernels/native/parallel.hpp, marked_encode.hpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from tokseam.kernels import engine

from .batch_engine import Document

#: Bytes from which on a text is parted over all cores: the engine's parts are at least half of this.
LONG_BYTES: Final = 128 * 1024
#: Bytes of texts in a batch: some 0.1 s of work for two cores, which whoever comes next has to wait for.
BATCH_BYTES: Final = 4 * 1024 * 1024
#: Texts in a batch: what one pass of the worker's loop may hold up the replies of the first for.
BATCH_DOCUMENTS: Final = 256
#: Shares of the short texts for each thread: so that one with longer texts does not keep the others waiting.
SHARES: Final = 4

_NONE = np.empty(0, dtype=np.uint32)


class CpuEngine:
    """A batch engine on `threads` cores."""

    batch_bytes = BATCH_BYTES
    batch_documents = BATCH_DOCUMENTS

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.name = f"cpu, {threads} thread{'s' if threads > 1 else ''}"
        #: The other threads; this one works too.
        self._pool = ThreadPoolExecutor(threads - 1, "encode") if threads > 1 else None

    def encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> Sequence[engine.Marked | Exception]:
        """Encode a batch; see BatchEngine. Never raises."""
        found: list[engine.Marked | Exception] = [MemoryError()] * len(documents)
        short: list[int] = []
        for number, document in enumerate(documents):
            if len(document.text) >= LONG_BYTES:
                found[number] = _encode(tokenizer, document, self.threads)
            else:
                short.append(number)

        def share(first: int, step: int) -> None:
            for number in short[first::step]:
                found[number] = _encode(tokenizer, documents[number], 1)

        if self._pool is None or len(short) < 2:
            share(0, 1)
            return found
        shares = min(self.threads * SHARES, len(short))
        others = [self._pool.submit(share, first, shares) for first in range(1, shares)]
        share(0, shares)
        for other in others:
            other.result()
        return found

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def _encode(tokenizer: engine.Tokenizer, document: Document, threads: int) -> engine.Marked | Exception:
    add, split = document.add_special_tokens, document.split_special_tokens
    try:
        if document.marked:
            return tokenizer.encode_marked(
                document.text, add_special_tokens=add, split_special_tokens=split, threads=threads
            )
        ids = tokenizer.encode(document.text, add_special_tokens=add, split_special_tokens=split, threads=threads)
    except Exception as error:  # this text's own: the others of the batch are answered
        return error
    return engine.Marked(ids, _NONE, _NONE)
