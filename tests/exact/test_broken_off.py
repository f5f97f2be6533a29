"""Calls broken off between any two instructions: the next one has the ids of the session's text, whichever that is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.interruptions import break_off, codes
from support.synthetic import description, split
from tokseam.broker import protocol
from tokseam.broker.protocol import Reply, Request
from tokseam.client import Embedded, embedded, session, sync, text
from tokseam.client.errors import StaleError
from tokseam.kernels import engine
from tokseam.kernels import session as engine_sessions

#: What comes before the call that is broken off.
START = "one two three, "
#: That call: what it does, and the text that it makes.
BROKEN: dict[str, tuple[Callable[[Any], object], str]] = {
    "append": (lambda one: one.append_patch("four"), START + "four"),
    "edit": (lambda one: one.edit(4, 7, "2"), "one 2 three, "),
    "turn": (lambda one: one.encode_patch("one two four"), "one two four"),
    "another text": (lambda one: one.encode_patch("else"), "else"),
}
#: What comes behind it. The first two change nothing, or nothing that the session knows of.
NEXT: dict[str, Callable[[Any], object]] = {
    "the text again": lambda one: one.encode_patch(one.text),
    "the old text": lambda one: one.encode_patch(START),
    "append": lambda one: one.append_patch(" on"),
    "edit": lambda one: one.edit(0, 1, "O"),
    "turn": lambda one: one.encode_patch("one two"),
}


def check(made: Callable[[], Any], ids_of: Callable[[str], list[int]], within: set[Any], broken: str, then: str) -> int:
    """Break a call off before each of its instructions, make another call, and compare. Returns how many there were."""
    call, new = BROKEN[broken]
    instructions = 0
    while True:
        one = made()
        one.encode(START)
        live = one.ids
        if not break_off(lambda one=one: call(one), within, instructions):  # type: ignore[misc]
            return instructions
        where = f"instruction {instructions}"
        assert one.text in (START, new), where
        before = one.ids.copy()
        patch: Any = NEXT[then](one)
        before[patch.start : patch.stop] = patch.ids
        assert one.ids == ids_of(one.text), where
        assert before == one.ids, f"{where}: the patch is not one of the ids that there were"
        assert one.ids is live, f"{where}: who holds the live list has another"
        assert one.append("!") == ids_of(one.text), where
        instructions += 1


@pytest.mark.parametrize("path", ["native", "reference"])
@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("broken", BROKEN)
def test_a_session_of_embedded(tmp_path: Path, broken: str, then: str, path: str) -> None:
    (tmp_path / "tokenizer.json").write_text(
        json.dumps(description([split(r"\p{L}+| ?[^\s\p{L}]+|\s+")], merges=[("o", "n"), ("on", "e"), ("t", "w")]))
    )
    tokenizer = engine.load(tmp_path / "tokenizer.json")
    assert tokenizer.status == "native"
    tier = Embedded({"t": tokenizer if path == "native" else tokenizer.by_reference("as the test wants it")})
    with_locks = ("encode", "append", "encode_patch", "append_patch", "edit", "ids", "text", "fork", "close")
    within = codes(embedded.EmbeddedSession, without=with_locks)
    within |= codes(engine_sessions.NativeSession, engine_sessions.ReferenceSession)
    assert check(lambda: tier.session("s"), tier.encode, within, broken, then) > 50


def test_the_first_call_of_a_session_of_embedded(tmp_path: Path) -> None:
    """Before its answer there are no ids, though the engine may have the text."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(description([split(r"\p{L}+| ?[^\s\p{L}]+|\s+")])))
    tier = Embedded({"t": tmp_path / "tokenizer.json"})
    within = codes(embedded.EmbeddedSession, without=("encode", "ids", "text"))
    instructions = 0
    while True:
        one = tier.session("s")
        live = one.ids
        if not break_off(lambda one=one: one.encode(START), within, instructions):  # type: ignore[misc]
            break
        before = one.ids.copy()
        assert before in ([], tier.encode(START))
        patch = one.encode_patch(START)
        before[patch.start : patch.stop] = patch.ids
        assert before == tier.encode(START)
        assert one.ids is live
        assert live == tier.encode(START)
        instructions += 1
    assert instructions > 50


class Tier:
    """A tier without a wire: its ids are code points. It knows of a session what a worker does."""

    timeout = 60.0

    def __init__(self) -> None:
        self.text, self.revision, self.digest = "", 0, b""

    def _request(self, op: str) -> Request:
        return Request(op, bytes(protocol.REQUEST_ID_BYTES))

    def _call(self, request: Request, deadline: float = 0.0, meanwhile: Callable[[], object] | None = None) -> Reply:
        (payload,) = request.body
        new = bytes(payload).decode()
        if request.op == "full":
            start, stop, digest = 0, len(self.text), protocol.digest_full(request.tokenizer, request.flags, payload)
        else:
            if (request.revision, request.digest) != (self.revision, self.digest):
                raise StaleError("another history")
            start, stop = (len(self.text),) * 2 if request.op == "append" else (request.start, request.stop)
            place = (0, 0) if request.op == "append" else (start, stop)
            digest = protocol.digest_change(self.digest, request.op, *place, payload)
        self.text = self.text[:start] + new + self.text[stop:]
        self.revision, self.digest = self.revision + 1, digest
        if meanwhile is not None:
            meanwhile()
        ids = np.array([ord(character) for character in new], dtype="<u4").tobytes()
        return Reply(
            request.request_id,
            revision=self.revision,
            digest=digest,
            start=start,
            stop=stop,
            path="edit",
            chars_encoded=len(new),
            body=[ids],
        )


@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("broken", BROKEN)
def test_a_session_of_a_tier(broken: str, then: str) -> None:
    def made() -> sync.Session:
        return sync.Session(Tier(), "s", session.Turns("t", 0))  # type: ignore[arg-type]

    within = codes(session.Turns, session, text.PieceText)
    assert check(made, lambda text: [ord(character) for character in text], within, broken, then) > 50
