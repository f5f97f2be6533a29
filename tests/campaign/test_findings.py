"""Every finding of FINDINGS.md, pinned with its smallest input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.synthetic import CHARACTER, added, description, split
from tokenizers import Tokenizer as HfTokenizer
from tokseam.broker import protocol
from tokseam.broker.protocol import WireError
from tokseam.scripts.verify.checks import Tally, check_texts
from tokseam.scripts.verify.subject import from_json

TRIMMING = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True, "add_prefix_space": False}


def agrees(text: str, **described: Any) -> None:
    """Compare ids, boundaries and offsets with a fresh reference."""
    subject = from_json("finding", json.dumps(description([split(r"\s|\S")], **described)).encode())
    if not subject.native:
        pytest.skip(f"not native: {subject.tokenizer.reason}")
    found = check_texts(subject, [text], Tally())
    assert found is None, found


@pytest.mark.parametrize(("text", "flags"), [("A ", {"rstrip": True}), ("x A", {"lstrip": True})])
def test_trimmed_spans_of_a_token_that_took_white_space_along(text: str, flags: dict[str, bool]) -> None:
    agrees(text, added_tokens=[added("A", 300, **flags)], post_processor=TRIMMING)


def test_pieces_behind_normalizers_that_compose_and_part_again() -> None:
    forms = [{"type": "NFKC"}, {"type": "NFKD"}]
    agrees("a\u030c", normalizer={"type": "Sequence", "normalizers": forms})


def test_an_envelope_whose_operation_is_no_string() -> None:
    with pytest.raises(WireError):
        protocol.unpack_envelope(bytes.fromhex("82a17601a26f7090"))


def test_two_literals_that_normalize_to_one_are_not_native() -> None:
    tokens = [added(content, 300, normalized=True, special=False) for content in ("\u00c5\u00c5", "A\u030aA\u030a")]
    described = description([split(r"\s|\S")], normalizer={"type": "NFC"}, added_tokens=tokens)
    answers = {tuple(HfTokenizer.from_str(json.dumps(described)).encode("\u00c5\u00c5").ids) for _ in range(40)}
    assert answers == {(256,), (257,)}, "the reference itself draws lots"
    assert not from_json("finding", json.dumps(described).encode()).native


def test_an_entry_that_holds_a_part_of_a_character_behind_one_that_is_normalized() -> None:
    described = description([split(r" ?\p{L}+|\s+")], normalizer={"type": "NFKC"})
    model = described["model"]
    lead = CHARACTER[0xD7]
    letter = lead + CHARACTER[0x94]
    merges = [(lead, CHARACTER[0x94]), (CHARACTER[0x20], letter), (CHARACTER[0x20] + letter, lead)]
    model["merges"] = [list(pair) for pair in merges]
    model["vocab"] = {CHARACTER[byte]: byte for byte in range(256)}
    model["vocab"] |= {left + right: 256 + rank for rank, (left, right) in enumerate(merges)}
    subject = from_json("finding", json.dumps(described).encode())
    assert subject.native
    texts = ["\u00a0\u05d4\u05d7", "\u2003\u05d4\u05d4\u05d7", " \u05d4\u05d7"]
    assert check_texts(subject, texts, Tally()) is None


@pytest.mark.parametrize(
    ("dropped", "merge", "text"),
    [
        (0xF1, (0xA4, 0x91), "\U00068524\U000515bd"),
        (0x03, (0xB8, 0xE4), "\u4e38\x03\u4e38"),
        (0x81, (0xA9, 0xC4), "\u00e9\u0101\u0101\u00e9\u0101"),
    ],
)
def test_what_merges_over_a_byte_that_is_dropped(dropped: int, merge: tuple[int, int], text: str) -> None:
    described = description([split(r"\s+|\S+")], without=bytes([dropped]))
    left, right = (CHARACTER[byte] for byte in merge)
    described["model"]["vocab"][left + right] = 300
    described["model"]["merges"] = [[left, right]]
    subject = from_json("finding", json.dumps(described).encode())
    assert subject.native
    assert check_texts(subject, [text, f"a{text}b", text * 40], Tally()) is None
