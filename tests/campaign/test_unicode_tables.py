"""Tables come from the engine that is installed: another version or atom is probed anew, a damaged file rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tokseam.kernels import cache
from tokseam.kernels.compile import class_probe, normalization
from tokseam.scripts import unicode_report
from tokseam.scripts.doctor import command


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("TOKSEAM_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The atoms that the engine has been asked for, each time."""
    asked: list[str] = []
    probe = class_probe._probe_onig

    def counted(source: str) -> class_probe.Members:
        asked.append(source)
        return probe(source)

    monkeypatch.setattr(class_probe, "_probe_onig", counted)
    return asked


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_an_atom_is_probed_once(kept: Path, probed: list[str]) -> None:
    first = class_probe.probe_atom(r"\p{L}", "onig")
    again = class_probe.probe_atom(r"\p{L}", "onig")
    assert probed == [r"\p{L}"]
    assert np.array_equal(first, again)
    assert len(files(kept)) == 1


def test_another_atom_or_version_is_another_file(
    kept: Path, probed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class_probe.probe_atom("a", "onig")
    class_probe.probe_atom("[a]", "onig")
    assert (probed, len(files(kept))) == (["a", "[a]"], 2)
    monkeypatch.setattr(class_probe, "engine_version", lambda dialect: f"tokenizers 99.0 ({dialect})")
    class_probe.probe_atom("a", "onig")
    assert (probed, len(files(kept))) == (["a", "[a]", "a"], 3), "what another version told is not believed"
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    class_probe.probe_atom("a", "onig")
    assert (len(probed), len(files(kept))) == (4, 4), "nor what was kept in another form"


def test_the_version_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert class_probe.engine_version("onig") == f"tokenizers {class_probe.metadata.version('tokenizers')}"
    # A process asks once: the engine that it has loaded stays as it is.
    monkeypatch.setattr(class_probe, "_version", class_probe._version.__wrapped__)
    monkeypatch.setattr(class_probe.metadata, "version", lambda name: "99.0")
    assert class_probe.engine_version("onig") == "tokenizers 99.0"
    assert class_probe.engine_version("rust") == "tiktoken 99.0"


def flip_a_bit(content: bytes) -> bytes:
    return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": flip_a_bit,
    "cut short": lambda content: content[:-1],
    "empty": lambda content: b"",
    "longer": lambda content: content + b"\0",
    "a digest alone": lambda content: content[:32],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_rebuilt(damage: str, kept: Path, probed: list[str]) -> None:
    right = class_probe.probe_atom(r"\s", "onig")
    (path,) = files(kept)
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    assert np.array_equal(class_probe.probe_atom(r"\s", "onig"), right)
    assert len(probed) == 2
    assert path.read_bytes() == whole, "the file is whole again"


def test_a_sound_file_of_another_length_is_not_believed(kept: Path, probed: list[str]) -> None:
    right = class_probe.probe_atom(r"\s", "onig")
    cache.put("classes", f"{class_probe.engine_version('onig')}\0onig\0\\s", b"short")
    assert np.array_equal(class_probe.probe_atom(r"\s", "onig"), right)
    assert len(probed) == 2


def test_normalization_tables_follow_the_version_too(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = normalization.probe_normalization("NFC")
    assert normalization.probe_normalization("NFC").composition == first.composition
    known = files(kept)
    known[0].write_bytes(flip_a_bit(known[0].read_bytes()))
    assert normalization.probe_normalization("NFC").composition == first.composition
    monkeypatch.setattr(normalization, "engine_version", lambda dialect: "tokenizers 99.0")
    normalization.probe_normalization("NFC")
    assert len(files(kept)) == len(known) + 1


def test_a_folder_that_cannot_be_written_costs_only_time(probed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKSEAM_CACHE_DIR", "/dev/null/none")
    assert class_probe.probe_atom("b", "onig").sum() == 1
    assert class_probe.probe_atom("b", "onig").sum() == 1
    assert probed == ["b", "b"]


def test_the_report_shows_where_the_engines_differ_from_python() -> None:
    found = {(one.engine.split()[0], one.atom): one for one in unicode_report.differences()}
    folded = found["tokenizers", "(?i:s)"]
    assert folded.members == 3, "s, S, and U+017F"
    assert "\x1c" in found["tokenizers", r"\s"].python_alone, "Python's \\s has the separators U+001C to U+001F"
    for one in found.values():
        assert not set(one.engine_alone) & set(one.python_alone)
    printed = CliRunner().invoke(command, ["--unicode"], env={"COLUMNS": "200"})
    assert printed.exit_code == 0, printed.output
    assert "U+001C" in printed.output
