r"""Ask the reference engines which code points an atom holds, one by one.

Never Python's or any library's Unicode data: the engines disagree with them, and with each other, on thousands of code
points.
What was probed is kept in the user's cache, keyed by the engine, its version and the atom: another version is probed
anew.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import PreTokenizedString, Regex, pre_tokenizers

from .. import cache, engines
from .refusal import Refusal
from .regex_syntax import Dialect

CODE_POINTS = 0x110000

#: Characters that one call of the reference is asked about: what it makes of them fits the processor's caches. A power
#: of two, so that no characters that belong together are parted.
_PART = 4096

#: Membership of every code point; surrogates, which no text holds, are never members.
Members = npt.NDArray[np.bool_]


@functools.lru_cache(maxsize=1)
def every_character() -> str:
    """Return all 1,112,064 characters in order: every code point but the surrogates."""
    points = np.arange(CODE_POINTS, dtype="<u4")
    return points[(points < 0xD800) | (points > 0xDFFF)].tobytes().decode("utf-32-le")


def parts(text: str) -> Iterator[str]:
    """Part a text for so many calls of the reference."""
    return (text[at : at + _PART] for at in range(0, len(text), _PART))


def _pieces(stage: Any, text: str) -> list[str]:
    """Return what a stage of the reference splits a text into."""
    # PERF: pre_tokenize_str also maps every byte to its character, for spans; that takes five times as long.
    parted = PreTokenizedString(text)
    stage.pre_tokenize(parted)
    return [piece for piece, _, _ in parted.get_splits("original", "byte")]


def members_of(text: str) -> Members:
    """Return which code points occur in `text`."""
    members = np.zeros(CODE_POINTS, dtype=bool)
    members[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")] = True
    return members


def probe_atom(source: str, dialect: Dialect) -> Members:
    """Return the members of one atom. Raises Refusal when the engine does not accept it."""
    return _cached(f"{dialect}\0{source}", dialect, lambda: (_probe_onig if dialect == "onig" else _probe_rust)(source))


def probe_numeric() -> Members:
    """Return what the reference's Digits stage takes for a digit."""
    return _cached("digits", "onig", lambda: _probe_isolated(pre_tokenizers.Digits(individual_digits=True)))


def probe_punctuation() -> Members:
    """Return what the reference's Punctuation stage takes for punctuation."""
    return _cached("punctuation", "onig", lambda: _probe_isolated(pre_tokenizers.Punctuation("isolated")))


def probe_spaces() -> Members:
    """Return the white space that added tokens take along (lstrip, rstrip): the \\s of the reference's own regexes."""
    return _cached("added token space", "onig", _probe_spaces)


def probe_words() -> Members:
    """Return the characters that a single_word added token may not stand beside: the \\w of the same regexes."""
    return _cached("added token word", "onig", _probe_words)


def probe_signs() -> Members:
    """Return what the reference's Whitespace stage takes for neither words nor white space."""
    members = ~(probe_words() | probe_spaces())
    members[0xD800:0xE000] = False
    return members


def probe_split_spaces() -> Members:
    """Return what the reference's WhitespaceSplit stage drops."""
    return _cached("whitespace split", "onig", lambda: _probe_dropped(pre_tokenizers.WhitespaceSplit()))


def _cached(what: str, dialect: str, probe: Any) -> Members:
    key = f"{engines.version(dialect)}\0{what}"
    packed = cache.get("classes", key)
    if packed is None or len(packed) != CODE_POINTS // 8:
        members: Members = probe()
        cache.put("classes", key, np.packbits(members).tobytes())
        return members
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).view(bool)


def _probe_onig(source: str) -> Members:
    try:
        split = pre_tokenizers.Split(Regex(source), "removed")
    except Exception as error:
        raise Refusal(f"the reference engine does not accept {source!r}: {error}") from None
    return _probe_dropped(split)


def _probe_rust(source: str) -> Members:
    import tiktoken  # only reached through a tiktoken.Encoding

    # What the pattern does not match, tiktoken drops: with single bytes as its vocabulary, the ids are the members'
    # UTF-8.
    probe = tiktoken.Encoding(
        "probe", pat_str=source, mergeable_ranks={bytes([byte]): byte for byte in range(256)}, special_tokens={}
    )
    return members_of(bytes(probe.encode_ordinary(every_character())).decode())


def _probe_isolated(stage: Any) -> Members:
    # A letter between every two characters, so that a piece without one is a match by itself.
    fenced = ("a" + "a".join(part) + "a" for part in parts(every_character()))
    pieces = (piece for text in fenced for piece in _pieces(stage, text))
    return members_of("".join(piece for piece in pieces if "a" not in piece))


def _probe_spaces() -> Members:
    # The Whitespace stage splits by \w+|[^\w\s]+ of those regexes and drops the rest.
    return _probe_dropped(pre_tokenizers.Whitespace())


def _probe_dropped(stage: Any) -> Members:
    left_over = "".join(piece for part in parts(every_character()) for piece in _pieces(stage, part))
    members = ~members_of(left_over)
    members[0xD800:0xE000] = False
    return members


def _probe_words() -> Members:
    stage = pre_tokenizers.Whitespace()
    fenced = (" a" + "  a".join(part) + " " for part in parts(every_character()))
    pieces = (piece for text in fenced for piece in _pieces(stage, text))
    return members_of("".join(piece[1:] for piece in pieces if len(piece) == 2 and piece[0] == "a"))


def check_no_sequences(sources: list[str], dialect: Dialect) -> None:
    r"""Refuse case-insensitive literals that one other character matches as a whole (\u00df for ss, \ufb06 for st).

    `sources` are adjacent case-insensitive atoms; Oniguruma folds up to three characters together.
    """
    if dialect == "rust":
        return  # simple case folding only: one character for one
    inner = [source[len("(?i:") : -1] for source in sources]
    for length in (2, 3):
        for start in range(len(inner) - length + 1):
            joined = "".join(inner[start : start + length])
            if probe_atom(f"(?i:{joined})", dialect).any():
                raise Refusal(f"under (?i) one character matches {joined!r} as a whole")
