"""Where added-token literals forbid a cut: inside them, and where they look at or take what stands beside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .classes import Classes
from .pipeline import AddedToken
from .refusal import Refusal


@dataclass(frozen=True)
class Constraints:
    """Places that are no cut: between the characters of `pairs`, behind `never_after`, in front of `never_before`.

    `last` are the characters that literals, with what they take along, can end with.
    """

    pairs: set[tuple[str, str]]
    never_after: set[str]
    never_before: set[str]
    last: set[str]

    def class_pairs(self, classes: Classes, prefix: bool) -> set[tuple[int, int]]:
        """Return the pairs of classes that hold a forbidden place.

        prefix: something is put in front of what follows a literal, so that place is none to go on from.
        """
        every = range(classes.count)
        found = {(classes.of(a), classes.of(b)) for a, b in self.pairs}
        found |= {(classes.of(a), b) for a in self.never_after | (self.last if prefix else set()) for b in every}
        return found | {(a, classes.of(b)) for b in self.never_before for a in every}


def constraints(tokens: list[AddedToken], literals: list[str], spaces: list[str]) -> Constraints:
    """Derive the constraints. `literals` are the tokens' contents as they are looked for.

    - A literal may not be cut: its adjacent characters.
    - lstrip takes the white space before it along, rstrip the one behind it: neither that run nor its border with the
      literal may be cut (its outer border may).
    - single_word looks at one character on either side: no cut there.

    Raises Refusal where an rstrip literal could run into one that begins with white space, or two literals are one.
    """
    pairs: set[tuple[str, str]] = set()
    never_after: set[str] = set()
    never_before: set[str] = set()
    last: set[str] = set()
    seen: set[tuple[bool, str]] = set()
    space_runs = {(a, b) for a in spaces for b in spaces}
    for token, literal in zip(tokens, literals, strict=True):
        if (token.normalized, literal) in seen:
            raise Refusal(f"two of its added tokens are looked for as {literal!r}, and the reference draws lots")
        seen.add((token.normalized, literal))
        pairs |= set(pairwise(literal))
        last.add(literal[-1])
        if token.single_word:
            never_after.add(literal[-1])
            never_before.add(literal[0])
        if token.lstrip:
            pairs |= space_runs | {(space, literal[0]) for space in spaces}
        if token.rstrip:
            pairs |= space_runs | {(literal[-1], space) for space in spaces}
            last |= set(spaces)
            if other := next((one for one in literals if one[0] in spaces), None):
                raise Refusal(f"its added token {literal!r} takes along white space with which {other!r} begins")
    return Constraints(pairs, never_after, never_before, last)
