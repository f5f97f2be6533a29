"""The one way in which compiling says no: the tokenizer then runs by the reference."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault
    """What cannot be proved exact, in words. The text becomes the `reason` that `tokenizers()` reports."""
