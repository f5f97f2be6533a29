"""Batches under the emulator, compared in ids and pieces with all that can be asked: what is recorded, a fresh
reference, the engine.

What is compared with what is counted, and so is what the kernels hand back. Which texts: cases.py and documents.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from support import shared_data
from support.cases import REFERENCE_CHARS, is_unicode
from support.references import Reference
from tokseam.kernels import engine
from tokseam.kernels.cuda import plan

from .device import Device, Encoded

#: Texts up to this size whose answers are kept, and how many: batches of small documents repeat them.
KEPT_CHARS, KEPT = 1_000, 4_096

#: What is counted: documents and their bytes; documents whose ids or pieces were compared, by what with, and how many
#: of them had the engine alone; those among them that needed the chain that normalizes (no piece of theirs is
#: compared); documents that were handed back, by why; batches, and those that were refused.
COUNTED = (
    *("batches", "documents", "bytes", "ids_as_recorded", "ids_by_reference", "ids_by_engine", "ids_by_engine_alone"),
    *("pieces_by_reference", "pieces_by_engine", "normalized", "bad_text", "suspect", "unsettled", "long_cluster"),
    "refused",
)
FLAGS = {
    plan.BAD_TEXT: "bad_text",
    plan.SUSPECT: "suspect",
    plan.UNSETTLED: "unsettled",
    plan.LONG_CLUSTER: "long_cluster",
}


@dataclass(frozen=True)
class Asked:
    """A text, how it is to be encoded, and the ids that are recorded for it, if any."""

    where: str
    text: str
    add_special_tokens: bool = False
    split_special_tokens: bool = False
    recorded: list[int] | dict[str, Any] | None = None

    @property
    def utf8(self) -> bytes:
        """The text as a device gets it: with a lone surrogate, it is bad UTF-8."""
        return self.text.encode(errors="surrogatepass")


class Subject:
    """A tokenizer on the emulated device, beside its engine and a fresh reference; and how it fared.

    normalizes: whether it has a normalizer. `differences` says what was wrong, in words.
    """

    def __init__(self, tokenizer: engine.Tokenizer, device: Device, reference: Reference, normalizes: bool) -> None:
        self.device = device
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []
        self.engine, self.reference, self.normalizes = tokenizer, reference, normalizes
        self._kept_ids = lru_cache(KEPT)(self._ids)
        self._kept_pieces_error = lru_cache(KEPT)(self._pieces_error)

    def check(self, batch: Sequence[Asked], capacity: plan.Capacity | None = None, seed: int = 0) -> Encoded:
        """Encode a batch by the kernels and compare every document that is not handed back."""
        staged = self.device.host.stage([one.utf8 for one in batch], [one.split_special_tokens for one in batch])
        found = self.device.run(staged, capacity, seed)
        self.counts["batches"] += 1
        if found.totals["refused"]:
            self.differences.append(f"a batch of {len(batch)} is refused, the first {batch[0].where}")
            return found
        for number, one in enumerate(batch):
            self.counts["documents"] += 1
            self.counts["bytes"] += len(one.utf8)
            wrong = self._document(one, found, number)
            if wrong:
                place = f"document {number} of {len(batch)}, {one.where}, {len(one.text)} characters, seed {seed}"
                self.differences.append(f"{place}: {wrong}: {one.text[:300]!r}")
        if int(found.document_ids[-1]) != len(found.ids) or int(found.document_pieces[-1]) != found.totals["stretches"]:
            self.differences.append(f"the documents of a batch of {len(batch)} are not all of its ids or pieces")
        if self.device.host.normalizing is not None:
            self._check_suspects(
                [one for one, flags in zip(batch, found.flags, strict=True) if flags == plan.SUSPECT], seed
            )
        return found

    def _check_suspects(self, suspects: Sequence[Asked], seed: int) -> None:
        """Encode what one launch found suspect by the chain that normalizes, and compare the ids."""
        if not suspects:
            return
        staged = self.device.host.stage([one.utf8 for one in suspects], [one.split_special_tokens for one in suspects])
        found = self.device.run(staged, seed=seed, normalizing=True)
        for number, one in enumerate(suspects):
            flags = int(found.flags[number])
            if flags:
                self.counts.update(name for flag, name in FLAGS.items() if flags & flag)
                continue
            self.counts["normalized"] += 1
            wrong = self._ids_error(one, found.ids_of(number))
            if wrong:
                self.differences.append(f"normalized, {one.where}, seed {seed}: {wrong}: {one.text[:300]!r}")

    def refuses(self, batch: Sequence[Asked], capacity: plan.Capacity, seed: int = 0) -> None:
        """Run a batch that is larger than the capacity, which must be refused as a whole."""
        staged = self.device.host.stage([one.utf8 for one in batch], [one.split_special_tokens for one in batch])
        found = self.device.run(staged, capacity, seed)
        self.counts["refused"] += 1
        if not found.totals["refused"] or found.totals["ids"] or found.totals["stretches"]:
            self.differences.append(f"a batch of {len(staged.text)} bytes is not refused by {capacity}")

    def _document(self, one: Asked, found: Encoded, number: int) -> str:
        """Return '' when a document's answer is right, else what is wrong with it."""
        flags = int(found.flags[number])
        if bool(flags & plan.BAD_TEXT) == is_unicode(one.text):
            return f"flags {flags}"
        if flags & plan.SUSPECT and not self.normalizes:
            return "suspect, where nothing normalizes"
        if flags == plan.SUSPECT and self.device.host.normalizing is not None:
            return ""  # its turn comes
        if flags:
            self.counts.update(name for flag, name in FLAGS.items() if flags & flag)
            return ""
        return self._ids_error(one, found.ids_of(number)) or self._pieces_differ(one, found.pieces_of(number))

    def _ids_error(self, one: Asked, own: list[int]) -> str:
        ids = own
        if one.add_special_tokens:
            ids = self.engine.surrounded(np.array(own, dtype=np.uint32)).tolist()
        wanted: dict[str, Any] = {}
        if one.recorded is not None:
            wanted["as_recorded"] = one.recorded
        ask = self._kept_ids if len(one.text) <= KEPT_CHARS else self._ids
        wanted |= ask(one.text, one.add_special_tokens, one.split_special_tokens)
        for name, other in wanted.items():
            self.counts[f"ids_{name}"] += 1
            wrong = shared_data.difference(ids, other)
            if wrong:
                return f"ids {name}: {wrong}"
        self.counts["ids_by_engine_alone"] += len(wanted) == 1
        return ""

    def _ids(self, text: str, add: bool, split: bool) -> dict[str, list[int]]:
        found = self.engine.encode(text, add_special_tokens=add, split_special_tokens=split).tolist()
        by_reference = {"by_reference": self.reference.ids(text, add, split)} if len(text) <= REFERENCE_CHARS else {}
        return {"by_engine": found} | by_reference

    def _pieces_differ(self, one: Asked, pieces: list[int]) -> str:
        if not one.split_special_tokens:  # the engine tells no pieces of that mode
            self.counts["pieces_by_engine"] += 1
            wanted = self.engine.pieces(one.text).tolist()
            if pieces != wanted:
                return f"pieces by engine: {shared_data.difference(pieces, wanted)}"
        if len(one.text) > REFERENCE_CHARS:
            return ""
        self.counts["pieces_by_reference"] += 1
        ask = self._kept_pieces_error if len(one.text) <= KEPT_CHARS else self._pieces_error
        wrong = ask(one.text, tuple(pieces), one.split_special_tokens)
        return wrong and f"pieces by reference: {wrong}"

    def _pieces_error(self, text: str, claimed: tuple[int, ...], split: bool) -> str:
        return self.reference.pieces_error(text, list(claimed), split)


def check_validity(tokenizer: engine.Tokenizer, found: Encoded, texts: Sequence[bytes]) -> None:
    """Check that just what is no UTF-8 is handed back, and that the others have the engine's ids."""
    for number, text in enumerate(texts):
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            assert found.flags[number] & plan.BAD_TEXT, text
            continue
        assert found.flags[number] == 0, text
        assert found.ids_of(number) == tokenizer.encode(decoded).tolist(), text


def normalizes(path: Path) -> bool:
    """Whether a tokenizer.json names a normalizer."""
    return json.loads(path.read_bytes()).get("normalizer") is not None
