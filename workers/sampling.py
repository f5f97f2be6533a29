"""Which answers are checked again, and what of them: the worker's half of the shadow verifier. Pure, but for packing.

`Sampler` draws answers, `Sample` is what the verifier needs of one, `Outbox` counts what is on its way there. shadow.py
is the other half. Limits: no sockets, no clock; nothing here ever waits.

What a sample holds, and why. The contract is about the ids that a client has after a step: all of them, against a full
encode of the whole text. Keeping a copy of what was emitted for every session would find the most, and cost every
answer memory and work. So a sample is one step: the session's text and ids from *before* it, taken when the step is
drawn; the step as the request asked for it; and the patch as it stands in the frames that go out. The verifier applies
the request to the text and the patch to the ids, and compares. Hence
- it is found when the engine's ids are wrong, now or since any step before (they are part of what came before);
- it is found when the patch was harmed on its way from engine to wire, which the engine's own ids would not show;
- the text is the request's doing and not the engine's, so an edit applied at a wrong place is found too;
- what was harmed on the wire in an earlier step that was not drawn is not found: each fault has one chance, `rate`. One
  that comes again is found after a geometric number of times.
An answer that is not drawn costs one random number and one line of history; one that is costs a copy of its context,
which the byte budget bounds.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgpack
from tokseam.broker.protocol import Buffer

#: Share of answers that are drawn, when nobody says otherwise.
RATE: Final = 0.05
#: Bytes of text a second that a tier has checked: about what a reference encodes on one core.
BYTES_PER_S: Final = 1024 * 1024
#: Bytes of text up to which an answer counts as small, and as middling; beyond, as large.
SIZE_CLASSES_BYTES: Final = (16 * 1024, 256 * 1024)
#: Seconds' worth of budget that may be saved up while little is drawn.
BURST_S: Final = 10.0
#: Samples and bytes that may be on their way to the verifier, for each worker.
OUTBOX_SAMPLES: Final = 256
OUTBOX_BYTES: Final = 32 * 1024 * 1024
#: Seconds after which a sample without a verdict counts as lost: its verifier died.
LOST_S: Final = 120.0
#: Steps of a session that are remembered for a report.
HISTORY_STEPS: Final = 16


class Step(NamedTuple):
    """One step of a session, by its sizes: never its text."""

    revision: int
    op: str
    #: Code points [start, stop) that the request replaced; 0, 0 for a full text and an append.
    start: int
    stop: int
    payload_bytes: int
    #: The patch: ids[ids_start:ids_stop] became ids_new ids.
    ids_start: int
    ids_stop: int
    ids_new: int


@dataclass(slots=True)
class Sample:
    """One answer to check: what stood before it, what was asked, what was answered."""

    sha256: str
    flags: int
    op: str
    #: UTF-8 of the text before the step, and the code points [start, stop) of it that became `payload`.
    text: Buffer
    start: int
    stop: int
    payload: Buffer
    #: Little-endian uint32 ids before the step, and the ids [ids_start, ids_stop) of them that became `patch`.
    ids: Buffer
    ids_start: int = 0
    ids_stop: int = 0
    patch: Buffer = b""
    #: For an answer that is only the number of ids: that number. The ids are then empty.
    count: int | None = None
    path: str = ""
    revision: int = 0
    history: Sequence[Sequence[Any]] = ()
    #: Which text of a batch this is.
    place: int = 0
    #: Milliseconds of the epoch, for people; seconds of the machine's monotonic clock, for the delay.
    when_ms: int = 0
    emitted: float = 0.0

    @property
    def size(self) -> int:
        """Bytes that it takes up on its way."""
        return len(self.text) + len(self.payload) + len(self.ids) + len(self.patch)


class Budget:
    """Bytes a second, shared between small, middling and large texts, so that no size starves another.

    A text is paid for when its class has anything left, and may put it into debt: so a text larger than all savings is
    checked too, and its class then waits. What a full class earns goes to the poorest.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        classes = len(SIZE_CLASSES_BYTES) + 1
        self._most = BURST_S * bytes_per_s / classes
        #: At most `_most`; below zero is debt.
        self._left = [self._most] * classes
        self._last: float | None = None

    def pay(self, size: int, now: float) -> bool:
        """Take `size` bytes if their class has something left."""
        self._earn(now)
        place = sum(size > bound for bound in SIZE_CLASSES_BYTES)
        if self._left[place] <= 0:
            return False
        self._left[place] -= size
        return True

    def _earn(self, now: float) -> None:
        earned = 0.0 if self._last is None else max(0.0, now - self._last) * self.bytes_per_s
        self._last = now
        share, over = earned / len(self._left), 0.0
        for place, left in enumerate(self._left):
            self._left[place] = min(self._most, left + share)
            over += left + share - self._left[place]
        if over > 0:
            poorest = min(range(len(self._left)), key=self._left.__getitem__)
            self._left[poorest] = min(self._most, self._left[poorest] + over)


class Sampler:
    """Draws answers: a seeded series, one number an answer."""

    def __init__(self, rate: float, bytes_per_s: float, seed: int | None = None) -> None:
        self.rate = rate
        self._dice = random.Random(seed)
        self._budget = Budget(bytes_per_s)
        #: Answers drawn; those of them that the budget did not allow.
        self.drawn = 0
        self.skipped = 0

    def draw(self, size: int, now: float) -> bool:
        """Tell whether to check the answer at hand, whose text has about `size` bytes."""
        if self._dice.random() >= self.rate:
            return False
        self.drawn += 1
        if self._budget.pay(size, now):
            return True
        self.skipped += 1
        return False


@dataclass(slots=True)
class Outbox:
    """What is on its way to the verifier: bounded in number and bytes, so that a slow one is never waited for."""

    samples: int = OUTBOX_SAMPLES
    bytes: int = OUTBOX_BYTES
    #: All and only the samples without a verdict: size and when they went, oldest first.
    open: OrderedDict[int, tuple[int, float]] = field(default_factory=OrderedDict)
    #: Sum of the sizes.
    open_bytes: int = 0
    sent: int = 0
    sent_bytes: int = 0
    #: Not sent, for lack of room.
    dropped: int = 0
    #: Sent to a verifier that died over it.
    lost: int = 0

    def offer(self, size: int, now: float) -> int | None:
        """Take a sample in: its number; None when it has to be dropped. One larger than all room goes alone."""
        self.expire(now)
        if len(self.open) >= self.samples or (self.open and self.open_bytes + size > self.bytes):
            self.dropped += 1
            return None
        number = self.sent
        self.sent += 1
        self.sent_bytes += size
        self.open[number] = (size, now)
        self.open_bytes += size
        return number

    def take_back(self, number: int) -> None:
        """The socket did not take it after all."""
        size = self._remove(number)
        self.sent_bytes -= size
        self.dropped += 1

    def settle(self, number: int) -> None:
        """Its verdict came. What was sent before it and has none was lost: verdicts come in order."""
        while self.open and next(iter(self.open)) < number:
            self._remove(next(iter(self.open)))
            self.lost += 1
        if number in self.open:
            self._remove(number)

    def expire(self, now: float) -> None:
        while self.open:
            number, (_, sent_at) = next(iter(self.open.items()))
            if now - sent_at <= LOST_S:
                return
            self._remove(number)
            self.lost += 1

    def _remove(self, number: int) -> int:
        size, _ = self.open.pop(number)
        self.open_bytes -= size
        return size

    def validate(self) -> None:
        """Check the invariants that the comments state. For tests."""
        assert self.open_bytes == sum(size for size, _ in self.open.values())
        assert len(self.open) <= self.samples
        assert self.open_bytes <= self.bytes or len(self.open) == 1
        assert list(self.open) == sorted(self.open)


#: Attributes of a sample that travel in its header; the four buffers are frames of their own.
_HEADER: Final = (
    "sha256",
    "flags",
    "op",
    "start",
    "stop",
    "ids_start",
    "ids_stop",
    "count",
    "path",
    "revision",
    "history",
    "place",
    "when_ms",
    "emitted",
)


def pack_sample(sample: Sample, number: int, worker: str) -> list[Buffer]:
    """Return the frames that a worker sends: header, text, payload, ids, patch. Worker and verifier are one version."""
    header = {name: getattr(sample, name) for name in _HEADER} | {"number": number, "worker": worker}
    return [msgpack.packb(header), sample.text, sample.payload, sample.ids, sample.patch]


def unpack_sample(frames: Sequence[Buffer]) -> tuple[Sample, int, str]:
    """Read a sample, its number and its worker. Raises ValueError for anything else."""
    try:
        header, text, payload, ids, patch = frames
        read = msgpack.unpackb(header, raw=False)
        number, worker = int(read.pop("number")), str(read.pop("worker"))
        return Sample(text=text, payload=payload, ids=ids, patch=patch, **read), number, worker
    except (ValueError, TypeError, KeyError, AttributeError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(f"no sample: {error!r}") from None
