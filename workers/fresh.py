"""A fresh worker's process: it encodes whole texts in batches, and owns no session.

One batch is what has arrived while the last one ran: there is no timer, so a text that comes alone waits for nothing.
Limits: sockets and clock are shell.py's, what a message means is fresh_core.py's matter, and how a batch is encoded
that of its batch engine.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence

import zmq
from tokseam.broker import frames, protocol
from tokseam.broker.protocol import Envelope
from tokseam.kernels.cuda.launcher import open_launcher
from tokseam.kernels.errors import NoDeviceError

from . import shell
from .answering import Seam
from .batch_engine import BatchEngine
from .cpu_engine import CpuEngine
from .fresh_core import FreshCore, Limits
from .gpu_engine import GpuEngine
from .speed import Speed

log = logging.getLogger("tokseam.worker")

#: Requests taken at a time: as many as make a batch, so that the next one is here when the last one ends.
CREDITS = 256
#: Seconds after which its speed counts as unknown, so that it gets texts again: what slowed it down may be over.
SPEED_STALE_S = 5.0


class Shell(shell.Shell[FreshCore]):
    """A worker's loop around batches."""

    def __init__(self, core: FreshCore, settings: shell.Settings) -> None:
        super().__init__(core, settings)
        self.speed = Speed(SPEED_STALE_S)

    def _work(self, job: int, message: list[bytes]) -> None:
        """Gather a request, and what arrived with it; then answer all of them."""
        self._note_counted()
        self.core.take(job, message[1:])
        if self._gathering:
            return
        self._gathering = True
        try:
            self._gather()
        finally:
            self._gathering = False
        started = time.monotonic()
        size = self.core.gathered_bytes
        answers = self.core.run(started)
        self.speed.note(size, started, time.monotonic())
        for number, code, reply, seed in answers:
            if seed:
                self._send(protocol.pack_envelope(Envelope("seeded", job=number)), [*reply, *seed])
            else:
                self._send(protocol.pack_done(number, code), reply)
        if self.core.samples:
            self._hand_over_samples()

    #: Whether `_gather` is at work: what it receives joins the batch.
    _gathering = False

    def _gather(self) -> None:
        """Take what has arrived, work or not, until the batch is full or nothing is left."""
        while not self.core.full and self._socket is not None:
            try:
                message = frames.receive(self._socket)
            except zmq.Again:
                return
            self._last_heard = time.monotonic()
            self._receive(message)

    def _reconnect(self) -> None:
        self.core.drop()  # its numbers mean nothing to the next broker
        super()._reconnect()

    def _engine(self) -> str:
        return self.core.engine_name


def main(arguments: Sequence[str] | None = None, seam: Seam | None = None) -> int:
    """Run a fresh worker: what the supervisor starts. People use `tokseam serve`. `seam`: see FreshCore."""
    parser = argparse.ArgumentParser(prog="tokseam.workers.fresh")
    shell.add_arguments(parser)
    parser.add_argument("--threads", type=int, default=0, help="cores to encode on; 0: all that it may run on")
    parser.add_argument("--no-gpu", action="store_true", help="encode on cores, whatever else is here")
    options = parser.parse_args(arguments)
    tokenizers = shell.prepare(options, references=False)  # only a demoted tokenizer needs its reference here
    if tokenizers is None:
        return 2
    limits = Limits(options.message_max_bytes - protocol.HEADER_MAX_BYTES, options.message_max_bytes)
    batch_engine, cpu = engines_of(options.threads or usable_cores(), gpu=not options.no_gpu)
    core = FreshCore(tokenizers, batch_engine, cpu, limits, sampler=shell.sampler_of(options), seam=seam)
    try:
        Shell(core, shell.settings_of(options, CREDITS)).run()
    finally:
        for one in {batch_engine, cpu}:
            one.close()
    return 0


def engines_of(threads: int, gpu: bool) -> tuple[BatchEngine, BatchEngine]:
    """Return the batch engine to use, and the CPU's, which takes over where it fails; without a GPU they are one."""
    cpu = CpuEngine(threads)
    if not gpu:
        return cpu, cpu
    try:
        launcher = open_launcher()
    except NoDeviceError as error:
        log.info("no GPU to encode on: %s; whole texts are encoded on %s", error, cpu.name)
        return cpu, cpu
    except Exception:  # nobody foresaw it: a worker on cores is better than one that ends again and again
        log.exception("no GPU to encode on; whole texts are encoded on %s", cpu.name)
        return cpu, cpu
    log.info("whole texts are encoded on %s (%d MiB of its memory)", launcher.name, launcher.memory.arena >> 20)
    return GpuEngine(launcher, cpu), cpu


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
