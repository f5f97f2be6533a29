"""The quarantine: a folder of JSON records, one for each answer that was found wrong. Bounded in number and bytes.

A record holds what finds the fault again (hashes, the path taken, the session's steps, where the ids part) and no
content: neither the text nor ids, which decode to it, unless the operator allows it. Any number of processes may write
into one folder. Limits: nobody here reads the records; what becomes of a tokenizer is the broker's matter.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from tokseam.broker.protocol import Demotion

from .sampling import Step

log = logging.getLogger("tokseam.quarantine")

#: Records, and bytes over all of them: the oldest go first.
MAX_RECORDS: Final = 1000
MAX_BYTES: Final = 64 * 1024 * 1024
#: Bytes of one record. A text that would make it longer is left out.
RECORD_MAX_BYTES: Final = 8 * 1024 * 1024
#: What a record's name begins with; the folder may hold other files.
PREFIX: Final = "mismatch-"


def default_folder() -> Path:
    """Return this user's quarantine."""
    import platformdirs

    return Path(platformdirs.user_state_dir("tokseam")) / "quarantine"


@dataclass(slots=True)
class Quarantine:
    """One folder, seen by one process."""

    folder: Path
    #: Whether records may hold the text and the ids.
    with_text: bool = False
    max_records: int = MAX_RECORDS
    max_bytes: int = MAX_BYTES
    written: int = 0
    #: Records that could not be written.
    failed: int = 0
    _counter: itertools.count[int] = field(default_factory=itertools.count)

    def put(self, record: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
        """Write a record; `content` goes along where the operator allows it. Returns its name, None if it failed.

        Never raises: a full disk must not end the checking.
        """
        kept = {**record, **content} if self.with_text else dict(record)
        data = json.dumps(kept, ensure_ascii=False, indent=1).encode()
        if len(data) > RECORD_MAX_BYTES:
            data = json.dumps({**record, "content": "left out: too long"}, ensure_ascii=False, indent=1).encode()
        # Names sort by time, and no two processes make the same.
        name = f"{PREFIX}{time.time_ns():020d}-{os.getpid()}-{next(self._counter)}.json"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(data))
            descriptor = os.open(self.folder / f".{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(self.folder / f".{name}", self.folder / name)
        except OSError as error:
            self.failed += 1
            log.error("%s: a record could not be written: %s", self.folder, error)
            return None
        self.written += 1
        return name

    def records(self) -> list[Path]:
        """Return the records, oldest first."""
        return sorted(self.folder.glob(f"{PREFIX}*.json"))

    def _make_room(self, size: int) -> None:
        records = self.records()
        sizes = {}
        for path in records:
            with contextlib.suppress(FileNotFoundError):
                sizes[path] = path.stat().st_size
        total = sum(sizes.values())
        while sizes and (len(sizes) >= self.max_records or total + size > self.max_bytes):
            oldest = next(iter(sizes))
            total -= sizes.pop(oldest)
            oldest.unlink(missing_ok=True)


def history_of(steps: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return a session's steps as a record has them."""
    return [dict(zip(Step._fields, step, strict=True)) for step in steps]


def demotion_of(sha256: str, what: str, record: str | None, when_ms: int) -> Demotion:
    """Return a demotion with its reason in words."""
    reason = f"demoted {iso_time(when_ms)}: {what}"
    return Demotion(sha256, reason + (f" (quarantine: {record})" if record else ""), when_ms)


def iso_time(when_ms: int) -> str:
    return datetime.fromtimestamp(when_ms / 1000, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
