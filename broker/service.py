"""The broker's process: two ROUTER sockets around a Router, one thread, one poll loop.

It receives, lets protocol.py check and routing.py decide, and sends; nothing else. A poll loop and not an event loop:
there are two sockets and one timer, and a message passes in tens of microseconds. Never blocks but in poll.

Limits: no decision is made here, and no text is parsed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from . import demotions, frames, protocol
from .endpoints import Claim, EndpointError, back_endpoint, check_endpoint, is_ipv6
from .protocol import Buffer, Envelope, Reply, Request, WireError
from .routing import Router
from .state import Answer, Instruction, Limits, Send, Tell

log = logging.getLogger("tokseam.broker")

#: Messages taken from one socket before the other has its turn.
BURST = 64
#: Messages a peer's pipe may hold. A fuse only: credits and queues bound what is in flight.
HIGH_WATER_MARK = 1024
#: Milliseconds to deliver last answers when closing.
LINGER_MS = 500
#: Seconds that requests in progress have at a stop.
STOP_S = 5.0
#: Milliseconds of ZMTP heartbeats, which find a dead tcp peer; ipc's kernel reports one by itself.
ZMTP_HEARTBEAT_MS = 2000


@dataclass(slots=True)
class Settings:
    """What a broker is started with."""

    endpoint: str
    #: Largest request, in bytes over all its frames.
    message_max_bytes: int = protocol.MESSAGE_MAX_BYTES
    limits: Limits = field(default_factory=Limits)
    #: Check the router's invariants after every event: for tests, since it looks at everything each time.
    validate: bool = False
    #: File that keeps demotions over restarts; None keeps them only as long as a process of the tier lives.
    demotions: Path | None = None


class Service:
    """Sockets, clock and signals around one Router. Owned and used by one thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.router = Router(settings.limits)
        self.endpoint = check_endpoint(settings.endpoint)
        self.back_endpoint = back_endpoint(self.endpoint)
        #: Unbound until `run`; the context has one I/O thread, enough for a gigabyte a second.
        self._context = zmq.Context()
        self._front = self._socket(settings.message_max_bytes, is_ipv6(self.endpoint))
        self._back = self._socket(settings.message_max_bytes * protocol.REPLY_EXPANSION, False)
        self._claims: list[Claim] = []
        self._limits = {"message_bytes": settings.message_max_bytes}
        #: Set by a signal: 1 stops gracefully, 2 at once.
        self._signals = 0
        #: Replies that could not be delivered: the client is gone or does not read.
        self._undelivered = 0
        if settings.demotions is not None:
            self.router.demoted, self.router.restored = demotions.load(settings.demotions)
        #: What of the router's demotions the file has.
        self._demotions_kept = self.router.demotion_changes

    def run(self, on_bound: Callable[[], None] | None = None) -> None:
        """Bind, serve until a signal, stop. Raises EndpointError when an endpoint can't be had.

        `on_bound` is called once both endpoints are this broker's.
        """
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_reader, False)
        os.set_blocking(wake_writer, False)
        handlers = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        previous_wake = signal.set_wakeup_fd(wake_writer)
        try:
            self._bind()
            log.info("broker listens on %s", self.endpoint)
            if on_bound is not None:
                on_bound()
            self._serve(wake_reader)
        finally:
            signal.set_wakeup_fd(previous_wake)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(wake_reader)
            os.close(wake_writer)
            self._close()

    # -- life -------------------------------------------------------------------------------------------------

    def _socket(self, message_bytes: int, ipv6: bool) -> zmq.Socket[bytes]:
        made = self._context.socket(zmq.ROUTER)
        made.setsockopt(zmq.ROUTER_MANDATORY, 1)
        made.setsockopt(zmq.LINGER, LINGER_MS)
        made.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
        made.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK)
        # Beyond this ZeroMQ cuts the sender off; up to here the broker answers too_large. It holds a frame at a time.
        made.setsockopt(zmq.MAXMSGSIZE, 2 * message_bytes + 2**20)
        made.setsockopt(zmq.HEARTBEAT_IVL, ZMTP_HEARTBEAT_MS)
        made.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * ZMTP_HEARTBEAT_MS)
        made.setsockopt(zmq.IPV6, int(ipv6))
        return made

    def _bind(self) -> None:
        mask = os.umask(0o077)
        try:
            for endpoint, bound in ((self.endpoint, self._front), (self.back_endpoint, self._back)):
                self._claims.append(Claim(endpoint))
                try:
                    bound.bind(endpoint)
                except zmq.ZMQError as error:
                    raise EndpointError(f"{endpoint}: {error.strerror}") from None
        finally:
            os.umask(mask)

    def _close(self) -> None:
        self._front.close()
        self._back.close()
        self._context.term()  # bounded by LINGER
        for claim in self._claims:
            if claim.path is not None:
                claim.path.unlink(missing_ok=True)
            claim.release()

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1

    def _serve(self, wake: int) -> None:
        poller = zmq.Poller()
        poller.register(self._back, zmq.POLLIN)  # answers first: they make room
        poller.register(self._front, zmq.POLLIN)
        poller.register(wake, zmq.POLLIN)
        tick_s = self.settings.limits.heartbeat_s / 4
        next_tick = now = time.monotonic()
        stop_by: float | None = None
        while True:
            for ready, _ in poller.poll(max(0, int((next_tick - now) * 1000) + 1)):
                if ready is self._back:
                    self._drain(self._back, self._from_worker)
                elif ready is self._front:
                    self._drain(self._front, self._from_client)
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 64)
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + tick_s
                self._perform(self.router.on_tick(now))
            if self._signals and stop_by is None:
                log.info("broker stops: no new requests, %d in progress", len(self.router.open))
                self.router.stop()
                stop_by = now + STOP_S
            if stop_by is not None and (self.router.idle or now > stop_by or self._signals > 1):
                self._perform(self.router.abandon())
                return

    def _drain(self, source: zmq.Socket[bytes], handle: Callable[[bytes, list[zmq.Frame]], None]) -> None:
        for _ in range(BURST):
            try:
                peer, message = frames.receive_routed(source)
            except zmq.Again:
                return
            try:
                handle(peer, message)
                if self.router.demotion_changes != self._demotions_kept:
                    self._keep_demotions()
                if self.settings.validate:
                    self.router.validate()
            except Exception:
                # One message's fault must not end everybody's service; under --validate it must not stay hidden.
                if self.settings.validate:
                    raise
                self.router.counters["failed"] += 1
                log.exception("a message of %d frames failed", len(message))
            if len(self.router.open) < 2:
                return  # hardly anybody is here: the poll finds the next one for less than a look that is in vain

    def _keep_demotions(self) -> None:
        self._demotions_kept = self.router.demotion_changes
        for demotion in self.router.demoted.values():
            log.error("tokenizer %s is answered by the reference: %s", demotion.sha256[:16], demotion.reason)
        if self.settings.demotions is not None:
            try:
                demotions.save(self.settings.demotions, self.router.demoted, self.router.restored)
            except OSError as error:
                log.error("%s: demotions will not outlive this tier: %s", self.settings.demotions, error)

    # -- clients ----------------------------------------------------------------------------------------------

    def _from_client(self, client: bytes, message: list[zmq.Frame]) -> None:
        # The header is read; a body goes on as it lies, uncopied.
        sent: list[Any] = [message[0].bytes, *message[1:]]
        try:
            request = protocol.unpack_request(sent, self.settings.message_max_bytes)
        except WireError as error:
            self.router.counters["refused"] += 1
            self._reply(client, Reply(error.request_id, error.code, error.message))
            return
        answered_by = protocol.OPERATIONS[request.op].answered_by
        if answered_by == "broker":
            self._reply(client, self._answer(request))
            return
        if answered_by == "heir":
            self.router.counters["refused"] += 1
            why = f"header key 'op' (operation): '{request.op}' is between workers"
            self._reply(client, Reply(request.request_id, protocol.BAD_REQUEST, why))
            return
        request.body = ()  # what waits keeps its frames once
        self._perform(self.router.on_request(client, request, sum(map(len, sent)), sent, time.monotonic()))

    def _answer(self, request: Request) -> Reply:
        reply = Reply(request.request_id)
        if request.op == "stats":
            reply.stats = self.router.stats()
            reply.stats["broker"]["undelivered"] = self._undelivered
            reply.stats["broker"]["pid"] = os.getpid()
        elif request.op == "restore":
            lifted, instructions = self.router.on_restore(request.tokenizer, int(time.time() * 1000))
            if lifted is None:
                names = ", ".join(entry["name"] for entry in self.router.tokenizers())
                message = f"header key 'tk': no tokenizer {request.tokenizer!r} here; there are {names}"
                return Reply(request.request_id, protocol.UNKNOWN_TOKENIZER, message)
            reply.count = lifted
            self._perform(instructions)
        elif request.op == "hello":
            if self.router.stopping:
                return Reply(request.request_id, protocol.SHUTTING_DOWN, "the broker is shutting down")
            reply.tokenizers = self.router.tokenizers()
            reply.limits = self._limits
            if not self.router.names:
                return Reply(request.request_id, protocol.BUSY, "no worker is ready yet", retry_after_ms=50)
        return reply

    def _reply(self, client: bytes, reply: Reply) -> None:
        self._to_client(client, protocol.pack_reply(reply))

    def _to_client(self, client: bytes, reply: Sequence[Buffer | zmq.Frame]) -> None:
        if not client:
            return  # nobody asked
        try:
            frames.send(self._front, [client, *reply])
        except zmq.ZMQError:
            self._undelivered += 1  # gone, or not reading: it sends again when it is back

    # -- workers ----------------------------------------------------------------------------------------------

    def _from_worker(self, identity: bytes, message: list[zmq.Frame]) -> None:
        now = time.monotonic()
        router = self.router
        packed = message[0].bytes
        number = protocol.done_job(packed)
        if number is not None:
            self._done(identity, number, protocol.OK, message, now)
            return
        try:
            envelope = protocol.unpack_envelope(packed)
        except WireError as error:
            log.warning("a message on the workers' socket is ignored: %s", error)
            return
        if envelope.op == "done":
            self._done(identity, envelope.job, envelope.code, message, now)
        elif envelope.op == "seeded":
            self._seeded(identity, envelope.job, message, now)
        elif envelope.op == "heartbeat":
            self._perform(router.on_heartbeat(identity, envelope.stats, now, envelope.engine))
        elif envelope.op == "ready":
            log.info("worker %s (process %d) is ready", envelope.name, envelope.pid)
            self._perform(
                router.on_ready(
                    identity,
                    envelope.name,
                    envelope.pid,
                    envelope.credits,
                    envelope.credit_bytes,
                    envelope.tokenizers or [],
                    now,
                    envelope.demotions or (),
                    envelope.engine,
                )
            )
        elif envelope.op == "credit":
            self._perform(router.on_credit(identity, envelope.credits, envelope.credit_bytes, now))
        elif envelope.op == "sessions":
            self._perform(router.on_sessions(identity, [(pair[0], pair[1]) for pair in envelope.sessions or []], now))
        elif envelope.op == "demote":
            self._perform(router.on_demote(identity, envelope.demotions or ()))
        elif envelope.op == "verdicts":
            router.on_verdicts(identity, envelope.name, envelope.pid, envelope.stats)
        elif envelope.op == "handover":
            self._hand_over(identity, message[1:], now)
        elif envelope.op == "leave":
            self._perform(router.on_leave(identity, now))
        elif envelope.op == "disconnect":
            self._perform(router.on_disconnect(identity, now))
        elif envelope.op == "gone":
            log.warning("worker %s (process %d) is gone", envelope.name, envelope.pid)
            self._perform(router.on_gone(envelope.name, envelope.pid, now))

    def _done(self, identity: bytes, number: int, code: str, message: list[zmq.Frame], now: float) -> None:
        # The answer goes before the books: its client waits for nothing else.
        job = self.router.job_of(identity, number)
        if job is not None:
            self._to_client(job.client, message[1:])
        _, instructions = self.router.on_done(identity, number, code, now)
        if instructions:
            self._perform(instructions)

    def _seeded(self, identity: bytes, number: int, message: list[zmq.Frame], now: float) -> None:
        """Pass a fresh worker's reply on, and what it makes of the session: no frame of either is copied."""
        asked = self.router.job_of(identity, number)
        sent = None if asked is None else asked.payload
        if len(message) != 5 or (sent is not None and len(sent) != 2):
            log.warning("a seed in a message of %d frames is ignored", len(message))
            self._done(identity, number, protocol.OK, message[:3], now)
            return
        reply, ids, header, marks = message[1:]
        # The reply before what follows from it: both leave here before the next message is looked at.
        seed = None if sent is None else [header.bytes, sent[1], ids, marks]
        job, instructions = self.router.on_done(identity, number, protocol.OK, now, seed, sum(map(len, seed or ())))
        if job is not None:
            self._to_client(job.client, [reply, ids])
        self._perform(instructions)

    def _hand_over(self, identity: bytes, message: list[zmq.Frame], now: float) -> None:
        sent: list[Any] = [frame.bytes if place == 0 else frame for place, frame in enumerate(message)]
        try:
            request = protocol.unpack_request(sent, self.settings.message_max_bytes)
        except WireError as error:
            log.warning("a session can't be handed over: %s", error)
            return
        if protocol.OPERATIONS[request.op].answered_by == "heir":
            request.body = ()
            self._perform(self.router.on_handover(identity, request, sum(map(len, sent)), sent, now))

    # -- instructions -----------------------------------------------------------------------------------------

    def _perform(self, pending: list[Instruction]) -> None:
        for instruction in pending:  # grows while it is gone through
            if isinstance(instruction, Send):
                worker, job = instruction
                try:
                    frames.send(self._back, [worker, protocol.pack_work(job.number), *job.payload])
                except zmq.ZMQError:
                    pending += self.router.on_unreachable(worker, time.monotonic())
            elif isinstance(instruction, Answer):
                self._reply(
                    instruction.client,
                    Reply(
                        instruction.request_id,
                        instruction.code,
                        instruction.message,
                        retry_after_ms=instruction.retry_after_ms,
                    ),
                )
            elif isinstance(instruction, Tell):
                told = protocol.pack_envelope(Envelope(instruction.op, demotions=list(instruction.demotions)))
                try:
                    frames.send(self._back, [instruction.worker, told])
                except zmq.ZMQError:
                    # Mostly one that is dead or gone already; its silence or its supervisor says so. But a worker
                    # that did not hear of a demotion must not answer any more, until it says ready and hears of it.
                    if instruction.demotions:
                        pending += self.router.on_unreachable(instruction.worker, time.monotonic())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker: what the supervisor starts. People use `tokseam serve`."""
    parser = argparse.ArgumentParser(prog="tokseam.broker.service")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--message-max-bytes", type=int, default=protocol.MESSAGE_MAX_BYTES)
    parser.add_argument("--heartbeat-s", type=float, default=Limits().heartbeat_s)
    parser.add_argument("--queue", type=int, default=Limits().worker_queue)
    parser.add_argument("--placements", type=int, default=Limits().sessions)
    parser.add_argument("--fresh-threshold", type=int, default=Limits().fresh_bytes)
    parser.add_argument("--demotions", type=Path, help="the file that keeps demotions over restarts")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--ready-fd", type=int, help="where to write a byte once the endpoints are bound")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    limits = Limits()._replace(
        heartbeat_s=options.heartbeat_s,
        worker_queue=options.queue,
        sessions=options.placements,
        fresh_bytes=options.fresh_threshold,
    )

    gc.freeze()  # what is here now stays: a later collection need not look at it

    def say_bound() -> None:
        if options.ready_fd is not None:
            os.write(options.ready_fd, b"1")
            os.close(options.ready_fd)

    try:
        settings = Settings(options.endpoint, options.message_max_bytes, limits, options.validate, options.demotions)
        Service(settings).run(say_bound)
    except (EndpointError, demotions.DemotionsError) as error:
        print(f"tokseam: {error}", file=sys.stderr)
        return 2
    return 0


__all__ = ["Service", "Settings", "main"]

if __name__ == "__main__":
    sys.exit(main())
