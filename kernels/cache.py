"""Where probed tables are kept between runs: small files in the user's cache folder, named by what they hold.

A file carries the SHA-256 of its payload; one that is damaged, truncated or foreign reads as absent and is written
anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import platformdirs

#: Bumped whenever the meaning of a payload changes, so that no old file is ever read as a new one.
FORMAT = 1


def cache_dir() -> Path:
    """Return the cache folder: $TOKSEAM_CACHE_DIR, else the platform's user cache folder."""
    chosen = os.environ.get("TOKSEAM_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("tokseam"))


def _path(kind: str, key: str) -> Path:
    return cache_dir() / kind / hashlib.sha256(f"{FORMAT}\0{kind}\0{key}".encode()).hexdigest()


def get(kind: str, key: str) -> bytes | None:
    """Return the payload kept under (kind, key), or None."""
    try:
        content = _path(kind, key).read_bytes()
    except OSError:
        return None
    digest, payload = content[:32], content[32:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def put(kind: str, key: str, payload: bytes) -> None:
    """Keep `payload`; a cache that can't be written only costs the next run its time."""
    path = _path(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(payload).digest() + payload)
        os.replace(file.name, path)
    except OSError:
        return
