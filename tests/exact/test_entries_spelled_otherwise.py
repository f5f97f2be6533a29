"""Vocabulary entries that hold a part of a character, in texts that become them only when they are normalized.

Such an entry joins characters that a text is else parted between (claim 13 in kernels/README.md). What stands around
the place may be written in several ways: an error there that no random text finds (tests/campaign/FINDINGS.md).
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pytest
from support.families import Family
from tokenizers import Tokenizer, normalizers
from tokseam.kernels.compile.class_probe import every_character
from tokseam.kernels.compile.pipeline import byte_alphabet


@lru_cache(maxsize=4)
def spellings(form: str) -> dict[str, list[str]]:
    """Return the other characters that each one is the normal form of."""
    normalize = getattr(normalizers, form)().normalize_str
    found = defaultdict(list)
    for char in every_character():
        if (normal := normalize(char)) != char and len(normal) == 1:
            found[normal].append(char)
    return found


def parted(path: Path) -> list[bytes]:
    """Return the entries that begin or end inside a character and hold a whole one."""
    alphabet = byte_alphabet()
    found = []
    for entry in Tokenizer.from_file(str(path)).get_vocab():
        if not all(char in alphabet for char in entry):
            continue
        spelled = bytes(alphabet[char] for char in entry)
        inner = spelled.decode(errors="ignore")
        if inner and inner.encode() != spelled and any(ord(char) > 0x7F for char in inner):
            found.append(spelled)
    return found


def completed(rng: random.Random, entry: bytes) -> str | None:
    """Return a text that holds the entry: what is missing of its first and last characters is drawn."""
    for _ in range(300):
        front = rng.choice("\u00e9\u0436\u05d4\u0628\u0939\u0e01\u4e2d\ud55c\U0001f600").encode()
        behind = bytes(rng.randrange(0x80, 0xC0) for _ in range(rng.randrange(4)))
        with suppress(UnicodeDecodeError):
            return (front[: rng.randrange(len(front))] + entry + behind).decode()
    return None


def test_they_are_found_in_every_spelling(family: Family, rng: random.Random, effort: float) -> None:
    if family.is_tiktoken:
        pytest.skip("nothing is normalized")
    path = Path(family.source)
    normalizer = json.loads(path.read_bytes()).get("normalizer") or {}
    if normalizer.get("type") not in ("NFC", "NFKC"):
        pytest.skip("nothing is spelled otherwise")
    entries = parted(path)
    if not entries:
        pytest.skip("no entry holds a part of a character and a whole one")
    others = spellings(normalizer["type"])
    for _ in range(int(1_600 * effort)):
        text = completed(rng, rng.choice(entries))
        spelled = "".join(rng.choice([char, *others.get(char, [])]) for char in text or "")
        for whole in (spelled, "a" + spelled + "b"):
            assert family.engine.encode(whole).tolist() == family.reference.ids(whole), whole
