"""The optional corpus of ../shared/data: texts, sessions and cases, or nothing where it is absent."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tokseam.scripts.tokenizer_catalogue import shared_folder

#: The families' names in cases/expected.json are ours.
LONG_LIST = 4_096  # lists of ids above this length are stored as a digest


def _data() -> Path | None:
    shared = shared_folder()
    return shared / "data" if shared else None


def multi_texts() -> list[Path]:
    data = _data()
    return sorted((data / "multi").glob("*.txt")) if data else []


def read_text(path: Path) -> str:
    """Return a text with its line ends as they are."""
    return path.read_bytes().decode()


def cases_module() -> ModuleType | None:
    """Return the corpus's own expander of cases (pure data handling), or None."""
    data = _data()
    path = data / "cases" / "cases.py" if data else None
    if path is None or not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("shared_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_cases() -> list[dict[str, Any]]:
    module = cases_module()
    return [case for case in module.load() if not case["service_level"]] if module else []


def expected() -> dict[str, dict[str, list[dict[str, Any]]]]:
    data = _data()
    if data is None:
        return {}
    content: dict[str, dict[str, list[dict[str, Any]]]] = json.loads((data / "cases" / "expected.json").read_bytes())
    return content


def difference(found: list[int], wanted: list[int] | dict[str, Any]) -> str:
    """Return '' when `found` are the expected ids (a list, or the digest of a long one), else what differs."""
    if isinstance(wanted, list):
        if found == wanted:
            return ""
        at = next(
            (i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), min(len(found), len(wanted))
        )
        return f"{len(found)} ids for {len(wanted)}; at {at}: {found[at : at + 5]}, expected {wanted[at : at + 5]}"
    digest = hashlib.sha256(np.array(found, dtype="<u4").tobytes()).hexdigest()
    if len(found) == wanted["n"] and digest == wanted["sha256"]:
        return ""
    head, tail = wanted["head"], wanted["tail"]
    where = "in the middle"
    if found[: len(head)] != head:
        where = f"at the start: {found[: len(head)]}, expected {head}"
    elif found[-len(tail) :] != tail:
        where = f"at the end: {found[-len(tail) :]}, expected {tail}"
    return f"{len(found)} ids for {wanted['n']}, different {where}"
