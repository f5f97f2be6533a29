"""What the regex parser takes, and what it refuses, with the reason in words."""

from __future__ import annotations

import pytest
from tokseam.kernels.compile.automaton import Program
from tokseam.kernels.compile.refusal import Refusal
from tokseam.kernels.compile.regex_syntax import Atom, Choice, Look, Repeat, Sequence, parse


def test_atoms_keep_their_source() -> None:
    tree = parse(r"[^\s\p{L}&&[a\]]]+\p{N}\u4E00", "onig")
    assert tree == Sequence((Repeat(Atom(r"[^\s\p{L}&&[a\]]]"), 1, None, "greedy"), Atom(r"\p{N}"), Atom(r"\u4E00")))


def test_case_insensitive_group() -> None:
    assert parse("(?i:'s|d)", "onig") == Choice((Sequence((Atom(r"(?i:\')"), Atom("(?i:s)"))), Atom("(?i:d)")))


def test_lookahead_and_end() -> None:
    assert parse(r"\s+(?!\S)", "onig") == Sequence((Repeat(Atom(r"\s"), 1, None, "greedy"), Look(Atom(r"\S"), True)))
    assert parse(r"a$", "rust") == Sequence((Atom("a"), Look(None, False)))
    assert parse(r"a$", "onig") == Sequence((Atom("a"), Look(Atom(r"[^\n]"), True)))  # also before a line feed


def test_the_dialects_read_a_counted_plus_in_their_own_ways() -> None:
    possessive = Repeat(Atom("a"), 1, 3, "possessive")
    nested = Repeat(Repeat(Atom("a"), 1, 3, "greedy"), 1, None, "greedy")
    assert parse("a{1,3}+", "rust") == possessive
    assert parse("a{1,3}+", "onig") == nested


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(?<=a)b", "a lookbehind"),
        (r"(?<!a)b", "a lookbehind"),
        (r"(a)\1", "a back-reference"),
        (r"(?>a+)b", "an atomic group"),
        (r"(?P<x>a)", "a named group"),
        (r"a\b", r"the escape \b"),
        (r"\Aa", r"the escape \A"),
        (r"\R", r"the escape \R"),
        (r"^a", "a '^' that is not understood"),
        (r"a(?!bc)", "a lookahead over more than one character"),
        (r"(?x: a )", "the flag 'x'"),
        (r"(?i:ß)", "a class beyond ASCII letters under"),
        (r"(?i:\p{Lu})", "a class beyond ASCII letters under"),
        (r"a{2}?", "{n}?"),
        (r"a{,3}", "a { that is not a repeat"),
        (r"a{1000}", "a repeat of more than"),
        (r"(a", "a group without its )"),
        (r"a)", "an unbalanced )"),
        (r"[a", "an unexpected end"),
        (r"ab(?i)c", "an inline flag"),
        (r"\xE4", "a byte of a character's UTF-8"),
        (r"[\x80-\xFF]", "a byte of a character's UTF-8"),
    ],
)
def test_refusals_name_what_and_where(pattern: str, words: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse(pattern, "onig")
    assert words in str(refused.value)
    assert "at character" in str(refused.value)


def test_folding_of_several_characters_into_one_is_refused() -> None:
    # Oniguruma lets U+FB06 (st) match (?i:st); a class per character cannot say that.
    for pattern in ("(?i:st)", "(?i:as(?:t)b)", "(?i:x|st)"):
        with pytest.raises(Refusal, match="one character matches 'st' as a whole"):
            Program(parse(pattern, "onig"), "onig")
    for pattern in ("(?i:s{2})", "(?i:f+)"):
        with pytest.raises(Refusal, match="as a whole"):
            Program(parse(pattern, "onig"), "onig")
    Program(parse("(?i:'re|'ve)", "onig"), "onig")
