"""Inputs that broke other tokenizers and caches (../shared/data/cases), as full encodes and as session histories.

The six families that the corpus knows are compared with its recorded ids, whatever the length; every family is also
compared with a fresh reference where the text is short enough for that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import shared_data
from support.cases import REFERENCE_CHARS, is_unicode, probes_of, states
from support.families import Family
from support.histories import Mirror
from tokseam.kernels.errors import BadTextError

CASES = shared_data.text_cases()

pytestmark = pytest.mark.skipif(not CASES, reason="../shared/data/cases is not on this machine")


def with_patch(family: Family, case: dict[str, Any], folder: Path) -> Family:
    """Return a family whose tokenizer.json is changed as the case asks."""
    module = shared_data.cases_module()
    assert module is not None
    assert isinstance(family.source, Path)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(module.patch(case, json.loads(family.source.read_bytes()))), encoding="utf-8")
    return Family(family.name, path)


def check_refusal(family: Family, text: str) -> None:
    """A lone surrogate is refused, and leaves a session as it was."""
    with pytest.raises(BadTextError):
        family.engine.encode(text)
    mirror = Mirror.start(family.engine, family.reference)
    mirror.append("before")
    with pytest.raises(BadTextError):
        mirror.session.append(text)
    mirror.check()


def check_probe(family: Family, probe: dict[str, Any], recorded: dict[str, Any] | None) -> None:
    split = bool(probe.get("split_special_tokens", False))
    passed = states(probe)
    mirrors: dict[bool, Mirror] = {}
    for index, (text, add) in enumerate(passed):
        short = len(text) <= REFERENCE_CHARS
        where = f"state {index}, {len(text)} characters: {text[:300]!r}"
        if not is_unicode(text):
            check_refusal(family, text)
            continue
        found = family.engine.encode(text, add_special_tokens=add, split_special_tokens=split).tolist()
        if recorded is not None:
            assert shared_data.difference(found, recorded["ids"][index]) == "", where
        if short:
            assert shared_data.difference(found, family.reference.ids(text, add, split)) == "", where
        if short and not split:
            ids, offsets = family.reference.ids_and_offsets(text)
            assert len(ids) == len(offsets)
            assert [tuple(span) for span in family.engine.offsets(text).tolist()] == offsets, where
            assert family.reference.pieces_error(text, family.engine.pieces(text).tolist()) == "", where
        # The same states as one session's history.
        if add not in mirrors:
            mirrors[add] = Mirror.start(family.engine, family.reference, (add, split))
        mirror = mirrors[add]
        if text.startswith(mirror.text):
            mirror.append(text[len(mirror.text) :])
        else:
            mirror.become(text)
        assert shared_data.difference(mirror.ids, found) == "", where
        assert mirror.session.ids().tolist() == found, where
        assert mirror.session.text() == text, where
    if recorded is not None and "offsets" in recorded:
        assert family.engine.offsets(probe["s"]).tolist() == recorded["offsets"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(family: Family, case: dict[str, Any], tmp_path: Path) -> None:
    probes, recorded = probes_of(case, family.name)
    if recorded is None:
        size = max((len(text) for probe in probes for text, _ in states(probe)), default=0)
        if not probes or size > REFERENCE_CHARS:
            pytest.skip("this case has no text of this family's that is short enough for the reference")
    if case["input"].get("patch"):
        family = with_patch(family, case, tmp_path)
    for index, probe in enumerate(probes):
        check_probe(family, probe, recorded[index] if recorded is not None else None)
