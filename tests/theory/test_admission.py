"""Who is admitted natively, who is not and why, and that both give the reference's ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import BYTES_ONLY, added, as_entry, description, native, pair, split
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

WORDS = split(r"[^ ]+| +")
TEXT = "ab  12 <s>x</s> caf\u00e9 e\u0301 'S"


def byte_level(**flags: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | flags


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}},
            "truncation",
        ),
        (
            {
                "padding": {
                    "strategy": {"Fixed": 9},
                    "direction": "Right",
                    "pad_to_multiple_of": None,
                    "pad_id": 0,
                    "pad_type_id": 0,
                    "pad_token": "!",
                }
            },
            "padding",
        ),
        ({"normalizer": {"type": "StripAccents"}}, "StripAccents"),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]}}, "Nmt"),
        ({"pre_tokenizer": None}, "byte_fallback"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [WORDS, byte_level(add_prefix_space=True)]}},
            "adds a space in front of every piece",
        ),
        ({"pre_tokenizer": BYTES_ONLY}, "one single piece"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [byte_level(), byte_level()]}}, "ByteLevel"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(r"(?<=a)b"), BYTES_ONLY]}}, "lookbehind"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(r" ", "MergedWithNext", True), BYTES_ONLY]}},
            "MergedWithNext with invert",
        ),
        ({"model": {"continuing_subword_prefix": "#"}}, "continuing_subword_prefix"),
        ({"model": {"end_of_word_suffix": "_"}}, "end_of_word_suffix"),
        ({"added_tokens": [added("<s>", 256, rstrip=True), added(" </s>", 257)]}, "takes along white space"),
        (
            {
                "post_processor": {
                    "type": "RobertaProcessing",
                    "sep": ["!", 0],
                    "cls": ["!", 0],
                    "trim_offsets": True,
                    "add_prefix_space": False,
                }
            },
            "RobertaProcessing",
        ),
    ],
)
def test_what_is_not_understood_runs_by_the_reference(change: dict[str, Any], reason: str) -> None:
    ours, reference = pair(
        description([WORDS]) | {"added_tokens": []} | change
        if "model" not in change
        else description([WORDS], **change)
    )
    assert ours.status == "reference"
    assert reason in ours.reason
    assert ours.encode(TEXT).tolist() == reference.encode(TEXT, add_special_tokens=False).ids
    session = ours.session()
    session.reset(TEXT)
    session.append(" end")
    assert session.work.path == "reference"
    assert session.ids().tolist() == reference.encode(TEXT + " end", add_special_tokens=False).ids


def test_dropout_is_refused() -> None:
    ours, _ = pair(description([WORDS], model={"dropout": 0.5}))
    assert ours.status == "reference"
    assert "at random" in ours.reason


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        *({"normalizer": {"type": form}} for form in ("NFKC", "NFD", "NFKD", "Lowercase")),
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": form} for form in ("NFKD", "Lowercase", "NFC")]}},
        {
            "normalizer": {"type": "Lowercase"},
            "added_tokens": [
                added("<S>", 256, normalized=True),
                added("X", 257),
                added("\u0130", 258, normalized=True),
            ],
        },
        {"normalizer": {"type": "Sequence", "normalizers": []}},
        {"added_tokens": [added("<s>", 256, rstrip=True)]},
        {"added_tokens": [added("<s>", 256, lstrip=True)]},
        {"added_tokens": [added("ab", 256, single_word=True), added("b", 257, single_word=True, lstrip=True)]},
        {"added_tokens": [added("x", 256, lstrip=True, rstrip=True, normalized=True), added("<s>", 257, rstrip=True)]},
        {"pre_tokenizer": byte_level()},
        *(
            {"pre_tokenizer": byte_level(add_prefix_space=True), "post_processor": byte_level(add_prefix_space=leave)}
            | more
            for leave in (False, True)
            for more in (
                {},
                {"normalizer": {"type": "NFC"}},
                {"added_tokens": [added("<s>", 256), added("b", 257, normalized=True), added("x", 258, rstrip=True)]},
            )
        ),
        {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [byte_level(add_prefix_space=True), {"type": "Digits", "individual_digits": True}],
            }
        },
        {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level()],
            }
        },
        {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [{"type": "Digits", "individual_digits": False}, byte_level()],
            }
        },
        {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [split(r"(?s-i:.)|\s".replace("s-i", "m")), BYTES_ONLY],
            }
        },
        *(
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(pattern, "Removed", True), BYTES_ONLY]}}
            for pattern in (r"\s+|\S+", r"\w+", r"[ab]+(?!\S)", " ")
        ),
        *(
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": kind}, WORDS, BYTES_ONLY]}}
            for kind in ("Whitespace", "WhitespaceSplit")
        ),
        {
            "added_tokens": [
                added("<s>", 256),
                added("<s>x", 257, special=False),
                added("e\u0301", 258, normalized=True),
            ]
        },
        *(
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(pattern, behavior), BYTES_ONLY]}}
            for pattern in (r"[ab]", r" ", r"\d|a", r"\s+(?!\S)")
            for behavior in ("MergedWithPrevious", "MergedWithNext", "Contiguous", "Removed")
        ),
        *(
            {
                "pre_tokenizer": {
                    "type": "Sequence",
                    "pretokenizers": [{"type": "Punctuation", "behavior": behavior}, WORDS, BYTES_ONLY],
                }
            }
            for behavior in ("Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext", "Removed")
        ),
        *(
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [WORDS, BYTES_ONLY, *behind]}}
            for behind in (
                [{"type": "Digits", "individual_digits": False}, split("[0-9][0-9]")],
                [split("\u00c3."), split("[^\u0120]+", "MergedWithNext")],
                [{"type": "Punctuation", "behavior": "Contiguous"}],
            )
        ),
        {"post_processor": byte_level(add_prefix_space=True)},
        {"post_processor": byte_level(add_prefix_space=False)},
    ],
)
def test_what_is_understood_runs_natively(change: dict[str, Any]) -> None:
    described = description([WORDS], merges=[(" ", " "), ("a", "b"), (" ", "x")]) | change
    ours, reference = native(described)
    for text in (
        TEXT,
        "",
        " ",
        "  ab",
        " x  ",
        "<s><s>x",
        "12\u0661 3\u00bd",
        "a\u0301e\u0301 <s>",
        " ab b a x <s>  .",
        "!?a!!",
    ):
        encoding = reference.encode(text, add_special_tokens=False)
        assert ours.encode(text).tolist() == encoding.ids, text
        assert ours.offsets(text).tolist() == [list(span) for span in encoding.offsets], text
        assert ours.pieces(text).tolist() == engine.Tokenizer(ours._reference, None, "").pieces(text).tolist(), text
        for cut in ours.cuts(text).tolist():
            left = reference.encode(text[:cut], add_special_tokens=False).ids
            assert left + ours.encode(text[cut:], continued=True).tolist() == encoding.ids, (text, cut)
            if not ours._facts.space_in_front:
                assert left + reference.encode(text[cut:], add_special_tokens=False).ids == encoding.ids, (text, cut)
        session = ours.session()
        for char in text:
            session.append(char)
        assert session.ids().tolist() == encoding.ids, text


def test_a_string_pattern_is_a_literal() -> None:
    stage = {"type": "Split", "pattern": {"String": "a.b"}, "behavior": "Isolated", "invert": False}
    ours, reference = native(description([stage], merges=[("a", "."), ("b", "b")]))
    for text in ("xa.ba.b", "axb", "a.bb"):
        assert ours.encode(text).tolist() == reference.encode(text).ids


def template(*single: dict[str, Any]) -> dict[str, Any]:
    tokens = {
        "<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]},
        "</s>": {"id": "</s>", "ids": [257, 256], "tokens": ["</s>", "<s>"]},
    }
    both = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": list(single), "pair": both, "special_tokens": tokens}


TEXT_ITSELF = {"Sequence": {"id": "A", "type_id": 0}}
BOS, EOS = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("<s>", "</s>"))


def test_templates_wrap_around_the_text() -> None:
    tokens = [added("<s>", 256), added("</s>", 257)]
    chain = {"type": "Sequence", "processors": [byte_level(), template(BOS, TEXT_ITSELF, EOS)]}
    ours, reference = native(description([WORDS], added_tokens=tokens, post_processor=chain))
    mirror: list[int] = reference.encode("").ids
    session = ours.session(add_special_tokens=True)
    assert session.ids().tolist() == mirror
    text = ""
    for step in ("ab ", "", "c<s>", " d e"):
        text += step
        splice = session.append(step)
        mirror[splice.start : splice.stop] = splice.ids.tolist()
        assert mirror == reference.encode(text).ids == ours.encode(text, add_special_tokens=True).tolist()
    splice = session.edit(0, 2, "xy z")
    mirror[splice.start : splice.stop] = splice.ids.tolist()
    assert mirror == reference.encode("xy z" + text[2:]).ids == session.ids().tolist()


def test_a_template_that_holds_the_text_twice_is_refused() -> None:
    tokens = [added("<s>", 256), added("</s>", 257)]
    ours, _ = pair(description([WORDS], added_tokens=tokens, post_processor=template(TEXT_ITSELF, BOS, TEXT_ITSELF)))
    assert ours.status == "reference"
    assert "exactly once" in ours.reason


def test_added_tokens_have_the_reference_s_ids_not_the_file_s() -> None:
    # The file claims 999; the reference numbers on behind the vocabulary.
    ours, reference = native(description([WORDS], added_tokens=[added("<s>", 999)]))
    assert ours.encode("<s>").tolist() == reference.encode("<s>").ids != [999]


def test_longest_literal_first_and_prefixes_of_literals() -> None:
    tokens = [added("<s>", 256), added("<s><s>", 257), added("<s>x", 258), added("x<", 259)]
    ours, reference = native(description([WORDS], added_tokens=tokens))
    for text in ("<s><s><s>", "<s>x<s>", "x<s>", "<s", "<s><", "<<s>>", "<s>x<"):
        assert ours.encode(text).tolist() == reference.encode(text).ids, text
        for cut in range(len(text) + 1):
            session = ours.session()
            session.reset(text[:cut])
            session.append(text[cut:])
            assert session.ids().tolist() == reference.encode(text).ids, (text, cut)


def test_a_tokenizer_is_named_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(description([WORDS])))
    first = engine.load(path)
    path.write_text(json.dumps(description([WORDS])) + " ")
    assert engine.load(path).sha256 != first.sha256


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"model": 3}', b"\xff\xfe"])
def test_unreadable_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(BadTokenizerError):
        engine.load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadTokenizerError, match="No such file"):
        engine.load(tmp_path / "none.json")
    with pytest.raises(BadTokenizerError, match="not int"):
        engine.load(3)


def test_byte_level_entries_are_found_by_their_bytes() -> None:
    ours, reference = native(description([WORDS], entries=["caf\u00e9"], model={"ignore_merges": True}))
    assert (
        ours.encode("caf\u00e9").tolist()
        == reference.encode("caf\u00e9").ids
        == [reference.token_to_id(as_entry("caf\u00e9"))]
    )
