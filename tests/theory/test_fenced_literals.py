"""Literals of added tokens rule out cuts for encoding only where they stand (claim 19 in kernels/README.md).

Texts of literals, parts of literals and what may stand beside them, against the reference: an id that differs is a cut
that parted a literal, or one beside it that a stage could not see.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from support import families
from support.synthetic import CL100K, GPT2, added, description, native, pair, split
from tokseam.kernels.compile.admission import admit
from tokseam.kernels.reference import HuggingFaceReference, read_tokenizer

BESIDE = [*" \n\t_-|<>/[](){}\"'.,=#09aestES", "\u00e9", "\u4e2d", "\u00a0", "\u0301", "'s", "  ", "\n\n"]
BESIDE += [" x", "(x", '("a']


def texts(rng: random.Random, literals: list[str], count: int) -> list[str]:
    found = []
    for _ in range(count):
        some = rng.sample(literals, min(3, len(literals)))
        parts = ["x" * rng.randrange(58, 70) + " "] if rng.random() < 0.5 else []  # beside the border of a word of 64
        for _ in range(rng.randrange(1, 12)):
            literal, kind = rng.choice(some), rng.random()
            if kind < 0.35:
                parts.append(literal)
            elif kind < 0.7:
                begin = rng.randrange(len(literal))
                parts.append(literal[begin : rng.randrange(begin, len(literal) + 1)])
            else:
                parts.append("".join(rng.choices(BESIDE, k=rng.randrange(4))))
        found.append("".join(parts))
    return found


def tables_of(described: dict[str, Any]) -> dict[str, Any]:
    content = json.dumps(described).encode()
    return admit(HuggingFaceReference(read_tokenizer(content), ""), content).native


def test_of_real_tokenizers(family: families.Family, rng: random.Random, effort: float) -> None:
    if not family.literals:
        pytest.skip("no added tokens")
    for text in texts(rng, family.literals, int(400 * effort)):
        for special in (False, True):
            ours = family.engine.encode(text, split_special_tokens=special)
            assert ours.tolist() == family.reference.ids(text, False, special), (text, special)


#: What a space may stand in front of, and what a piece may be of several kinds of characters.
MERGES = [("a", "b"), ("ab", "_"), ("_", "a"), (" ", " "), (" ", "a"), ("<", "a"), ("|", ">"), (" ", "("), ("(", "a")]
SPACED = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}


@pytest.mark.parametrize("normalizer", [None, {"type": "NFC"}])
@pytest.mark.parametrize("pattern", [CL100K, GPT2, None], ids=["cl100k", "gpt2", "spaced"])
def test_of_literals_drawn_at_random(
    pattern: str | None, normalizer: dict[str, Any] | None, rng: random.Random
) -> None:
    """Some that begin with a sign, some that do not, some that look around; inside each other, and across each other.

    With a space in front of what follows a literal too, and with special tokens left as text.
    """
    native_ones = 0
    for _ in range(40):
        drawn = {"".join(rng.choices("<|>_ab (", k=rng.randrange(1, 8))) for _ in range(5)}
        tokens = [
            added(
                literal,
                300 + i,
                special=rng.random() < 0.5,
                normalized=rng.random() < 0.3,
                rstrip=rng.random() < 0.05,
                single_word=rng.random() < 0.05,
            )
            for i, literal in enumerate(sorted(drawn))
        ]
        described = description([split(pattern or GPT2)], merges=MERGES, added_tokens=tokens, normalizer=normalizer)
        if pattern is None:
            described["pre_tokenizer"] = SPACED
        ours, reference = pair(described)
        native_ones += ours.status == "native"
        for special in (False, True):
            reference.encode_special_tokens = special
            for text in texts(rng, sorted(drawn), 100):
                wanted = reference.encode(text, add_special_tokens=False).ids
                assert ours.encode(text, split_special_tokens=special).tolist() == wanted, (drawn, text, special)
    assert native_ones > 20


@pytest.mark.parametrize("literal", ["<x", "<"])
def test_what_stands_in_front_of_a_literal_does_not_see_it(literal: str) -> None:
    """Of two spaces the second goes with the sign behind it, but not with a literal."""
    tokens = [added(literal, 300)]
    ours, reference = native(description([split(GPT2)], merges=[(" ", " ")], added_tokens=tokens))
    for text in (f"a  {literal}", f"a  {literal}y", f"{literal}  y", f"a  /{literal}"):
        assert ours.encode(text).tolist() == reference.encode(text, add_special_tokens=False).ids, text


def test_a_literal_costs_no_cuts_elsewhere() -> None:
    """Sessions keep cuts whose fate two characters decide; encoding cuts letters from '_' in other words."""
    described = description([split(CL100K)], added_tokens=[added("<|a_b|>", 256)])
    ours, _ = native(described)
    assert ours.cuts("a_b").tolist() == []
    assert ours.cuts("a-b").tolist() == [1]
    tables = tables_of(described)
    letter, underline = tables["class_of"][ord("x")], tables["class_of"][ord("_")]
    assert not tables["pairs"][letter, underline]
    assert tables["segment_pairs"][letter, underline]
    assert (tables["pairs"] <= tables["segment_pairs"]).all()


@pytest.mark.parametrize(
    "token",
    [added("a_b", 256), added("<a_b", 256, lstrip=True), added("<a_b", 256, single_word=True)],
    ids=["begins with a letter", "takes white space along", "looks around"],
)
def test_others_rule_out_what_they_did(token: dict[str, Any]) -> None:
    tables = tables_of(description([split(CL100K)], added_tokens=[token]))
    assert np.array_equal(tables["segment_pairs"], tables["pairs"])
