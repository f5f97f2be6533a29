"""The compiled file: the same ids as from a build, and nothing but a whole, fitting file is ever trusted."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.families import Family
from support.synthetic import added, description, split
from tokenizers import Tokenizer as HfTokenizer
from tokseam.kernels import _native, cache, compiled_file, engine, engines
from tokseam.kernels.errors import BadTokenizerError
from tokseam.kernels.reference import HuggingFaceReference

TEXT = "a b  \u00e9e\u0301 ab abab 12 <s>x <pad>  y\r\n\u4f60\u597d \U0001f642 I'm  "


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that holds this user's probed tables and no compiled file."""
    folder = tmp_path / "cache"
    folder.mkdir()
    for kind in ("classes", "normalization"):
        (folder / kind).symlink_to((cache.cache_dir() / kind).resolve(), target_is_directory=True)
    monkeypatch.setenv("TOKSEAM_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been compiled, each time."""
    compiled: list[str] = []
    keep = compiled_file.keep

    def counted(sha256: str, *rest: Any) -> object:
        compiled.append(sha256)
        return keep(sha256, *rest)

    monkeypatch.setattr(compiled_file, "keep", counted)
    return compiled


def write(folder: Path, **other: object) -> Path:
    path = folder / "tokenizer.json"
    described = description(
        [split(r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")],
        merges=[("a", "b"), ("ab", "ab"), (" ", " ")],
        added_tokens=[added("<s>", 300), added("<pad>", 301, lstrip=True, special=False)],
        post_processor={"type": "ByteLevel", "trim_offsets": True, "add_prefix_space": False, "use_regex": True},
        **other,  # type: ignore[arg-type]
    )
    path.write_text(json.dumps(described))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path, normalizer={"type": "NFC"})


def replace(path: Path, content: bytes) -> None:
    """As whoever changes a compiled file must: this process maps the old one."""
    other = path.with_name("other")
    other.write_bytes(content)
    other.replace(path)


def answers(tokenizer: engine.Tokenizer, text: str = TEXT) -> list[object]:
    session = tokenizer.session()
    for at in range(0, len(text), 40):
        session.append(text[at : at + 40])
    return [
        tokenizer.encode(text).tolist(),
        tokenizer.encode(text, add_special_tokens=True).tolist(),
        tokenizer.encode(text, split_special_tokens=True).tolist(),
        tokenizer.cuts(text).tolist(),
        session.ids().tolist(),
    ]


def test_every_family_answers_the_same_from_its_file(
    family: Family, kept: Path, builds: list[str], rng: random.Random
) -> None:
    texts = [TEXT, "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x20, 0xD800)))) for _ in range(800))]
    built = engine.load(family.source)
    read = engine.load(family.source)
    assert len(builds) == 1
    assert read.status == "native"
    assert (read.sha256, read.compiled_file) == (built.sha256, built.compiled_file)
    for text in texts:
        assert answers(read, text) == answers(built, text)
        assert read.encode(text).tolist() == family.reference.ids(text)
    assert family.is_tiktoken or not read.reference_made
    for text in texts:
        assert read.offsets(text).tolist() == built.offsets(text).tolist()
    ids = read.encode(TEXT).tolist()
    assert read.decode(ids) == built.decode(ids)
    assert read.reference_made


def test_offsets_of_long_runs_of_spaces(tmp_path: Path, kept: Path) -> None:
    """The white space of an id of 255 or more spaces does not fit the table's bytes."""
    path = tmp_path / "spaces.json"
    runs = [" " * (1 << n) for n in range(9)]
    described = description(
        [split(r"\s+|\S+")],
        merges=[(run, run) for run in runs],
        post_processor={"type": "ByteLevel", "trim_offsets": True, "add_prefix_space": False, "use_regex": True},
    )
    path.write_text(json.dumps(described))
    reference = HfTokenizer.from_file(str(path))
    for tokenizer in (engine.load(path), engine.load(path)):
        assert tokenizer.status == "native", tokenizer.reason
        for count in (1, 254, 255, 256, 257, 512, 1000):
            text = "x" + " " * count + "y"
            assert tokenizer.offsets(text).tolist() == [list(span) for span in reference.encode(text).offsets]


def test_a_refusal_is_kept_too(tmp_path: Path, kept: Path, builds: list[str]) -> None:
    path = write(tmp_path, normalizer={"type": "StripAccents"})
    first, second = engine.load(path), engine.load(path)
    assert len(builds) == 1
    assert (second.status, second.reason, second.sha256) == ("reference", first.reason, first.sha256)
    assert second.encode(TEXT).tolist() == first.encode(TEXT).tolist()


def test_what_is_no_tokenizer_is_refused_each_time(tmp_path: Path, kept: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"type": "BPE"}}')
    for _ in range(2):
        with pytest.raises(BadTokenizerError, match="the reference can't read"):
            engine.load(path)
    assert not (kept / "compiled").exists()


Damage = Callable[[bytearray], None]


def flip(at: float) -> Damage:
    def change(content: bytearray) -> None:
        content[int(at * (len(content) - 1))] ^= 0x10

    return change


def cut(to: float) -> Damage:
    def change(content: bytearray) -> None:
        del content[int(to * len(content)) :]

    return change


def overwrite(at: int, value: bytes) -> Damage:
    def change(content: bytearray) -> None:
        content[at : at + len(value)] = value

    return change


DAMAGES: dict[str, Damage] = {
    "longer": lambda content: content.extend(bytes(64)),
    "foreign": lambda content: content.__init__(b"{}"),  # type: ignore[misc]
    "zeros": overwrite(0, bytes(4096)),
    "other magic": overwrite(0, b"tokseam\r"),
    "other format": overwrite(16, (_native.IMAGE_FORMAT + 1).to_bytes(4, "little")),
    "many sections": overwrite(20, b"\xff" * 4),
    "one section": overwrite(20, b"\x01\x00\x00\x00"),
    "other key": overwrite(32, bytes(32)),
    **{f"cut at {to}": cut(to) for to in (0, 0.0001, 0.5, 0.999)},
    **{f"flipped at {at / 40}": flip(at / 40) for at in range(41)},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_made_anew(damage: str, source: Path, kept: Path, builds: list[str]) -> None:
    first = engine.load(source)
    path = first.compiled_file
    assert path is not None
    sound = path.read_bytes()
    content = bytearray(sound)
    DAMAGES[damage](content)
    assert content != sound
    replace(path, bytes(content))
    assert answers(engine.load(source)) == answers(first)
    assert len(builds) == 2
    assert path.read_bytes() == sound
    engine.load(source)
    assert len(builds) == 2


def test_every_byte_counts(source: Path, kept: Path, tmp_path: Path, rng: random.Random) -> None:
    """One flipped bit anywhere, or one byte less, is found."""
    path = engine.load(source).compiled_file
    assert path is not None
    sound, key = path.read_bytes(), compiled_file._key(engine.load(source).sha256)
    copy = tmp_path / "copy"
    copy.write_bytes(sound)
    _native.Image.open(str(copy), key)
    header = [(at, bit) for at in range(64) for bit in range(8)]
    for at, bit in [*header, *((rng.randrange(len(sound)), rng.randrange(8)) for _ in range(300)), (len(sound) - 1, 0)]:
        content = bytearray(sound)
        content[at] ^= 1 << bit
        copy.write_bytes(content)
        with pytest.raises(_native.BadImage):
            _native.Image.open(str(copy), key)


def test_the_file_of_another_tokenizer_is_not_taken(tmp_path: Path, kept: Path, builds: list[str]) -> None:
    first = engine.load(write(tmp_path))
    assert first.compiled_file is not None
    foreign = first.compiled_file.read_bytes()
    second = engine.load(write(tmp_path, normalizer={"type": "NFC"}))
    assert second.compiled_file not in (None, first.compiled_file)
    assert second.compiled_file is not None
    replace(second.compiled_file, foreign)
    assert answers(engine.load(tmp_path / "tokenizer.json")) == answers(second)
    assert len(builds) == 3


def test_another_reference_engine_makes_it_anew(
    source: Path, kept: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.load(source)
    monkeypatch.setattr(engines, "version", lambda dialect: f"another {dialect} 99.0")
    engine.load(source)
    assert len(builds) == 2
    engine.load(source)
    assert len(builds) == 2
    # Another build of the same version tells itself by its installer's record.
    monkeypatch.setattr(engines, "_installed", lambda name: ("99.0", "otherwise installed"))
    engine.load(source)
    assert len(builds) == 3


def test_a_reference_engine_that_is_gone_makes_it_anew(
    source: Path, kept: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = engine.load(source)

    def gone(name: str) -> tuple[str, str]:
        raise ModuleNotFoundError(name)

    with monkeypatch.context() as patched:
        patched.setattr(engines, "_installed", gone)
        assert compiled_file.find(loaded.sha256) is None
    assert compiled_file.find(loaded.sha256) is not None


def test_other_class_data_makes_it_anew(
    source: Path, kept: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""A table of \p{L} that is not the one it was compiled from."""
    monkeypatch.setattr(engines, "version", lambda dialect: f"{dialect} of this test {kept}")
    engine.load(source)
    engine.load(source)
    assert len(builds) == 1
    key = f"{engines.version('onig')}\0onig\0\\p{{L}}"
    table = cache.get("classes", key)
    assert table is not None
    cache.put("classes", key, table[:-1] + bytes([table[-1] ^ 1]))
    engine.load(source)
    assert len(builds) == 2
    engine.load(source)
    assert len(builds) == 2


def test_other_code_makes_it_anew(source: Path, kept: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    engine.load(source)
    monkeypatch.setattr(compiled_file, "_code_digest", lambda: "another build")
    engine.load(source)
    assert len(builds) == 2


def test_another_rank_file_makes_it_anew(tmp_path: Path, kept: Path, builds: list[str]) -> None:
    pytest.importorskip("tiktoken")
    import base64

    def ranks(*more: bytes) -> str:
        pieces = [*(bytes([byte]) for byte in range(256)), *more]
        return "".join(f"{base64.b64encode(piece).decode()} {rank}\n" for rank, piece in enumerate(pieces))

    (tmp_path / "r.tiktoken").write_text(ranks(b"ab"))
    path = tmp_path / "described.json"
    path.write_text(json.dumps({"ranks": "r.tiktoken", "pattern": r"\w+|\W+", "special_tokens": {"<s>": 400}}))
    first, again = engine.load(path), engine.load(path)
    assert len(builds) == 1
    assert not again.reference_made
    assert (again.sha256, again.encode("ab").tolist()) == (first.sha256, [256])
    (tmp_path / "r.tiktoken").write_text(ranks(b"ba", b"ab"))
    assert engine.load(path).encode("ab").tolist() == [257]
    assert len(builds) == 2
    with pytest.raises(BadTokenizerError, match="changed since"):
        again.decode([256])


def test_the_reference_is_of_what_was_loaded(source: Path, kept: Path) -> None:
    """Another file in its place later does not matter; changed in place, it is an error, never another tokenizer."""
    ids = engine.load(source).encode(TEXT).tolist()
    early, late = engine.load(source), engine.load(source)
    other = source.with_name("other")
    other.write_text("{}")
    with source.open("r+b") as file:
        other.replace(source)
        text = early.decode(ids)
        assert text == HuggingFaceReference.from_json(file.read()).decode(ids, False)
        file.seek(0)
        file.write(b" ")
    with pytest.raises(BadTokenizerError, match="changed in place"):
        late.decode(ids)
    assert late.encode(TEXT).tolist() == ids


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_folder_that_can_not_be_written(source: Path, kept: Path, builds: list[str]) -> None:
    (kept / "compiled").mkdir()
    (kept / "compiled").chmod(stat.S_IRUSR | stat.S_IXUSR)
    expected = answers(engine.load(source))
    assert answers(engine.load(source)) == expected
    assert len(builds) == 2


@pytest.mark.parametrize("place", ["a file", "/dev/null/none"])
def test_a_cache_that_is_no_folder(
    place: str, source: Path, kept: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "a file":
        (kept / "compiled").write_bytes(b"")
    else:
        monkeypatch.setenv("TOKSEAM_CACHE_DIR", place)
    tokenizer = engine.load(source)
    assert tokenizer.compiled_file is None
    assert tokenizer.encode(TEXT).tolist() == HfTokenizer.from_file(str(source)).encode(TEXT).ids
    assert len(builds) == 1


def test_a_file_that_can_not_be_read(source: Path, kept: Path, builds: list[str]) -> None:
    path = engine.load(source).compiled_file
    assert path is not None
    path.unlink()
    path.mkdir()  # can neither be read nor replaced
    tokenizer = engine.load(source)
    assert tokenizer.compiled_file is None
    assert len(builds) == 2
    assert list(path.parent.iterdir()) == [path]  # no half of a file stays behind


def test_only_the_last_used_are_kept(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_file, "MAX_FILES", 2)
    paths = []
    for at, form in enumerate(("NFC", "NFD", "NFKC")):
        source = write(tmp_path, normalizer={"type": form})
        path = engine.load(source).compiled_file
        assert path is not None
        os.utime(path, (at, at))
        paths.append(path)
    assert [path.exists() for path in paths] == [False, True, True]


def _load_and_answer(source: Path, start: object, results: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    for _ in range(3):
        results.put(answers(engine.load(source)))  # type: ignore[attr-defined]


def test_processes_that_build_at_once(source: Path, kept: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    workers = [context.Process(target=_load_and_answer, args=(source, start, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    start.set()
    found = [results.get(timeout=120) for _ in range(9)]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    expected = answers(engine.load(source))
    assert all(one == expected for one in found)
    assert len(list((kept / "compiled").iterdir())) == 1


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="this system does not tell what is mapped")
def test_the_tables_are_mapped_not_copied(source: Path, kept: Path) -> None:
    engine.load(source)
    tokenizer = engine.load(source)
    tokenizer.encode(TEXT)
    lines = Path("/proc/self/smaps").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if str(tokenizer.compiled_file) in line)
    assert lines[at].split()[1] == "r--s"
    sizes = dict(line.split()[:2] for line in lines[at + 1 : at + 24] if line.endswith("kB"))
    assert int(sizes["Anonymous:"]) == 0
