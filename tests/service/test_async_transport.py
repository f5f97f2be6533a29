"""The way to a broker for asyncio, beside a broker of the test's own: what is lost, late or unread, or all at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import zmq
from tokseam.broker import protocol
from tokseam.broker.protocol import Buffer, Reply, Request
from tokseam.client import transport
from tokseam.client.errors import ClosedError, ConnectError, InternalError, RequestTimeoutError
from tokseam.client.transport import BURST, AsyncTransport

Result = TypeVar("Result")
#: What a broker of this test does with the requests that it has so far: the messages to send, of peer and reply.
Script = Callable[[list[list[bytes]]], list[list[bytes]]]


@pytest.fixture
def address(short_folder: Path) -> Iterator[str]:
    path = short_folder / f"at-{time.monotonic_ns():x}"
    yield f"ipc://{path}"
    path.unlink(missing_ok=True)


@contextmanager
def broker(address: str, script: Script, delay_s: float = 0.0) -> Iterator[list[list[bytes]]]:
    """Run `script` after each request that comes. Yields the requests, routing frame first."""
    requests: list[list[bytes]] = []
    over = threading.Event()

    def serve() -> None:
        time.sleep(delay_s)
        with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
            socket.linger = 1000
            socket.bind(address)
            while not over.is_set():
                if socket.poll(20):
                    requests.append(socket.recv_multipart())
                    for message in script(requests):
                        socket.send_multipart(message)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield requests
    finally:
        over.set()
        thread.join()


def request_of(number: int) -> tuple[bytes, list[Buffer]]:
    request_id = number.to_bytes(16, "big")
    return request_id, protocol.pack_request(Request("ping", request_id))


def reply_to(request: list[bytes], count: int | None = None) -> list[bytes]:
    """Return the answer to a ping, with a number in it."""
    peer, *frames = request
    request_id = protocol.unpack_request(frames).request_id
    return [peer, *map(bytes, protocol.pack_reply(Reply(request_id, count=count)))]


def echo(requests: list[list[bytes]]) -> list[list[bytes]]:
    return [reply_to(requests[-1])]


def run(address: str, use: Callable[[AsyncTransport], Awaitable[Result]]) -> Result:
    async def main() -> Result:
        way = AsyncTransport(address)
        try:
            return await use(way)
        finally:
            assert not way._waiting, "a call that ended leaves nothing"
            await way.close()

    return asyncio.run(main())


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


def test_replies_in_any_order_more_than_a_burst(address: str) -> None:
    calls = 3 * BURST + 1

    def all_at_once(requests: list[list[bytes]]) -> list[list[bytes]]:
        if len(requests) < calls:
            return []
        return [reply_to(request, number) for number, request in reversed(list(enumerate(requests)))]

    async def use(way: AsyncTransport) -> list[Reply]:
        return await way.exchange([request_of(number) for number in range(calls)], soon())

    with broker(address, all_at_once):
        replies = run(address, use)
    assert [int.from_bytes(reply.request_id or b"", "big") for reply in replies] == list(range(calls))
    assert sorted(reply.count or 0 for reply in replies) == list(range(calls)), "each came once, in whatever order"


def test_one_call_after_the_other(address: str) -> None:
    """Whatever a send takes of the descriptor's news, the reply is found: a look that was left out would hang here."""

    async def use(way: AsyncTransport) -> int:
        for number in range(2000):
            asked = request_of(number)
            assert (await way.exchange_one(*asked, soon())).request_id == asked[0]
        return number

    with broker(address, echo):
        assert run(address, use) == 1999


def test_who_sends_while_others_wait(address: str) -> None:
    async def use(way: AsyncTransport) -> int:
        async def many(first: int) -> None:
            for number in range(first, first + 100):
                await way.exchange_one(*request_of(number), soon())

        await asyncio.gather(*(many(1000 * caller) for caller in range(12)))
        return len(way._waiting)

    with broker(address, echo) as requests:
        assert run(address, use) == 0
    assert len(requests) == 1200, "nothing was sent twice"


def test_a_broker_that_comes_later(address: str) -> None:
    async def use(way: AsyncTransport) -> list[Reply]:
        return await way.exchange([request_of(number) for number in range(5)], soon())

    with broker(address, echo, delay_s=0.3):
        assert len(run(address, use)) == 5


def test_nobody_is_there(address: str) -> None:
    async def use(way: AsyncTransport) -> None:
        with pytest.raises(ConnectError, match="nobody answers"):
            await way.exchange_one(*request_of(1), soon(0.2))
        assert way._crowd == []

    run(address, use)


def test_a_reply_is_found_by_a_send_without_room(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a send took of the descriptor's news, though it could not go, reaches whoever waits."""
    monkeypatch.setattr(transport, "HIGH_WATER_MARK", 1)

    async def use(way: AsyncTransport) -> None:
        with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
            router.set_hwm(1)
            router.linger = 0
            router.bind(address)
            first = asyncio.create_task(way.exchange_one(*request_of(1), soon()))
            while not router.poll(0):
                await asyncio.sleep(0.01)
            asked = router.recv_multipart()
            others: list[asyncio.Task[Reply]] = []
            while not way._crowd:  # nobody takes what follows
                others.append(asyncio.create_task(way.exchange_one(*large(10 + len(others)), soon())))
                await asyncio.sleep(0.05)

            async def send() -> Reply:
                router.send_multipart(reply_to(asked))
                time.sleep(0.2)  # the reply comes while nobody looks
                return await way.exchange_one(*request_of(2), soon())

            others.append(asyncio.create_task(send()))
            assert (await asyncio.wait_for(first, 5)).request_id == request_of(1)[0]
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def large(number: int) -> tuple[bytes, list[Buffer]]:
        request_id, message = request_of(number)
        return request_id, [*message, bytes(2_000_000)]

    run(address, use)


def test_a_lost_request_is_sent_again_and_a_late_one_given_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RESEND_MIN_S", 0.05)
    did: list[str] = []

    def second_only(requests: list[list[bytes]]) -> list[list[bytes]]:
        return [reply_to(requests[-1])] * 2 if len(requests) == 2 else []

    async def use(way: AsyncTransport) -> None:
        reply = await way.exchange_one(*request_of(1), soon(), lambda: did.append("meanwhile"))
        assert reply.request_id == request_of(1)[0]
        with pytest.raises(RequestTimeoutError):
            await way.exchange_one(*request_of(2), soon(0.3))

    with broker(address, second_only) as requests:
        run(address, use)
    assert requests[0] == requests[1] != requests[2]
    assert len(requests) > 3
    assert did == ["meanwhile"], "once, however often it was sent"


def test_what_is_no_reply_fails_those_who_wait(address: str) -> None:
    async def use(way: AsyncTransport) -> None:
        with pytest.raises(InternalError, match="not a reply"):
            await way.exchange_one(*request_of(1), soon())

    with broker(address, lambda requests: [[requests[-1][0], b"\xc1"]]):
        run(address, use)


@pytest.mark.parametrize("connected", [False, True])
def test_a_close_wakes_whoever_waits(address: str, connected: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def use(way: AsyncTransport) -> None:
        call = asyncio.create_task(way.exchange_one(*request_of(1), soon()))
        await asyncio.sleep(0.2)
        await way.close()
        with pytest.raises(ClosedError):
            await asyncio.wait_for(call, 5)
        with pytest.raises(ClosedError):
            await way.exchange_one(*request_of(2), soon())

    if connected:
        with broker(address, lambda _: []):
            run(address, use)
    else:
        run(address, use)
    assert not caplog.records, "asyncio has nothing to complain of"


def test_a_cancelled_call_leaves_the_others_alone(address: str) -> None:
    async def use(way: AsyncTransport) -> None:
        lost = asyncio.create_task(way.exchange_one(*request_of(1), soon()))
        await asyncio.sleep(0.1)
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        assert (await way.exchange_one(*request_of(2), soon())).request_id == request_of(2)[0]

    # The reply to the first comes with that to the second, when nobody waits for it any more.
    with broker(address, lambda requests: [*map(reply_to, requests)] if len(requests) == 2 else []):
        run(address, use)


def test_one_event_loop_after_the_other(address: str) -> None:
    way = AsyncTransport(address)

    async def ask(number: int) -> bytes | None:
        return (await way.exchange_one(*request_of(number), soon())).request_id

    with broker(address, echo):
        for number in range(3):
            assert asyncio.run(ask(number)) == request_of(number)[0]
        asyncio.run(way.close())
