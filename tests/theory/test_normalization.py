"""NFC from probed tables is the reference's NFC, in Python and natively."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import shared_data
from support.synthetic import description, native, split
from tokenizers import normalizers
from tokseam.kernels import engine
from tokseam.kernels.compile.class_probe import every_character
from tokseam.kernels.compile.normalization import Normalization, probe_normalization

REFERENCE = normalizers.NFC()


@pytest.fixture(scope="module")
def tables() -> Normalization:
    return probe_normalization("NFC")


@pytest.fixture(scope="module")
def bytes_of_nfc() -> engine.Tokenizer:
    """A tokenizer whose ids are the bytes of the normalized text."""
    ours, _ = native(description([split(r"\p{L}+|\s+|[^\s\p{L}]")], normalizer={"type": "NFC"}))
    return ours


def normalized(ours: engine.Tokenizer, text: str) -> str:
    return bytes(ours.encode(text).tolist()).decode()


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFD", "NFKD", "Lowercase"])
def test_every_character_alone_and_between_marks(form: str) -> None:
    described = description([split(r"\p{L}+|\s+|[^\s\p{L}]")], normalizer={"type": form})
    ours, _ = native(described)
    reference = getattr(normalizers, form)()
    for text in ("\n".join(every_character()), "\u0327\n".join(c + "\u0301" for c in every_character() if c != "\n")):
        assert normalized(ours, text) == reference.normalize_str(text)


@given(
    st.text(
        st.sampled_from(
            [
                *"aeo<= \n",
                *"\u0301\u0323\u0327\u0345\u0344\u0334\u05b8\u05bc\u3099\u304b\u0f71\u0f72\u0f43"
                "\u1100\u1161\u11a8\u11a7\uac00\uac01\u212b\u2126\u1ec7\u00e9\u0958\u09c7\u09be\U000110a5\U000110ba\U0001d15e",
            ]
        ),
        max_size=12,
    )
)
def test_what_interacts(tables: Normalization, bytes_of_nfc: engine.Tokenizer, text: str) -> None:
    expected = REFERENCE.normalize_str(text)
    assert tables.normalize(text) == expected
    assert normalized(bytes_of_nfc, text) == expected


def test_unassigned_marks_follow_the_reference_not_python(tables: Normalization) -> None:
    # U+1DFA is a mark of class 218 in Unicode 14; the reference's tables are older and leave it where it stands.
    assert 0x1DFA not in tables.order
    assert REFERENCE.normalize_str("a\u0301\u1dfa") == tables.normalize("a\u0301\u1dfa")


def test_the_unicode_consortiums_own_cases(bytes_of_nfc: engine.Tokenizer) -> None:
    paths = [path for path in shared_data.multi_texts() if path.name == "unicode_normalization_test.txt"]
    if not paths:
        pytest.skip("no ../shared/data/multi here")
    text = shared_data.read_text(paths[0])
    assert normalized(bytes_of_nfc, text) == REFERENCE.normalize_str(text)


def test_a_mark_appended_later_reorders_everything_behind_its_starter(bytes_of_nfc: engine.Tokenizer) -> None:
    session = bytes_of_nfc.session()
    text = "x e" + "\u0301" * 5000
    session.reset(text)
    splice = session.append("\u0327")
    assert session.ids().tolist() == bytes_of_nfc.encode(text + "\u0327").tolist()
    assert splice.start <= 3, "one mark reached 5,000 marks back, to the e"


def test_cuts_keep_clear_of_what_composes(bytes_of_nfc: engine.Tokenizer, rng: random.Random) -> None:
    alphabet = "ab e,\n1\u0301\u0323\u0327\u00e9\u1100\u1161\u11a8\uac00\u4e00<\u0338"
    for _ in range(2000):
        text = "".join(rng.choices(alphabet, k=10))
        for cut in bytes_of_nfc.cuts(text).tolist():
            left, right = REFERENCE.normalize_str(text[:cut]), REFERENCE.normalize_str(text[cut:])
            assert left + right == REFERENCE.normalize_str(text)
            assert left[-1] == text[cut - 1]  # the character behind the cut may have become a composite
