"""Characters by class, and texts drawn from them: weighted toward the ends of a class's runs, where tables go wrong.

Limits: texts that walk an automaton on purpose are in walks.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from tokseam.kernels.compile.classes import Classes

#: What has gone wrong in tokenizers before, beside what a tokenizer's own tables tell: contractions and what folds to
#: their letters, white space that is none, marks, jamo, joiners, digits of many scripts, controls, ends of planes.
HARD: tuple[str, ...] = (
    *("'s", "'S", "'t", "'re", "'RE", "'rE", "'ve", "'m", "'M", "'ll", "'Ll", "'d", "'D", "'", "''", "\u2019s"),
    *("'\u017f", "'\u212a", "\u017f", "\u212a", "'l", "'v", "'r", "'\u0301s"),
    *(" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\v", "\f", "\x1c", "\x1f", "\x85", " \n", "\n "),
    *("\u00a0", "\u1680", "\u180e", "\u2003", "\u200b", "\u2028", "\u2029", "\u202f", "\u2060", "\u3000", "\ufeff"),
    *("e\u0301", "\u00e9", "\u0301", "\u0323", "\u0327", "\u0345", "\u0344", "\u212b", "\u3099", "\u304b\u3099"),
    *("\u1100", "\u1161", "\u11a8", "\uac00", "\u0f71\u0f72", "\U0001d15e", "\U000110a5\U000110ba", "\u09c7\u09be"),
    *("\u200d", "\u200c", "\ufe0f", "\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f3fd", "\u20e3"),
    *("0", "1", "12", "123", "1234", "\u0663", "\u0967", "\u00b2", "\u00bd", "\u2167", "\u3007", "\uff15"),
    *("a", "Z", "word", "Word", "WORD", "camelCase", "HTTPServer", "\u01c5", "\u02b0", "\u0130", "\u00df", "\u1e9e"),
    *("\u0416", "\u05d0", "\u0627", "\u0e01\u0e33", "\u0915\u094d", "\u4f60\u597d", "\u9fa6", "\u3042", "\u30ff"),
    *("!", "...", "/", "//", "\\", "_", "-", "--", "(", ");", "{}", "</", ">", "<|", "|>", "=", "$", "`", "\u2014"),
    *("\u3002", "\uff0c", "\u00ad", "\u20ac", "\uff5c", "\u2581", "\u2581\u2581", ".\n", "!\r\n", "/\n"),
    *("\x00", "\x01", "\x7f", "\x80", "\ue000", "\ufffd", "\uffff", "\U0001ffff", "\U000e0001", "\U0010ffff", "\u0378"),
)

_SURROGATES = range(0xD800, 0xE000)


class Alphabet:
    """The members of every class, and where the runs of classes begin and end."""

    def __init__(self, classes: Classes | None) -> None:
        # Without classes (a tokenizer over characters), those of the Unicode blocks' size stand in.
        class_of = (np.arange(0x110000) >> 13).astype(np.uint8) if classes is None else classes.class_of
        self.class_of = class_of
        self.count = int(class_of.max()) + 1 if classes is None else classes.count
        valid = np.ones(0x110000, dtype=bool)
        valid[_SURROGATES.start : _SURROGATES.stop] = False
        starts = np.flatnonzero(np.concatenate([[True], class_of[1:] != class_of[:-1]]))
        near = np.unique(np.clip(np.concatenate([starts - 1, starts, starts + 1, [0x10FFFF]]), 0, 0x10FFFF))
        #: Code points at either side of every place where the class changes.
        self.borders: list[int] = near[valid[near]].tolist()
        border_classes = class_of[self.borders]
        self._members = [np.flatnonzero((class_of == number) & valid) for number in range(self.count)]
        self._borders = [np.array(self.borders)[border_classes == number] for number in range(self.count)]

    def of(self, text: str) -> list[int]:
        """Return the class of every character."""
        points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        found: list[int] = self.class_of[points].tolist()
        return found

    def draw(self, rng: random.Random, number: int) -> str:
        """Draw a member of a class: its first, its last, one beside a border, or any."""
        members = self._members[number]
        if not len(members):
            return ""  # a class of surrogates alone
        kind = rng.random()
        if kind < 0.4:
            return chr(members[0])
        if kind < 0.5:
            return chr(members[-1])
        if kind < 0.7 and len(self._borders[number]):
            members = self._borders[number]
        return chr(members[rng.randrange(len(members))])

    def spell(self, rng: random.Random, numbers: Sequence[int]) -> str:
        return "".join(self.draw(rng, number) for number in numbers)


def class_text(rng: random.Random, alphabet: Alphabet, length: int) -> str:
    """Draw a text of classes: runs of one, alternations of few, and anything."""
    out: list[str] = []
    while len(out) < length:
        kind = rng.random()
        if kind < 0.35:
            number = rng.randrange(alphabet.count)
            out += [alphabet.draw(rng, number) for _ in range(rng.choice((1, 2, 3, 4, 7, 20)))]
        elif kind < 0.7:
            few = [rng.randrange(alphabet.count) for _ in range(rng.randint(2, 4))]
            out += [alphabet.draw(rng, rng.choice(few)) for _ in range(rng.randint(2, 16))]
        else:
            out += [alphabet.draw(rng, rng.randrange(alphabet.count)) for _ in range(rng.randint(1, 12))]
    return "".join(out)


def hard_text(rng: random.Random, parts: Sequence[str], length: int) -> str:
    """Draw a text of hard parts (HARD, added tokens and their prefixes): many kinds, few, or one repeated."""
    out: list[str] = []
    while len(out) < length:
        kind = rng.random()
        if kind < 0.55:
            out += rng.choices(parts, k=rng.randint(1, 12))
        elif kind < 0.85:
            out += rng.choices(rng.choices(parts, k=rng.randint(1, 3)), k=rng.randint(1, 12))
        else:
            out += [rng.choice(parts)] * rng.randint(2, 30)
    return "".join(out)


def mutated(rng: random.Random, text: str, alphabet: Alphabet, parts: Sequence[str]) -> str:
    """Change a real text here and there: insert, delete, repeat, swap, change case."""
    pieces = list(text)
    for _ in range(max(1, len(pieces) // rng.choice((10, 40, 200)))):
        at = rng.randrange(len(pieces) + 1)
        kind = rng.randrange(7)
        if kind == 0:
            pieces.insert(at, rng.choice(parts))
        elif kind == 1:
            pieces.insert(at, alphabet.draw(rng, rng.randrange(alphabet.count)))
        elif kind == 2:
            del pieces[at : at + rng.choice((1, 1, 2, 5))]
        elif at < len(pieces):
            if kind == 3:
                pieces[at] = pieces[at] * rng.choice((2, 3, 9))
            elif kind == 4:
                pieces[at] = pieces[at].swapcase()
            elif kind == 5 and at:
                pieces[at - 1], pieces[at] = pieces[at], pieces[at - 1]
            else:
                pieces[at] = alphabet.draw(rng, rng.randrange(alphabet.count))
    return "".join(pieces)


def literal_parts(literals: Sequence[str], most: int = 400) -> list[str]:
    """Added tokens, their prefixes and their ends."""
    step = max(1, len(literals) // most)
    parts: list[str] = []
    for literal in literals[::step]:
        parts += [literal, literal[:1], literal[: len(literal) // 2], literal[:-1], literal[1:]]
    return [part for part in dict.fromkeys(parts) if part]
