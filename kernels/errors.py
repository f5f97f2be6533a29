"""The engine's errors. The client and the wire map them one to one onto their own (see broker/protocol.py)."""

from __future__ import annotations


class EngineError(Exception):
    """Whatever the engine refuses; the session and the tokenizer are as they were before the call."""


class BadTextError(EngineError, ValueError):
    """The text is not Unicode: the caller must mend it.

    position: where the first offending unit lies; unit: 'character' (a str) or 'byte' (UTF-8 bytes).
    """

    def __init__(self, message: str, position: int, unit: str) -> None:
        super().__init__(message)
        self.position = position
        self.unit = unit


class BadEditError(EngineError, ValueError):
    """An edit's range does not lie in the session's text: the caller must mend it."""


class BadIdError(EngineError, ValueError):
    """An id that no tokenizer entry has: the caller must mend it."""


class BadTokenizerError(EngineError, ValueError):
    """The tokenizer's file or object can't be read as a tokenizer: the operator must mend it."""


class UnsupportedError(EngineError):
    """The tokenizer's reference has no way to answer this question."""


class BadSeedError(EngineError, ValueError):
    """What should seed a session can't be of its text: whoever made it is at fault, and the text must be encoded."""
