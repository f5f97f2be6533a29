"""The reference behind its small interface: bad ids, bad text, threads that switch special tokens on and off."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.synthetic import added, description, split
from tokseam.kernels.errors import BadIdError, BadTextError
from tokseam.kernels.reference import HuggingFaceReference, TiktokenReference, as_text

CONTENT = json.dumps(description([split(r"[^ ]+| +")], added_tokens=[added("<s>", 256)])).encode()


@pytest.fixture
def reference() -> HuggingFaceReference:
    return HuggingFaceReference.from_json(CONTENT)


def test_ids_that_are_none(reference: HuggingFaceReference) -> None:
    for bad in (257, -1, 2**32, 2**70):
        with pytest.raises(BadIdError, match=f"id {bad} at position 1"):
            reference.decode([65, bad], False)
    assert reference.decode([256, 0], True) == reference.decode([0], False)


def test_tiktoken_ids_that_are_none() -> None:
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)}
    wrapped = TiktokenReference(
        tiktoken.Encoding("t", pat_str="(?s:.)", mergeable_ranks=ranks, special_tokens={"<s>": 300})
    )
    assert wrapped.decode([104, 300, 105], skip_special_tokens=True) == "hi"
    assert wrapped.decode([104, 300, 105], skip_special_tokens=False) == "h<s>i"
    for bad in (299, -1, 2**40):
        with pytest.raises(BadIdError, match=f"id {bad} at position 1"):
            wrapped.decode([104, bad], False)


def test_text_that_is_no_text() -> None:
    with pytest.raises(BadTextError, match="character 2 is U\\+DC80") as error:
        as_text("ab\udc80")
    assert (error.value.position, error.value.unit) == (2, "character")
    with pytest.raises(BadTextError, match="byte 1 is 0xFF") as error:
        as_text(b"a\xff")
    assert (error.value.position, error.value.unit) == (1, "byte")
    assert as_text(memoryview("caf\u00e9".encode())) == "caf\u00e9"


def test_threads_that_want_special_tokens_split_and_whole(reference: HuggingFaceReference) -> None:
    def ask(split_special: bool) -> list[int]:
        reference.decode([65], False)
        return reference.encode("a<s>" * 50, False, split_special).tolist()

    whole, apart = ask(False), ask(True)
    assert whole != apart
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, [index % 2 == 1 for index in range(400)]))
    assert answers == [whole, apart] * 200
