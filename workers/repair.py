"""A repair worker's process: it owns sessions, and answers one request after the other.

A native session that caught itself is quarantined here. Limits: sockets and clock are shell.py's, what a message means
is core.py's matter.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tokseam.broker import frames, protocol
from tokseam.broker.protocol import Envelope, SessionKey

from . import shell
from .answering import Seam
from .core import Alarm, WorkerCore
from .quarantine import Quarantine, demotion_of, history_of, iso_time
from .speed import TELLING_BYTES
from .store import Limits

log = logging.getLogger("tokseam.worker")

#: Requests taken at a time: enough to hide the way to the broker and back, few enough to leave the rest placeable.
CREDITS = 8
#: Seconds that handing sessions over may take.
HANDOVER_S = 2.0


class Shell(shell.Shell[WorkerCore]):
    """A worker's loop around sessions."""

    def __init__(self, core: WorkerCore, settings: shell.Settings, quarantine: Quarantine | None = None) -> None:
        super().__init__(core, settings)
        #: Where a native session that caught itself is reported; None reports to the log alone.
        self.quarantine = quarantine

    def _work(self, job: int, message: list[bytes]) -> None:
        """Answer a request, and lie down: the sooner this thread sleeps, the sooner others carry the answer on.

        What the answer need not wait for comes when there is nothing to do, or some answers later.
        """
        core = self.core
        started = self._last_heard
        code, reply = core.answer(message[1:], started)
        self._send(protocol.pack_done(job, code), reply)
        if core.encoded_bytes >= TELLING_BYTES:
            self.speed.note(core.encoded_bytes, started, time.monotonic())
        if not core.can_wait:
            self._catch_up()
        if not self._counted:
            self._note_counted()

    def _catch_up(self) -> None:
        self.core.settle()
        if self.core.samples:
            self._hand_over_samples()
        if self.core.alarms:
            for alarm in self.core.alarms:
                self._raise(alarm)
            self.core.alarms.clear()

    def _sessions(self) -> Sequence[SessionKey]:
        return [*self.core.sessions]

    def _part(self) -> None:
        assert self._socket is not None
        self._catch_up()
        handover = protocol.pack_envelope(Envelope("handover"))
        stop_by = time.monotonic() + HANDOVER_S
        for message in self.core.parting():
            frames.send(self._socket, [handover, *message], frames.WAIT)
            if time.monotonic() > stop_by:
                break

    def _raise(self, alarm: Alarm) -> None:
        """A native session caught itself. The reference answered it, and from now on answers everything."""
        when_ms = int(time.time() * 1000)
        report = alarm.report
        record = {
            "found_by": "overlap",
            "when": iso_time(when_ms),
            "worker": self.settings.name,
            "tokenizer_sha256": report.tokenizer_sha256,
            "content_sha256": report.text_sha256,
            "text_chars": report.text_chars,
            "op": alarm.op,
            "revision": alarm.revision,
            "note": report.what,
            "history": history_of(alarm.history),
        }
        name = None if self.quarantine is None else self.quarantine.put(record, {})
        demotion = demotion_of(report.tokenizer_sha256, f"a repair's overlap differed ({report.what})", name, when_ms)
        log.error("tokenizer %s: %s", report.tokenizer_sha256[:16], demotion.reason)
        self.core.demote(demotion)
        self._tell(Envelope("demote", demotions=[demotion]))


def main(arguments: Sequence[str] | None = None, seam: Seam | None = None) -> int:
    """Run a worker: what the supervisor starts. People use `tokseam serve`. `seam`: see WorkerCore."""
    parser = argparse.ArgumentParser(prog="tokseam.workers.repair")
    shell.add_arguments(parser)
    parser.add_argument("--sessions", type=int, default=Limits().sessions)
    parser.add_argument("--session-bytes", type=int, default=Limits().session_bytes)
    parser.add_argument("--quarantine-dir", type=Path)
    options = parser.parse_args(arguments)
    tokenizers = shell.prepare(options)
    if tokenizers is None:
        return 2
    limits = Limits()._replace(
        sessions=options.sessions,
        session_bytes=options.session_bytes,
        message_bytes=options.message_max_bytes,
        text_bytes=options.message_max_bytes - protocol.HEADER_MAX_BYTES,
    )
    quarantine = Quarantine(options.quarantine_dir) if options.quarantine_dir else None
    core = WorkerCore(tokenizers, limits, sampler=shell.sampler_of(options), seam=seam)
    Shell(core, shell.settings_of(options, CREDITS), quarantine).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
