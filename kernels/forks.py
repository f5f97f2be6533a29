"""The engine's locks over forks: a child has none of its parent's threads, so what one held would stay held for ever.

Whatever of `Embedded` has a lock and outlives a call says here what a child does with it. (Native code:
fork_safe_mutex.hpp; a tier's client: client/locks.py, transport.py.) A child
is a single thread at first, and nothing of the parent's changes any more. Limits: what a call was changing in another
thread when the process forked is lost to the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """What has to be put in order in a child."""

    def after_fork(self) -> None:
        """Called in the child, before anything else uses it there."""


_watched: weakref.WeakSet[Forked] = weakref.WeakSet()


def watch(one: Forked) -> None:
    """Have `one.after_fork()` called in every child of this process, for as long as `one` lives."""
    _watched.add(one)


def was_held(lock: threading.Lock) -> bool:
    """In a child: whether a thread that is not here any more holds a lock."""
    # `locked()` may say that nobody does: a thread that waited for the lock has it a while before it notes so.
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


def _after_fork() -> None:
    for one in list(_watched):
        one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
