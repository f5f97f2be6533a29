"""Character data: asked part by part as asked at once, and parted into classes that no atom tells apart."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Regex, pre_tokenizers
from tokseam.kernels.compile import class_probe
from tokseam.kernels.compile.class_probe import CODE_POINTS, Members, every_character, members_of
from tokseam.kernels.compile.classes import MAX_CLASSES, partition
from tokseam.kernels.compile.refusal import Refusal


@pytest.mark.parametrize("source", [r"\p{N}", r"[^\s\p{L}\p{N}]", "(?i:s)", r"\r"])
def test_an_atom_is_what_one_call_about_all_characters_says(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKSEAM_CACHE_DIR", str(tmp_path))
    left_over = pre_tokenizers.Split(Regex(source), "removed").pre_tokenize_str(every_character())
    expected = ~members_of("".join(piece for piece, _ in left_over))
    expected[0xD800:0xE000] = False
    assert np.array_equal(class_probe.probe_atom(source, "onig"), expected)
    assert np.array_equal(class_probe.probe_atom(source, "onig"), expected)  # as kept


def _some(rng: random.Random) -> Members:
    members = np.zeros(CODE_POINTS, dtype=bool)
    for _ in range(rng.randrange(4)):
        begin = rng.randrange(CODE_POINTS)
        members[begin : begin + rng.choice((1, 2, 300, 100_000))] = True
    members[rng.sample(range(0xD7F0, 0xE010), 5)] = True
    if rng.random() < 0.3:
        members = ~members
    members[0xD800:0xE000] = False
    return members


@pytest.mark.parametrize("count", [0, 1, 2, 5, 40])
def test_classes_are_the_coarsest_partition(count: int, rng: random.Random) -> None:
    atoms = {f"atom {number}": _some(rng) for number in range(count)}
    try:
        classes = partition(atoms)
    except Refusal:
        assert count == 40
        return
    text = np.ones(CODE_POINTS, dtype=bool)
    text[0xD800:0xE000] = False
    signatures = np.array(list(atoms.values())).reshape(count, CODE_POINTS)
    found = {}
    for number in range(classes.count):
        inside = signatures[:, text & (classes.class_of == number)]
        assert inside.shape[1]
        assert (inside == inside[:, :1]).all(), "an atom parts the class"
        assert [bool(held[number]) for held in classes.membership.values()] == inside[:, 0].tolist()
        found[inside[:, 0].tobytes()] = number
    assert len(found) == classes.count, "no two classes are alike"
    assert np.all(classes.class_of[0xD800:0xE000] == classes.class_of[0xE000])


def test_more_classes_than_a_byte_holds_are_refused() -> None:
    def alone(point: int) -> Members:
        members = np.zeros(CODE_POINTS, dtype=bool)
        members[point] = True
        return members

    atoms = {str(point): alone(point) for point in range(MAX_CLASSES - 1)}
    assert partition(atoms).count == MAX_CLASSES
    with pytest.raises(Refusal, match="more than 255 classes"):
        partition(atoms | {"one more": alone(1000)})
