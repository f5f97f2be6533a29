"""Admission against a small reference gives what admission against the whole one does, or gives way to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.families import Family
from support.synthetic import added, description, split
from tokseam.kernels import _native, engine
from tokseam.kernels.compile.admission import admit, admit_by_small_reference
from tokseam.kernels.compile.pipeline import Entries
from tokseam.kernels.reference import HuggingFaceReference

WORDS = split(r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def plain(**other: Any) -> dict[str, Any]:
    merges = [("a", "b"), ("ab", "ab"), (" ", " ")]
    tokens = [added("<s>", 259), added("<pad>", 260, lstrip=True)]
    return description([WORDS], merges=merges, **{"added_tokens": tokens, **other})


def test_the_same_tables(family: Family) -> None:
    if family.is_tiktoken:
        pytest.skip("no tokenizer.json")
    content = family.source.read_bytes()
    small = admit_by_small_reference(content)
    assert small is not None
    whole = admit(HuggingFaceReference.from_json(content), content)
    assert np.array_equal(small.image.data, whole.image.data)
    assert small.facts.pack() == whole.facts.pack()


def test_what_python_reads(family: Family) -> None:
    """Entries and merges are those of Python's own reading."""
    if family.is_tiktoken:
        pytest.skip("no tokenizer.json")
    content = family.source.read_bytes()
    model = json.loads(content)["model"]
    large = _native.TokenizerJson.read(content)
    assert large is not None
    vocab = {entry.encode(): id_ for entry, id_ in model["vocab"].items()}
    assert dict(Entries(*large.entries()).pairs()) == vocab
    expected = []
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        entries = model["vocab"]
        expected.append((entries[left], entries[right], rank, entries[left + right]))
    assert np.array_equal(large.merges(), np.array(expected, dtype=np.uint32).reshape(-1, 4))
    rest = json.loads(large.rest)
    assert rest["model"]["vocab"] == {}
    assert rest["model"]["merges"] == []
    assert {key: value for key, value in rest.items() if key != "model"} == {
        key: value for key, value in json.loads(content).items() if key != "model"
    }


UNUSUAL: dict[str, Callable[[str], str]] = {
    "a name that is escaped": lambda text: text.replace('"vocab"', '"voc\\u0061b"'),
    "a name that is there twice": lambda text: text.replace('"merges"', '"vocab": {}, "merges"'),
    "an entry that is there twice": lambda text: text.replace('"!": 33', '"!": 7, "!": 33'),
    "a merge of what is no entry": lambda text: text.replace('["a", "b"]', '["a", "zz"]'),
    "a merge of three": lambda text: text.replace('["a", "b"]', '"a b c"'),
    "an id that is no whole number": lambda text: text.replace('"!": 33', '"!": 33.0'),
    "an id with a sign": lambda text: text.replace('"!": 33', '"!": -33'),
    "an id with a zero in front": lambda text: text.replace('"!": 33', '"!": 033'),
    "an id that is too large": lambda text: text.replace('"!": 33', '"!": 4294967296'),
    "half a surrogate": lambda text: text.replace('"!": 33', '"\\ud800": 33'),
    "something behind it": lambda text: text + "{}",
    "cut short": lambda text: text[: len(text) // 2],
    "a token with another id": lambda text: text.replace('"id": 259', '"id": 400'),
    "a token twice": lambda text: text.replace('"content": "<pad>"', '"content": "<s>"'),
    "no model": lambda text: text.replace('"model"', '"mod"'),
    "not BPE": lambda text: text.replace('"BPE"', '"WordLevel"'),
    "a normalizer that is not understood": lambda text: text.replace(
        '"normalizer": null', '"normalizer": {"type": "StripAccents"}'
    ),
    "a normalizer that does not exist": lambda text: text.replace('"normalizer": null', '"normalizer": {"type": "X"}'),
}


@pytest.mark.parametrize("change", UNUSUAL)
def test_what_is_unusual_goes_to_the_whole_reference(change: str) -> None:
    usual = json.dumps(plain())
    assert admit_by_small_reference(usual.encode()) is not None
    changed = UNUSUAL[change](usual)
    assert changed != usual
    assert admit_by_small_reference(changed.encode()) is None


def test_bytes_that_are_no_text_go_there_too() -> None:
    content = json.dumps(plain()).encode()
    for wrong in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe4\xbd"):
        assert _native.TokenizerJson.read(content.replace(b'"!": 33', b'"' + wrong + b'": 33')) is None


@given(
    st.dictionaries(st.text(max_size=6), st.integers(0, 2**32 - 2), max_size=12),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_every_string_reads_as_python_reads_it(vocab: dict[str, int], ascii_only: bool, indent: int | None) -> None:
    """Escapes, white space and all."""
    try:
        content = json.dumps(
            {"merges": [], "model": {"vocab": vocab, "x": [{}, [1.5e3, "]}"], None], "merges": []}, "tail": '\\"{'},
            ensure_ascii=ascii_only,
            indent=indent,
        ).encode()
    except UnicodeEncodeError:
        return
    large = _native.TokenizerJson.read(content)
    assert large is not None
    assert [(entry.decode(), id_) for entry, id_ in Entries(*large.entries()).pairs()] == list(vocab.items())
    assert all(large.find(entry) == id_ for entry, id_ in vocab.items())
    assert large.find("no such entry") is None
    assert json.loads(large.rest)["tail"] == '\\"{'


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the compiled tokenizer errs, the small reference sees it: here its merges lose their first one."""
    content = json.dumps(plain()).encode()
    from tokseam.kernels.compile import admission

    def damaged(pipeline: Any) -> Any:
        pipeline.merges = pipeline.merges[1:]
        return compile_pipeline(pipeline)

    compile_pipeline = admission.compile_pipeline
    monkeypatch.setattr(admission, "compile_pipeline", damaged)
    monkeypatch.setattr(admission, "_PROBE_TEXT", "ab abab")
    assert admit_by_small_reference(content) is None
    monkeypatch.undo()
    monkeypatch.setattr(admission, "_PROBE_TEXT", "ab abab")
    assert admit_by_small_reference(content) is not None


def test_loading_makes_no_whole_reference(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(plain(added_tokens=[added(str(tmp_path), 259)])))
    tokenizer = engine.load(path)
    assert (tokenizer.status, tokenizer.reference_made) == ("native", False)
    assert tokenizer.decode(tokenizer.encode("ab abab").tolist()) == "ab abab"
    assert tokenizer.reference_made
