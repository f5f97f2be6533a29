"""What encodes the batches of a fresh worker: the interface, and nothing else.

A batch engine takes texts of one tokenizer and returns for each its ids, equal to the reference's, and where a session
is to be seeded also its cuts and marks. cpu_engine.py is one; one on a GPU stands at the same place. Whatever a batch
engine can't do any more (no memory on its device, a device that is lost) it says by BatchEngineError, and the CPU
engine encodes that batch instead: nothing is lost, and a counter tells.

Which one a fresh worker has is fresh.py's choice (`engines_of`).

Limits: no requests, no replies, no sockets; a batch engine sees texts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tokseam.broker.protocol import Buffer
from tokseam.kernels import engine


class Document(NamedTuple):
    """One text of a batch. Documents never see each other."""

    #: UTF-8, not checked yet.
    text: Buffer
    add_special_tokens: bool = False
    split_special_tokens: bool = False
    #: Whether cuts and marks are wanted too; never for a tokenizer that its reference answers.
    marked: bool = False


class BatchEngineError(Exception):
    """A batch could not be encoded here, for no fault of its texts: the CPU engine has to do it.

    lost: whether the next batch need not be tried.
    """

    def __init__(self, message: str, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class BatchEngine(Protocol):
    """Encodes batches, for one thread at a time."""

    @property
    def name(self) -> str:
        """For people: what it runs on, in a few words."""

    @property
    def batch_bytes(self) -> int:
        """Bytes of texts that one call should get at most; a longer text comes alone."""

    @property
    def batch_documents(self) -> int:
        """Texts that one call should get at most."""

    def encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> Sequence[engine.Marked | Exception]:
        """Return for each document its ids (a template's included), cuts and marks, or what is wrong with it alone.

        Cuts and marks are empty where they are not wanted. A text that is no Unicode is a BadTextError in its place.
        Raises BatchEngineError.
        """

    def close(self) -> None:
        """Give back what it holds."""
