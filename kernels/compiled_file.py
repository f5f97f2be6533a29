"""The compiled tokenizer: one flat read-only file in the user's cache folder, which every process maps.

Named by the content hash and the format's version. Inside stand a key (the content, the format, and all code that
compiles and reads), a checksum over the whole, and what it was made from beside the content: the reference engine as
installed, the probed tables, other files. Where any of that is otherwise now, or the file is damaged, cut short or
foreign, it reads as absent, and is made anew. The answer 'reference', with its reason, is kept in the same way.

It is never changed in place: a new one is renamed over it, so that whoever maps the old one keeps it. (Cutting a file
short by hand while a process maps it kills that process, as with any mapped file.)
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import _native, cache, engines
from .facts import Facts, join, part

if TYPE_CHECKING:
    from .compile.tables import Compiled

#: Compiled files that are kept, those used last; about 10 MB each.
MAX_FILES = 64


class Read(NamedTuple):
    """The native side of a tokenizer, out of its file."""

    encoder: _native.Encoder
    facts: Facts


class Kept(NamedTuple):
    """A compiled file, read: the native side of a tokenizer, or the reason why there is none.

    sha256: the tokenizer's name.
    """

    sha256: str
    native: Read | None
    reason: str
    path: Path


@dataclass(frozen=True)
class Origin:
    """What a tokenizer was compiled from.

    content_sha256: of what was opened. dialect: whose engine answered. files: other files that it names, with their
    SHA-256. folder: where those lie.
    """

    content_sha256: str
    dialect: str = "onig"
    files: tuple[tuple[str, str], ...] = ()
    folder: Path | None = None


def path_of(content_sha256: str) -> Path:
    """Return where the compiled file of a tokenizer with this content is kept."""
    return cache.cache_dir() / "compiled" / f"{content_sha256}-{_native.IMAGE_FORMAT}"


def find(content_sha256: str, folder: Path | None = None) -> Kept | None:
    """Return the kept file for this content; None where there is none, or none that may be trusted.

    folder: where other files that it was made from lie.
    """
    path = path_of(content_sha256)
    try:
        kept = _read(path, _native.Image.open(str(path), _key(content_sha256)), folder)
        if kept is not None:
            cache.touch(path)
        return kept
    except (_native.BadImage, KeyError, TypeError, ValueError, AttributeError, ImportError, OSError):
        return None


def keep(sha256: str, compiled: Compiled | None, reason: str, origin: Origin, probes: cache.Used) -> Kept | None:
    """Put a tokenizer's file in its place. `probes`: the probed tables that were used.

    Returns the file as read back; None where the folder can't be written.
    """
    small, table = compiled.facts.pack() if compiled else (None, b"")
    described = {
        "sha256": sha256,
        "reason": reason,
        "dialect": origin.dialect,
        "engine": engines.identity(origin.dialect),
        "files": [list(file) for file in origin.files],
        "probes": [[kind, key, digest] for (kind, key), digest in sorted(probes.items())],
        "facts": small,
    }
    image = _native.Image.noted(
        compiled.image if compiled else None, join(described, table), _key(origin.content_sha256)
    )
    path = path_of(origin.content_sha256)
    if not cache.write(path, image.data):
        return None
    cache.drop_oldest(path.parent, MAX_FILES)
    return find(origin.content_sha256, origin.folder)


def _read(path: Path, image: _native.Image, folder: Path | None) -> Kept | None:
    described, table = part(image.facts)
    if described["engine"] != engines.identity(described["dialect"]):
        return None
    for kind, key, digest in described["probes"]:
        if cache.kept_digest(kind, key) not in (digest, None):
            return None
    for name, digest in described["files"]:
        if folder is None or hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            return None
    small = described["facts"]
    native = None if small is None else Read(_native.Encoder(image), Facts.unpack(small, table))
    return Kept(described["sha256"], native, described["reason"], path)


def _key(content_sha256: str) -> bytes:
    return hashlib.sha256(f"{_native.IMAGE_FORMAT}\0{content_sha256}\0{_code_digest()}".encode()).digest()


@functools.lru_cache(maxsize=1)
def _code_digest() -> str:
    """Return the digest of the code that compiles, lays out and reads: another build trusts no file of this one."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in [*sorted(here.glob("*.py")), *sorted((here / "compile").glob("*.py")), Path(_native.__file__)]:
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
