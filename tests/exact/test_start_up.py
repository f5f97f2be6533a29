"""What a new process has to import before its first id: no more than that id needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokseam.client
from support.synthetic import description, split
from tokseam.client import Embedded

TEXT = "The first words, the first ids."

#: With the compiled file at hand: no reference and no compiler, no tier's client, and what those alone need.
NOT_FOR_EMBEDDED = (
    "tokenizers",
    "tiktoken",
    "tokseam.kernels.compile",
    "tokseam.broker.protocol",
    *(f"tokseam.client.{part}" for part in ("aio", "sync", "session", "transport")),
    *("asyncio", "zmq", "msgpack", "ssl"),
    # Slow to import, and needed for what a compiled file spares.
    *("importlib.metadata", "platformdirs", "tempfile"),
)

#: A client of a tier leaves tokenizing to its workers.
NOT_FOR_A_TIER = ("tokenizers", "tiktoken", "tokseam.kernels.engine", "tokseam.client.embedded")


def fresh(code: str, *arguments: str) -> Any:
    """Run code in a new process; return what it prints, as JSON."""
    command = [sys.executable, "-c", code, *arguments]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tokenizer.json whose compiled file is at hand."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(description([split(r"\p{L}+| ?[^\s\p{L}]+|\s+")], merges=[("t", "h"), ("th", "e")])))
    monkeypatch.setenv("TOKSEAM_CACHE_DIR", str(tmp_path / "cache"))
    assert Embedded({"t": path}).tokenizers()[0]["status"] == "native"
    return path


def test_embedded_imports_what_an_id_needs_alone(source: Path) -> None:
    ids, imported = fresh(
        "import json, sys; from tokseam.client import Embedded; engine = Embedded({'t': sys.argv[1]});"
        "ids = engine.encode(sys.argv[2]); session = engine.session('s'); assert session.encode(sys.argv[2]) == ids;"
        "print(json.dumps([ids, sorted(sys.modules)]))",
        str(source),
        TEXT,
    )
    assert ids == Embedded({"t": source}).encode(TEXT)
    assert "tokseam.kernels.engine" in imported
    assert not {*NOT_FOR_EMBEDDED} & {*imported}


def test_the_reference_comes_when_it_is_asked(source: Path) -> None:
    decoded, before, after = fresh(
        "import json, sys; from tokseam.client import Embedded; engine = Embedded({'t': sys.argv[1]});"
        "ids = engine.encode(sys.argv[2]); before = 'tokenizers' in sys.modules;"
        "print(json.dumps([engine.decode(ids), before, 'tokenizers' in sys.modules]))",
        str(source),
        TEXT,
    )
    assert (decoded, before, after) == (TEXT, False, True)


def test_a_client_of_a_tier_does_not_import_the_engine() -> None:
    imported = fresh("import json, sys; from tokseam.client import connect; print(json.dumps(sorted(sys.modules)))")
    assert "tokseam.client.sync" in imported
    assert not {*NOT_FOR_A_TIER} & {*imported}


def test_every_public_name_is_there_when_it_is_asked_for() -> None:
    before, offered, taken = fresh(
        "import json, sys, tokseam.client as client; before = 'numpy' in sys.modules; offered = dir(client);"
        "found = {}; exec('from tokseam.client import *', found);"
        "print(json.dumps([before, offered, sorted(found.keys() - {'__builtins__'})]))"
    )
    assert before is False
    assert {*tokseam.client.__all__} <= {*offered}
    assert taken == sorted(tokseam.client.__all__)
    for name in tokseam.client.__all__:
        assert getattr(tokseam.client, name).__name__ == name
    assert tokseam.client.errors.BusyError.code == "busy"
    with pytest.raises(AttributeError, match="has no attribute 'connects'"):
        tokseam.client.connects  # type: ignore[attr-defined]  # noqa: B018
