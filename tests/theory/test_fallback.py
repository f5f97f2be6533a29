"""A proof that does not hold is caught, counted, reported and answered by the reference; threads share an engine."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from support.synthetic import description, split
from tokseam.kernels import engine
from tokseam.kernels.compile.admission import admit
from tokseam.kernels.reference import HuggingFaceReference

WORDS = description([split(r"[^ ]+| +")], merges=[("a", "b"), ("b", "c"), ("ab", "c"), (" ", " ")])


def broken(**tables: object) -> engine.Tokenizer:
    """A tokenizer whose compiled tables were damaged after its admission."""
    content = json.dumps(WORDS).encode()
    reference = HuggingFaceReference.from_json(content)
    compiled = admit(reference, content)
    return engine.Tokenizer(reference, dataclasses.replace(compiled, native=compiled.native | tables), "")


def sound() -> engine.Tokenizer:
    return broken()


def all_pairs() -> np.ndarray:
    content = json.dumps(WORDS).encode()
    return np.ones_like(admit(HuggingFaceReference.from_json(content), content).native["pairs"])


def test_a_cut_inside_a_piece_is_caught_at_the_first_long_text() -> None:
    ours = broken(pairs=all_pairs())  # every position claims to be synchronizing
    session = ours.session()
    text = "abc" * 1000
    session.reset(text)
    assert session.work.path == "reference"
    assert ours.mismatches == 1
    (report,) = ours.reports
    assert report.text_sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert report.text_chars == len(text)
    assert "not a piece boundary" in report.what
    assert session.ids().tolist() == sound().encode(text).tolist()


def test_after_a_mismatch_the_session_goes_on_exactly(rng: random.Random) -> None:
    ours, right = broken(pairs=all_pairs()), sound()
    for _ in range(20):
        session = ours.session()
        text = "abc" * 1000
        session.reset(text)  # caught here, as above
        assert session.work.path == "reference"
        mirror = session.ids().tolist()
        for _ in range(15):
            start = rng.randint(0, len(text))
            stop = min(len(text), start + rng.choice((0, 0, 5, 700)))
            new = "".join(rng.choices("abc ", weights=(5, 5, 5, 1), k=rng.choice((1, 8, 600, 1500))))
            splice = session.edit(start, stop, new)
            text = text[:start] + new + text[stop:]
            mirror[splice.start : splice.stop] = splice.ids.tolist()
            assert mirror == session.ids().tolist() == right.encode(text).tolist()
            assert session.text() == text
            if rng.random() < 0.2:
                session = session.fork()
    assert ours.mismatches == 20


def test_threads_share_one_engine(rng: random.Random) -> None:
    ours = sound()
    texts = ["".join(rng.choices("abc  xy\u00e9\u4e00", k=rng.randint(1, 4000))) for _ in range(40)]
    expected = [ours.encode(text).tolist() for text in texts]
    base = ours.session()
    base.reset(texts[0])

    def work(index: int) -> bool:
        session = base.fork()
        session.append(texts[index])
        whole = ours.encode(texts[0] + texts[index]).tolist()
        return ours.encode(texts[index]).tolist() == expected[index] and session.ids().tolist() == whole

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, list(range(len(texts))) * 5))
    assert base.ids().tolist() == expected[0]
