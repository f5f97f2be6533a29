"""Turn a pipeline into the tables that the native engine runs on; the last place where a tokenizer can be refused."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .automaton import Automaton, Program, build
from .class_probe import Members, members_of, probe_atom, probe_numeric
from .classes import Classes, partition
from .normalization import Normalization, probe_nfc
from .pipeline import DIGIT, AddedToken, Pipeline
from .refusal import Refusal
from .synchronizing import Pairs, synchronizing_pairs

#: Characters of added-token literals that get a class of their own, so that a literal rules out fewer pairs; beyond
#: this many, the
#: rarest keep their wider class (which only costs some synchronizing positions).
MAX_LITERAL_CLASSES = 24

#: An id the vocabulary does not have, as in kernels/native/vocabulary.hpp.
NO_ID = 0xFFFFFFFF

#: Atoms that hold a normalizer's view of the characters; no regex can be spelled like this.
_SUSPECT, _ONWARD = "<normalization changes>", "<composes onward>"


@dataclass(frozen=True)
class Compiled:
    """A tokenizer in tables. `native` is what kernels/native/bindings.cpp reads; the rest is for the theory's tests."""

    pipeline: Pipeline
    classes: Classes
    stages: list[Automaton]
    pairs: Pairs
    native: dict[str, Any]


def compile_pipeline(pipeline: Pipeline) -> Compiled:
    """Compile. Raises Refusal with the condition that does not hold."""
    programs = [Program(stage.tree, pipeline.dialect) for stage in pipeline.stages]
    atoms: dict[str, Members] = {}
    for program in programs:
        for atom in program.atoms():
            if atom not in atoms:
                atoms[atom] = probe_numeric() if atom == DIGIT else probe_atom(atom, pipeline.dialect)
    normalization = probe_nfc() if pipeline.nfc else None
    if normalization:
        atoms[_SUSPECT], atoms[_ONWARD] = normalization.suspect(), normalization.composes_onward()
    literals = [_as_searched(token, normalization) for token in pipeline.added_tokens]
    for char in _literal_characters(literals):
        atoms[f"<{char}>"] = members_of(char)
    classes = partition(atoms)
    stages = [build(program, classes.membership, classes.count) for program in programs]
    for stage, automaton in zip(pipeline.stages, stages, strict=True):
        if stage.total and automaton.can_fail().any():
            left = classes.representative(int(np.argmax(automaton.can_fail())))
            raise Refusal(
                f"its regex leaves text uncovered, from a character such as {left!r} on, which would be dropped"
            )
    pairs = synchronizing_pairs(stages, _adjacent(literals, classes), _excluded(classes))
    return Compiled(
        pipeline, classes, stages, pairs, _native(pipeline, classes, stages, pairs, normalization, literals)
    )


def _as_searched(token: AddedToken, normalization: Normalization | None) -> str:
    return normalization.nfc(token.content) if normalization and token.normalized else token.content


def _literal_characters(literals: list[str]) -> list[str]:
    counts: dict[str, int] = {}
    for literal in literals:
        for char in set(literal):
            if not char.isalnum():
                counts[char] = counts.get(char, 0) + 1
    return sorted(counts, key=lambda char: (-counts[char], char))[:MAX_LITERAL_CLASSES]


def _adjacent(literals: list[str], classes: Classes) -> set[tuple[int, int]]:
    return {(classes.of(a), classes.of(b)) for literal in literals for a, b in pairwise(literal)}


def _excluded(classes: Classes) -> Pairs:
    """Pairs that NFC can tie together: either character is suspect, or the second one composes with what follows it.

    Without these, NFC(left + right) = NFC(left) + NFC(right), and the two characters that meet stay what they are.
    """
    none = np.zeros(classes.count, dtype=bool)
    suspect = classes.membership.get(_SUSPECT, none)
    onward = classes.membership.get(_ONWARD, none)
    return suspect[:, None] | suspect[None, :] | onward[None, :]


def _native(
    pipeline: Pipeline,
    classes: Classes,
    stages: list[Automaton],
    pairs: Pairs,
    normalization: Normalization | None,
    literals: list[str],
) -> dict[str, Any]:
    suspect = classes.membership.get(_SUSPECT, np.zeros(classes.count, dtype=bool))
    lengths = np.array([len(entry) for entry, _ in pipeline.vocabulary], dtype=np.uint64)
    tables: dict[str, Any] = {
        "class_of": classes.class_of,
        "pairs": np.ascontiguousarray(pairs, dtype=np.uint8),
        "suspect": suspect.astype(np.uint8),
        "stages": [np.ascontiguousarray(stage.transitions) for stage in stages],
        "added_tokens": [
            (literal, token.id, token.special, token.normalized)
            for literal, token in zip(literals, pipeline.added_tokens, strict=True)
        ],
        "vocabulary_bytes": b"".join(entry for entry, _ in pipeline.vocabulary),
        "vocabulary_ends": np.cumsum(lengths).astype(np.uint32),
        "vocabulary_ids": np.array([id_ for _, id_ in pipeline.vocabulary], dtype=np.uint32),
        "merges": np.array(pipeline.merges, dtype=np.uint32).reshape(-1),
        "byte_ids": np.array([NO_ID if id_ is None else id_ for id_ in pipeline.byte_ids], dtype=np.uint32),
        "whole_pieces_first": pipeline.whole_pieces_first,
    }
    if normalization:
        tables |= normalization.arrays()
    return tables
