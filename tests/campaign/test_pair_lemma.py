"""The pair lemma and its bigram corollary, on small alphabets, by exhaustion: no order of the merges is assumed.

Lemma: within one piece, a sequence of self-reachable tokens is BPE's result if and only if every adjacent pair (s, t)
of it satisfies BPE(st) = [s, t]. Corollary: where no token that merges can make contains x directly followed by y, BPE
never merges across an x|y. Both are tried against a BPE written here in the plainest way, which shares nothing with the
engine.
"""

from __future__ import annotations

import itertools
import random
from functools import lru_cache

import pytest

#: (left, right) -> rank; of equal ranks the leftmost pair goes first.
Merges = dict[tuple[str, str], int]


class Bpe:
    """BPE over characters: merge the lowest rank, the leftmost of equals, until no pair merges."""

    def __init__(self, merges: Merges) -> None:
        self.merges = merges
        self.encode = lru_cache(maxsize=None)(self._encode)

    def _encode(self, text: str) -> tuple[str, ...]:
        tokens = list(text)
        while True:
            ranked = [
                (self.merges[pair], at) for at, pair in enumerate(itertools.pairwise(tokens)) if pair in self.merges
            ]
            if not ranked:
                return tuple(tokens)
            _, at = min(ranked)
            tokens[at : at + 2] = [tokens[at] + tokens[at + 1]]


def random_merges(rng: random.Random, letters: str, count: int, longest: int) -> Merges:
    """Draw merges whose ranks are in no order: a token is often used by an earlier merge than the one that makes it."""
    parts, merges = list(letters), []
    for _ in range(count):
        left, right = rng.choice(parts), rng.choice(parts)
        if len(left + right) <= longest and (left, right) not in merges:
            merges.append((left, right))
            parts.append(left + right)
    kind = rng.random()
    if kind < 0.6:
        rng.shuffle(merges)
    ranks = range(len(merges))
    if kind > 0.8:  # as tiktoken: the rank is that of what comes out, so different pairs can have one rank
        made = sorted({left + right for left, right in merges}, key=lambda _: rng.random())
        return {pair: made.index("".join(pair)) for pair in merges}
    return dict(zip(merges, ranks, strict=True))


def splits(text: str, vocabulary: frozenset[str]) -> list[tuple[str, ...]]:
    """Return every way to write `text` as tokens."""
    if not text:
        return [()]
    return [
        (text[:size], *rest)
        for size in range(1, len(text) + 1)
        if text[:size] in vocabulary
        for rest in splits(text[size:], vocabulary)
    ]


@pytest.mark.parametrize(("letters", "longest", "tables"), [("ab", 8, 80), ("abc", 5, 120), ("abc", 6, 25)])
def test_the_pair_lemma(letters: str, longest: int, tables: int, rng: random.Random, effort: float) -> None:
    """Every text, every sequence of self-reachable tokens that spells it."""
    sequences = results = 0
    for _ in range(int(tables * effort)):
        bpe = Bpe(random_merges(rng, letters, rng.randint(1, 14), 5))
        vocabulary = frozenset(letters) | {left + right for left, right in bpe.merges}
        reachable = frozenset(token for token in vocabulary if bpe.encode(token) == (token,))
        stable = {pair: bpe.encode("".join(pair)) == pair for pair in itertools.product(reachable, repeat=2)}
        for length in range(1, longest + 1):
            for text in map("".join, itertools.product(letters, repeat=length)):
                wanted = bpe.encode(text)
                assert reachable.issuperset(wanted), "a result's tokens are self-reachable"
                holding = [s for s in splits(text, reachable) if all(stable[pair] for pair in itertools.pairwise(s))]
                assert holding == [wanted], (bpe.merges, text)
                sequences += len(holding)
                results += 1
    assert results > 1000 * min(1, effort)
    assert sequences == results


@pytest.mark.parametrize(("letters", "longest", "tables"), [("ab", 8, 150), ("abc", 6, 60), ("abc", 8, 4)])
def test_the_bigram_corollary(letters: str, longest: int, tables: int, rng: random.Random, effort: float) -> None:
    """Every text, cut at every x|y that stands in no token that merges make: the sides encode as the whole does."""
    cuts = 0
    for _ in range(max(1, int(tables * effort))):
        # Few and short merges: with many, every two letters stand side by side in some token.
        bpe = Bpe(random_merges(rng, letters, rng.randint(1, 4), 5))
        made = {left + right for left, right in bpe.merges}
        joined = {pair for token in made for pair in itertools.pairwise(token)}
        for length in range(2, longest + 1):
            for text in map("".join, itertools.product(letters, repeat=length)):
                for at in range(1, length):
                    if (text[at - 1], text[at]) in joined:
                        continue
                    assert bpe.encode(text) == bpe.encode(text[:at]) + bpe.encode(text[at:]), (bpe.merges, text, at)
                    cuts += 1
    assert cuts > 1000


def test_without_self_reachable_tokens_the_lemma_fails() -> None:
    """The condition is needed: 'ab' here is a token that its own letters never become."""
    bpe = Bpe({("b", "c"): 0, ("a", "bc"): 1, ("ab", "c"): 2})
    assert bpe.encode("ab") == ("a", "b")
    assert bpe.encode("abx") != ("ab", "x")


def test_a_window_joined_where_its_seams_hold_is_the_whole(rng: random.Random, effort: float) -> None:
    """What the lemma is for: keep the tokens beside a change, encode a window anew, and look at the pairs alone."""
    spliced = 0
    for _ in range(int(150 * effort)):
        bpe = Bpe(random_merges(rng, "abc", rng.randint(3, 16), 6))
        for _ in range(40):
            text = "".join(rng.choices("abc", k=rng.randint(4, 40)))
            start, stop = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
            new = "".join(rng.choices("abc", k=rng.randint(0, 5)))
            changed = text[:start] + new + text[stop:]
            old = bpe.encode(text)
            ends = list(itertools.accumulate(map(len, old)))
            left = sum(end <= start for end in ends)
            right = len(old) - sum(end - len(token) >= stop for end, token in zip(ends, old, strict=True))
            kept, behind = old[:left], old[right:]
            window = changed[len("".join(kept)) : len(changed) - len("".join(behind))]
            candidate = (*kept, *bpe.encode(window), *behind)
            if all(bpe.encode(s + t) == (s, t) for s, t in itertools.pairwise(candidate)):
                assert candidate == bpe.encode(changed)
                spliced += 1
            else:
                assert candidate != bpe.encode(changed)
    assert spliced > 100
