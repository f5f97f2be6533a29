"""A fresh worker's loop at a broker that this test plays: batches of what arrived, and a broker that restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from tokseam.broker import protocol
from tokseam.broker.protocol import Demotion, Envelope, Request
from tokseam.kernels import engine
from tokseam.workers.cpu_engine import CpuEngine
from tokseam.workers.fresh import Shell
from tokseam.workers.fresh_core import FreshCore
from tokseam.workers.shell import Settings


class Broker:
    """The other end of a worker's socket."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.RCVTIMEO, 5000)
        self._socket.bind(endpoint)
        self.identity = b""

    def hear(self) -> tuple[Envelope, list[bytes]]:
        self.identity, packed, *rest = self._socket.recv_multipart()
        return protocol.unpack_envelope(packed), rest

    def hears_nothing(self) -> bool:
        return not self._socket.poll(100)

    def say(self, envelope: Envelope, *rest: Any) -> None:
        self._socket.send_multipart([self.identity, protocol.pack_envelope(envelope), *rest])

    def work(self, job: int, op: str = "encode", text: bytes = b"some text", **fields: Any) -> None:
        request = Request(op, job.to_bytes(16, "big"), tokenizer="ds", body=[text], **fields)
        self._socket.send_multipart([self.identity, protocol.pack_work(job), *protocol.pack_request(request)])

    def close(self) -> None:
        self._context.destroy(0)


@pytest.fixture
def broker(endpoint: str) -> Iterator[Broker]:
    made = Broker(endpoint)
    yield made
    made.close()


@pytest.fixture
def shell(endpoint: str, broker: Broker, deepseek: Path) -> Iterator[Shell]:
    cpu = CpuEngine(1)
    made = Shell(FreshCore({"ds": engine.load(deepseek)}, cpu, cpu), Settings(endpoint, "fresh-0", heartbeat_s=60))
    made._connect()
    envelope, _ = broker.hear()
    assert (envelope.op, envelope.name, envelope.engine) == ("ready", "fresh-0", "cpu, 1 thread")
    yield made
    assert made._socket is not None
    made._socket.close(0)
    made._context.term()


def arrived() -> None:
    time.sleep(0.1)


def test_what_has_arrived_is_one_batch(shell: Shell, broker: Broker) -> None:
    for job in range(5):
        broker.work(job)
    broker.work(5, "full", b"a session's text. " * 100, session="s", tenant="t")
    broker.work(6, "encode", b"\xff")
    arrived()
    shell._turn()
    heard = {}
    for _ in range(7):
        envelope, rest = broker.hear()
        heard[envelope.job] = (envelope, rest)
    assert [heard[job][0].op for job in range(7)] == [*["done"] * 5, "seeded", "done"]
    assert [heard[job][0].code for job in range(7)] == [*["ok"] * 6, "bad_request"]
    assert shell.core.counters["batches"] == 1
    reply, ids, header, marks = heard[5][1]
    assert protocol.unpack_reply([reply, ids]).path == "fresh"
    seed = protocol.unpack_request([header, b"text", ids, marks])
    assert (seed.op, seed.key, seed.request_id) == ("seed", ("t", "s"), (5).to_bytes(16, "big"))
    assert broker.hears_nothing()


def test_a_demotion_that_arrives_in_between_counts(shell: Shell, broker: Broker) -> None:
    (tokenizer,) = shell.core.names.values()
    broker.work(0, "full", b"text", session="s")
    broker.say(Envelope("demote", demotions=[Demotion(tokenizer.sha256, "planted", 1)]))
    arrived()
    shell._turn()
    envelope, rest = broker.hear()
    assert (envelope.op, protocol.unpack_reply(rest).path) == ("done", "reference")


def test_what_a_broker_sent_before_it_forgot_this_worker_is_dropped(shell: Shell, broker: Broker) -> None:
    """Its numbers mean nothing to the next broker, which would take an answer for one of its own."""
    broker.work(0)
    broker.say(Envelope("disconnect"))
    arrived()
    first = broker.identity
    shell._turn()
    envelope, _ = broker.hear()
    assert envelope.op == "ready"
    assert broker.identity != first
    broker.work(0, text=b"another text")
    arrived()
    shell._turn()
    envelope, rest = broker.hear()
    assert envelope.job == 0
    (tokenizer,) = shell.core.names.values()
    assert protocol.unpack_reply(rest).body[0] == tokenizer.encode("another text").tobytes()
    assert broker.hears_nothing()


def test_its_speed_is_told(shell: Shell, broker: Broker) -> None:
    broker.work(0, text=b"word " * 100_000)
    arrived()
    shell._turn()
    broker.hear()
    assert shell._stats()["bytes_per_s"] > 100_000
