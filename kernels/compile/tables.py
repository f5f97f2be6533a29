"""Turn a pipeline into the tables that the native engine runs on; the last place where a tokenizer can be refused."""

from __future__ import annotations

import string
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..facts import Facts
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
from .contexts import Contexts, context_cuts, rectangles, seamless_pairs
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
from .trimming import trim_tables

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
    contexts: Contexts | None
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
    tokens = list(zip(pipeline.added_tokens, literals, strict=True))
    fenced = [_is_fenced(token, literal, pipeline) for token, literal in tokens]
    if pipeline.characters:
        native = _common(pipeline, literals, fenced, looked_at) | _one_class()
        native["characters"] = _characters(pipeline, pipeline.characters, seams)
        return Compiled(pipeline, None, [], None, None, native)
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
    changes = _Changes.of(classes, normalizations)

    def cuts(ruled_out: set[tuple[int, int]]) -> Pairs:
        return changes.allowed(synchronizing_pairs(stages, behaviors, ruled_out))

    pairs = cuts(seams.class_pairs(classes, pipeline.space_in_front))
    # Cuts for encoding alone need not give way to literals that are fenced in where they stand (claim 19).
    others = [one for one, is_fenced in zip(tokens, fenced, strict=True) if not is_fenced]
    unfenced = [literal for _, literal in others]
    loose = constraints([token for token, _ in others], unfenced, looked_at.spaces)
    ruled_out = loose.class_pairs(classes, pipeline.space_in_front)
    contexts = _contexts(pipeline, classes, stages, unfenced, ruled_out, changes)
    weights = 1 + np.bincount(classes.class_of[:128], minlength=classes.count).astype(np.int64)
    native = _common(pipeline, literals, fenced, looked_at) | {
        "class_of": classes.class_of,
        "pairs": np.ascontiguousarray(pairs, dtype=np.uint8),
        "suspect": classes.membership.get(_SUSPECT, np.zeros(classes.count, dtype=bool)).astype(np.uint8),
        "stages": _numbered(stages, behaviors),
        "segment_pairs": np.ascontiguousarray(cuts(ruled_out), dtype=np.uint8),
        "seamless": np.ascontiguousarray(_seamless(pipeline, stages, behaviors, ruled_out, changes), dtype=np.uint8),
        "looking_on": rectangles(contexts.looking_on, weights),
        "looking_back": rectangles(contexts.looking_back, weights),
    }
    native["normalizations"] = [one.arrays() for one in normalizations]
    return Compiled(pipeline, classes, stages, pairs, contexts, native)


def _contexts(
    pipeline: Pipeline,
    classes: Classes,
    stages: list[Automaton],
    literals: list[str],
    forbidden: set[tuple[int, int]],
    changes: _Changes,
) -> Contexts:
    """Return the cuts that three characters decide; none where a literal looks at what stands around it."""
    count = classes.count
    if any(token.lstrip or token.rstrip or token.single_word for token in pipeline.added_tokens):
        none = np.zeros((count,) * 3, dtype=bool)
        return Contexts(none, none)
    first, last = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    first[[classes.of(literal[0]) for literal in literals]] = True
    last[[classes.of(literal[-1]) for literal in literals]] = True
    on, back = context_cuts(stages, [stage.behavior for stage in pipeline.stages], forbidden, first, last)
    steady = ~changes.suspect
    # Of the characters looked at, the last one alone can change by what follows; so does none that is not suspect.
    return Contexts(
        changes.behind(on) & steady[:, None, None] & steady[None, :, None],
        changes.behind(back) & steady[:, None, None] & steady[None, :, None],
    )


def _seamless(
    pipeline: Pipeline,
    stages: list[Automaton],
    behaviors: list[Behavior],
    forbidden: set[tuple[int, int]],
    changes: _Changes,
) -> Pairs:
    """Return the pairs inside a piece at which a text may be cut where no merge crosses."""
    if pipeline.byte_stages:
        return np.zeros_like(changes.suspect[:, None] & changes.suspect[None, :])
    # A merge is known to cross or not by the characters themselves: neither may become another one.
    steady = ~changes.suspect
    pairs = seamless_pairs(stages, behaviors, forbidden)
    return pairs & steady[:, None] & (steady & ~changes.onward)[None, :]


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


def _is_fenced(token: AddedToken, literal: str, pipeline: Pipeline) -> bool:
    """Whether a cut for encoding alone has not to give way to a literal but where it stands (claim 19).

    So it must be looked for in the text as it is, and look at nothing around it. PERF: what begins with a sign is
    looked for in little time.
    """
    looks_around = token.lstrip or token.rstrip or token.single_word
    as_it_is = not (token.normalized and pipeline.forms) and pipeline.characters is None
    return as_it_is and not looks_around and literal[0] in string.punctuation


def _literal_characters(literals: list[str]) -> list[str]:
    counts: dict[str, int] = {}
    for literal in literals:
        for char in set(literal):
            if not char.isalnum():
                counts[char] = counts.get(char, 0) + 1
    return sorted(counts, key=lambda char: (-counts[char], char))[:MAX_LITERAL_CLASSES]


@dataclass(frozen=True)
class _Changes:
    """What normalization can do to the characters at a seam, by class (claim 4 in kernels/README.md).

    Where neither of the two is suspect, N(left + right) = N(left) + N(right): the one behind the seam is a starter that
    composes with nothing in front of it. But what follows can turn it into a composite, and the stages see that one.
    """

    suspect: npt.NDArray[np.bool_]
    onward: npt.NDArray[np.bool_]
    #: [a, b]: one of class a may become one of class b. None where several forms follow each other: then no character
    #: may change onward.
    becomes: npt.NDArray[np.bool_] | None

    @classmethod
    def of(cls, classes: Classes, normalizations: list[Normalization]) -> _Changes:
        none = np.zeros(classes.count, dtype=bool)
        suspect, onward = classes.membership.get(_SUSPECT, none), classes.membership.get(_ONWARD, none)
        if len(normalizations) > 1:
            return cls(suspect, onward, None)
        becomes = np.zeros((classes.count, classes.count), dtype=bool)
        for one in normalizations:
            becomes |= one.becomes(classes.class_of, classes.count)
        return cls(suspect, onward, becomes)

    def behind(self, cuts: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Of cuts by the class behind them (last axis), keep those that hold whatever that character becomes."""
        steady = ~self.onward
        if self.becomes is not None:
            steady = steady | ~(~cuts @ self.becomes.T)
        kept: npt.NDArray[np.bool_] = cuts & steady & ~self.suspect
        return kept

    def allowed(self, pairs: Pairs) -> Pairs:
        return self.behind(pairs) & ~self.suspect[:, None]


def _common(pipeline: Pipeline, literals: list[str], fenced: list[bool], looked_at: _Surroundings) -> dict[str, Any]:
    """Return the tables that do not depend on how text is split."""
    return _byte_stages(pipeline) | {
        "added_tokens": [
            (literal, one.id, one.special, one.normalized, one.lstrip, one.rstrip, one.single_word, is_fenced)
            for one, literal, is_fenced in zip(pipeline.added_tokens, literals, fenced, strict=True)
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
        "segment_pairs": np.zeros((1, 1), dtype=np.uint8),
        "seamless": np.zeros((1, 1), dtype=np.uint8),
        "looking_on": np.zeros((3, 1), dtype=np.uint8),
        "looking_back": np.zeros((3, 1), dtype=np.uint8),
        "stages": [],
        "normalizations": [],
    }


def _characters(pipeline: Pipeline, model: CharacterModel, seams: Constraints) -> dict[str, Any]:
    """Return the tables of BPE over characters (kernels/native/characters.hpp)."""
    entries = pipeline.vocabulary
    points = np.frombuffer(entries.joined.decode().encode("utf-32-le"), dtype="<u4")
    starts = (np.frombuffer(entries.joined, dtype=np.uint8) & 0xC0) != 0x80
    # How many characters each entry has, and how many stand before its end.
    begins = np.concatenate([[0], entries.ends[:-1].astype(np.int64)])
    lengths = np.add.reduceat(starts.view(np.uint8), begins, dtype=np.int64)
    ends = np.cumsum(lengths)
    # By claim 8, only what merges can make joins two characters.
    first = np.repeat(among(entries.ids, pipeline.merges[:, 3]), lengths)
    first[ends - 1] = False
    at = np.flatnonzero(first)
    joined = distinct(points[at].astype(np.uint64) << np.uint64(32) | points[at + 1])
    if np.repeat(lengths > 1, lengths)[points == 0].any():
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
