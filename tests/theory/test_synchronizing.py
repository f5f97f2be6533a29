"""The theorem of synchronizing pairs, tried against every short text and against real tokenizers.

The claims it rests on stand in kernels/README.md.
"""

from __future__ import annotations

import itertools
import random
from functools import lru_cache

import numpy as np
import pytest
from support import families, hostile
from support.synthetic import CL100K, GPT2, added, description, native, split
from tokseam.kernels.compile import synchronizing
from tokseam.kernels.compile.automaton import DEAD, MATCH, START, STATE, Automaton, Program, build
from tokseam.kernels.compile.class_probe import probe_atom
from tokseam.kernels.compile.classes import Classes, partition
from tokseam.kernels.compile.contexts import context_cuts, rectangles, seamless_pairs
from tokseam.kernels.compile.regex_syntax import parse

DEEPSEEK = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
PIPELINES = {"cl100k": (CL100K,), "gpt2": (GPT2,), "deepseek": DEEPSEEK, "two": (r"\s+(?!\S)", r"[^\s\p{L}]+|\p{L}")}


@lru_cache(maxsize=8)
def compiled(name: str) -> tuple[list[Automaton], Classes, np.ndarray]:
    programs = [Program(parse(pattern, "onig"), "onig") for pattern in PIPELINES[name]]
    atoms = {atom: probe_atom(atom, "onig") for program in programs for atom in program.atoms()}
    classes = partition(atoms)
    stages = [build(program, classes.membership, classes.count) for program in programs]
    return stages, classes, synchronizing.synchronizing_pairs(stages, ["Isolated"] * len(stages), [])


def attempt(stage: Automaton, text: tuple[int, ...], start: int) -> tuple[int | None, int]:
    """Run one attempt: where it matches to, and how far it reads (one past the last class it consumed)."""
    state, last, at = START, None, start
    while True:
        entry = int(stage.transitions[state, text[at] if at < len(text) else stage.classes])
        if entry & MATCH:
            last = at
        state = entry & STATE
        if state == DEAD:
            return last, at
        at += 1


def pieces(stages: list[Automaton], text: tuple[int, ...]) -> list[int]:
    """Starts of the pieces of a text of classes, by nothing but the automata."""
    bounds = [(0, len(text))]
    for stage in stages:
        finer = []
        for begin, end in bounds:
            inner, at, gap = text[begin:end], 0, 0
            while at < len(inner):
                stop, _ = attempt(stage, inner, at)
                if stop is None:
                    at += 1
                    continue
                finer += ([(begin + gap, begin + at)] if gap < at else []) + [(begin + at, begin + stop)]
                at = gap = stop
            if gap < len(inner):
                finer.append((begin + gap, end))
        bounds = finer
    return [begin for begin, _ in bounds]


@pytest.mark.parametrize("name", PIPELINES)
def test_every_short_text_may_be_cut_at_every_synchronizing_position(name: str) -> None:
    """All texts of four classes, and a few million longer ones drawn at random.

    Pieces(text) = pieces(left) + pieces(right).
    """
    stages, classes, pairs = compiled(name)
    assert pairs.any()
    rng = random.Random(name)
    every = itertools.product(range(classes.count), repeat=4)
    longer = (tuple(rng.choices(range(classes.count), k=rng.randint(5, 12))) for _ in range(30_000))
    checked = 0
    for text in itertools.chain(every, longer):
        cuts = [p for p in range(1, len(text)) if pairs[text[p - 1], text[p]]]
        if not cuts:
            continue
        whole = pieces(stages, text)
        for cut in cuts:
            apart = pieces(stages, text[:cut]) + [cut + start for start in pieces(stages, text[cut:])]
            assert whole == apart, (text, cut)
            checked += 1
    assert checked > 10_000


@pytest.mark.parametrize("name", PIPELINES)
def test_every_short_text_may_be_cut_where_three_characters_decide(name: str) -> None:
    """As above, for claim 12: texts drawn around each triple, so that every one is tried in many surroundings."""
    stages, classes, _ = compiled(name)
    nobody = np.zeros(classes.count, dtype=bool)
    on, back = context_cuts(stages, ["Isolated"] * len(stages), [], nobody, nobody)
    rng = random.Random(name)
    checked = 0
    for triples, cut_in in ((on, 1), (back, 2)):
        for triple in np.argwhere(triples).tolist():
            for _ in range(25):
                left = rng.choices(range(classes.count), k=rng.randint(0, 4))
                right = rng.choices(range(classes.count), k=rng.randint(0, 4))
                text, cut = (*left, *triple, *right), len(left) + cut_in
                apart = pieces(stages, text[:cut]) + [cut + start for start in pieces(stages, text[cut:])]
                assert pieces(stages, text) == apart, (text, cut)
                checked += 1
    assert checked > 100


@pytest.mark.parametrize("name", PIPELINES)
def test_parting_at_a_seamless_pair_parts_one_piece_at_most(name: str) -> None:
    stages, classes, pairs = compiled(name)
    seamless = seamless_pairs(stages, ["Isolated"] * len(stages), [])
    assert (seamless & ~pairs).any()
    rng = random.Random(name)
    for a, b in np.argwhere(seamless).tolist():
        for _ in range(60):
            left = rng.choices(range(classes.count), k=rng.randint(0, 4))
            right = rng.choices(range(classes.count), k=rng.randint(0, 4))
            text, cut = (*left, a, b, *right), len(left) + 1
            apart = pieces(stages, text[:cut]) + [cut + start for start in pieces(stages, text[cut:])]
            assert sorted({*pieces(stages, text), cut}) == apart, (text, cut)


@pytest.mark.parametrize("name", PIPELINES)
def test_rectangles_lie_inside_the_relation_and_cover_nearly_all(name: str) -> None:
    stages, classes, _ = compiled(name)
    nobody = np.zeros(classes.count, dtype=bool)
    for triples in context_cuts(stages, ["Isolated"] * len(stages), [], nobody, nobody):
        a, b, c = rectangles(triples, np.ones(classes.count, dtype=np.int64))
        covered = (a[:, None, None] & b[None, :, None] & c[None, None, :]) != 0
        assert not (covered & ~triples).any()
        assert covered.sum() >= 0.9 * triples.sum()


@pytest.mark.parametrize("name", PIPELINES)
def test_no_attempt_crosses_a_synchronizing_position(name: str) -> None:
    """On the automata, exhaustively: from every state that consuming a leads to, b ends the attempt as the end would.

    Holds for the stages up to the one that makes the pair a boundary; behind it the sides are pieces of their own.
    """
    stages, classes, pairs = compiled(name)
    for a, b in np.argwhere(pairs):
        for stage in stages:
            states = synchronizing.entered_by(stage)[a]
            for state in states:
                here, end = int(stage.transitions[state, b]), int(stage.transitions[state, classes.count])
                assert here & STATE == DEAD
                assert here & MATCH == end & MATCH
            fails = stage.can_fail()
            if not (fails[a] and fails[b]):
                break
        else:
            pytest.fail(f"no stage makes ({a}, {b}) a boundary")


def test_without_neutrality_a_cut_is_wrong() -> None:
    """The condition that seems idle: before '/', U+3000 ends a run of white space in another way than the end does."""
    stages, classes, pairs = compiled("cl100k")
    slash, wide = classes.of("/"), classes.of("\u3000")
    quiet_without = all(
        int(stages[0].transitions[state, slash]) & STATE == DEAD for state in synchronizing.entered_by(stages[0])[wide]
    )
    assert quiet_without, "no attempt crosses it"
    assert not pairs[wide, slash]
    text = tuple(map(classes.of, "x\u00a0\u3000/"))
    assert pieces(stages, text) != [*pieces(stages, text[:3]), 3]


def test_literals_rule_out_their_pairs() -> None:
    described = description([split(GPT2)], added_tokens=[added("a b", 256), added("<|x|>", 257)])
    ours, reference = native(described)
    assert ours.cuts("a b").tolist() == []
    assert ours.cuts("a c").tolist() == []  # letters are one class
    assert ours.cuts("a,").tolist() == [1]
    for text in ("a b", "xa by", "q a b", "<|x|>a b", "a a b b", "<|x", "<|x|", "a<|x|>b"):
        assert ours.encode(text).tolist() == reference.encode(text).ids


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        ("x\u00e9", "xe\u0301"),
        ("x\u1e69", "xs\u0323\u0307"),
        ("x\uac01", "x\u1100\u1161\u11a8"),
        ("x\u0229", "x\u00e9\u0327"),
    ],
    ids=["a mark", "two marks", "Hangul", "a mark that goes in between"],
)
def test_what_follows_may_change_it(piece: str, text: str) -> None:
    """Under NFC a text is not cut in front of a character that becomes one which the piece goes on with."""
    ours, reference = native(description([split(rf"{piece}|[\s\S]")], normalizer={"type": "NFC"}))
    assert 1 not in ours.cuts(text).tolist()
    assert ours.cuts("xq").tolist() == [1], "q becomes none of them"
    assert ours.encode(text).tolist() == reference.encode(text, add_special_tokens=False).ids


def test_cuts_of_real_tokenizers(family: families.Family, rng: random.Random, effort: float) -> None:
    """By brute force on hostile text: the reference's ids of the whole are those of the sides, at every position.

    The right side goes on from the cut, which only the engine can be asked to do where a tokenizer puts a prefix in
    front.
    """
    alphabet = hostile.atoms(family.literals)
    ours, reference = family.engine, family.reference
    checked = 0
    for _ in range(int(120 * effort)):
        text = hostile.hostile_text(rng, 12, alphabet)
        whole = reference.ids(text)
        for cut in ours.cuts(text).tolist():
            assert whole == reference.ids(text[:cut]) + ours.encode(text[cut:], continued=True).tolist(), (text, cut)
            checked += 1
    assert checked > 100
