"""Which reference engines are installed, known without importing them: a compiled file may be read without any.

Their distributions are looked for beside the packages that an import would find; importlib.metadata, which takes
longer than all else here, only where that does not tell.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path

#: The distributions whose engines answer for the two dialects; their packages have the same names.
_DISTRIBUTIONS = {"onig": "tokenizers", "rust": "tiktoken"}


def version(dialect: str) -> str:
    """Return the distribution and version that answers for a dialect. Raises ImportError where it is not installed."""
    name = _DISTRIBUTIONS[dialect]
    return f"{name} {_installed(name)[0]}"


def identity(dialect: str) -> str:
    """Return which engine is installed for a dialect: its version, and the digest of its installer's record.

    Two builds of one version are told apart by the record, where there is one. Raises ImportError where none is.
    """
    return f"{version(dialect)} {_installed(_DISTRIBUTIONS[dialect])[1]}"


# PERF: reads files, some hundred times a compile without the cache; the engine that this process has loaded stays the
# same.
@functools.cache
def _installed(name: str) -> tuple[str, str]:
    """Return a distribution's version and the digest of its installer's record."""
    folder = _beside_package(name)
    if folder is not None:
        found = _version_in((folder / "METADATA").read_text(encoding="utf-8"))
        if found is not None:
            record = folder / "RECORD"
            return found, _digest(record.read_text(encoding="utf-8") if record.is_file() else "")
    from importlib import metadata

    distribution = metadata.distribution(name)
    return distribution.version, _digest(distribution.read_text("RECORD") or "")


def _beside_package(name: str) -> Path | None:
    """Return the folder of metadata beside the package of this name; None where there is not just one."""
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = [folder for place in places for folder in Path(place).parent.glob(f"{name}-*.dist-info")]
    return found[0] if len(found) == 1 and (found[0] / "METADATA").is_file() else None


def _version_in(metadata: str) -> str | None:
    for line in metadata.splitlines():
        if not line:
            return None  # the head ends here
        if line.startswith("Version:"):
            return line.removeprefix("Version:").strip()
    return None


def _digest(record: str) -> str:
    return hashlib.sha256(record.encode()).hexdigest()
