"""The two ways to a broker: one for asyncio, one for threads. Both exchange requests for replies by request id.

`exchange` sends messages, waits for the reply of each, sends one again under the same request id when its reply does
not come, and gives up at the deadline; `exchange_one` does so for one, and calls `meanwhile` once it is sent. Nothing
else of a request is known here.

Who guards what: a ZeroMQ socket belongs to one thread. AsyncTransport has one socket, used by its event loop alone.
SyncTransport has one socket a thread, made at the thread's first call and closed when the thread ends; so threads
share a tier freely, and `close` must not run while another thread is in a call.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from tokseam.broker import frames, protocol
from tokseam.broker.protocol import Buffer, Reply, WireError

from .errors import ClosedError, ConnectError, InternalError, RequestTimeoutError, TokseamError

#: Seconds without a reply after which a request is sent again, under the same id; doubled each time. A broker that has
#: the first copy drops the second, so the price of impatience is one small message.
RESEND_MIN_S = 1.0
RESEND_MAX_S = 15.0
#: Seconds of patience more for each byte: the reference encodes about a megabyte a second, and a big message is not
#: small to send twice.
RESEND_S_PER_BYTE = 2e-6
#: Milliseconds between attempts to reach a broker that is away, doubling up to the second.
RECONNECT_MS = 50
RECONNECT_MAX_MS = 1000
#: Messages in a socket's pipes. A fuse: a client has few requests under way.
HIGH_WATER_MARK = 1024
#: Replies taken before an event loop's other callbacks have their turn.
BURST = 64

Outgoing = tuple[bytes, Sequence[Buffer]]  # request id, message
#: What a caller has to do while the answer is under way.
Meanwhile = Callable[[], object] | None


def _prepare(made: zmq.Socket[Any], endpoint: str) -> None:
    made.setsockopt(zmq.LINGER, 0)
    made.setsockopt(zmq.IMMEDIATE, 1)  # a message waits here, where it can be given up, and not in a pipe to nobody
    made.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    made.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    made.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
    made.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK)
    made.setsockopt(zmq.IPV6, int(endpoint.startswith("tcp://[")))
    try:
        made.connect(endpoint)
    except zmq.ZMQError as error:
        made.close()
        raise ConnectError(f"{endpoint}: {error.strerror}") from None


def _patience(*messages: Sequence[Buffer]) -> float:
    """Return the seconds to wait for the replies of these messages before sending again."""
    patience = RESEND_MIN_S
    for message in messages:
        patience += RESEND_S_PER_BYTE * sum(map(len, message))
    return patience


def _nobody(endpoint: str) -> ConnectError:
    return ConnectError(f"nobody answers at {endpoint}; is a tier running there (`tokseam serve`)?")


def _late(endpoint: str) -> RequestTimeoutError:
    return RequestTimeoutError(f"{endpoint} did not answer in time")


def _read(message: list[bytes]) -> Reply:
    try:
        return protocol.unpack_reply(message)
    except WireError as error:
        raise InternalError(error.message) from None


class AsyncTransport:
    """One socket on the running event loop, which watches its descriptor: no task, no future but the caller's own.

    The descriptor tells that something changed, once: whatever is done to the socket may take that news away. So each
    send is followed by a look at what came, and each look goes on until nothing is left.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        #: The loop that watches the socket: that of the last call.
        self._loop: asyncio.AbstractEventLoop | None = None
        #: All and only the requests that wait for a reply; None instead of one tells that it is late.
        self._waiting: dict[bytes, asyncio.Future[Reply | None]] = {}
        #: Those that wait for room in the socket, until it changes.
        self._crowd: list[asyncio.Future[None]] = []
        self._closed = False

    async def exchange(self, messages: Sequence[Outgoing], deadline: float) -> list[Reply]:
        """Return the replies in the order of the messages."""
        return list(await asyncio.gather(*(self.exchange_one(*message, deadline) for message in messages)))

    async def exchange_one(
        self, request_id: bytes, message: Sequence[Buffer], deadline: float, meanwhile: Meanwhile = None
    ) -> Reply:
        """Return the reply to one message."""
        loop = asyncio.get_running_loop()
        patience = _patience(message)
        waiting: asyncio.Future[Reply | None] = loop.create_future()
        try:
            while True:
                self._waiting[request_id] = waiting
                await self._send(loop, message, deadline)
                if meanwhile is not None:
                    meanwhile()
                    meanwhile = None
                left = deadline - time.monotonic()
                timer = loop.call_later(max(0.0, min(patience, left)), _settle, waiting)
                try:
                    reply = await waiting
                finally:
                    timer.cancel()
                if reply is not None:
                    return reply
                if left <= patience:
                    raise _late(self.endpoint)
                patience = max(patience, min(2 * patience, RESEND_MAX_S))
                waiting = loop.create_future()
        finally:
            self._waiting.pop(request_id, None)
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # of a close that the caller hears of in another way: asyncio need not report it

    async def _send(self, loop: asyncio.AbstractEventLoop, message: Sequence[Buffer], deadline: float) -> None:
        """Send a message as soon as there is room for it."""
        while True:
            used = self._open(loop)
            try:
                frames.send(used, message)
            except zmq.Again:
                # To ask settles what the socket had news of, which its descriptor will not tell any more.
                news = int(used.getsockopt(zmq.EVENTS))
                if news & zmq.POLLIN:
                    loop.call_soon(self._look)
                if news & zmq.POLLOUT:
                    continue
                change: asyncio.Future[None] = loop.create_future()
                self._crowd.append(change)
                timer = loop.call_later(max(0.0, deadline - time.monotonic()), _settle, change)
                try:
                    await change
                finally:
                    timer.cancel()
                    if change in self._crowd:
                        self._crowd.remove(change)
                if time.monotonic() >= deadline:
                    raise _nobody(self.endpoint) from None
            else:
                self._look()
                return

    def _open(self, loop: asyncio.AbstractEventLoop) -> zmq.Socket[bytes]:
        """Return the socket, watched by this loop."""
        if self._closed:
            raise ClosedError("the connection is closed")
        if self._socket is None:
            made = self._context.socket(zmq.DEALER)
            _prepare(made, self.endpoint)
            self._socket = made
        if self._loop is not loop:
            self._leave_loop()
            loop.add_reader(self._socket.fileno(), self._look)
            self._loop = loop
            loop.call_soon(self._look)
        return self._socket

    def _leave_loop(self) -> None:
        if self._loop is not None and self._socket is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._loop = None

    def _look(self) -> None:
        """Take what came, and let those try again who wait for room."""
        used = self._socket
        if used is None or self._loop is None:
            return
        for _ in range(BURST):
            try:
                message = frames.receive(used)
            except zmq.Again:
                break
            self._take(message)
        else:
            self._loop.call_soon(self._look)
        if self._crowd:
            crowd, self._crowd = self._crowd, []
            for change in crowd:
                _settle(change)

    def _take(self, message: list[bytes]) -> None:
        try:
            reply = _read(message)
        except TokseamError as error:
            self._fail(error)
            return
        # Nobody waits for a reply that came twice, or after its call gave up.
        found = self._waiting.get(reply.request_id or b"")
        if found is not None and not found.done():
            found.set_result(reply)

    def _fail(self, error: TokseamError) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    async def close(self) -> None:
        self._closed = True
        self._leave_loop()
        self._fail(ClosedError("the connection was closed"))
        for change in self._crowd:
            _settle(change)
        if self._socket is not None:
            self._socket.close(0)
            self._socket = None
        self._context.destroy(0)


def _settle(waiting: asyncio.Future[Any]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class _ThreadState(threading.local):
    """What one thread has of a SyncTransport."""

    socket: zmq.Socket[bytes] | None = None
    #: The socket's receive timeout, which is set only when it changes.
    timeout_ms: int = -1


class SyncTransport:
    """One socket a thread, and a plain blocking exchange."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._local = _ThreadState()
        #: A ZeroMQ context does not survive os.fork; a child process starts its own.
        self._pid = os.getpid()
        self._closed = False

    def exchange(self, messages: Sequence[Outgoing], deadline: float) -> list[Reply]:
        """Return the replies in the order of the messages."""
        used = self._own_socket()
        replies: dict[bytes, Reply] = {}
        wanted = dict(messages)
        patience = _patience(*wanted.values())
        while True:
            for request_id, message in messages:
                if request_id not in replies:
                    self._send(used, message, deadline)
            give_up = min(time.monotonic() + patience, deadline)
            while len(replies) < len(wanted) and self._wait_until(give_up, used):
                try:
                    reply = _read(self._receive(used))
                except zmq.Again:
                    break
                # A reply that came twice, or after its call gave up, is nobody's.
                if reply.request_id in wanted:
                    assert reply.request_id is not None
                    replies[reply.request_id] = reply
            if len(replies) == len(wanted):
                return [replies[request_id] for request_id, _ in messages]
            if time.monotonic() >= deadline:
                raise _late(self.endpoint)
            patience = max(patience, min(2 * patience, RESEND_MAX_S))

    def exchange_one(
        self, request_id: bytes, message: Sequence[Buffer], deadline: float, meanwhile: Meanwhile = None
    ) -> Reply:
        """Return the reply to one message: what `exchange` does, without its books."""
        used = self._own_socket()
        patience = _patience(message)
        while True:
            self._send(used, message, deadline)
            if meanwhile is not None:
                meanwhile()
                meanwhile = None
            give_up = min(time.monotonic() + patience, deadline)
            while self._wait_until(give_up, used):
                try:
                    reply = _read(self._receive(used))
                except zmq.Again:
                    break
                if reply.request_id == request_id:
                    return reply
            if time.monotonic() >= deadline:
                raise _late(self.endpoint)
            patience = max(patience, min(2 * patience, RESEND_MAX_S))

    def _wait_until(self, give_up: float, used: zmq.Socket[bytes]) -> bool:
        """Set how long a receive may take; False where no time is left."""
        left_ms = int((give_up - time.monotonic()) * 1000) + 1
        if left_ms <= 1:
            return False
        if left_ms != self._local.timeout_ms:
            used.setsockopt(zmq.RCVTIMEO, left_ms)
            self._local.timeout_ms = left_ms
        return True

    def _own_socket(self) -> zmq.Socket[bytes]:
        if self._closed:
            raise ClosedError("the connection is closed")
        if self._pid != os.getpid():
            self._context, self._local, self._pid = zmq.Context(), _ThreadState(), os.getpid()
        found = self._local.socket
        if found is None:
            found = self._context.socket(zmq.DEALER)
            _prepare(found, self.endpoint)
            self._local.socket = found
        return found

    def _send(self, used: zmq.Socket[bytes], message: Sequence[Buffer], deadline: float) -> None:
        try:
            try:
                frames.send(used, message)
            except zmq.Again:
                used.setsockopt(zmq.SNDTIMEO, max(0, int((deadline - time.monotonic()) * 1000)))
                frames.send(used, message, frames.WAIT)
        except zmq.Again:
            raise _nobody(self.endpoint) from None
        except BaseException:
            self._drop_socket()
            raise

    def _receive(self, used: zmq.Socket[bytes]) -> list[bytes]:
        try:
            return frames.receive(used, frames.WAIT)
        except zmq.Again:
            raise
        except BaseException:
            self._drop_socket()
            raise

    def _drop_socket(self) -> None:
        """Have this thread's next call begin with a socket of its own: half a message may be left in this one."""
        dropped, self._local.socket, self._local.timeout_ms = self._local.socket, None, -1
        if dropped is not None:
            dropped.close(0)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._pid == os.getpid():
                self._context.destroy(0)
