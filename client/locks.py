"""The lock of a tier's session, for threads. Limits: what it guards must bear to be left anywhere (session.py does)."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

_locks: weakref.WeakSet[CallLock] = weakref.WeakSet()


class CallLock:
    """A lock whose holders are threads of this process: one that the parent's held is free in a child of a fork.

    >>> lock = CallLock()
    >>> with lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free, whoever held it."""
        self._lock = threading.Lock()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
