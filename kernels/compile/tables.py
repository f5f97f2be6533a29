"""Turn a pipeline into the tables that the native engine runs on; the last place where a tokenizer can be refused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..facts import Facts
from ..offsets import trim_tables
from .automaton import Automaton, Program, build
from .class_probe import (
    CODE_POINTS,
    Members,
    members_of,
    probe_atom,
    probe_numeric,
    probe_punctuation,
    probe_signs,
    probe_spaces,
    probe_split_spaces,
    probe_words,
)
from .classes import Classes, partition
from .literals import Constraints, constraints
from .normalization import Normalization, probe_normalization
from .pipeline import (
    BEHAVIORS,
    DIGIT,
    PREFIXES,
    PUNCTUATION,
    SIGN,
    SPACE,
    WORD,
    AddedToken,
    Behavior,
    CharacterModel,
    Pipeline,
    Stage,
    among,
    byte_alphabet,
    distinct,
)
from .refusal import Refusal
from .synchronizing import Pairs, synchronizing_pairs

#: Characters of added-token literals that get a class of their own, so that a literal rules out fewer pairs; beyond
#: this many, the
#: rarest keep their wider class (which only costs some synchronizing positions).
MAX_LITERAL_CLASSES = 24

#: An id the vocabulary does not have, as in kernels/native/vocabulary.hpp.
NO_ID = 0xFFFFFFFF

#: Atoms that hold a normalizer's view of the characters. No regex is spelled like this.
_SUSPECT, _ONWARD = "<normalization changes>", "<composes onward>"

#: The atom of the white space that added tokens take along.
_SPACE = "<white space beside literals>"


@dataclass(frozen=True)
class Compiled:
    """A tokenizer in tables. `native` is what kernels/native/bindings.cpp reads; the rest is for the theory's tests.

    A pipeline over characters has no classes, stages or pairs.
    """

    pipeline: Pipeline
    classes: Classes | None
    stages: list[Automaton]
    pairs: Pairs | None
    native: dict[str, Any]

    @cached_property
    def facts(self) -> Facts:
        """What the tokenizer needs beside the encoder."""
        pipeline = self.pipeline
        return Facts(pipeline.prefix, pipeline.suffix, pipeline.space_in_front, trim_tables(pipeline, self.native))

    @cached_property
    def image(self) -> _native.Image:
        """These tables laid out, once."""
        return _native.Image(self.native)

    @cached_property
    def encoder(self) -> _native.Encoder:
        """The native encoder over these tables, which admission tries."""
        return _native.Encoder(self.image)


def compile_pipeline(pipeline: Pipeline) -> Compiled:
    """Compile. Raises Refusal with the condition that does not hold."""
    normalizations = [probe_normalization(form) for form in pipeline.forms]
    literals = [_as_searched(token, pipeline, normalizations) for token in pipeline.added_tokens]
    looked_at = _Surroundings.of(pipeline.added_tokens)
    seams = constraints(pipeline.added_tokens, literals, looked_at.spaces)
    if pipeline.characters:
        native = _common(pipeline, literals, looked_at) | _one_class()
        native["characters"] = _characters(pipeline, pipeline.characters, seams)
        return Compiled(pipeline, None, [], None, native)
    programs, atoms = _programs(pipeline, pipeline.stages)
    if normalizations:
        atoms[_SUSPECT] = np.logical_or.reduce([one.suspect() for one in normalizations])
        atoms[_ONWARD] = np.logical_or.reduce([one.composes_onward() for one in normalizations])
    for char in _literal_characters(literals):
        atoms[f"<{char}>"] = members_of(char)
    if looked_at.spaces:
        atoms[_SPACE] = members_of("".join(looked_at.spaces))
    classes = partition(atoms)
    stages = _automata(programs, classes.membership, classes.count)
    behaviors = [stage.behavior for stage in pipeline.stages]
    pairs = synchronizing_pairs(
        stages, behaviors, seams.class_pairs(classes, pipeline.space_in_front), _excluded(classes)
    )
    native = _common(pipeline, literals, looked_at) | {
        "class_of": classes.class_of,
        "pairs": np.ascontiguousarray(pairs, dtype=np.uint8),
        "suspect": classes.membership.get(_SUSPECT, np.zeros(classes.count, dtype=bool)).astype(np.uint8),
        "stages": _numbered(stages, behaviors),
    }
    native["normalizations"] = [one.arrays() for one in normalizations]
    return Compiled(pipeline, classes, stages, pairs, native)


def _programs(pipeline: Pipeline, stages: list[Stage]) -> tuple[list[Program], dict[str, Members]]:
    """Build the stages' programs and probe their atoms."""
    programs = [Program(stage.tree, pipeline.dialect) for stage in stages]
    return programs, {atom: _probe(atom, pipeline) for program in programs for atom in program.atoms()}


def _automata(programs: list[Program], membership: dict[str, npt.NDArray[np.bool_]], classes: int) -> list[Automaton]:
    return [build(program, membership, classes) for program in programs]


def _numbered(automata: list[Automaton], behaviors: list[Behavior]) -> list[tuple[npt.NDArray[np.uint16], int]]:
    return [
        (np.ascontiguousarray(automaton.transitions), BEHAVIORS.index(behavior))
        for automaton, behavior in zip(automata, behaviors, strict=True)
    ]


def _byte_stages(pipeline: Pipeline) -> dict[str, Any]:
    """Return the tables of the stages behind ByteLevel, over classes of bytes."""
    programs, atoms = _programs(pipeline, pipeline.byte_stages)
    spelled = [ord(char) for char, _ in sorted(byte_alphabet().items(), key=lambda pair: pair[1])]
    signature = np.array([[members[point] for members in atoms.values()] for point in spelled], dtype=bool)
    rows, classes = np.unique(signature.reshape(256, -1), axis=0, return_inverse=True)
    membership = {atom: rows[:, column] for column, atom in enumerate(atoms)}
    automata = _automata(programs, membership, len(rows))
    return {
        "byte_classes": classes.reshape(-1).astype(np.uint8),
        "byte_stages": _numbered(automata, [stage.behavior for stage in pipeline.byte_stages]),
    }


def _probe(atom: str, pipeline: Pipeline) -> Members:
    own = {
        DIGIT: probe_numeric,
        PUNCTUATION: probe_punctuation,
        WORD: probe_words,
        SIGN: probe_signs,
        SPACE: probe_split_spaces,
    }
    return own[atom]() if atom in own else probe_atom(atom, pipeline.dialect)


def _as_searched(token: AddedToken, pipeline: Pipeline, normalizations: list[Normalization]) -> str:
    """Return the literal as it is looked for: normalized, where that is done in normalized text."""
    if not token.normalized:
        return token.content
    model = pipeline.characters
    if model is None:
        content = token.content
        for one in normalizations:
            content = one.normalize(content)
        return content
    text = token.content.replace(model.replaced, model.replacement) if model.replaced else token.content
    return model.marker + text if model.prefix == "always" else text


@dataclass(frozen=True)
class _Surroundings:
    """The characters that some added token looks at around it."""

    spaces: list[str]
    words: list[str]

    @classmethod
    def of(cls, tokens: list[AddedToken]) -> _Surroundings:
        def characters(members: Members) -> list[str]:
            return [chr(point) for point in np.flatnonzero(members)]

        return cls(
            characters(probe_spaces()) if any(token.lstrip or token.rstrip for token in tokens) else [],
            characters(probe_words()) if any(token.single_word for token in tokens) else [],
        )


def _literal_characters(literals: list[str]) -> list[str]:
    counts: dict[str, int] = {}
    for literal in literals:
        for char in set(literal):
            if not char.isalnum():
                counts[char] = counts.get(char, 0) + 1
    return sorted(counts, key=lambda char: (-counts[char], char))[:MAX_LITERAL_CLASSES]


def _excluded(classes: Classes) -> Pairs:
    """Pairs that NFC can tie together: either character is suspect, or the second one composes with what follows it.

    Without these, NFC(left + right) = NFC(left) + NFC(right), and the two characters that meet stay what they are.
    """
    none = np.zeros(classes.count, dtype=bool)
    suspect = classes.membership.get(_SUSPECT, none)
    onward = classes.membership.get(_ONWARD, none)
    return suspect[:, None] | suspect[None, :] | onward[None, :]


def _common(pipeline: Pipeline, literals: list[str], looked_at: _Surroundings) -> dict[str, Any]:
    """Return the tables that do not depend on how text is split."""
    return _byte_stages(pipeline) | {
        "added_tokens": [
            (literal, token.id, token.special, token.normalized, token.lstrip, token.rstrip, token.single_word)
            for literal, token in zip(literals, pipeline.added_tokens, strict=True)
        ],
        "space_characters": np.array([ord(char) for char in looked_at.spaces], dtype=np.uint32),
        "word_characters": np.array([ord(char) for char in looked_at.words], dtype=np.uint32),
        "vocabulary_bytes": pipeline.vocabulary.joined,
        "vocabulary_ends": pipeline.vocabulary.ends,
        "vocabulary_ids": pipeline.vocabulary.ids,
        "merges": np.ascontiguousarray(pipeline.merges, dtype=np.uint32).reshape(-1),
        "byte_ids": _ids(pipeline.byte_ids),
        "space_in_front": pipeline.space_in_front,
        "whole_pieces_first": pipeline.whole_pieces_first,
    }


def _ids(ids: list[int | None]) -> npt.NDArray[np.uint32]:
    return np.array([NO_ID if id_ is None else id_ for id_ in ids], dtype=np.uint32)


def _one_class() -> dict[str, Any]:
    """Return the class tables of a pipeline that has no stages."""
    return {
        "class_of": np.zeros(CODE_POINTS, dtype=np.uint8),
        "pairs": np.zeros((1, 1), dtype=np.uint8),
        "suspect": np.zeros(1, dtype=np.uint8),
        "stages": [],
        "normalizations": [],
    }


def _characters(pipeline: Pipeline, model: CharacterModel, seams: Constraints) -> dict[str, Any]:
    """Return the tables of BPE over characters (kernels/native/characters.hpp)."""
    entries = pipeline.vocabulary
    points = np.frombuffer(entries.joined.decode().encode("utf-32-le"), dtype="<u4")
    starts = (np.frombuffer(entries.joined, dtype=np.uint8) & 0xC0) != 0x80
    # How many characters stand before each entry's end, and which entry each character belongs to.
    ends = np.concatenate([[0], np.cumsum(starts)])[entries.ends.astype(np.int64)]
    lengths = np.diff(ends, prepend=0)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    # By claim 8, only what merges can make joins two characters.
    made = among(entries.ids, pipeline.merges[:, 3])
    side_by_side = (owner[:-1] == owner[1:]) & made[owner[:-1]]
    joined = distinct((points[:-1].astype(np.uint64) << np.uint64(32) | points[1:])[side_by_side])
    if ((points == 0) & (lengths[owner] > 1)).any():
        raise Refusal("its vocabulary joins U+0000 with other characters")
    single = lengths == 1

    def mapped(char: str) -> int:
        return ord(model.replacement if char == model.replaced else char)

    extra = np.array([mapped(a) << 32 | mapped(b) for a, b in seams.pairs], dtype=np.uint64)
    never_after = {mapped(char) for char in seams.never_after}
    if model.prefix != "never":
        # Behind a literal a segment begins, and gets a prefix: that place is not inside a segment.
        never_after |= {mapped(char) for char in seams.last}
    return {
        "replaced": ord(model.replaced) if model.replaced else NO_ID,
        "replacement": ord(model.replacement) if model.replacement else NO_ID,
        "marker": ord(model.marker) if model.marker else NO_ID,
        "prefix": PREFIXES.index(model.prefix),
        "split_at_marker": model.split_at_marker,
        "joined": np.concatenate([joined, extra]),
        "never_after": np.array(sorted(never_after), dtype=np.uint32),
        "never_before": np.array(sorted(mapped(char) for char in seams.never_before), dtype=np.uint32),
        "characters": points[ends[single] - 1].astype(np.uint32),
        "character_ids": entries.ids[single],
        "byte_tokens": _ids(model.byte_tokens),
    }
