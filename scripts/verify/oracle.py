"""Fresh reference tokenizers for a campaign, asked many texts at a time. They share nothing with the engine's own.

An answer holds ids, spans, and where the pieces start. Hugging Face tells all three. tiktoken tells no pieces, so
`wrong_starts` makes its pattern show them. Limits: nothing here knows the engine, and nothing here is sampled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, pre_tokenizers

Spans = npt.NDArray[np.int64]

#: Runs of short pieces are probed for pieces that should have been joined up to this many bytes.
JOINED_BYTES = 12


class Answer(NamedTuple):
    """What the reference says of one text. Positions are code points; None: not asked, or not told."""

    ids: list[int]
    spans: Spans | None
    starts: list[int] | None


class Oracle(Protocol):
    """A fresh reference."""

    #: id -> content of the added tokens.
    literals: dict[int, str]
    #: May a text's right side be encoded by itself, or does the reference treat the start of every text specially?
    sides_stand_alone: bool

    def answers(self, texts: Sequence[str], spans: bool = True) -> list[Answer]: ...
    def ids(self, texts: Sequence[str], add_special: bool = False, split_special: bool = False) -> list[list[int]]: ...
    def wrong_starts(self, texts: Sequence[str], claimed: Sequence[list[int]]) -> int | None: ...
    def starts(self, texts: Sequence[str]) -> list[list[int]] | None: ...
    def normalized(self, text: str) -> str: ...


class HuggingFaceOracle:
    """`tokenizers`, built from the content of a tokenizer.json."""

    def __init__(self, content: str) -> None:
        self._content = content
        described: dict[str, Any] = json.loads(content)
        self._whole = Tokenizer.from_str(content)
        self._whole.encode_special_tokens = False
        self._split: Tokenizer | None = None
        # A post-processor may trim spans, and a trimmed span does not tell where a piece starts.
        self._trims = '"trim_offsets": true' in json.dumps(described.get("post_processor"))
        self._bare = self._whole
        if self._trims:
            described["post_processor"] = None
            self._bare = Tokenizer.from_str(json.dumps(described))
            self._bare.encode_special_tokens = False
        self._splitter = _splitter(json.loads(content))
        self.literals = {id_: token.content for id_, token in self._whole.get_added_tokens_decoder().items()}
        front = json.dumps([described.get("normalizer"), described.get("pre_tokenizer")])
        self.sides_stand_alone = not any(
            sign in front
            for sign in ('"Prepend"', '"add_prefix_space": true', '"prepend_scheme": "first"', '"always"', '"Strip"')
        )

    def answers(self, texts: Sequence[str], spans: bool = True) -> list[Answer]:
        found = self._bare.encode_batch(list(texts), add_special_tokens=False)
        trimmed: Sequence[Any] = found
        if self._trims:
            trimmed = self._whole.encode_batch(list(texts), add_special_tokens=False) if spans else [None] * len(texts)
        return [self._answer(bare, whole) for bare, whole in zip(found, trimmed, strict=True)]

    def _answer(self, bare: Any, whole: Any) -> Answer:
        offsets = bare.offsets
        starts, before = [], -1
        for word, span in zip(bare.word_ids, offsets, strict=True):
            if word != before:
                starts.append(span[0])
                before = word
        if whole is None:
            return Answer(bare.ids, None, starts)
        spans = np.array(offsets if whole is bare else whole.offsets, dtype=np.int64).reshape(-1, 2)
        return Answer(whole.ids, spans, starts)

    def ids(self, texts: Sequence[str], add_special: bool = False, split_special: bool = False) -> list[list[int]]:
        if split_special and self._split is None:
            self._split = Tokenizer.from_str(self._content)
            self._split.encode_special_tokens = True
        tokenizer = self._split if split_special and self._split is not None else self._whole
        return [e.ids for e in tokenizer.encode_batch_fast(list(texts), add_special_tokens=add_special)]

    def wrong_starts(self, texts: Sequence[str], claimed: Sequence[list[int]]) -> int | None:
        raise AssertionError("its answers tell the starts, so nobody asks")

    def starts(self, texts: Sequence[str]) -> list[list[int]] | None:
        """Return where the pieces start, without encoding them; None where that can't be told."""
        if self._splitter is None:
            return None
        return [
            [start for start, _ in encoding.offsets]
            for encoding in self._splitter.encode_batch(list(texts), add_special_tokens=False)
        ]

    def normalized(self, text: str) -> str:
        normalizer = self._whole.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))


def _splitter(described: dict[str, Any]) -> Tokenizer | None:
    """Return the same tokenizer with a model that makes one unknown token of every piece, which saves all merging.

    None where a piece can have no id at all (a vocabulary without some byte), since such pieces are not counted as any.
    """
    vocabulary = described["model"].get("vocab", {})
    if not isinstance(vocabulary, dict) or any(char not in vocabulary for char in pre_tokenizers.ByteLevel.alphabet()):
        return None
    described["model"] = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
    described["post_processor"] = None
    try:
        tokenizer: Tokenizer = Tokenizer.from_str(json.dumps(described))
    except Exception:
        return None
    tokenizer.encode_special_tokens = False
    return tokenizer


class TiktokenOracle:
    """A `tiktoken.Encoding`, taken apart and built again."""

    sides_stand_alone = True

    def __init__(self, encoding: Any) -> None:
        import tiktoken

        self._make: Any = tiktoken.Encoding
        self._pattern: str = encoding._pat_str
        self._special: dict[str, int] = dict(encoding._special_tokens)
        self._encoding = self._make(
            "fresh",
            pat_str=self._pattern,
            mergeable_ranks=dict(encoding._mergeable_ranks),
            special_tokens=self._special,
        )
        self.literals = {id_: content for content, id_ in self._special.items()}

    def answers(self, texts: Sequence[str], spans: bool = True) -> list[Answer]:
        return [Answer(ids, self._spans(text, ids), None) for text, ids in zip(texts, self.ids(texts), strict=True)]

    def _spans(self, text: str, ids: list[int]) -> Spans:
        lengths = [len(piece) for piece in self._encoding.decode_tokens_bytes(ids)]
        ends = np.cumsum(np.array(lengths, dtype=np.int64))
        sizes = [len(character.encode()) for character in text]
        owner = np.repeat(np.arange(len(text), dtype=np.int64), np.array(sizes, dtype=np.int64))
        if not len(ends):
            return np.empty((0, 2), dtype=np.int64)
        return np.stack([owner[ends - lengths], owner[ends - 1] + 1], axis=1)

    def ids(self, texts: Sequence[str], add_special: bool = False, split_special: bool = False) -> list[list[int]]:
        if split_special:
            return [self._encoding.encode_ordinary(text) for text in texts]
        return [self._encoding.encode(text, allowed_special="all") for text in texts]

    def wrong_starts(self, texts: Sequence[str], claimed: Sequence[list[int]]) -> int | None:
        """Return the first text whose claimed pieces are not tiktoken's own, or None.

        tiktoken looks a whole piece up before it merges. Two encodings with the same pattern make pieces visible:
        - the first holds every claimed piece of three bytes or more, and whatever neighbouring shorter ones could be
          joined to, but no string of two bytes: nothing merges, a piece that is not looked up whole falls into its
          bytes, and a piece of three bytes or more that was not claimed shows itself;
        - the second holds every claimed piece, and every two bytes that stand side by side in runs of short pieces:
          longer pieces are right by now, and each shorter one is one id or shows itself.
        """
        cut: list[list[bytes]] = []
        for index, (text, starts) in enumerate(zip(texts, claimed, strict=True)):
            if starts != sorted(set(starts)) or bool(text) != bool(starts) or (starts and starts[0] != 0):
                return index
            cut.append([text[a:b].encode() for a, b in pairwise([*starts, len(text)])])
        special = {literal.encode() for literal in self._special}
        long = {piece for pieces in cut for piece in pieces if len(piece) >= 3 and piece not in special}
        pairs: set[bytes] = set()
        joined: set[bytes] = set()
        for run in (run for pieces in cut for run in _short_runs(pieces)):
            pairs.update(run[at : at + 2] for at in range(len(run) - 1))
            joined.add(run)
            for size in range(3, JOINED_BYTES + 1):
                joined.update(run[at : at + size] for at in range(len(run) - size + 1))
        wrong = [
            self._shown(texts, cut, long | {run for run in joined if len(run) >= 3}, 3),
            self._shown(texts, cut, long | pairs, 2),
        ]
        return min((index for index in wrong if index is not None), default=None)

    def starts(self, texts: Sequence[str]) -> list[list[int]] | None:
        return None

    def _shown(self, texts: Sequence[str], cut: list[list[bytes]], extra: set[bytes], shortest: int) -> int | None:
        ranks = {bytes([byte]): byte for byte in range(256)}
        for entry in sorted(extra):
            ranks[entry] = len(ranks)
        special = {literal: len(ranks) + index for index, literal in enumerate(self._special)}
        by_bytes = {literal.encode(): id_ for literal, id_ in special.items()}
        probe = self._make("pieces", pat_str=self._pattern, mergeable_ranks=ranks, special_tokens=special)
        for index, (text, pieces) in enumerate(zip(texts, cut, strict=True)):
            expected: list[int] = []
            for piece in pieces:
                literal = by_bytes.get(piece)
                if literal is not None:
                    expected.append(literal)
                elif len(piece) >= shortest:
                    expected.append(ranks[piece])
                else:
                    expected += piece
            if probe.encode(text, allowed_special="all") != expected:
                return index
        return None

    def normalized(self, text: str) -> str:
        return text


def _short_runs(pieces: list[bytes]) -> Iterator[bytes]:
    """Yield the joined runs of neighbouring pieces of one or two bytes."""
    run = b""
    for piece in [*pieces, b"..."]:
        if len(piece) <= 2:
            run += piece
        elif run:
            yield run
            run = b""
