"""Texts that tokenizers choke on, each of any length: one piece without an end, or a literal that never closes.

`number` makes each run's text another one, so that no cache of whole pieces answers it: the length differs by a few
characters, or the random letters do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_COMMON_CJK = range(0x4E00, 0x9FA0)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MARKS = "\u0301\u0323\u0308\u0327"


def _one_letter(chars: int, number: int, _literals: Sequence[str]) -> str:
    return "a" * (chars - 7 * number)


def _random_letters(chars: int, number: int, _literals: Sequence[str]) -> str:
    return "".join(random.Random(number).choices(_LETTERS, k=chars))


def _cjk(chars: int, number: int, _literals: Sequence[str]) -> str:
    return "".join(map(chr, random.Random(number).choices(_COMMON_CJK, k=chars)))


def _spaces(chars: int, number: int, _literals: Sequence[str]) -> str:
    return " " * (chars - 7 * number)


def _digits(chars: int, number: int, _literals: Sequence[str]) -> str:
    return "".join(random.Random(number).choices("0123456789", k=chars))


def _marks(chars: int, number: int, _literals: Sequence[str]) -> str:
    return "a" + "".join(random.Random(number).choices(_MARKS, k=chars - 1))


def _prefixes(chars: int, number: int, literals: Sequence[str]) -> str:
    """Proper prefixes of the longest added tokens, one after another."""
    rng = random.Random(number)
    longest = sorted((literal for literal in literals if len(literal) > 2), key=len)[-8:] or ["<|endoftext|>"]
    parts: list[str] = []
    size = 0
    while size < chars:
        literal = rng.choice(longest)
        parts.append(literal[: rng.randrange(1, len(literal))])
        size += len(parts[-1])
    return "".join(parts)[:chars]


KINDS: dict[str, Callable[[int, int, Sequence[str]], str]] = {
    "one letter": _one_letter,
    "random letters": _random_letters,
    "CJK": _cjk,
    "spaces": _spaces,
    "digits": _digits,
    "combining marks": _marks,
    "literal prefixes": _prefixes,
}


def make(kind: str, chars: int, number: int, literals: Sequence[str]) -> str:
    """Return the text of a kind: about `chars` characters, another one for each `number`."""
    return KINDS[kind](chars, number, literals)
