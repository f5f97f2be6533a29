"""The wire: what packs is what unpacks, and every malformed message gets its code and a message naming the place.

The malformed messages go twice: through `unpack_request`, and raw to a live broker, which has to answer and go on.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st
from tokseam.broker import (
    constants,
    digests,
    envelopes,
    frames,
    layouts,
    meeting,
    messages,
    protocol,
    replies,
    requests,
)
from tokseam.broker.protocol import Envelope, Reply, Request, WireError
from tokseam.client import connect
from tokseam.client.errors import BY_CODE, TooLargeError
from tokseam.scripts.serve import RunningTier, running_tier

RQ = bytes(range(16))
SHORT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def header(**changes: Any) -> bytes:
    """A good 'append' header, with keys replaced; None takes one out."""
    made: dict[str, Any] = {
        "v": 1,
        "op": "append",
        "rq": RQ,
        "tn": "t",
        "tk": "ds",
        "ss": "s",
        "rv": 1,
        "dg": bytes(16),
        **changes,
    }
    packed: bytes = msgpack.packb({key: value for key, value in made.items() if value is not None})
    return packed


def encode_header(**changes: Any) -> bytes:
    return header(**{"op": "encode", "ss": None, "rv": None, "dg": None, **changes})


#: name -> frames, code, what the message names.
MALFORMED: dict[str, tuple[list[bytes], str, str]] = {
    "not msgpack": ([b"\xc1", b"x"], "bad_request", "not msgpack"),
    "trailing bytes": ([header() + b"\x00", b"x"], "bad_request", "not msgpack"),
    "cut off": ([header()[:-3], b"x"], "bad_request", "not msgpack"),
    "empty header": ([b"", b"x"], "bad_request", "not msgpack"),
    "nested too deep": ([b"\x91" * 5000, b"x"], "bad_request", "not msgpack"),
    "header with invalid UTF-8": ([b"\x81\xa1v\xa1\xff", b"x"], "bad_request", "not msgpack"),
    "an array": ([msgpack.packb([1, 2]), b"x"], "bad_request", "msgpack map, not an array"),
    "a number": ([msgpack.packb(7)], "bad_request", "msgpack map"),
    "integer keys": ([msgpack.packb({1: 2})], "bad_request", "not msgpack"),
    "unknown key": ([header(zz=1), b"x"], "bad_request", "'zz' is unknown"),
    "another operation's key": ([header(at=[0, 1]), b"x"], "bad_request", "'at' (range) does not belong to 'append'"),
    "unknown operation": ([header(op="explode"), b"x"], "bad_request", "'explode' is not an operation"),
    "operation of the wrong type": ([header(op=5), b"x"], "bad_request", "'op' (operation): must be a string"),
    "no operation": ([header(op=None), b"x"], "bad_request", "'op' (operation) is missing"),
    "another version": ([header(v=2), b"x"], "bad_request", "'v' (protocol version): 2 is not spoken here"),
    "version of the wrong type": ([header(v="1"), b"x"], "bad_request", "'v' (protocol version)"),
    "no version": ([header(v=None), b"x"], "bad_request", "'v' (protocol version) is missing"),
    "no request id": ([header(rq=None), b"x"], "bad_request", "'rq' (request id) is missing"),
    "short request id": ([header(rq=b"abc"), b"x"], "bad_request", "'rq' (request id): must be 16 bytes, not 3"),
    "revision is a string": (
        [header(rv="1"), b"x"],
        "bad_request",
        "'rv' (revision): must be an integer, not a string",
    ),
    "revision is a boolean": ([header(rv=True), b"x"], "bad_request", "'rv' (revision): must be an integer"),
    "revision is negative": ([header(rv=-1), b"x"], "bad_request", "'rv' (revision): must lie in"),
    "no revision": ([header(rv=None), b"x"], "bad_request", "'rv' (revision) is missing; 'append' needs it"),
    "digest is text": ([header(dg="x" * 16), b"x"], "bad_request", "'dg' (digest): must be 16 bytes, not a string"),
    "session id is bytes": ([header(ss=b"s"), b"x"], "bad_request", "'ss' (session id): must be a string, not bytes"),
    "session id too long": ([header(ss="s" * 257), b"x"], "bad_request", "'ss' (session id): is 257 bytes long"),
    "session id far too long": ([header(ss="s" * 20_000), b"x"], "bad_request", "'ss' (session id): is 20000 bytes"),
    "session id empty": ([header(ss=""), b"x"], "bad_request", "'ss' (session id): is empty"),
    "tenant too long": ([header(tn="t" * 129), b"x"], "bad_request", "'tn' (tenant): is 129 bytes long"),
    "tenant is a number": ([header(tn=5), b"x"], "bad_request", "'tn' (tenant): must be a string"),
    "flags out of range": ([encode_header(fl=8), b"x"], "bad_request", "'fl' (flags): must lie in 0..7"),
    "deadline is a float": ([header(dl=1.5), b"x"], "bad_request", "'dl' (milliseconds left): must be an integer"),
    "range backwards": ([header(op="edit", at=[5, 2]), b"x"], "bad_request", "'at' (range): must be a range"),
    "range of three": ([header(op="edit", at=[1, 2, 3]), b"x"], "bad_request", "'at' (range): must be two integers"),
    "range of strings": ([header(op="edit", at=["1", "2"]), b"x"], "bad_request", "'at' (range): must be two"),
    "no body": ([header()], "bad_request", "'append' has 1 body frames, this message has 0"),
    "a body too many": ([header(), b"x", b"y"], "bad_request", "'append' has 1 body frames, this message has 2"),
    "many frames": ([header()] + [b""] * 500, "bad_request", "the message has 501 frames; the limit is 4"),
    "a header too large": ([header(ss="s" * 70_000), b"x"], "too_large", "the header frame has"),
}

#: Those that only a broker or a worker can refuse.
MALFORMED_WITHIN: dict[str, tuple[list[bytes], str, str]] = {
    "what only workers ask": ([header(op="adopt"), b"x"], "bad_request", "'adopt' is between workers"),
    "unknown tokenizer": ([encode_header(tk="nope"), b"x"], "unknown_tokenizer", "no tokenizer 'nope' here"),
    "invalid UTF-8": ([encode_header(), b"ab\xffcd"], "bad_request", "body: byte 2"),
    "cut-off UTF-8": ([encode_header(), "aé".encode()[:-1]], "bad_request", "body: byte 1"),
    "surrogate in UTF-8": ([encode_header(), b"abc\xed\xa0\x80"], "bad_request", "body: byte 3"),
    "ids of 5 bytes": ([encode_header(op="decode"), b"12345"], "bad_request", "body: 5 bytes"),
    "an id that is none": (
        [encode_header(op="decode"), np.array([5, 2**32 - 1], dtype="<u4").tobytes()],
        "bad_request",
        "at position 1",
    ),
    "batch lengths that lie": (
        [encode_header(op="batch"), np.array([3, 3], dtype="<u4").tobytes(), b"abcd"],
        "bad_request",
        "the lengths come to 6 bytes, frame 2 has 4",
    ),
    "batch text with invalid UTF-8": (
        [encode_header(op="batch"), np.array([1, 2], dtype="<u4").tobytes(), b"ab\xff"],
        "bad_request",
        "text 1: byte 1",
    ),
    "a session that is not there": ([header(ss="unheard-of"), b"x"], "stale", "send the full text"),
}


def refusal(unpack: Callable[[Any], object], message: Any) -> WireError | None:
    try:
        unpack(message)
    except WireError as error:
        return error
    return None


class Raw:
    """A client that sends what it likes."""

    def __init__(self, endpoint: str) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, 5000)
        self.socket.connect(endpoint)

    def ask(self, frames: list[bytes]) -> Reply:
        self.socket.send_multipart(frames)
        return protocol.unpack_reply(self.socket.recv_multipart())

    def close(self) -> None:
        self.context.destroy(0)


@pytest.fixture
def raw(tier: RunningTier) -> Iterator[Raw]:
    made = Raw(tier.endpoint)
    yield made
    made.close()


@pytest.mark.parametrize("name", MALFORMED)
def test_unpack_refuses(name: str) -> None:
    frames, code, place = MALFORMED[name]
    with pytest.raises(WireError) as caught:
        protocol.unpack_request(frames)
    assert caught.value.code == code
    assert place in caught.value.message


def test_a_live_tier_answers_every_malformed_message_and_goes_on(
    raw: Raw, tier: RunningTier, reference: Callable[[str], list[int]]
) -> None:
    with connect(tier.endpoint) as client, client.session("through-all-of-it") as session:
        pids = {worker["pid"] for worker in client.stats()["workers"]}
        text = ""
        for name, (frames, code, place) in {**MALFORMED, **MALFORMED_WITHIN}.items():
            reply = raw.ask(frames)
            assert reply.code == code, name
            assert place in reply.message, name
            text += f"{name}; "
            assert session.append(f"{name}; ") == reference(text), name
            assert session.last is not None
            assert session.last.path in (
                ("append", "reference") if len(text) > len(name) + 2 else ("fresh", "reference")
            )
        assert {worker["pid"] for worker in client.stats()["workers"]} == pids


def test_bad_changes_leave_the_session_as_it_was(raw: Raw) -> None:
    sha256 = raw.ask([msgpack.packb({"v": 1, "op": "hello", "rq": os.urandom(16)})]).tokenizers[0]["sha256"]  # type: ignore[index]

    def change(op: str, base: Reply, body: bytes, **more: Any) -> Reply:
        fields = {"op": op, "rq": os.urandom(16), "ss": "raw", "rv": base.revision, "dg": base.digest, **more}
        return raw.ask([header(**fields), body])

    full = raw.ask([header(op="full", ss="raw", rv=None, dg=None, rq=os.urandom(16)), b"some text"])
    assert full.code == "ok"
    assert full.digest == protocol.digest_full(sha256, 0, b"some text")
    bad_edit = change("edit", full, b"x", at=[2, 1000])
    assert (bad_edit.code, "2:1000" in bad_edit.message) == ("bad_request", True)
    bad_text = change("append", full, b"\xff")
    assert (bad_text.code, "byte 0" in bad_text.message) == ("bad_request", True)
    stale = change("append", full, b"x", dg=bytes(16))
    assert stale.code == "stale"
    good = change("append", full, b" more")
    assert good.code == "ok"
    assert good.digest == protocol.digest_change(full.digest or b"", "append", 0, 0, b" more")
    assert change("append", full, b" more").code == "stale"  # a second request on the old base


def test_the_same_request_twice_is_applied_once(raw: Raw) -> None:
    full = raw.ask([header(op="full", ss="twice", rv=None, dg=None, rq=os.urandom(16)), b"some text"])
    frames = [header(ss="twice", rv=full.revision, dg=full.digest, rq=os.urandom(16)), b" more"]
    first, second = raw.ask(frames), raw.ask(frames)
    assert first == second
    assert first.code == "ok"
    again = raw.ask([header(op="full", ss="twice", rv=None, dg=None, rq=os.urandom(16)), b"some text"])
    repeated = raw.ask([header(op="full", ss="twice", rv=None, dg=None, rq=os.urandom(16)), b"some text"])
    assert (again.revision, again.body) == (repeated.revision, repeated.body)


def test_garbage_below_zeromq_is_survived(tier: RunningTier, reference: Callable[[str], list[int]]) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(tier.endpoint[6:])
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
    with connect(tier.endpoint) as client:
        assert client.encode("still here") == reference("still here")


def test_size_limits(endpoint: str, deepseek: str, reference: Callable[[str], list[int]]) -> None:
    arguments = ["--message-max-bytes", str(2**18)]
    with running_tier({"ds": deepseek}, endpoint=endpoint, repair_workers=1, arguments=arguments) as small:
        raw = Raw(small.endpoint)
        reply = raw.ask([encode_header(), b"x" * 2**18])
        assert reply.code == "too_large"
        assert "the limit is 262144" in reply.message
        assert reply.request_id == RQ
        raw.close()
        with connect(small.endpoint) as client:
            with pytest.raises(TooLargeError, match="the limit is 262144"):
                client.encode("x" * 2**18)
            session = client.session("grows")
            text = "word " * 20_000
            session.encode(text)
            with pytest.raises(TooLargeError, match="text would have"):
                session.append(text)
            assert session.text == text
            assert session.append("!") == reference(text + "!")
            # Edits that only replace never reach the limit, however many.
            for turn in range(40):
                session.edit(0, 5_000, f"{turn:05d}" * 1000)
            assert session.ids == reference(session.text)


def test_codes_and_errors_are_one_to_one() -> None:
    assert BY_CODE.keys() == protocol.CODES
    assert len(set(BY_CODE.values())) == len(protocol.CODES)


@settings(max_examples=200, deadline=None)
@given(
    op=st.sampled_from(sorted(protocol.OPERATIONS)),
    rq=st.binary(min_size=16, max_size=16),
    tenant=st.just("") | SHORT,
    budget=st.none() | st.integers(0, 2**31),
    tokenizer=SHORT,
    flags=st.integers(0, 7),
    session=SHORT,
    revision=st.integers(0, 2**63 - 1),
    digest=st.binary(min_size=16, max_size=16),
    at=st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)).map(sorted),
)
def test_requests_survive_the_wire(
    op: str,
    rq: bytes,
    tenant: str,
    budget: int | None,
    tokenizer: str,
    flags: int,
    session: str,
    revision: int,
    digest: bytes,
    at: list[int],
) -> None:
    body = [b"body"] * protocol.OPERATIONS[op].frames
    place = (session, revision, digest, at[0], at[1], session + "2")
    request = Request(op, rq, tenant, budget, tokenizer, flags, *place, body)
    frames = protocol.pack_request(request)
    unpacked = protocol.unpack_request(frames)
    assert protocol.pack_request(unpacked) == frames
    assert (unpacked.op, unpacked.request_id, unpacked.tenant, unpacked.budget_ms) == (op, rq, tenant, budget)
    assert list(unpacked.body) == body


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.just(header()), max_size=4))
def test_any_bytes_are_a_request_or_a_wire_error(frames: list[bytes]) -> None:
    error = refusal(protocol.unpack_request, frames)
    assert error is None or (error.code in protocol.CODES and error.message)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers(0, 9) | st.text(max_size=3), st.lists).map(msgpack.packb)
)
def test_any_bytes_are_an_envelope_or_a_wire_error(frame: bytes) -> None:
    error = refusal(protocol.unpack_envelope, frame)
    assert error is None or error.message


def test_envelopes_and_replies_survive_the_wire() -> None:
    envelope = Envelope("ready", name="repair-0", pid=5, credits=8, credit_bytes=100, tokenizers=[{"name": "a"}])
    assert protocol.unpack_envelope(protocol.pack_envelope(envelope)) == envelope
    with pytest.raises(WireError):
        protocol.unpack_envelope(msgpack.packb({"v": 1, "op": "ready", "pd": "five"}))
    reply = Reply(RQ, "busy", "later", retry_after_ms=5, start=0, stop=0, count=0, body=[b"x"])
    assert protocol.unpack_reply(protocol.pack_reply(reply)) == reply
    with pytest.raises(WireError):
        protocol.unpack_reply([b"junk"])


def test_digests_tell_histories_apart() -> None:
    full = protocol.digest_full("a" * 64, 0, b"text")
    others = {
        protocol.digest_full("b" * 64, 0, b"text"),
        protocol.digest_full("a" * 64, 1, b"text"),
        protocol.digest_full("a" * 64, 0, b"texu"),
        protocol.digest_change(full, "append", 0, 0, b"x"),
        protocol.digest_change(full, "edit", 0, 0, b"x"),
        protocol.digest_change(full, "edit", 0, 1, b"x"),
        protocol.digest_change(full, "append", 0, 0, b"y"),
        full,
    }
    assert len(others) == 8


#: Values that a header may hold, right and wrong, for each key; the first of each is right.
VALUES: dict[str, list[Any]] = {
    "v": [1, True, 1.0, 2, "1"],
    "op": [*protocol.OPERATIONS, "explode", 5, ["encode"]],
    "rq": [RQ, b"abc", "x" * 16],
    "tn": ["t", "", "t" * 32, "t" * 33, "ü" * 32, "ü" * 64, "ü" * 65, b"t", None],
    "dl": [100, 0, 2**31, 2**31 + 1, -1, None, True, 1.5],
    "tk": ["ds", "d" * 128, "d" * 129, "ü", "ü" * 65, "", 7],
    "fl": [3, 0, 7, 8, None, False],
    "ss": ["s", "s" * 256, "s" * 257, "\U0001f600" * 64, "\U0001f600" * 65, "", b"s"],
    "rv": [1, 0, 2**63 - 1, 2**63, -1, True],
    "dg": [bytes(16), bytes(15), "x" * 16],
    "at": [[0, 1], [5, 5], [2, 1], [0, 1, 2], b"ab", "ab", [True, 2], [-1, 2], None],
    "ns": ["n", "", "n" * 257, 4],
}


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_the_quick_reading_is_the_close_one(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(sorted(protocol.OPERATIONS)))
    operation = protocol.OPERATIONS[op]
    made: dict[str, Any] = {"op": op}
    for key in protocol.FIELDS:
        if key in operation.required or (key in operation.optional and data.draw(st.booleans())):
            made.setdefault(key, VALUES[key][0])
    for key in data.draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=2)):
        made[key] = data.draw(st.sampled_from(VALUES[key]))
    if data.draw(st.integers(0, 5)) == 0:
        made.pop(data.draw(st.sampled_from(sorted(made))))
    ordered = {key: made[key] for key in protocol.FIELDS if key in made}
    frames = [msgpack.packb(ordered), *[b"body"] * (operation.frames + data.draw(st.sampled_from([0, 0, 0, 1])))]
    limit = data.draw(st.sampled_from([protocol.MESSAGE_MAX_BYTES, 60]))
    try:
        closely: Request | None = requests._read_closely(frames, limit)
    except WireError:
        closely = None
    quickly = requests._read_quickly(frames, limit)
    assert quickly == closely or quickly is None
    if ordered == {key: VALUES[key][0] for key in ordered} | {"op": op} and closely is not None:
        assert quickly is not None, "the usual is read the quick way"


@settings(max_examples=200, deadline=None)
@given(
    tenant=st.just("") | SHORT,
    tokenizer=st.text("0123456789abcdef", min_size=1, max_size=64),
    session=SHORT,
    steps=st.lists(
        st.tuples(
            st.binary(min_size=16, max_size=16),
            st.integers(0, 2**31),
            st.integers(0, 2**63 - 1),
            st.binary(min_size=16, max_size=16),
        ),
        min_size=2,
        max_size=4,
    ),
)
def test_an_append_whose_head_is_known_says_the_same(
    tenant: str, tokenizer: str, session: str, steps: list[tuple[bytes, int, int, bytes]]
) -> None:
    """The first of a session is read as a map, the others by place: both ways say what any reader of msgpack reads."""
    for number, (rq, budget, revision, digest) in enumerate(steps):
        request = Request("append", rq, tenant, budget, tokenizer, 0, session, revision, digest, body=[b"text"])
        frames = protocol.pack_request(request)
        read = msgpack.unpackb(frames[0])
        assert read == {"v": 1, "op": "append", "rq": rq, "dl": budget, "rv": revision, "dg": digest} | {
            key: value for key, value in (("tn", tenant), ("tk", tokenizer), ("ss", session)) if value
        }
        if number > 0:
            assert requests._read_known(frames, protocol.MESSAGE_MAX_BYTES) == request
        assert protocol.unpack_request(frames) == request
        assert requests._read_closely(frames, protocol.MESSAGE_MAX_BYTES) == request


def test_what_a_known_head_does_not_cover() -> None:
    """A tail or a body that breaks a rule is refused in the same words, and another order of keys means the same."""
    request = Request("append", RQ, "t", 100, "ds", 0, "s", 1, bytes(16), body=[b"text"])
    good, _ = protocol.pack_request(request)
    assert isinstance(good, bytes)
    assert protocol.unpack_request([good, b"text"]) == request
    assert layouts.read_append(good) is not None
    refused: list[tuple[list[bytes], str]] = [
        ([good.replace(b"\xa2dl\xce" + (100).to_bytes(4, "big"), b"\xa2dl\xce\xff\xff\xff\xff"), b"text"], "'dl'"),
        ([good.replace((1).to_bytes(8, "big"), b"\xff" * 8), b"text"], "'rv'"),
        ([good.replace(b"\xa2rv", b"\xa2xx"), b"text"], "'xx'"),
        ([good.replace(b"\xa2dg", b"\xa2rv"), b"text"], "'rv'"),
        ([good[:-1], b"text"], "msgpack"),
        ([good + b"\x00", b"text"], "msgpack"),
        ([good], "body frames"),
        ([good, b"text", b"more"], "body frames"),
    ]
    for sent, named in refused:
        assert sent != [good, b"text"]
        error = refusal(protocol.unpack_request, sent)
        assert error is not None
        assert named in error.message
    error = refusal(lambda message: protocol.unpack_request(message, 100), [good, b"text" * 100])
    assert error is not None
    assert error.code == "too_large"
    ordered = msgpack.packb(dict(sorted(msgpack.unpackb(good).items())))
    assert layouts.read_append(ordered) is None
    assert protocol.unpack_request([ordered, b"text"]) == request


def test_heads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_heads", {})
    monkeypatch.setattr(layouts, "HEADS_MAX", 3)
    made = [Request("append", RQ, "", 5, "ds", 0, f"s{number}", 1, bytes(16), body=[b""]) for number in range(5)]
    for request in made:
        assert protocol.unpack_request(protocol.pack_request(request)) == request
    known = [layouts.read_append(bytes(protocol.pack_request(request)[0])) is not None for request in made]
    assert known == [False, False, True, True, True]
    closely = msgpack.packb(
        {"op": "append", "v": 1, "rq": RQ, "dl": 5, "tk": "ds", "ss": "s9", "rv": 1, "dg": bytes(16)}
    )
    assert protocol.unpack_request([closely, b""]).session == "s9"
    assert len(layouts._heads) == 3, "a head is learned only as it is written here"


@pytest.mark.parametrize("path", ["append", "edit", "fresh", "reference"])
def test_the_header_of_a_patch_is_a_map(path: str) -> None:
    reply = Reply(RQ, "ok", "", None, 7, bytes(16), 3, 2**32 - 1, path, 9, body=[b"ids"])
    frames = protocol.pack_reply(reply)
    assert layouts.read_patch(bytes(frames[0])) == (path, RQ, 7, bytes(16), 9, 3, 2**32 - 1)
    read = msgpack.unpackb(frames[0])
    assert list(read) == ["v", "cd", "pa", "rq", "rv", "dg", "ch", "at"]
    assert protocol.unpack_reply(frames) == reply
    assert protocol.unpack_reply([msgpack.packb(dict(sorted(read.items()))), b"ids"]) == reply
    reply.stop = 2**32  # has no place there, and needs none
    frames = protocol.pack_reply(reply)
    assert layouts.read_patch(bytes(frames[0])) is None
    assert protocol.unpack_reply(frames) == reply
    refusing = Reply(RQ, "stale", "gone", None, 7, bytes(16), 3, 4, path, 9, body=[])
    for other in (Reply(RQ, "ok", path=path, body=[]), refusing):
        assert protocol.unpack_reply(protocol.pack_reply(other)) == other


@pytest.mark.parametrize("job", [0, 1, 127, 128, 70_000, 2**40])
def test_the_envelopes_of_every_request(job: int) -> None:
    assert protocol.unpack_envelope(protocol.pack_work(job)) == Envelope("work", job=job)
    assert protocol.unpack_envelope(protocol.pack_done(job, "ok")) == Envelope("done", job=job)
    assert protocol.unpack_envelope(protocol.pack_done(job, "stale")) == Envelope("done", job=job, code="stale")
    assert protocol.work_job(protocol.pack_work(job)) == job
    assert protocol.done_job(protocol.pack_done(job, "ok")) == job
    assert protocol.done_job(protocol.pack_done(job, "stale")) is None
    assert protocol.done_job(protocol.pack_work(job)) is None
    assert protocol.work_job(memoryview(protocol.pack_work(job))) == job
    assert protocol.work_job(protocol.pack_work(job) + b"\x00") is None
    assert protocol.work_job(protocol.pack_work(job)[:-1]) is None


def test_frames_go_whole_and_come_whole() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, context.socket(zmq.DEALER) as dealer:
        for made in (router, dealer):
            made.setsockopt(zmq.LINGER, 0)
            made.setsockopt(zmq.RCVTIMEO, 5000)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        dealer.connect(f"tcp://127.0.0.1:{port}")
        message: list[bytes | memoryview] = [b"", b"small", os.urandom(100_000), memoryview(b"seen"), b"end"]
        frames.send(dealer, message)
        peer, *got = frames.receive(router, frames.WAIT)
        assert got == [bytes(frame) for frame in message]
        frames.send(router, [peer, *got])
        assert frames.receive(dealer, frames.WAIT) == got
        with pytest.raises(zmq.Again):
            frames.receive(dealer)
        frames.send(dealer, got)
        router.poll(5000)
        sender, uncopied = frames.receive_routed(router)
        for _ in range(2):  # a frame may be sent on more than once
            frames.send(router, [sender, *uncopied])
            assert frames.receive(dealer, frames.WAIT) == got
        with pytest.raises(zmq.ZMQError):
            frames.send(router, [b"nobody", b"x"])
        with pytest.raises(zmq.Again):
            frames.receive_routed(router)
        frames.send(router, [peer, b"after"])  # of the one that failed nothing went out
        assert frames.receive(dealer, frames.WAIT) == [b"after"]


@pytest.mark.parametrize("part", [constants, digests, envelopes, meeting, messages, replies, requests])
def test_protocol_has_all_names_of_its_parts(part: ModuleType) -> None:
    own = {name for name, one in vars(part).items() if getattr(one, "__module__", "") == part.__name__}
    public = {name for name in own | {name for name in vars(part) if name.isupper()} if not name.startswith("_")}
    assert public
    assert public <= {*protocol.__all__}
    assert all(getattr(protocol, name) is getattr(part, name) for name in public)
