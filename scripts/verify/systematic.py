"""What a campaign can list instead of drawing: added tokens, code points in every position, short class strings, every
transition, every seam, every vocabulary entry. A task makes its texts when it is asked for them.

Limits: random texts are drawn in rounds.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, zip_longest

from tokseam.kernels.compile.tables import Compiled

from .alphabet import Alphabet
from .subject import Subject
from .walks import Seam, seams, short_strings, transition_strings

#: Texts, and for each the cuts at which the theorem is to be tried ([] for none).
Made = tuple[list[str], list[list[int]]]

#: Where a code point can stand: (name, in front, behind, whether it must be a text by itself).
POSITIONS: tuple[tuple[str, str, str, bool], ...] = (
    ("alone", "", "", True),
    ("start", "", "a", True),
    ("end", "a", "", True),
    ("between letters", "b", "a", False),
    ("between capitals", "A", "B", False),
    ("between digits", "1", "2", False),
    ("between spaces", " ", " ", False),
    ("behind two spaces", "  ", ".", False),
    ("between punctuation", ".", "/", False),
    ("behind an apostrophe", "x'", "l", False),
    ("between marks", "e\u0301", "\u0323a", False),
    ("between lines", "\n", "\r", False),
    ("between ideographs", "\u4e00", "\u4e8c", False),
)

#: Code points of a task.
POINTS = 2_048
#: Entries, strings, seams, transitions and literals of a task.
ENTRIES, STRINGS, SEAMS, TRANSITIONS, LITERALS = 8_192, 6_000, 600, 4_000, 150
#: Class strings are listed up to the length that has at most this many.
SHORT_STRINGS = 70_000
#: How often each seam is spelled with other characters and contexts.
SEAM_VARIANTS = 3


@dataclass(frozen=True)
class Task:
    """Some listed texts. walks: whether they count toward the coverage of the automata."""

    kind: str
    make: Callable[[], Made]
    walks: bool = False


def tasks(subject: Subject, alphabet: Alphabet, seed: int) -> list[Task]:
    """List everything, the kinds in turn, so that a short campaign sees some of each."""
    kinds: list[Iterator[Task]] = [_literals(subject.literals, seed)]
    compiled = subject.compiled
    if compiled and compiled.classes:
        count = compiled.classes.count
        kinds += [
            _seams(compiled, count, alphabet, seed),
            _borders(alphabet),
            _short(count, alphabet, seed),
            _transitions(compiled, alphabet, seed),
        ]
    if compiled:
        kinds += [_entries(compiled, seed), _points()]
    return [task for group in zip_longest(*kinds) for task in group if task is not None]


def _plain(texts: Sequence[str]) -> Made:
    return list(texts), [[] for _ in texts]


def _literals(literals: Sequence[str], seed: int) -> Iterator[Task]:
    """Every added token with neighbours that it must not swallow, its prefixes, and two of them together."""
    for begin in range(0, len(literals), LITERALS):

        def make(begin: int = begin) -> Made:
            rng = random.Random(f"{seed} literals {begin}")
            texts: list[str] = []
            for literal in literals[begin : begin + LITERALS]:
                other = rng.choice(literals)
                texts += [
                    literal,
                    f"a{literal}b",
                    f" {literal} ",
                    literal * 2,
                    f"1{literal}\n",
                    f"\u0301{literal}\u0301",
                ]
                texts += [literal + other, other[: len(other) // 2] + literal, literal.swapcase(), f"{literal}'s"]
                lengths = range(1, len(literal)) if len(literal) <= 12 else rng.sample(range(1, len(literal)), 8)
                for length in lengths:
                    texts += [literal[:length], f"a{literal[:length]}{rng.choice(('x', ' ', literal))}"]
                texts.append(literal[1:] + literal[:-1] + literal)
            return _plain(texts)

        yield Task("literals", make)


def _seams(compiled: Compiled, count: int, alphabet: Alphabet, seed: int) -> Iterator[Task]:
    """Every synchronizing pair, behind every state that its first class can lead to."""
    listed = seams(compiled)
    random.Random(f"{seed} seams").shuffle(listed)
    for begin in range(0, len(listed), SEAMS):

        def make(begin: int = begin) -> Made:
            rng = random.Random(f"{seed} seams {begin}")
            made = [
                _spell_seam(seam, count, alphabet, rng)
                for seam in listed[begin : begin + SEAMS]
                for _ in range(SEAM_VARIANTS)
            ]
            return [text for text, _ in made], [[cut] for _, cut in made]

        yield Task("seams", make, walks=True)


def _spell_seam(seam: Seam, count: int, alphabet: Alphabet, rng: random.Random) -> tuple[str, int]:
    before = [rng.randrange(count) for _ in range(rng.choice((0, 1, 2, 4)))]
    behind = [seam.right, *(rng.randrange(count) for _ in range(rng.choice((0, 0, 1, 2, 4))))]
    if rng.random() < 0.3:
        behind += [seam.right, *seam.left]
    left = alphabet.spell(rng, [*before, *seam.left])
    return left + alphabet.spell(rng, behind), len(left)


def _borders(alphabet: Alphabet) -> Iterator[Task]:
    """The code points at either side of every change of class, in every position."""
    for begin in range(0, len(alphabet.borders), POINTS):

        def make(begin: int = begin) -> Made:
            return _placed(alphabet.borders[begin : begin + POINTS])

        yield Task("borders", make)


def _points() -> Iterator[Task]:
    """Every code point of Unicode in every position."""
    every = [*range(0xD800), *range(0xE000, 0x110000)]
    for begin in range(0, len(every), POINTS):

        def make(begin: int = begin) -> Made:
            return _placed(every[begin : begin + POINTS])

        yield Task("code points", make)


def _placed(points: Sequence[int]) -> Made:
    texts: list[str] = []
    for _, front, behind, alone in POSITIONS:
        placed = [front + chr(point) + behind for point in points]
        texts += placed if alone else ["\n".join(placed)]
    return _plain(texts)


def _short(count: int, alphabet: Alphabet, seed: int) -> Iterator[Task]:
    """Every class string up to a length."""
    strings = list(short_strings(count, SHORT_STRINGS))
    for begin in range(0, len(strings), STRINGS):

        def make(begin: int = begin) -> Made:
            rng = random.Random(f"{seed} short {begin}")
            return _plain([alphabet.spell(rng, string) for string in strings[begin : begin + STRINGS]])

        yield Task("short strings", make, walks=True)


def _transitions(compiled: Compiled, alphabet: Alphabet, seed: int) -> Iterator[Task]:
    """Every transition of every stage."""
    listed = list(transition_strings(compiled, random.Random(f"{seed} transitions")))
    for begin in range(0, len(listed), TRANSITIONS):

        def make(begin: int = begin) -> Made:
            rng = random.Random(f"{seed} transitions {begin}")
            return _plain([alphabet.spell(rng, string) for string in listed[begin : begin + TRANSITIONS]])

        yield Task("transitions", make, walks=True)


def _entries(compiled: Compiled, seed: int) -> Iterator[Task]:
    """Every vocabulary entry that is text, alone and in front of another one, so that every merge is seen."""
    entries = compiled.pipeline.vocabulary.pairs()
    for begin in range(0, len(entries), ENTRIES):
        for joined in (False, True):

            def make(begin: int = begin, joined: bool = joined) -> Made:
                rng = random.Random(f"{seed} entries {begin} {joined}")
                words = [word for entry, _ in entries[begin : begin + ENTRIES] if (word := _text(entry))]
                if joined:
                    rng.shuffle(words)
                    words = list(chain.from_iterable((a, b, "\n") for a, b in pairwise(words)))
                    return _plain(["".join(words)])
                return _plain(["\n".join(words), " ".join(words)])

            yield Task("vocabulary", make)


def _text(entry: bytes) -> str:
    try:
        return entry.decode()
    except UnicodeDecodeError:
        return ""
