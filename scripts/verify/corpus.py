"""Real texts of a campaign: the user's folder, or the sources of this Python's standard library.

Limits: files that are not UTF-8 are passed over; of a large folder, what fits in CORPUS_CHARS is kept.
"""

from __future__ import annotations

import hashlib
import random
import sysconfig
from pathlib import Path

#: Characters of real text that a campaign draws from; more would only fill memory.
CORPUS_CHARS = 16_000_000
#: Bytes of one file that are read.
FILE_BYTES = 1_000_000
#: Files of the standard library that stand in where no folder is given.
LIBRARY_FILES = 120


class Corpus:
    """Real texts, and a digest of them, so that a resumed campaign is known to be the same one."""

    def __init__(self, folder: Path | None) -> None:
        self.texts: list[str] = []
        digest = hashlib.sha256()
        chars = 0
        for path in _files(folder):
            try:
                with path.open("rb") as file:
                    text = file.read(FILE_BYTES).decode("utf-8", "strict" if folder is None else "ignore")
            except (OSError, UnicodeDecodeError):
                continue
            if not text or "\0" in text[:1000]:
                continue
            self.texts.append(text)
            digest.update(text.encode())
            chars += len(text)
            if chars >= CORPUS_CHARS:
                break
        self.chars = chars
        self.sha256 = digest.hexdigest()

    def draw(self, rng: random.Random, length: int) -> str:
        """Draw a stretch of about `length` characters."""
        if not self.texts:
            return ""
        text = rng.choice(self.texts)
        start = rng.randrange(max(1, len(text) - length))
        return text[start : start + length]


def _files(folder: Path | None) -> list[Path]:
    if folder is not None:
        return sorted(path for path in folder.rglob("*") if path.is_file())
    library = Path(sysconfig.get_paths()["stdlib"])
    return sorted(library.glob("*.py"))[:LIBRARY_FILES]
