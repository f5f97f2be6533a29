"""Normal forms and lower case as the reference does them, as tables probed out of its own normalizers.

The reference's normalization data is years older than its regex data, so neither Python's nor any other library's may
stand in.
What is probed: every canonical decomposition, the order of the marks, and from both the compositions. The result is
checked
against the reference's NFC before it is used.
"""

from __future__ import annotations

import json
import random
import unicodedata
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers

from .. import cache, engines
from .class_probe import CODE_POINTS, Members, every_character, parts
from .refusal import Refusal

Form = Literal["NFC", "NFKC", "NFD", "NFKD", "Lowercase"]

#: The forms that compose again what they have decomposed.
_COMPOSING = ("NFC", "NFKC")

#: Fences between probes; a starter that composes with nothing.
_FENCE = "\n"

#: Marks of the lowest and the highest combining class, 1 and 240 (one of them changes places with every other mark).
_LOWEST, _HIGHEST = "\u0334", "\u0345"

#: Hangul is composed by arithmetic (Unicode 3.12), not by table.
HANGUL_FIRST, HANGUL_LAST = 0xAC00, 0xD7A3
HANGUL_L, HANGUL_V, HANGUL_T = (0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)


@dataclass(frozen=True)
class Normalization:
    """Tables of one form.

    decomposition: code point -> its full decomposition, where there is one (Hangul syllables left out).
    order: code point -> combining class, where it is not 0. composition: (first, second) -> composite.
    """

    form: Form
    decomposition: dict[int, tuple[int, ...]]
    order: dict[int, int]
    composition: dict[tuple[int, int], int]

    @property
    def composes(self) -> bool:
        return self.form in _COMPOSING

    @property
    def hangul(self) -> bool:
        """Whether Hangul syllables are taken apart."""
        return self.form != "Lowercase"

    def suspect(self) -> Members:
        """Characters whose presence can make a text change.

        Those that are rewritten, reordered, or composed with what precedes.
        """
        members = np.zeros(CODE_POINTS, dtype=bool)
        members[list(self.order)] = True
        seconds = {second for _, second in self.composition}
        members[list(seconds)] = True
        # What begins, decomposed, with such a one joins as well (claim 18).
        members[[p for p, parts in self.decomposition.items() if parts[0] in seconds or parts[0] in self.order]] = True
        members[[point for point in self.decomposition if self.normalize(chr(point)) != chr(point)]] = True
        if self.composes:
            members[HANGUL_V[0] : HANGUL_V[1] + 1] = True
            members[HANGUL_T[0] : HANGUL_T[1] + 1] = True
        elif self.hangul:
            members[HANGUL_FIRST : HANGUL_LAST + 1] = True
        return members

    def composes_onward(self) -> Members:
        """Characters that something behind them can change: by composing with them, or by getting in between their
        parts.

        U+00E9 with U+0327 behind it becomes U+0229 U+0301, though no pair of the two composes: so every composite
        counts.
        """
        members = np.zeros(CODE_POINTS, dtype=bool)
        if not self.composes:
            return members
        members[list(self.decomposition)] = True
        members[[first for first, _ in self.composition]] = True
        members[HANGUL_L[0] : HANGUL_L[1] + 1] = True
        members[HANGUL_FIRST : HANGUL_LAST + 1] = True
        return members

    def becomes(self, class_of: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.bool_]:
        """Return [a, b]: something behind a character of class a may make it one of class b. bool (count, count).

        It may become any of the composites that are built on what it is itself built on; a Hangul jamo or syllable,
        any syllable.
        """
        found = np.zeros((count, count), dtype=bool)
        if not self.composes:
            return found
        part_of = {composite: first for (first, _), composite in self.composition.items()}
        built_on: dict[int, set[int]] = {}
        for point in [*part_of, *part_of.values()]:
            first = point
            while first in part_of:
                first = part_of[first]
            built_on.setdefault(first, {first}).add(point)
        for family in built_on.values():
            classes = np.unique(class_of[list(family)])
            found[np.ix_(classes, classes)] = True
        syllables = np.unique(class_of[HANGUL_FIRST : HANGUL_LAST + 1])
        jamo = np.unique(class_of[HANGUL_L[0] : HANGUL_L[1] + 1])
        found[np.ix_(np.union1d(jamo, syllables), syllables)] = True
        return found

    def arrays(self) -> dict[str, npt.NDArray[np.uint32] | bool]:
        """Return flat tables for the native engine, sorted by key."""
        points = sorted(self.decomposition)
        lengths = [len(self.decomposition[p]) for p in points]
        pairs = sorted(self.composition)
        return {
            "decomposed": np.array(points, dtype=np.uint32),
            "decomposition_ends": np.cumsum(lengths).astype(np.uint32),
            "decomposition": np.array([c for p in points for c in self.decomposition[p]], dtype=np.uint32),
            "ordered": np.array(sorted(self.order), dtype=np.uint32),
            "order": np.array([self.order[p] for p in sorted(self.order)], dtype=np.uint32),
            "composed_first": np.array([a for a, _ in pairs], dtype=np.uint32),
            "composed_second": np.array([b for _, b in pairs], dtype=np.uint32),
            "composite": np.array([self.composition[p] for p in pairs], dtype=np.uint32),
            "hangul_decomposes": self.hangul,
            "hangul_composes": self.composes,
        }

    def normalize(self, text: str) -> str:
        """Normalize by the tables: the plain algorithm, which the native one is tested against."""
        points: list[int] = []
        for char in text:
            point = ord(char)
            if self.hangul and HANGUL_FIRST <= point <= HANGUL_LAST:
                index = point - HANGUL_FIRST
                points += [0x1100 + index // 588, 0x1161 + index % 588 // 28] + [0x11A7 + index % 28] * (index % 28 > 0)
            else:
                points += self.decomposition.get(point, (point,))
        for start in range(len(points)):  # insertion sort of each run of marks: stable
            here = start
            order = self.order.get(points[here], 0)
            while order and here and self.order.get(points[here - 1], 0) > order:
                points[here - 1], points[here] = points[here], points[here - 1]
                here -= 1
        return "".join(map(chr, self._compose(points)))

    def _compose(self, points: list[int]) -> list[int]:
        out: list[int] = []
        starter, last_order = -1, 0
        for point in points:
            order = self.order.get(point, 0)
            if starter >= 0 and (last_order < order or (last_order == 0 and len(out) - 1 == starter)):
                composite = self._pair(out[starter], point)
                if composite is not None:
                    out[starter] = composite
                    continue
            if order == 0:
                starter = len(out)
            last_order = order
            out.append(point)
        return out

    def _pair(self, first: int, second: int) -> int | None:
        if not self.composes:
            return None
        if HANGUL_L[0] <= first <= HANGUL_L[1] and HANGUL_V[0] <= second <= HANGUL_V[1]:
            return HANGUL_FIRST + ((first - 0x1100) * 21 + second - 0x1161) * 28
        if (
            HANGUL_FIRST <= first <= HANGUL_LAST
            and (first - HANGUL_FIRST) % 28 == 0
            and HANGUL_T[0] <= second <= HANGUL_T[1]
        ):
            return first + second - 0x11A7
        return self.composition.get((first, second))


def probe_normalization(form: Form) -> Normalization:
    """Return the reference's tables of a form. Raises Refusal when tables cannot reproduce what it does."""
    key = f"{form} {engines.version('onig')}"
    kept = cache.get("normalization", key)
    if kept is not None:
        decomposition, order, composition = json.loads(kept)
        return Normalization(
            form,
            {point: tuple(points) for point, points in decomposition},
            dict(order),
            {(first, second): composite for first, second, composite in composition},
        )
    tables = _probe(form)
    _check(tables, form)
    rows = (
        list(tables.decomposition.items()),
        list(tables.order.items()),
        [(first, second, composite) for (first, second), composite in tables.composition.items()],
    )
    cache.put("normalization", key, json.dumps(rows).encode())
    return tables


def _fenced(normalize: object, texts: list[str]) -> list[str]:
    """Normalize many short texts in one call."""
    joined: str = normalize.normalize_str(_FENCE.join(texts))  # type: ignore[attr-defined]
    return joined.split(_FENCE)


def _changed(normalize: object, characters: str, before: str = "", behind: str = "") -> list[tuple[str, str]]:
    """Return the characters that do not stay as they are between `before` and `behind`, with what becomes of the whole.

    PERF: most parts of all characters stay as they are as a whole, and then none is looked at by itself.
    """
    found = []
    for part in parts(characters):
        joined = before + (behind + _FENCE + before).join(part) + behind
        result: str = normalize.normalize_str(joined)  # type: ignore[attr-defined]
        if result != joined:
            pairs = zip(part, result.split(_FENCE), strict=True)
            found += [(char, one) for char, one in pairs if one != before + char + behind]
    return found


def _normalizer(form: Form) -> object:
    normalizer: object = getattr(normalizers, form)()
    return normalizer


def _probe(form: Form) -> Normalization:
    every = every_character()  # up to the surrogates, which are left out, each stands at its own number
    characters = (every[:HANGUL_FIRST] + every[HANGUL_LAST + 1 :]).replace(_FENCE, "")

    def changed(by: Form) -> dict[int, tuple[int, ...]]:
        return {ord(char): tuple(map(ord, result)) for char, result in _changed(_normalizer(by), characters)}

    if form == "Lowercase":
        return Normalization(form, changed(form), {}, {})
    canonical = changed("NFD")
    order = _probe_order(characters.translate(dict.fromkeys(canonical)))
    decomposition = canonical if form in ("NFC", "NFD") else changed("NFKD")
    composition = _probe_composition(canonical) if form in _COMPOSING else {}
    return Normalization(form, decomposition, order, composition)


def _probe_composition(canonical: dict[int, tuple[int, ...]]) -> dict[tuple[int, int], int]:
    """Find the pairs that compose: what a composite's decomposition but its last character composes to, and that."""
    nfc = _normalizer("NFC")
    composed = _fenced(nfc, [chr(point) for point in canonical])
    kept = [point for point, result in zip(canonical, composed, strict=True) if result == chr(point)]
    prefixes = _fenced(nfc, ["".join(map(chr, canonical[point][:-1])) for point in kept])
    return {
        (ord(prefix), canonical[point][-1]): point
        for point, prefix in zip(kept, prefixes, strict=True)
        if len(prefix) == 1
    }


def _probe_order(characters: str) -> dict[int, int]:
    """Find every mark's combining class by what it is reordered with.

    Python's data only suggests one well-known mark for each class (classes never change once published); where a
    character belongs is
    the reference's answer: in the class whose mark it changes places with on neither side.
    """
    nfd = _normalizer("NFD")
    reordered = _changed(nfd, characters, behind=_LOWEST) + _changed(nfd, characters, before=_HIGHEST)
    marks = sorted({char for char, _ in reordered})
    suggested: dict[int, str] = {}
    for char in marks:  # only what the reference itself takes for a mark: its data is older than Python's
        suggested.setdefault(unicodedata.combining(char), char)
    ladder = sorted((value, char) for value, char in suggested.items() if value)
    order = {}
    for char in marks:
        before = _fenced(nfd, [char + mark for _, mark in ladder])
        after = _fenced(nfd, [mark + char for _, mark in ladder])
        for (value, mark), left, right in zip(ladder, before, after, strict=True):
            if left == char + mark and right == mark + char:
                order[ord(char)] = value
                break
        else:
            raise Refusal(f"the reference orders U+{ord(char):04X} like no known mark")
    return order


def _check(tables: Normalization, form: Form) -> None:
    """Compare with the reference: every character alone, and random texts of the characters that interact."""
    reference = _normalizer(form)
    pairs = {point for pair in tables.composition for point in pair}
    interacting = [chr(point) for point in {*tables.order, *pairs} or {*tables.decomposition, ord("a")}]
    rng = random.Random(0)
    texts = [chr(p) for p in (*tables.decomposition, *tables.order)]
    texts += ["".join(map(chr, points)) for points in tables.decomposition.values()]
    texts += ["".join(rng.choices(interacting, k=rng.randint(2, 6))) for _ in range(20_000)]
    texts += [
        "".join(chr(rng.choice((0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC01, 0x0301))) for _ in range(4)) for _ in range(500)
    ]
    for text, expected in zip(texts, _fenced(reference, texts), strict=True):
        if tables.normalize(text) != expected:
            raise Refusal(f"the reference's {form} of {text!r} does not follow from its own tables")
