"""The way to a broker for threads: calls broken off within a message, and locks over forks."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.forks import in_a_child
from support.interruptions import break_off, codes
from test_async_transport import broker, soon
from tokseam.broker import frames, protocol
from tokseam.broker.protocol import Buffer, Reply, Request
from tokseam.client.locks import CallLock
from tokseam.client.transport import SyncTransport


def request_of(number: int) -> tuple[bytes, list[Buffer]]:
    request_id = number.to_bytes(16, "big")
    return request_id, protocol.pack_request(Request("encode", request_id, tokenizer="t", body=[b"text"]))


def reply_to(request: list[bytes]) -> list[bytes]:
    peer, *rest = request
    request_id = protocol.unpack_request(rest).request_id
    return [peer, *map(bytes, protocol.pack_reply(Reply(request_id, body=[bytes(8)])))]


@pytest.fixture
def way(short_folder: Path) -> Iterator[SyncTransport]:
    endpoint = f"ipc://{short_folder}/sync"
    with broker(endpoint, lambda requests: [reply_to(requests[-1])]):
        made = SyncTransport(endpoint)
        yield made
        made.close()


@pytest.mark.parametrize("name", ["send", "receive"])
def test_a_message_that_was_broken_off_does_not_reach_into_the_next(way: SyncTransport, name: str) -> None:
    within = {code for code in codes(frames) if code.co_name == name}
    number = before = 0
    more = True
    while more:
        number += 1
        broken = functools.partial(way.exchange_one, *request_of(number), deadline=soon())
        more = break_off(broken, within, before)
        number += 1
        asked = request_of(number)
        assert way.exchange_one(*asked, soon(0.9)).request_id == asked[0], f"before instruction {before}"
        before += 1
    assert before > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_lock_that_a_thread_held_is_free_in_a_child() -> None:
    lock, free = CallLock(), CallLock()
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def look() -> None:
        for _ in range(2):
            with lock, free:
                pass

    try:
        assert in_a_child(look)
    finally:
        over.set()
        thread.join()
    with lock, free:
        pass
