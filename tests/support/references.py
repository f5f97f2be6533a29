"""Fresh reference objects, built here from a tokenizer's bytes and sharing nothing with the package under test.

`HuggingFace` and `Tiktoken` answer ids and offsets, and say whether claimed pieces are the reference's own. Slow and
plain on purpose; nothing here imports tokseam.
"""

from __future__ import annotations

import json
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import tiktoken
from tokenizers import Tokenizer

#: Runs of short pieces are probed for joined pieces up to this many bytes (and for the whole run).
JOINED_BYTES = 12


class Reference(Protocol):
    """The contract's answers. Positions are code points."""

    def ids(self, text: str, add_special_tokens: bool = False, split_special_tokens: bool = False) -> list[int]: ...
    def ids_and_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]: ...
    def pieces_error(self, text: str, claimed: list[int], split_special_tokens: bool = False) -> str: ...


class HuggingFace:
    """`tokenizers`, from the bytes of a tokenizer.json."""

    def __init__(self, content: bytes) -> None:
        self._content = content.decode()
        self._plain = Tokenizer.from_str(self._content)
        self._plain.encode_special_tokens = False

    # Made when first asked for: reading a large tokenizer.json takes seconds.
    @cached_property
    def _split(self) -> Tokenizer:
        tokenizer = Tokenizer.from_str(self._content)
        tokenizer.encode_special_tokens = True
        return tokenizer

    @cached_property
    def _bare(self) -> Tokenizer:
        # A post-processor may trim offsets; pieces are those of the pre-tokenizer.
        content: dict[str, Any] = json.loads(self._content)
        content["post_processor"] = None
        return Tokenizer.from_str(json.dumps(content))

    @classmethod
    def from_file(cls, path: Path) -> HuggingFace:
        return cls(path.read_bytes())

    def ids(self, text: str, add_special_tokens: bool = False, split_special_tokens: bool = False) -> list[int]:
        tokenizer = self._split if split_special_tokens else self._plain
        return list(tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def ids_and_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = self._plain.encode(text, add_special_tokens=False)
        return list(encoding.ids), list(encoding.offsets)

    def pieces(self, text: str, split_special_tokens: bool = False) -> list[int]:
        self._bare.encode_special_tokens = split_special_tokens
        encoding = self._bare.encode(text, add_special_tokens=False)
        starts: list[int] = []
        before = None
        for word, (start, _stop) in zip(encoding.word_ids, encoding.offsets, strict=True):
            if word != before:
                starts.append(start)
            before = word
        return starts

    def pieces_error(self, text: str, claimed: list[int], split_special_tokens: bool = False) -> str:
        """Return '' when `claimed` are the starts of the pieces that hold an id, else the first difference."""
        found = self.pieces(text, split_special_tokens)
        if found == claimed:
            return ""
        at = next(
            (i for i, (a, b) in enumerate(zip(found, claimed, strict=False)) if a != b), min(len(found), len(claimed))
        )
        return f"piece {at}: the reference has starts {found[at : at + 3]}, claimed are {claimed[at : at + 3]}"


class Tiktoken:
    """A `tiktoken.Encoding`, taken apart and built again."""

    def __init__(self, pattern: str, ranks: dict[bytes, int], special_tokens: dict[str, int]) -> None:
        self._pattern = pattern
        self._special_tokens = special_tokens
        self._encoding = tiktoken.Encoding(
            "fresh", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_tokens
        )

    @classmethod
    def from_encoding(cls, encoding: Any) -> Tiktoken:
        return cls(encoding._pat_str, dict(encoding._mergeable_ranks), dict(encoding._special_tokens))

    def ids(self, text: str, add_special_tokens: bool = False, split_special_tokens: bool = False) -> list[int]:
        if split_special_tokens:
            return list(self._encoding.encode_ordinary(text))
        return list(self._encoding.encode(text, allowed_special="all"))

    def ids_and_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        ids = self.ids(text)
        owner: list[int] = []  # byte position -> the character it belongs to
        for position, character in enumerate(text):
            owner += [position] * len(character.encode())
        spans: list[tuple[int, int]] = []
        at = 0
        for piece in self._encoding.decode_tokens_bytes(ids):
            stop = at + len(piece)
            spans.append((owner[at], owner[stop - 1] + 1))
            at = stop
        return ids, spans

    def pieces_error(self, text: str, claimed: list[int], split_special_tokens: bool = False) -> str:
        """Return '' when `claimed` are tiktoken's own pieces, else what differs.

        tiktoken does not tell its pieces, but it looks a whole piece up before it merges. Two encodings with the same
        pattern make that visible:
        - the first holds every claimed piece of three bytes or more, and whatever neighbouring shorter ones could be
          joined to, but no string of two bytes: so nothing ever merges, a piece that is not looked up whole falls into
          its bytes, and any piece of three bytes or more that was not claimed shows itself;
        - the second holds every claimed piece, and every two bytes that stand side by side in runs of short pieces.
          Longer pieces are right by now, and each shorter one is one id or shows itself.
        """
        bounds = [*claimed, len(text)]
        if claimed != sorted(set(claimed)) or (text and claimed[:1] != [0]) or (claimed and claimed[-1] >= len(text)):
            return f"the claimed starts do not cut the text: {claimed[:3]} ... {claimed[-3:]}"
        pieces = [text[start:stop].encode() for start, stop in pairwise(bounds)]
        literals = () if split_special_tokens else tuple(self._special_tokens)
        special = {literal.encode() for literal in literals}
        long = {piece for piece in pieces if len(piece) >= 3 and piece not in special}
        pairs: set[bytes] = set()
        joined: set[bytes] = set()
        for run in _short_runs(pieces):
            pairs.update(run[at : at + 2] for at in range(len(run) - 1))
            if len(run) >= 3:
                joined.add(run)
            for size in range(3, JOINED_BYTES + 1):
                joined.update(run[at : at + size] for at in range(len(run) - size + 1))
        for extra, shortest in ((long | joined, 3), (long | pairs, 2)):
            difference = self._difference(text, pieces, literals, extra, shortest)
            if difference:
                return difference
        return ""

    def _difference(
        self, text: str, pieces: list[bytes], literals: tuple[str, ...], extra: set[bytes], shortest: int
    ) -> str:
        ranks = {bytes([byte]): byte for byte in range(256)}
        for entry in sorted(extra):
            ranks[entry] = len(ranks)
        special = {literal: len(ranks) + index for index, literal in enumerate(literals)}
        encoding = tiktoken.Encoding("pieces", pat_str=self._pattern, mergeable_ranks=ranks, special_tokens=special)
        expected: list[int] = []
        owner: list[int] = []
        for index, piece in enumerate(pieces):
            literal = special.get(piece.decode())
            if literal is not None:
                part = [literal]
            elif len(piece) >= shortest:
                part = [ranks[piece]]
            else:
                part = list(piece)
            expected += part
            owner += [index] * len(part)
        found = encoding.encode(text, allowed_special="all")
        if found == expected:
            return ""
        at = next(
            (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), min(len(found), len(expected))
        )
        index = owner[at] if at < len(owner) else len(pieces)
        return f"about piece {index}: claimed are {pieces[max(0, index - 1) : index + 3]}, tiktoken cuts otherwise"


def _short_runs(pieces: list[bytes]) -> list[bytes]:
    """Return the joined runs of neighbouring pieces of one or two bytes."""
    runs: list[bytes] = []
    run = b""
    for piece in [*pieces, b"..."]:
        if len(piece) <= 2:
            run += piece
        else:
            if run:
                runs.append(run)
            run = b""
    return runs
