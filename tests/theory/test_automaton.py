"""The compiled DFAs against the engines themselves: random regexes, random texts, the same pieces."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.references import Tiktoken
from support.synthetic import description, pair, split
from tokenizers import Regex, pre_tokenizers
from tokseam.kernels import engine
from tokseam.kernels.compile.automaton import DEAD, MATCH, START, STATE, Automaton, Program, build
from tokseam.kernels.compile.class_probe import probe_atom
from tokseam.kernels.compile.classes import Classes, partition
from tokseam.kernels.compile.refusal import Refusal
from tokseam.kernels.compile.regex_syntax import Dialect, parse

ALPHABET = "ab1 \n.\u00e9\u4e00'S"
ATOMS = [
    "a",
    "b",
    "1",
    " ",
    r"\n",
    r"\.",
    r"\s",
    r"\S",
    r"\p{L}",
    r"\p{N}",
    "[ab]",
    r"[^\s\p{L}]",
    r"[^a]",
    "(?i:s)",
    "'",
]


def compiled(pattern: str, dialect: Dialect) -> tuple[Automaton, Classes]:
    program = Program(parse(pattern, dialect), dialect)
    classes = partition({atom: probe_atom(atom, dialect) for atom in program.atoms()})
    return build(program, classes.membership, classes.count), classes


def spans(automaton: Automaton, classes: Classes, text: str) -> list[tuple[int, int]]:
    """Split by the automaton alone: matches, and what lies between them."""
    result, at, gap = [], 0, 0
    while at < len(text):
        state, last = START, None
        here = at
        while True:
            symbol = classes.of(text[here]) if here < len(text) else classes.count
            entry = int(automaton.transitions[state, symbol])
            if entry & MATCH:
                last = here
            state = entry & STATE
            if state == DEAD:
                break
            here += 1
        if last is None:
            at += 1
            continue
        if gap < at:
            result.append((gap, at))
        result.append((at, last))
        at = gap = last
    if gap < len(text):
        result.append((gap, len(text)))
    return result


def by_the_engine(pattern: str, text: str) -> list[tuple[int, int]]:
    return [span for _, span in pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text)]


def random_pattern(rng: random.Random, depth: int = 2) -> str:
    def part(level: int) -> str:
        if level and rng.random() < 0.3:
            body = "|".join(sequence(level - 1) for _ in range(rng.randint(1, 3)))
            return f"(?:{body})" + rng.choice(["", "", "?", "{1,2}"])
        quantifier = rng.choice(["", "", "", "?", "+", "*", "{1,3}", "{2}", "{2,}", "+?", "*?", "??"])
        return rng.choice(ATOMS) + quantifier

    def sequence(level: int) -> str:
        tail = rng.choice(["", "", "", "", r"(?!\S)", "(?=a)", r"(?!\s)", "$", r"\z"])
        return "".join(part(level) for _ in range(rng.randint(1, 3))) + tail

    return "|".join(sequence(depth) for _ in range(rng.randint(1, 4)))


def test_random_regexes_split_as_oniguruma_does(rng: random.Random, effort: float) -> None:
    compared = 0
    while compared < 250 * effort:
        pattern = random_pattern(rng)
        try:
            automaton, classes = compiled(pattern, "onig")
        except Refusal:
            continue  # it can match nothing, for the most part
        for _ in range(12):
            text = "".join(rng.choices(ALPHABET, k=rng.randint(1, 14)))
            assert spans(automaton, classes, text) == by_the_engine(pattern, text), (pattern, text)
        compared += 1


def test_random_regexes_through_the_whole_engine(rng: random.Random, effort: float) -> None:
    """Two random stages, one on the pieces of the other, natively: pieces and ids."""
    compared = 0
    while compared < 40 * effort:
        ours, reference = pair(description([split(random_pattern(rng)), split(random_pattern(rng))]))
        if ours.status != "native":
            continue
        whole = engine.Tokenizer(ours._reference, None, "")  # the same questions, answered by the reference
        for _ in range(10):
            text = "".join(rng.choices(ALPHABET, k=rng.randint(1, 20)))
            assert ours.encode(text).tolist() == reference.encode(text).ids
            assert ours.pieces(text).tolist() == whole.pieces(text).tolist(), text
            for cut in ours.cuts(text).tolist():
                left, right = whole.pieces(text[:cut]).tolist(), whole.pieces(text[cut:]).tolist()
                assert left + [cut + start for start in right] == whole.pieces(text).tolist(), (text, cut)
        compared += 1


RUST_PATTERNS = [
    r"a++b|[ab]|\s++$|\s+(?!\S)|(?s:.)",
    r"'(?i:[sdmt]|ll)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"\p{L}+?1|(?s:.)",
    r" ?+\S++|\s",
    r"(?:ab){1,2}|\z|(?s:.)",
]


@pytest.mark.parametrize("pattern", RUST_PATTERNS[:4])
def test_tiktoken_regexes(pattern: str, rng: random.Random) -> None:
    import tiktoken

    encoding = tiktoken.Encoding(
        "t", pat_str=pattern, mergeable_ranks={bytes([b]): b for b in range(256)}, special_tokens={}
    )
    ours = engine.load(encoding)
    assert ours.status == "native", ours.reason
    reference = Tiktoken.from_encoding(encoding)
    for _ in range(150):
        text = "".join(rng.choices(ALPHABET + "d\u017f\u212a\u3000", k=rng.randint(1, 16)))
        assert ours.encode(text).tolist() == encoding.encode(text)
        assert not reference.pieces_error(text, ours.pieces(text).tolist())


def test_possessive_repeats_that_matter_are_refused() -> None:
    for pattern in (r"a++ab", r"[ab]++b", r"\s++\n", r"a{1,3}+a", r"(?:ab)++a"):
        with pytest.raises(Refusal, match="possessive"):
            compiled(pattern, "rust")


def test_empty_matches_are_refused() -> None:
    for pattern in ("a*", "a?|b", r"(?!\S)"):
        with pytest.raises(Refusal, match="can match the empty text"):
            compiled(pattern, "onig")


def test_cl100k_needs_few_states() -> None:
    automaton, classes = compiled(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
        "onig",
    )
    assert automaton.transitions.shape[0] <= 20
    assert classes.count <= 16
    assert not automaton.can_fail().any()


def test_states_are_minimal() -> None:
    first, classes = compiled("ab|ab", "onig")
    second, _ = compiled("ab", "onig")
    assert np.array_equal(first.transitions, second.transitions)
    assert classes.count == 3
