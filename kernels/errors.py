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


class NoDeviceError(Exception):
    """There is no GPU to launch on here, and why, in one line. The CPU encodes."""


class DeviceError(Exception):
    """A batch could not be encoded on a GPU, for no fault of its texts: the CPU has to do it.

    lost: and all that follow.
    """

    def __init__(self, message: str, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost
