"""Where probed tables are kept between runs: small files in the user's cache folder, named by what they hold.

A file carries the SHA-256 of its payload; one that is damaged, truncated or foreign reads as absent and is written
anew.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Bumped whenever the meaning of a payload changes, so that no old file is ever read as a new one.
FORMAT = 1

#: (kind, key) -> SHA-256 of the payload, of all that was asked for or kept.
Used = dict[tuple[str, str], str]

_recording: contextvars.ContextVar[Used | None] = contextvars.ContextVar("recording", default=None)


def cache_dir() -> Path:
    """Return the cache folder: $TOKSEAM_CACHE_DIR, else the platform's user cache folder."""
    chosen = os.environ.get("TOKSEAM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tokseam"))


def _path(kind: str, key: str) -> Path:
    return cache_dir() / kind / hashlib.sha256(f"{FORMAT}\0{kind}\0{key}".encode()).hexdigest()


def get(kind: str, key: str) -> bytes | None:
    """Return the payload kept under (kind, key), or None."""
    try:
        content = _path(kind, key).read_bytes()
    except OSError:
        return None
    digest, payload = content[:32], content[32:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    _note(kind, key, digest)
    return payload


def put(kind: str, key: str, payload: bytes) -> None:
    """Keep `payload`; a cache that can't be written only costs the next run its time."""
    digest = hashlib.sha256(payload).digest()
    _note(kind, key, digest)
    write(_path(kind, key), digest, payload)


def kept_digest(kind: str, key: str) -> str | None:
    """Return the SHA-256 that stands with the payload of (kind, key), without reading that; None where none is kept."""
    try:
        with _path(kind, key).open("rb") as file:
            return file.read(32).hex()
    except OSError:
        return None


@contextlib.contextmanager
def recording() -> Iterator[Used]:
    """Note what this thread asks for or keeps meanwhile."""
    used: Used = {}
    token = _recording.set(used)
    try:
        yield used
    finally:
        _recording.reset(token)


def write(path: Path, *parts: Any) -> bool:
    """Put a file of these bytes in its place at one stroke; False where the folder can't be written.

    Two that write the same file at once both do so in full; the later one stays.
    """
    import tempfile  # here, as reading needs none of it

    made = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            made = file.name
            for part in parts:
                file.write(part)
        os.replace(made, path)
    except OSError:
        if made is not None:
            with contextlib.suppress(OSError):
                os.unlink(made)
        return False
    return True


def touch(path: Path) -> None:
    """Note that a file was used just now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def drop_oldest(folder: Path, most: int) -> None:
    """Keep the `most` files of a folder that were used last. Who has one of the others open keeps it."""
    try:
        files = [(entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return
    for _, path in sorted(files, reverse=True)[most:]:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _note(kind: str, key: str, digest: bytes) -> None:
    used = _recording.get()
    if used is not None:
        used[kind, key] = digest.hex()
