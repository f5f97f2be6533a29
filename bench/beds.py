"""Sessions to change and to put back: what a change costs us, beside a peer's full encode of the changed text.

A change is timed on a session that stands at the same context each time: an untimed filler moves its end about
before an append, and what was changed is changed back, untimed, after it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import peers
from .subjects import Subject

#: An append stands after an untimed filler of fewer characters than this: one end a context would measure that end.
FILLER_CHARS = 2_000


@dataclass(frozen=True)
class Step:
    """One change: text[start:stop] becomes `replacement`; before it, `filler` is appended, untimed."""

    start: int
    stop: int
    replacement: str
    filler: str = ""

    def applied(self, text: str) -> str:
        whole = text + self.filler
        return whole[: self.start] + self.replacement + whole[self.stop :]


def append_step(rng: random.Random, source: str, context: int, delta: int) -> Step:
    """Return an append of `delta` characters, cut from a random place of `source`, behind `context` others."""
    filler = _cut(rng, source, rng.randrange(FILLER_CHARS))
    end = context + len(filler)
    return Step(end, end, _cut(rng, source, delta), filler)


def middle_step(rng: random.Random, source: str, context: int, delta: int) -> Step:
    """Return an edit near the middle: half as many characters as come go."""
    start = context // 2 + rng.randrange(min(5_000, context // 4))
    return Step(start, min(context, start + delta // 2), _cut(rng, source, delta))


def tail_step(rng: random.Random, source: str, context: int, delta: int) -> Step:
    """Return a rewritten tail: the last `delta` characters go, others of the same number come."""
    return Step(max(0, context - delta), context, _cut(rng, source, delta))


def _cut(rng: random.Random, source: str, chars: int) -> str:
    at = rng.randrange(len(source) - chars)
    return source[at : at + chars]


@dataclass(frozen=True)
class Way:
    """One way to get the ids after a step. `change` is what is timed; `undo` puts the text back."""

    name: str
    session: Any
    change: Callable[[Any], Any]
    #: Whether `change` answers with a patch; otherwise with all ids.
    patch: bool
    #: Whether `change` wants the whole changed text, which is made before the clock starts.
    whole: bool = False

    def fill(self, step: Step) -> list[Any]:
        """Append the step's filler, untimed; return its patch, if there is one."""
        return [self.session.append_patch(step.filler)] if step.filler else []

    def prepare(self, text: str, step: Step) -> Callable[[], Any]:
        """Return the call to be timed, once the filler stands."""
        given = step.applied(text) if self.whole else step
        return lambda: self.change(given)

    def undo(self, text: str, step: Step) -> None:
        changed = step.start + len(step.replacement)
        self.session.edit(step.start, changed, text[step.start : step.stop])
        if step.filler:
            self.session.edit(len(text), len(text) + len(step.filler), "")


def reference_ids(subject: Subject, text: str) -> Any:
    """Return the reference's ids of a text, as an array."""
    return np.array(subject.reference.ids(text), dtype=np.uint32)


def check(way: Way, text: str, step: Step, before: Any, after: Any) -> str:
    """Do and undo one step; return '' where the ids after it are `after`, else what differs. `before`: those of `text`,
    out of which patches make them.
    """
    patches = way.fill(step)
    answer = way.prepare(text, step)()
    found = before
    for patch in [*patches, answer] if way.patch else []:
        found = np.concatenate([found[: patch.start], np.asarray(patch.ids, dtype=np.uint32), found[patch.stop :]])
    differs = peers.difference(found if way.patch else answer, after)
    way.undo(text, step)
    return differs


def ways(tier: Any, label: str, text: str, kind: str) -> Iterator[Way]:
    """Yield the ways of one tier (an Embedded or a connection), each with a session at `text`."""

    def opened(name: str) -> Any:
        session = tier.session(name.replace(" ", "-"), tokenizer="t")
        session.append_patch(text)
        return session

    if kind == "append":
        session = opened(label)
        yield Way(label, session, lambda step, at=session: at.append_patch(step.replacement), True)  # type: ignore[misc]
        session = opened(f"{label} list")
        yield Way(f"{label} list", session, lambda step, at=session: at.append(step.replacement), False)  # type: ignore[misc]
        return
    session = opened(label)
    yield Way(
        label,
        session,
        lambda step, at=session: at.edit(step.start, step.stop, step.replacement),  # type: ignore[misc]
        True,
    )
    session = opened(f"{label} whole turn")
    yield Way(f"{label} whole turn", session, session.encode_patch, True, whole=True)


@contextmanager
def broker(subject: Subject, arguments: Sequence[str] = ()) -> Iterator[Any]:
    """Run a tier with one repair worker and yield a connection to it."""
    from tokseam.client import connect
    from tokseam.scripts.serve import running_tier

    with tempfile.TemporaryDirectory(prefix="bench-tier-") as folder:
        endpoint = f"ipc://{Path(folder) / 'front.sock'}"
        with (
            running_tier(
                {"t": subject.json_path()}, endpoint=endpoint, repair_workers=1, arguments=arguments
            ) as running,
            connect(running.endpoint) as tier,
        ):
            yield tier
