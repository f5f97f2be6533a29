"""The public surface, the same for Embedded, threads and asyncio: answers, patches, errors."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tokseam.client import Patch, errors

TEXTS = [
    "",
    "Hello world",
    "naïve café 😀 e\u0301 한글",
    "def f(x):\n    return x  # 12345\n\n",
    " \t\n\r\n  a",
    "<｜end▁of▁sentence｜>x",
]

Reference = Callable[..., list[int]]


def fresh_id() -> str:
    return f"test-{uuid.uuid4()}"


@pytest.mark.parametrize("text", TEXTS)
def test_encode_equals_the_reference(surface: Any, reference: Reference, text: str) -> None:
    expected = reference(text)
    assert surface.encode(text, tokenizer="ds") == expected
    assert surface.encode(text) == expected  # one tokenizer: it need not be named
    array = surface.encode_array(text)
    assert array.dtype == np.uint32
    assert array.tolist() == expected
    assert surface.count(text) == len(expected)
    assert surface.encode(text, add_special_tokens=True) == reference(text, add_special_tokens=True)


def test_batch(surface: Any, reference: Reference) -> None:
    texts = TEXTS * 3
    assert surface.encode_batch(texts) == [reference(text) for text in texts]
    assert surface.encode_batch([]) == []
    big = ["word " * 30_000] * 5
    assert surface.encode_batch(big) == [reference(big[0])] * 5


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_pieces_decode(surface: Any, embedded: Any, reference: Reference, text: str) -> None:
    offsets = surface.offsets(text)
    assert offsets.dtype == np.int64
    assert offsets.shape == (len(reference(text)), 2)
    assert np.array_equal(offsets, embedded.offsets(text))
    pieces = surface.pieces(text)
    assert pieces.dtype == np.int64
    assert np.array_equal(pieces, embedded.pieces(text))
    assert surface.decode(reference(text)) == text


def test_decode_skips_special_tokens_when_asked(surface: Any, reference: Reference) -> None:
    ids = reference("<｜end▁of▁sentence｜>x")
    assert surface.decode(ids, skip_special_tokens=True) == "x"
    assert surface.decode(np.array(ids, dtype=np.uint32)) == "<｜end▁of▁sentence｜>x"


def test_tokenizers(surface: Any) -> None:
    (entry,) = surface.tokenizers()
    assert entry.keys() == {"name", "sha256", "status", "reason"}
    assert entry["name"] == "ds"
    assert len(entry["sha256"]) == 64
    assert entry["status"] in ("native", "reference")
    assert surface.encode("a", tokenizer=entry["sha256"]) == surface.encode("a", tokenizer="ds")


def test_stats(surface: Any) -> None:
    surface.encode("a")
    stats = surface.stats()
    assert isinstance(stats, dict)
    assert {"encodes", "path_append", "chars_encoded", "sessions"} <= stats.keys() or "broker" in stats


def test_session_turns(surface: Any, reference: Reference) -> None:
    opened: Any = surface.session(fresh_id(), tokenizer="ds")
    assert opened.last is None
    with opened as session:
        live = session.ids
        assert live == []
        text = "The first turn. "
        assert session.encode(text) == reference(text)
        assert session.last.path in ("fresh", "reference")
        text += "And the second, a little longer 😀."
        answer = session.encode(text)
        assert answer == reference(text)
        assert session.ids is live
        assert live == answer
        answer.append(7)  # the caller's own
        assert live == reference(text)
        text += " more"
        assert session.append(" more") == reference(text)
        assert session.last.path in ("append", "reference")
        text = text.replace("second", "2nd")
        assert session.encode(text) == reference(text)
        assert session.last.path in ("edit", "reference")
        assert session.last.seconds > 0
        assert session.text == text
        assert session.encode("something else") == reference("something else")
        assert session.encode("") == []
        assert live == []


def test_patches_carry_old_ids_to_new_ones(surface: Any, reference: Reference) -> None:
    session = surface.session(fresh_id())
    held: list[int] = []
    text = ""

    def follow(patch: Patch, expected: str) -> None:
        assert isinstance(patch, Patch)
        assert all(type(one) is int for one in patch.ids)
        held[patch.start : patch.stop] = patch.ids
        assert held == reference(expected) == session.ids

    text = "alpha beta gamma delta " * 20
    follow(session.encode_patch(text), text)
    text += "epsilon"
    patch = session.append_patch("epsilon")
    follow(patch, text)
    assert len(patch.ids) < 20
    text = text[:50] + "ZETA\n" + text[60:]
    patch = session.edit(50, 60, "ZETA\n")
    follow(patch, text)
    assert len(patch.ids) < 40
    follow(session.encode_patch(text), text)  # nothing changed
    assert session.last.chars_encoded == 0
    text = text[:-3]
    follow(session.encode_patch(text), text)
    session.close()


def test_add_special_tokens(surface: Any, reference: Reference) -> None:
    session = surface.session(fresh_id(), add_special_tokens=True)
    assert session.encode("") == reference("", add_special_tokens=True)
    assert session.append("abc") == reference("abc", add_special_tokens=True)
    assert session.append(" def") == reference("abc def", add_special_tokens=True)
    edited = session.edit(0, 1, "x")
    assert isinstance(edited, Patch)
    assert session.ids == reference("xbc def", add_special_tokens=True)


def test_fork_goes_its_own_way(surface: Any, reference: Reference) -> None:
    parent = surface.session(fresh_id())
    empty = parent.fork(fresh_id())
    assert empty.append("from nothing") == reference("from nothing")
    parent.encode("shared beginning, ")
    child = parent.fork(fresh_id())
    assert child.ids == parent.ids
    assert child.ids is not parent.ids
    assert child.append("the child's end") == reference("shared beginning, the child's end")
    assert parent.append("the parent's end") == reference("shared beginning, the parent's end")
    grandchild = child.fork(fresh_id())
    child.close()
    assert grandchild.append("!") == reference("shared beginning, the child's end!")


def test_bad_input_leaves_the_session_usable(surface: Any, reference: Reference) -> None:
    session = surface.session(fresh_id())
    text = "kept as it was"
    session.encode(text)

    with pytest.raises(errors.BadRequestError, match="character 5") as caught:
        session.append("hello\ud800")
    assert caught.value.position == 5
    with pytest.raises(errors.BadRequestError, match=f"character {len(text)}") as caught:
        session.encode(text + "\udfff tail")
    assert caught.value.position == len(text)
    with pytest.raises(errors.BadRequestError, match="3:99"):
        session.edit(3, 99, "x")
    with pytest.raises(errors.BadRequestError, match="-1:2"):
        session.edit(-1, 2, "x")
    with pytest.raises(errors.BadRequestError, match="5:4"):
        session.edit(5, 4, "x")
    with pytest.raises(errors.BadRequestError, match="character 1"):
        session.edit(0, 1, "a\ud800")
    with pytest.raises(errors.BadRequestError, match="must be a str"):
        session.append(b"bytes")
    with pytest.raises(errors.BadRequestError, match="must be an int"):
        session.edit(0, 1.5, "x")
    assert session.text == text
    assert session.ids == reference(text)
    assert session.append(" and goes on") == reference(text + " and goes on")


def test_bad_requests_name_the_place(surface: Any) -> None:
    with pytest.raises(errors.UnknownTokenizerError, match="nope"):
        surface.encode("a", tokenizer="nope")
    with pytest.raises(errors.UnknownTokenizerError, match="nope"):
        surface.session(fresh_id(), tokenizer="nope")
    with pytest.raises(errors.BadRequestError, match="session id: 300 bytes"):
        surface.session("x" * 300)
    with pytest.raises(errors.BadRequestError, match="session id"):
        surface.session("")
    with pytest.raises(errors.BadRequestError, match=r"texts\[1\].*character 0"):
        surface.encode_batch(["ok", "\ud800"])
    with pytest.raises(errors.BadRequestError, match="character 2"):
        surface.encode("ab\ud800")
    with pytest.raises(errors.BadRequestError, match="position 1"):
        surface.decode([5, 2**31])
    with pytest.raises(errors.BadRequestError, match="entry 2"):
        surface.decode([5, 6, -1])
    with pytest.raises(errors.BadRequestError, match="entry 0"):
        surface.decode(["5"])
    assert surface.decode([]) == ""


def test_a_closed_session_says_so(surface: Any) -> None:
    session = surface.session(fresh_id())
    session.encode("x")
    session.close()
    session.close()
    with pytest.raises(errors.ClosedError):
        session.append("y")


def test_two_sessions_of_one_id_do_not_mix(surface: Any, reference: Reference) -> None:
    """Over the wire they share one place at the worker; each answer must be right all the same."""
    shared = fresh_id()
    first, second = surface.session(shared), surface.session(shared)
    a = b = ""
    for turn in range(4):
        a += f"first {turn} "
        assert first.append(f"first {turn} ") == reference(a)
        b += f"second {turn} "
        assert second.append(f"second {turn} ") == reference(b)
    first.close()
    b += "after the other's close"
    assert second.append("after the other's close") == reference(b)
