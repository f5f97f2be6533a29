"""The shadow verifier: encodes sampled answers again with a fresh reference, in a process of the lowest priority.

Workers send samples (sampling.py says what one holds, and why) and never wait: what is on its way is bounded by them,
and what does not fit is dropped and counted. Here each is rebuilt to the text and the ids that the client now has, and
compared with a full encode by a reference of this process's own, loaded from the same files and named by their hash. A
difference is quarantined, and the tokenizer demoted: the broker tells every worker to answer by the reference, until an
operator lifts it.

Two reference engines are known to answer by their history. So a first difference is put to a reference made for it
alone: where that one agrees with the answer, it is this process's reference that was wrong; it is replaced and counted
as 'unsteady', and nothing is demoted.

Limits: one thread. What a client does with an answer is not seen here, nor what happens on the way behind the worker.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import logging
import os
import signal
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import zmq
from tokseam.broker import protocol
from tokseam.broker.protocol import ADD_SPECIAL_TOKENS, SPLIT_SPECIAL_TOKENS, Demotion, Envelope, WireError
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError
from tokseam.kernels.reference import Reference

from .quarantine import Quarantine, demotion_of, history_of, iso_time
from .sampling import Sample, unpack_sample
from .specifications import find_source, read_specifications

log = logging.getLogger("tokseam.verifier")

#: Verdicts whose delays the percentiles are of.
DELAYS_KEPT: Final = 2048
#: Seconds between two reports of the counters to the broker, while they move.
REPORT_S: Final = 0.25
#: Seconds before a demotion that the broker has not confirmed is told again.
REPEAT_S: Final = 1.0
#: Ids shown on either side of the first difference, where content may be kept.
WINDOW_IDS: Final = 8


class Verdict(NamedTuple):
    """What a comparison found."""

    equal: bool
    #: First position where the ids differ; with equal, their number.
    position: int
    emitted_count: int
    reference_count: int
    #: Why an answer is wrong that no ids show: a patch outside of the ids that it changes.
    note: str = ""


def rebuild(sample: Sample) -> tuple[str, engine.Ids, str]:
    """Return the text and the ids that the client has after the step, and what makes that impossible ('': nothing)."""
    before = str(sample.text, "utf-8")
    text = before[: sample.start] + str(sample.payload, "utf-8") + before[sample.stop :]
    if len(sample.ids) % 4 or len(sample.patch) % 4:
        return text, np.empty(0, dtype=np.uint32), "the patch is no sequence of uint32"
    ids = np.frombuffer(sample.ids, dtype="<u4")
    patch = np.frombuffer(sample.patch, dtype="<u4")
    note = ""
    if not 0 <= sample.ids_start <= sample.ids_stop <= len(ids):
        note = f"the patch replaces ids {sample.ids_start}:{sample.ids_stop} of {len(ids)}"
    return text, np.concatenate([ids[: sample.ids_start], patch, ids[sample.ids_stop :]]), note


def compare(sample: Sample, emitted: engine.Ids, note: str, wanted: engine.Ids) -> Verdict:
    """Compare an answer with the reference's. Pure."""
    if sample.count is not None:
        equal = sample.count == len(wanted)
        return Verdict(equal, min(sample.count, len(wanted)), sample.count, len(wanted))
    shared = min(len(emitted), len(wanted))
    unequal = np.flatnonzero(emitted[:shared] != wanted[:shared])
    position = int(unequal[0]) if len(unequal) else shared
    equal = not note and len(emitted) == len(wanted) == position
    return Verdict(equal, position, len(emitted), len(wanted), note)


def encode(reference: Reference, text: str, flags: int) -> engine.Ids:
    return reference.encode(text, bool(flags & ADD_SPECIAL_TOKENS), bool(flags & SPLIT_SPECIAL_TOKENS))


@dataclass(slots=True)
class Verifier:
    """References by hash, and a verdict for every sample. No sockets, no clock."""

    references: dict[str, Reference]
    #: Names by hash, for people.
    names: dict[str, str]
    quarantine: Quarantine
    #: Makes a reference anew, by hash; None where that is no longer possible.
    renew: Callable[[str], Reference | None]
    #: Demotions to tell the broker; whoever tells them empties it.
    demotions: list[Demotion] = field(default_factory=list)
    #: Hashes of tokenizers with a confirmed mismatch: a further one needs no confirmation.
    convicted: set[str] = field(default_factory=set)
    counters: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("verified", "verified_bytes", "mismatched", "unsteady", "unverifiable", "failed"), 0
        )
    )
    #: Seconds from emission to verdict, newest last.
    delays: deque[float] = field(default_factory=lambda: deque(maxlen=DELAYS_KEPT))

    def take(self, sample: Sample, worker: str) -> Verdict | None:
        """Check one sample. Returns None where there is nothing to compare with. Never raises."""
        reference = self.references.get(sample.sha256)
        if reference is None:
            # Its file was replaced between the start of the worker and of this process.
            self.counters["unverifiable"] += 1
            if self.counters["unverifiable"] == 1:
                log.error("no file here has the content of tokenizer %s: restart the tier", sample.sha256[:16])
            return None
        try:
            text, emitted, note = rebuild(sample)
            verdict = compare(sample, emitted, note, encode(reference, text, sample.flags))
            if not verdict.equal:
                verdict = self._confirm(sample, text, emitted, note, verdict)
            self.counters["verified"] += 1
            self.counters["verified_bytes"] += len(sample.text) + len(sample.payload)
            if not verdict.equal:
                self._convict(sample, worker, text, emitted, verdict)
        except BaseException as error:  # the reference panics (a BaseException) on some texts
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self.counters["failed"] += 1
            log.exception("a sample could not be checked")
            return None
        return verdict

    def note_delay(self, seconds: float) -> None:
        self.delays.append(max(0.0, seconds))

    def _confirm(self, sample: Sample, text: str, emitted: engine.Ids, note: str, verdict: Verdict) -> Verdict:
        """Put a first difference to a reference that has no history."""
        if sample.sha256 in self.convicted:
            return verdict
        fresh = self.renew(sample.sha256)
        if fresh is None:
            return verdict
        self.references[sample.sha256] = fresh
        again = compare(sample, emitted, note, encode(fresh, text, sample.flags))
        if again.equal:
            self.counters["unsteady"] += 1
            log.error("the reference of %s answered by its history; it was replaced", self._name(sample.sha256))
        return again

    def _convict(self, sample: Sample, worker: str, text: str, emitted: engine.Ids, verdict: Verdict) -> None:
        """Quarantine an answer and demote its tokenizer: the second also where the first fails."""
        self.counters["mismatched"] += 1
        self.convicted.add(sample.sha256)
        name = None
        try:
            content = self._content(sample, text, emitted, verdict) if self.quarantine.with_text else {}
            name = self.quarantine.put(self._record(sample, worker, text, verdict), content)
        except Exception:
            log.exception("a wrong answer could not be quarantined")
        step = f"{sample.op}, path {sample.path}" if sample.path else sample.op
        what = f"an answer ({step}) differed from the reference at id {verdict.position}"
        log.error("tokenizer %s: %s; quarantined as %s", self._name(sample.sha256), what, name)
        self.demotions.append(demotion_of(sample.sha256, what, name, sample.when_ms))

    def _record(self, sample: Sample, worker: str, text: str, verdict: Verdict) -> dict[str, Any]:
        return {
            "found_by": "verifier",
            "when": iso_time(sample.when_ms),
            "worker": worker,
            "tokenizer": self._name(sample.sha256),
            "tokenizer_sha256": sample.sha256,
            "content_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "text_chars": len(text),
            "flags": sample.flags,
            "op": sample.op,
            "path": sample.path,
            "revision": sample.revision,
            "batch_place": sample.place,
            "first_difference": verdict.position,
            "emitted_ids": verdict.emitted_count,
            "reference_ids": verdict.reference_count,
            "note": verdict.note,
            "patch": {"start": sample.ids_start, "stop": sample.ids_stop, "ids": len(sample.patch) // 4},
            "history": history_of(sample.history),
        }

    def _content(self, sample: Sample, text: str, emitted: engine.Ids, verdict: Verdict) -> dict[str, Any]:
        wanted = encode(self.references[sample.sha256], text, sample.flags)
        window = slice(max(0, verdict.position - WINDOW_IDS), verdict.position + WINDOW_IDS)
        return {
            "text": text,
            "ids_at_difference": {"emitted": emitted[window].tolist(), "reference": wanted[window].tolist()},
        }

    def _name(self, sha256: str) -> str:
        return self.names.get(sha256, sha256[:16])

    def stats(self) -> dict[str, int]:
        """Return the counters, and the delay's percentiles in microseconds."""
        ordered = sorted(self.delays)
        quantiles = {
            f"delay_p{percent}_us": int(1e6 * ordered[min(len(ordered) - 1, len(ordered) * percent // 100)])
            if ordered
            else 0
            for percent in (50, 99)
        }
        return {**self.counters, **quantiles, "quarantined": self.quarantine.written}


class Shell:
    """Sockets, clock and signals around one Verifier: samples come in by a ROUTER, the broker is told by a DEALER."""

    def __init__(self, verifier: Verifier, endpoint: str, back_endpoint: str, name: str) -> None:
        self.verifier = verifier
        self.endpoint = endpoint
        self.name = name
        self._context = zmq.Context()
        self._samples = self._context.socket(zmq.ROUTER)
        # Workers bound what is on its way, in number and bytes; this is a fuse.
        self._samples.setsockopt(zmq.RCVHWM, 4096)
        self._samples.setsockopt(zmq.LINGER, 0)
        self._broker = self._context.socket(zmq.DEALER)
        self._broker.setsockopt(zmq.LINGER, 0)
        self._broker.setsockopt(zmq.SNDHWM, 64)
        self._broker.connect(back_endpoint)
        #: Demotions that the broker has not confirmed, by hash, and when they were last told.
        self._untold: dict[str, tuple[Demotion, float]] = {}
        self._reported: dict[str, int] = {}
        self._report_due = 0.0
        self._stopping = False

    def run(self) -> None:
        """Check samples until a signal."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer)
        bind(self._samples, self.endpoint)
        poller = zmq.Poller()
        for source in (self._samples, self._broker, wake_reader):
            poller.register(source, zmq.POLLIN)
        try:
            while not self._stopping:
                ready = dict(poller.poll(int(1000 * REPORT_S)))
                if self._broker in ready:
                    self._hear()
                if self._samples in ready:
                    self._check(self._samples.recv_multipart(copy=False))
                self._report(time.monotonic())
        finally:
            self._samples.close()
            self._broker.close()
            self._context.term()
            Path(self.endpoint[6:]).unlink(missing_ok=True)

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True

    def _check(self, frames: Sequence[Any]) -> None:
        identity = frames[0].bytes
        try:
            sample, number, worker = unpack_sample([frames[1].bytes, *(frame.buffer for frame in frames[2:])])
        except ValueError as error:
            log.warning("a message on the verifier's socket is ignored: %s", error)
            return
        # A signal need not wait for a long text, which no handler could interrupt. Nothing here is worth saving.
        handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.verifier.take(sample, worker)
        signal.signal(signal.SIGTERM, handler)
        self.verifier.note_delay(time.monotonic() - sample.emitted)
        for demotion in self.verifier.demotions:
            self._untold.setdefault(demotion.sha256, (demotion, float("-inf")))
        self.verifier.demotions.clear()
        with contextlib.suppress(zmq.ZMQError):  # a worker that is gone needs no verdict
            self._samples.send_multipart([identity, number.to_bytes(8, "little")], zmq.DONTWAIT)

    def _hear(self) -> None:
        """The broker confirms a demotion, by telling it or by telling that it was lifted since."""
        try:
            envelope = protocol.unpack_envelope(self._broker.recv())
        except WireError as error:
            log.warning("a message from the broker is ignored: %s", error)
            return
        for sha256, _, _ in envelope.demotions or ():
            self._untold.pop(sha256, None)
            if envelope.op == "restore":
                self.verifier.convicted.discard(sha256)

    def _report(self, now: float) -> None:
        for sha256, (demotion, told_at) in list(self._untold.items()):
            if now - told_at >= REPEAT_S and self._tell(Envelope("demote", demotions=[demotion])):
                self._untold[sha256] = (demotion, now)
        if now < self._report_due:
            return
        self._report_due = now + REPORT_S
        stats = self.verifier.stats()
        if stats != self._reported and self._tell(Envelope("verdicts", name=self.name, pid=os.getpid(), stats=stats)):
            self._reported = stats

    def _tell(self, envelope: Envelope) -> bool:
        try:
            self._broker.send(protocol.pack_envelope(envelope), zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True


def bind(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Bind an ipc path in the folder that the broker keeps private, in place of a dead verifier's socket.

    Raises FileExistsError when something else lies there, which ZeroMQ would replace.
    """
    path = Path(endpoint[6:])
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} exists and is not a socket; it is left alone")
    mask = os.umask(0o077)
    try:
        socket.bind(endpoint)
    finally:
        os.umask(mask)


def load_verifier(specifications: Sequence[str], quarantine: Quarantine) -> Verifier:
    """Load the references of NAME=PATH and NAME=tiktoken:ENCODING, alone. Raises BadTokenizerError."""
    references: dict[str, Reference] = {}
    names: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name, source in read_specifications(specifications).items():
        reference, _ = engine.load_reference(find_source(source))
        references[reference.sha256] = reference
        names.setdefault(reference.sha256, name)
        sources[reference.sha256] = source

    def renew(sha256: str) -> Reference | None:
        try:
            made, _ = engine.load_reference(find_source(sources[sha256]))
        except BadTokenizerError:
            return None
        return made if made.sha256 == sha256 else None

    return Verifier(references, names, quarantine, renew)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verifier: what the supervisor starts. People use `tokseam serve`."""
    parser = argparse.ArgumentParser(prog="tokseam.workers.shadow")
    parser.add_argument("--endpoint", required=True, help="where workers send samples: ipc://PATH")
    parser.add_argument("--back-endpoint", required=True, help="the workers' endpoint of the broker")
    parser.add_argument("--name", default="verifier")
    parser.add_argument("--tokenizer", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--quarantine-dir", type=Path, required=True)
    parser.add_argument("--quarantine-text", action="store_true")
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format=f"%(asctime)s %(name)s {options.name} %(message)s", stream=sys.stderr
    )
    try:
        verifier = load_verifier(options.tokenizer, Quarantine(options.quarantine_dir, options.quarantine_text))
    except BadTokenizerError as error:
        print(f"tokseam: {error}", file=sys.stderr)
        return 2
    try:
        Shell(verifier, options.endpoint, options.back_endpoint, options.name).run()
    except (FileExistsError, zmq.ZMQError) as error:
        print(f"tokseam: {options.endpoint}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
