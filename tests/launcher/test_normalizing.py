"""Documents that a launch finds suspect, launched again by the chain that normalizes: ids, cuts and marks equal the
engine's, in batches of all kinds, and whatever fails in the second launch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from emulator.device import MOST_POINTS, Host
from emulator.test_normal_forms import FORMS, cluster, longest_cluster
from support import hostile
from support.synthetic import added, description, in_front, native, split
from tokseam.kernels import engine
from tokseam.kernels.cuda import buckets, plan
from tokseam.kernels.cuda.launcher import SYNCHRONIZATIONS, Launcher, open_launcher
from tokseam.kernels.errors import DeviceError

from .conftest import SMALL
from .fake_cupy import CUDARuntimeError, Fake, OutOfMemoryError
from .test_launcher import CALLS, Document, check

LITERALS = [added("<|end|>", 900), added("#!e", 901, special=False), added("  ", 902, normalized=True, special=False)]
PATTERN = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"


@cache
def tokenizer(form: str = "NFC") -> engine.Tokenizer:
    literals = LITERALS if form in ("NFC", "NFD") else LITERALS[:2]  # spaces come of others in the other forms
    merges = [("a", "b"), (" ", "a"), ("1", "2"), (" ", " ")]
    described = description([split(PATTERN)], merges=merges, added_tokens=literals, normalizer={"type": form})
    described["post_processor"] = in_front("<|end|>", 900)
    return native(described)[0]


SUSPECTS = [
    "e\u0301",
    "ab e\u0301 ab, a\u0323\u0301b\n\nab",
    "\u1100\u1161\u11a8",
    "\u212b ab",
    "<|end|>\u0301ab  e\u0301#!e\u0323",
]
PLAIN = ["ab ab, ab", "", "x" * 300, "<|end|>ab#!e"]


def documents(texts: list[str], **flags: bool) -> list[Document]:
    return [Document(text.encode(), **flags) for text in texts]


@pytest.mark.parametrize("form", FORMS)
def test_mixed_batches(launcher: Launcher, rng: random.Random, form: str) -> None:
    """Plain and suspect documents of every setting, in batches that fit no one bucket: only long clusters are left."""
    kinds = Host(tokenizer(form)).kinds()
    alphabet = hostile.atoms(["<|end|>", "#!e", "  "])
    suspects = 0
    for count in (1, 2, 30, 80):
        texts = []
        for _ in range(count):
            kind = rng.random()
            if kind < 0.4:
                texts.append("".join(rng.choices(("ab ", "12", ", ", "x\n", "  ", "<|end|>"), k=rng.randrange(60))))
            elif kind < 0.7:
                texts.append(hostile.hostile_text(rng, rng.randrange(25), alphabet))
            else:
                texts.append("".join(rng.choice(("ab ", "#!e", cluster(rng))) for _ in range(rng.randrange(150))))
        batch = [Document(text.encode(), *(rng.random() < 0.5 for _ in range(3))) for text in texts]
        left = check(tokenizer(form), launcher, batch)
        assert left == sum(longest_cluster(kinds, form, text) > MOST_POINTS for text in texts)
        suspects = launcher.counters.normalized
    assert suspects > 20
    assert launcher.counters.left < launcher.counters.normalized


def test_what_is_asked_of_the_device(launcher: Launcher, fake: Fake) -> None:
    """A second launch for the suspects alone, with its two waits; none where there are none."""
    batch = documents([*PLAIN, *SUSPECTS], marked=True)
    assert check(tokenizer(), launcher, batch) == 0
    fake.calls.clear()
    before = launcher.counters.launches
    assert check(tokenizer(), launcher, batch) == 0
    calls = dict(fake.calls)
    assert calls.pop("kernel_runs") > 2 * 34
    assert calls == {"upload": 10, "graph_launch": 2, "download": 14, "synchronize": 2 * SYNCHRONIZATIONS}
    assert launcher.counters.launches - before == 2
    assert launcher.counters.normalized == 2 * len(SUSPECTS)
    fake.calls.clear()
    assert check(tokenizer(), launcher, documents(PLAIN)) == 0
    assert fake.calls["graph_launch"] == 1


def test_what_the_second_launch_leaves(launcher: Launcher) -> None:
    """A cluster too long for a thread, and bad text: those alone."""
    texts = [b"e\xcc\x81", ("e" + "\u0334" * 200).encode(), b"e\xcc", b"ab", "\u0301".encode(), b"e\xcc\x81\xff"]
    found = launcher.encode(tokenizer(), [Document(text, marked=True) for text in texts])
    assert [one is None for one in found] == [False, True, True, False, False, True]
    assert (launcher.counters.normalized, launcher.counters.left) == (2, 3)
    check(tokenizer(), launcher, [Document(text, marked=True) for text in (texts[0], texts[1], *texts[3:5])])


def test_a_tokenizer_whose_normal_form_is_the_engines(launcher: Launcher) -> None:
    both = {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]}
    made = native(description([split(PATTERN)], normalizer=both))[0]
    found = launcher.encode(made, documents(["e\u0301", "ab", "\u00e9"]))
    assert [one is None for one in found] == [True, False, True]
    assert launcher.counters.launches == 1
    assert launcher.counters.normalized == 0


# ---- sizes ----


def capacities(form: str) -> list[plan.Capacity]:
    batch = tokenizer(form).device_batch()
    assert batch is not None
    assert batch.normalizes
    shape = plan.Shape(*batch.shape, normalizes=True)
    return buckets.buckets(SMALL.arena_bytes, shape, SMALL.smallest_bytes)


def test_a_form_that_grows_into_the_next_bucket(launcher: Launcher) -> None:
    """U+0958 becomes two characters: a batch that fits a bucket as it is, and by one character not in its form."""
    smallest = capacities("NFC")[0]
    fits = smallest.bytes // 6
    for count in (fits - 1, fits, fits + 1):
        before = launcher.counters.launches
        assert check(tokenizer(), launcher, documents(["\u0958" * count], marked=True)) == 0
        assert launcher.counters.launches - before == (2 if count <= fits else 3)
    assert launcher.counters.normalized == 3


def test_forms_that_fit_no_bucket(launcher: Launcher) -> None:
    """A batch whose forms are too large together is halved; a document whose form is too large alone is left."""
    largest = capacities("NFC")[-1].bytes
    many = documents(["\u0958" * (largest // 18)] * 4 + ["ab"])
    assert check(tokenizer(), launcher, many) == 0
    assert launcher.counters.normalized == 4
    one = documents(["e\u0301", "\u0958" * (largest // 6 + 1), "\u0958"])
    found = launcher.encode(tokenizer(), one)
    assert [answer is None for answer in found] == [False, True, False]


def test_memory_of_both_chains(launcher: Launcher, fake: Fake) -> None:
    """They share the arena; what the form needs beside the image is little, and told."""
    check(tokenizer(), launcher, documents([*PLAIN, *SUSPECTS]))
    batch = tokenizer().device_batch()
    assert batch is not None
    assert 8_704 < batch.beside.nbytes < 64 * 1024
    memory = launcher.memory
    assert memory.arena + memory.tables == fake.used_bytes
    assert batch.image.nbytes + batch.beside.nbytes <= memory.tables <= batch.image.nbytes + batch.beside.nbytes + 256


# ---- seeds ----


def test_seeds(launcher: Launcher, rng: random.Random) -> None:
    """Cuts and marks of suspect documents: sessions made of them live on, whatever is changed."""
    words = [
        "ab ",
        "12 ",
        ", ",
        "\n\n",
        "  ",
        "e\u0301 ",
        "\u1100\u1161\u11a8",
        "a\u0323\u0301",
        "\u212b",
        "<|end|>",
        "\u0301",
        "x",
    ]
    texts = ["".join(rng.choices(words, k=rng.choice((30, 400, 2_000)))) for _ in range(8)]
    batch = documents(texts, marked=True)
    assert check(tokenizer(), launcher, batch) == 0
    cuts = 0
    for text, answer in zip(texts, launcher.encode(tokenizer(), batch), strict=True):
        assert answer is not None
        cuts += len(answer.cuts)
        session = tokenizer().seeded_session(text, answer)
        for _ in range(12):
            at = rng.randrange(len(text) + 1)
            stop, more = rng.randrange(at, min(len(text), at + 9) + 1), rng.choice((*words, ""))
            session.edit(at, stop, more)
            text = text[:at] + more + text[stop:]
            assert session.ids().tolist() == tokenizer().encode(text).tolist()
        session.append("\u0301 and more")
        assert session.ids().tolist() == tokenizer().encode(text + "\u0301 and more").tolist()
    assert cuts > 20
    assert tokenizer().mismatches == 0


def test_marks_of_what_was_changed() -> None:
    """A piece that begins inside what normalization changed, at an odd place, is no cut's; one at an even place is."""
    batch = tokenizer().device_batch()
    assert batch is not None
    text = ("ab " * 2_000 + "e\u0301 " * 20 + "ab " * 2_000).encode()
    wanted = tokenizer().encode_marked(text)
    batch.stage([text], [False])
    cuts = wanted.cuts.astype(np.uint32)
    assert len(cuts) > 0
    starts = np.array([0, *(2 * cuts), 2 * len(text)], dtype=np.uint32)
    before = np.array([5, *(wanted.marks + 5), len(wanted.ids) + 5], dtype=np.uint32)
    found = batch.marks(0, text, False, starts, before, True)
    assert found is not None
    assert found[0].tolist() == wanted.cuts.tolist()
    assert found[1].tolist() == wanted.marks.tolist()
    for place in range(len(cuts)):
        odd = starts.copy()
        odd[1 + place] += 1
        assert batch.marks(0, text, False, odd, before, True) is None
    assert batch.marks(0, text, False, starts, before, False) is None


# ---- failures of the second launch ----


@pytest.fixture
def ready(fake: Fake) -> Iterator[Launcher]:
    """A launcher that has captured the plain chain, so that what is counted next is of the second launch."""
    made = open_launcher(SMALL)
    assert check(tokenizer(), made, documents(PLAIN, marked=True)) == 0
    yield made
    made.close()


#: Calls of the first launch of a batch: each one more is of the second.
FIRST = {"upload": 5, "download": 7, "graph_launch": 1, "synchronize": 2, "kernel_runs": 34}


@pytest.mark.parametrize("call", [call for call in (*CALLS, "kernel", "kernel_runs") if not call.startswith("alloc")])
def test_out_of_memory_is_tried_again(fake: Fake, ready: Launcher, call: str) -> None:
    """All of the batch, with half the arena, once; and the same ids. (The second launch takes no memory of its own.)"""
    batch = documents([*PLAIN, *SUSPECTS], marked=True)
    fake.fail(call, CUDARuntimeError(2), FIRST.get(call, 0))
    for _ in range(2):
        assert check(tokenizer(), ready, batch) == 0
    assert call not in fake._failures
    assert ready.counters.retries == 1
    assert ready.memory.arena == SMALL.arena_bytes // 2


@pytest.mark.parametrize("call", ["upload", "download", "graph_launch", "synchronize", "kernel_runs", "kernel"])
@pytest.mark.parametrize("status", [700, 719])
def test_a_lost_device(fake: Fake, ready: Launcher, call: str, status: int) -> None:
    fake.fail(call, CUDARuntimeError(status), FIRST.get(call, 0), for_good=True)
    with pytest.raises(DeviceError) as caught:
        ready.encode(tokenizer(), documents([*PLAIN, *SUSPECTS], marked=True))
    assert caught.value.lost
    assert ready.counters.normalized == 0


def test_a_refused_call_costs_one_batch(fake: Fake, ready: Launcher) -> None:
    fake.fail("graph_launch", CUDARuntimeError(1), FIRST["graph_launch"])
    with pytest.raises(DeviceError) as caught:
        ready.encode(tokenizer(), documents([*PLAIN, *SUSPECTS]))
    assert not caught.value.lost
    assert check(tokenizer(), ready, documents([*PLAIN, *SUSPECTS])) == 0


def test_an_arena_with_no_room_for_the_second_chain(fake: Fake) -> None:
    """It takes more memory than the plain one; where that has no bucket, suspects are left."""
    shape = plan.Shape(*tokenizer().device_batch().shape)  # type: ignore[union-attr]
    room = buckets.layout(buckets.capacity(SMALL.smallest_bytes), shape).nbytes
    limits = buckets.Limits(arena_bytes=room, arena_least_bytes=room, smallest_bytes=SMALL.smallest_bytes)
    launcher = open_launcher(limits)
    found = launcher.encode(tokenizer(), documents(["ab", "e\u0301"]))
    assert [one is None for one in found] == [False, True]
    launcher.close()
    with pytest.raises(DeviceError, match="closed"):
        launcher.encode(tokenizer(), documents(["ab"]))


def test_memory_that_is_gone_for_good(fake: Fake, ready: Launcher) -> None:
    """The batch is tried again twice, then left to the CPU in one line."""
    errors = iter([OutOfMemoryError("all taken")] * 9)

    def alloc(nbytes: int) -> Any:
        raise next(errors)

    fake.module.cuda.alloc = alloc
    fake.fail("graph_launch", CUDARuntimeError(2), FIRST["graph_launch"])
    with pytest.raises(DeviceError) as caught:
        ready.encode(tokenizer(), documents([*PLAIN, *SUSPECTS]))
    assert "\n" not in str(caught.value)
