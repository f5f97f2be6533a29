"""Tables come from the engine that is installed: another version or atom is probed anew, a damaged file rebuilt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tokseam.kernels import cache, engines
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
    monkeypatch.setattr(engines, "version", lambda dialect: f"tokenizers 99.0 ({dialect})")
    class_probe.probe_atom("a", "onig")
    assert (probed, len(files(kept))) == (["a", "[a]", "a"], 3), "what another version told is not believed"
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    class_probe.probe_atom("a", "onig")
    assert (len(probed), len(files(kept))) == (4, 4), "nor what was kept in another form"


def test_the_version_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for dialect, name in (("onig", "tokenizers"), ("rust", "tiktoken")):
        assert engines.version(dialect) == f"{name} {metadata.version(name)}"
        record = metadata.distribution(name).read_text("RECORD") or ""
        wanted = f"{name} {metadata.version(name)} {hashlib.sha256(record.encode()).hexdigest()}"
        assert engines.identity(dialect) == wanted
        # The same by the long way, where the metadata do not lie beside the package.
        engines._installed.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(engines, "_beside_package", lambda name: None)
            assert engines.identity(dialect) == wanted
            # A process asks once: the engine that it has loaded stays as it is.
            patched.setattr(metadata, "distribution", lambda name: pytest.fail("asked again"))
            assert engines.identity(dialect) == wanted
        engines._installed.cache_clear()


def test_two_versions_beside_each_other_are_left_to_the_installer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a broken upgrade leaves behind: beside the package alone nobody can tell which of them it is."""
    (tmp_path / "engine_of_this_test").mkdir()
    (tmp_path / "engine_of_this_test" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(version: str) -> Path:
        folder = tmp_path / f"engine_of_this_test-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: engine_of_this_test\nVersion: {version}\n\n")
        return folder

    assert engines._beside_package("engine_of_this_test") is None
    first = install("1.0")
    assert engines._beside_package("engine_of_this_test") == first
    assert engines._installed.__wrapped__("engine_of_this_test") == ("1.0", hashlib.sha256(b"").hexdigest())
    install("2.0")
    assert engines._beside_package("engine_of_this_test") is None


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
    cache.put("classes", f"{engines.version('onig')}\0onig\0\\s", b"short")
    assert np.array_equal(class_probe.probe_atom(r"\s", "onig"), right)
    assert len(probed) == 2


def test_normalization_tables_follow_the_version_too(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = normalization.probe_normalization("NFC")
    assert normalization.probe_normalization("NFC").composition == first.composition
    known = files(kept)
    known[0].write_bytes(flip_a_bit(known[0].read_bytes()))
    assert normalization.probe_normalization("NFC").composition == first.composition
    monkeypatch.setattr(engines, "version", lambda dialect: "tokenizers 99.0")
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
