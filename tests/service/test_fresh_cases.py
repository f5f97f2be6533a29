"""The case table through a tier whose fresh worker encodes every whole text: stateless, in batches, and as sessions.

Every text is compared with the recorded ids, or with a fresh reference where it is short enough for that.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_support import FAST
from support import shared_data
from support.cases import REFERENCE_CHARS, is_unicode, probes_of, states
from support.families import Family
from tokseam.client import Tier, connect, errors
from tokseam.scripts.serve import running_tier

CASES = shared_data.text_cases()

pytestmark = pytest.mark.skipif(not CASES, reason="../shared/data/cases is not on this machine")


def file_of(family: Family, folder: Path) -> Path:
    """Return a file that a tier can load a family from: for a tiktoken.Encoding, its description and ranks."""
    if not family.is_tiktoken:
        found: Path = family.source
        return found
    encoding = family.source
    ranks = folder / f"{family.name}.tiktoken"
    lines = (f"{base64.b64encode(token).decode()} {rank}" for token, rank in encoding._mergeable_ranks.items())
    ranks.write_text("\n".join(lines))
    described = {"ranks": ranks.name, "pattern": encoding._pat_str, "special_tokens": encoding._special_tokens}
    path = folder / f"{family.name}.json"
    path.write_text(json.dumps(described))
    return path


@pytest.fixture(scope="module")
def tier_of_family(family: Family, short_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    source = file_of(family, tmp_path_factory.mktemp("ranks"))
    with (
        running_tier(
            {"t": source},
            endpoint=f"ipc://{short_folder}/{family.name}.sock",
            repair_workers=1,
            arguments=[*FAST, "--validate", "--fresh-threshold", "0", "--shadow-rate", "0"],
        ) as running,
        connect(running.endpoint) as client,
    ):
        yield client


def wanted_of(family: Family, text: str, add: bool, split: bool, recorded: Any) -> Any:
    """Return the recorded ids or the reference's; None where neither is to be had."""
    if recorded is not None:
        return recorded
    return family.reference.ids(text, add, split) if len(text) <= REFERENCE_CHARS else None


def check_probe(client: Tier, family: Family, probe: dict[str, Any], recorded: dict[str, Any] | None, name: str) -> int:
    """Pass through the states of a probe. Returns how many answers were compared."""
    split = bool(probe.get("split_special_tokens", False))
    sessions = {add: client.session(f"{name}-{add}", "t", add, split) for add in (False, True)}
    compared = 0
    for place, (text, add) in enumerate(states(probe)):
        if not is_unicode(text):
            with pytest.raises(errors.BadRequestError):
                client.encode(text, "t", add, split)
            continue
        wanted = wanted_of(family, text, add, split, recorded["ids"][place] if recorded is not None else None)
        if wanted is None:
            continue
        where = f"{name}, state {place}, {len(text)} characters: {text[:200]!r}"
        assert shared_data.difference(client.encode(text, "t", add, split), wanted) == "", where
        assert shared_data.difference(sessions[add].encode(text), wanted) == "", where
        (in_batch, *_) = client.encode_batch([text, "x"], "t", add, split)
        assert shared_data.difference(in_batch, wanted) == "", where
        compared += 3
    for session in sessions.values():
        session.close()
    return compared


def test_the_case_table(family: Family, tier_of_family: Tier) -> None:
    (entry,) = tier_of_family.tokenizers()
    assert entry["status"] == "native"
    compared = 0
    for case in CASES:
        if case["input"].get("patch"):
            continue  # that is another tokenizer
        probes, recorded = probes_of(case, family.name)
        for number, probe in enumerate(probes):
            found = recorded[number] if recorded is not None else None
            compared += check_probe(tier_of_family, family, probe, found, f"{case['id']}-{number}")
    assert compared > 300
    broker = tier_of_family.stats()["broker"]
    assert broker["seeds"] > 50
    assert broker["seeds_dropped"] == 0


def test_seeds_of_every_case_live_on(family: Family, tier_of_family: Tier) -> None:
    """What a seed is for: an append to each text of the table, by the owner, without a second encode."""
    texts = {
        text
        for case in CASES
        if not case["input"].get("patch")
        for probe in probes_of(case, family.name)[0]
        for text, _ in itertools.islice(states(probe), 1)
        if is_unicode(text) and 0 < len(text) <= REFERENCE_CHARS // 4
    }
    before = tier_of_family.stats()["broker"]
    for number, text in enumerate(sorted(texts)):
        with tier_of_family.session(f"seed-{number}", "t") as session:
            session.encode_patch(text)
            for delta in (" 12", "e\u0301 <", "\n\n"):
                text += delta
                assert session.append(delta) == family.reference.ids(text), text[-200:]
            assert session.last is not None
            assert session.last.path == "append"
    after = tier_of_family.stats()["broker"]
    assert after["seeds"] - before["seeds"] > len(texts) // 2  # a busy machine may make some of them spill
    assert after["stale"] - before["stale"] == after["rerouted"] - before["rerouted"] == 0
