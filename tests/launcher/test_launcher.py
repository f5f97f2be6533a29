"""The launcher over a CuPy that is none: ids, cuts and marks equal the engine's; what it asks of a device, and when."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from emulator import documents as drawn
from support import hostile
from support.families import Family
from support.synthetic import added, description, in_front, native, split
from tokseam.kernels import _native, engine
from tokseam.kernels.cuda import buckets, device, plan
from tokseam.kernels.cuda.launcher import SYNCHRONIZATIONS, Launcher, open_launcher
from tokseam.kernels.errors import DeviceError, NoDeviceError

from .conftest import SMALL
from .fake_cupy import CompileException, CUDARuntimeError, Fake, OutOfMemoryError

LITERALS = [added("<|end|>", 900), added("#!x", 901, special=False)]


class Document(NamedTuple):
    text: bytes
    add_special_tokens: bool = False
    split_special_tokens: bool = False
    marked: bool = False


def check(tokenizer: engine.Tokenizer, launcher: Launcher, batch: Sequence[Document]) -> int:
    """Encode a batch and compare every document that is not left. Returns how many are."""
    found = launcher.encode(tokenizer, batch)
    assert len(found) == len(batch)
    for document, one in zip(batch, found, strict=True):
        if one is None:
            continue
        mode = {
            "add_special_tokens": document.add_special_tokens,
            "split_special_tokens": document.split_special_tokens,
        }
        wanted = tokenizer.encode_marked(document.text, **mode)
        where = f"{document} of {len(batch)}"
        assert one.ids.tolist() == wanted.ids.tolist(), where
        assert one.cuts.tolist() == (wanted.cuts.tolist() if document.marked else []), where
        assert one.marks.tolist() == (wanted.marks.tolist() if document.marked else []), where
        assert one.ids.dtype == one.cuts.dtype == one.marks.dtype == np.uint32
    return sum(one is None for one in found)


def test_batches_of_each_family(family: Family, launcher: Launcher, fake: Fake, rng: random.Random) -> None:
    """Mixed documents under every setting, in batches that fit no single bucket."""
    alphabet = hostile.atoms(family.literals)
    for count in (1, 3, 40):
        texts = [text.encode()[:6_000] for text in drawn.batch(rng, alphabet, family.literals, count)]
        batch = [Document(text, *(rng.random() < 0.5 for _ in range(3))) for text in texts]
        check(family.engine, launcher, batch)
    assert fake.calls["synchronize"] == SYNCHRONIZATIONS * launcher.counters.launches + launcher.counters.graphs + 1


@pytest.fixture(scope="module")
def tokenizer() -> engine.Tokenizer:
    """A small one, with literals and a template's ids around a text."""
    described = description([split(r"\p{L}+|\s+|[^\s\p{L}]")], merges=[("a", "b"), (" ", " ")], added_tokens=LITERALS)
    described["post_processor"] = in_front("<|end|>", 900)
    return native(described)[0]


TEXTS = [b"ab ab, ab", b"", b"x" * 300, b"<|end|>ab#!x", "naïve 中文".encode()]


def test_a_launch_asks_for_little(launcher: Launcher, fake: Fake, tokenizer: engine.Tokenizer) -> None:
    """A second batch of a bucket: nothing allocated or compiled, one graph, two waits, and copies of what is there."""
    batch = [Document(text) for text in TEXTS]
    check(tokenizer, launcher, batch)
    fake.calls.clear()
    check(tokenizer, launcher, batch)
    calls = dict(fake.calls)
    assert calls.pop("kernel_runs") > 20
    assert calls == {"upload": 5, "graph_launch": 1, "download": 5, "synchronize": SYNCHRONIZATIONS}
    fake.calls.clear()
    check(tokenizer, launcher, [one._replace(marked=True) for one in batch])
    assert fake.calls["download"] == 7  # where pieces begin, and their ids: only for what is to be seeded
    assert fake.calls["synchronize"] == SYNCHRONIZATIONS


def test_ids_are_views_of_one_array(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    found = [one for one in launcher.encode(tokenizer, [Document(text) for text in TEXTS]) if one is not None]
    assert len({id(one.ids.base) for one in found}) == 1
    kept = [one.ids.copy() for one in found]
    launcher.encode(tokenizer, [Document(text[::-1] * 3) for text in TEXTS[:3]])
    assert all((one.ids == before).all() for one, before in zip(found, kept, strict=True))  # no later launch shows


@pytest.mark.parametrize("by", ["bytes", "spans", "documents"])
def test_every_border_of_a_bucket(launcher: Launcher, tokenizer: engine.Tokenizer, by: str) -> None:
    """Batches one short of a capacity, just of it, and one beyond, in each of its three measures."""
    shape = plan.Shape(*tokenizer.device_batch().shape)  # type: ignore[union-attr]
    smallest = buckets.buckets(SMALL.arena_bytes, shape, SMALL.smallest_bytes)[0]
    for more in (-1, 0, 1):
        if by == "bytes":
            batch = [Document(b"ab " * 10), Document(b"a" * (smallest.bytes + more - 30))]
        elif by == "spans":  # each literal is a span
            count = smallest.spans + more
            batch = [Document(b"<|end|>" * (count // 2)), Document(b"<|end|>" * (count - count // 2))]
        else:
            batch = [Document(b"a")] * (smallest.documents + more)
        graphs = launcher.counters.graphs
        assert check(tokenizer, launcher, batch) == 0
        assert launcher.counters.graphs - graphs == (more != 0)  # the first one, and the one beyond it


def test_a_batch_larger_than_the_largest_bucket_is_parted(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    shape = plan.Shape(*tokenizer.device_batch().shape)  # type: ignore[union-attr]
    largest = buckets.buckets(SMALL.arena_bytes, shape, SMALL.smallest_bytes)[-1]
    batch = [Document(b"ab ab " * (largest.bytes // 18)) for _ in range(4)]
    assert check(tokenizer, launcher, batch) == 0
    assert launcher.counters.launches == 2
    # One that alone is too large is left; those around it are not.
    batch = [Document(b"ab"), Document(b"ab" * largest.bytes), Document(b"ba")]
    assert [one is None for one in launcher.encode(tokenizer, batch)] == [False, True, False]


def test_what_staging_adds_is_seen(launcher: Launcher) -> None:
    """Spaces that become three bytes each: a part that fits before staging and not after is halved."""
    characters = description([], pre_tokenizer=None)
    characters |= {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}}
    letters = ["<unk>", *"\u2581ab", "ab", *(f"<0x{byte:02X}>" for byte in range(256))]
    characters["model"] |= {
        "vocab": {entry: number for number, entry in enumerate(letters)},
        "merges": [["a", "b"]],
        "unk_token": "<unk>",
        "byte_fallback": True,
    }
    tokenizer = native(characters)[0]
    largest = buckets.buckets(
        SMALL.arena_bytes,
        plan.Shape(*tokenizer.device_batch().shape),  # type: ignore[union-attr]
        SMALL.smallest_bytes,
    )[-1]
    batch = [Document(b" a" * (largest.bytes // 8), marked=True) for _ in range(4)]
    assert check(tokenizer, launcher, batch) == 0
    assert launcher.counters.launches > 1


def test_bad_text_is_left(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    batch = [Document(b"\xff"), Document(b"ab", marked=True), Document(b"\xe4\xb8"), Document(b"")]
    found = launcher.encode(tokenizer, batch)
    assert [one is None for one in found] == [True, False, True, False]
    assert launcher.counters.left == 2


def test_memory_is_bounded_and_told(launcher: Launcher, fake: Fake, tokenizer: engine.Tokenizer) -> None:
    """Any number of tokenizers: the arena, and the tables of the last two."""
    others = [native(description([split(rf"\p{{L}}{{1,{n}}}|[^\p{{L}}]+")]))[0] for n in range(1, 6)]
    for one in [tokenizer, *others, tokenizer]:
        check(one, launcher, [Document(text) for text in TEXTS])
        memory = launcher.memory
        assert memory.arena <= SMALL.arena_bytes
        assert memory.arena + memory.tables == fake.used_bytes
        assert len(launcher._residents) <= SMALL.tokenizers
    assert 0 < launcher.memory.pinned <= 64 * 1024
    launcher.close()
    assert fake.used_bytes == 0
    with pytest.raises(DeviceError, match="closed") as caught:
        launcher.encode(tokenizer, [Document(b"ab")])
    assert caught.value.lost


def test_the_tokenizer_that_was_used_last_stays(launcher: Launcher, fake: Fake, tokenizer: engine.Tokenizer) -> None:
    others = [native(description([split(rf"\p{{N}}{{1,{n}}}|[^\p{{N}}]+")]))[0] for n in (1, 2)]
    for one in (tokenizer, others[0], tokenizer, others[1]):
        check(one, launcher, [Document(b"ab")])
    before = fake.calls["alloc"]
    check(tokenizer, launcher, [Document(b"ab")])
    assert fake.calls["alloc"] == before
    check(others[0], launcher, [Document(b"ab")])
    assert fake.calls["alloc"] == before + 1


def test_a_templates_ids_stand_around_a_text(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    batch = [Document(text, add_special_tokens=True, marked=True) for text in TEXTS]
    assert check(tokenizer, launcher, batch) == 0
    found = launcher.encode(tokenizer, batch)
    assert all(one is not None and one.ids[0] == 900 for one in found)


def test_what_lies_on_the_device(launcher: Launcher, fake: Fake, tokenizer: engine.Tokenizer) -> None:
    """Four zero bytes behind the text, whatever was there before."""
    for size in (400, 30):
        launcher.encode(tokenizer, [Document(b"x" * size)])
    arena = launcher._arena
    assert arena is not None
    resident = launcher._residents[tokenizer.sha256]
    assert resident is not None
    (where, _, _), *_ = resident.plain.captured.values()
    begin = where.offset("text")
    text = arena.owner.array[begin : begin + 34].tobytes()
    assert text == b"x" * 30 + bytes(4)


def test_the_chain_as_kernels_take_it() -> None:
    tables, pointers = bytes(range(256)) * 4, [1000 + number for number in range(len(device_buffers()))]
    tables = tables[: _native.DEVICE_TABLES_BYTES].ljust(_native.DEVICE_TABLES_BYTES, b"\7")
    chain = device.packed_chain(tables, pointers, plan.Capacity(77, 55, 33))
    assert chain.size == 1
    assert chain.flags.writeable
    packed = chain.tobytes()
    assert packed[: len(tables)] == tables
    assert np.frombuffer(packed[len(tables) : -16], dtype=np.uint64).tolist() == pointers
    assert np.frombuffer(packed[-16:], dtype=np.uint32).tolist() == [77, 55, 33, 0]
    with pytest.raises(ValueError, match="a chain has"):
        device.packed_chain(tables, pointers[1:], plan.Capacity(77, 55, 33))


def device_buffers() -> list[plan.BufferSpec]:
    return plan.buffers(plan.Capacity(1, 1, 1), plan.Shape(0, 0, 1, False))


def test_kernels_are_compiled_once(launcher: Launcher, fake: Fake, tokenizer: engine.Tokenizer) -> None:
    check(tokenizer, launcher, [Document(b"ab")])
    assert fake.calls["compile"] == 1
    (source,) = fake.sources
    digest, include, layout = source.splitlines()
    assert len(digest) == 67  # the cache must see a change of any header
    assert include == '#include "kernels.cu"'
    assert f"== {device.CHAIN_BYTES}" in layout


# ---- failures ----

CALLS = ("alloc", "alloc_pinned", "upload", "download", "begin_capture", "graph_upload", "graph_launch", "synchronize")


@pytest.mark.parametrize("call", [*CALLS, "kernel", "kernel_runs"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_out_of_memory_is_tried_again(fake: Fake, tokenizer: engine.Tokenizer, call: str, after: int) -> None:
    """Wherever it strikes, once: half the arena, and the same ids."""
    launcher = open_launcher(SMALL)
    batch = [Document(text, marked=True) for text in TEXTS]
    fake.fail(call, OutOfMemoryError("all taken") if call.startswith("alloc") else CUDARuntimeError(2), after)
    for _ in range(3):
        check(tokenizer, launcher, batch)
    struck = call not in fake._failures
    assert launcher.counters.retries == struck
    if struck:  # the smaller arena was asked for when everything, tables too, was given back
        assert 0 in fake.used_at_allocs[2 if call != "alloc" or after else 1 :]
    assert launcher.memory.arena == SMALL.arena_bytes >> struck
    assert fake.used_bytes == launcher.memory.arena + launcher.memory.tables


@pytest.mark.parametrize("call", [*CALLS, "kernel", "kernel_runs"])
@pytest.mark.parametrize("status", [700, 719, 214, 999, 46])
def test_a_lost_device(fake: Fake, tokenizer: engine.Tokenizer, call: str, status: int) -> None:
    """Wherever it strikes: one error that says so, and the device is not touched again."""
    launcher = open_launcher(SMALL)
    fake.fail(call, CUDARuntimeError(status), for_good=True)
    with pytest.raises(DeviceError) as caught:
        check(tokenizer, launcher, [Document(text) for text in TEXTS])
    assert caught.value.lost
    assert "\n" not in str(caught.value)
    calls = dict(fake.calls)
    with pytest.raises(DeviceError) as again:
        launcher.encode(tokenizer, [Document(b"ab")])
    assert again.value.lost
    assert str(again.value) == str(caught.value)
    assert fake.calls == calls
    launcher.close()
    launcher.close()


@pytest.mark.parametrize("call", ["upload", "graph_launch", "download", "kernel"])
def test_a_refused_call_costs_one_batch(fake: Fake, tokenizer: engine.Tokenizer, call: str) -> None:
    launcher = open_launcher(SMALL)
    fake.fail(call, CUDARuntimeError(1))
    with pytest.raises(DeviceError) as caught:
        launcher.encode(tokenizer, [Document(b"ab")])
    assert not caught.value.lost
    check(tokenizer, launcher, [Document(text) for text in TEXTS])
    assert launcher.memory.arena == SMALL.arena_bytes


def test_memory_that_stays_away(fake: Fake, tokenizer: engine.Tokenizer) -> None:
    """Somebody else took all of it: the launcher gives up, in words, and for good."""
    launcher = open_launcher(SMALL)
    fake.memory_bytes = 0
    with pytest.raises(DeviceError, match="1 MiB of device memory") as caught:
        launcher.encode(tokenizer, [Document(b"ab")])
    assert caught.value.lost


def test_an_error_that_is_not_the_devices_is_passed_on(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    with pytest.raises(TypeError):
        launcher.encode(tokenizer, [Document("a str, not bytes")])  # type: ignore[arg-type]
    check(tokenizer, launcher, [Document(b"ab")])


# ---- no device ----


def test_no_device(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way in which there is none is one line."""

    def opened(says: str) -> None:
        with pytest.raises(NoDeviceError, match=says) as caught:
            open_launcher(SMALL)
        assert "\n" not in str(caught.value)

    fake.fail("device_count", CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected"))
    opened("no device")
    fake.driver_version = 0
    fake.fail("device_count", CUDARuntimeError(35))
    opened("no NVIDIA driver")
    fake.driver_version = 11040
    fake.fail("device_count", CUDARuntimeError(35))
    opened(r"for CUDA 11\.4, CuPy for CUDA 13\.0")
    fake.capability = "75"
    opened(r"Fake 1000 has compute capability 7\.5; the kernels need 8\.0")
    fake.capability = "90"
    fake.fail("compile", CompileException("\n-----\nkernels.cu(3): error: no such thing\n"))
    opened(r"do not compile here: kernels\.cu\(3\)")
    fake.fail("compile", RuntimeError('Failure finding "libnvrtc.so.12": No such file\nand where it looked'))
    opened("Failure finding")
    fake.fail("stream", CUDARuntimeError(46, "cudaErrorDevicesUnavailable: busy or unavailable"))
    opened("busy or unavailable")
    fake.fail("memory_info", CUDARuntimeError(999, "cudaErrorUnknown"))
    opened("cudaErrorUnknown")
    fake.memory_bytes = 1 << 20
    opened("1 MiB of device memory")
    monkeypatch.setitem(sys.modules, "cupy", None)
    opened(r"CuPy is not installed \(`pip install tokseam\[gpu\]`\)")


def test_a_crowded_device_gives_a_smaller_arena(fake: Fake, tokenizer: engine.Tokenizer) -> None:
    fake.fail("alloc", OutOfMemoryError("all taken"))
    launcher = open_launcher(SMALL)
    assert launcher.memory.arena == SMALL.arena_bytes // 2
    check(tokenizer, launcher, [Document(text) for text in TEXTS])


# ---- boundaries and times ----


def test_pieces_of_each_family(family: Family, launcher: Launcher, rng: random.Random) -> None:
    """Boundaries too equal the engine's: ids alone hide a wrong one that no merge spans."""
    alphabet = hostile.atoms(family.literals)
    for count in (1, 25):
        texts = [text[:1_000] for text in drawn.batch(rng, alphabet, family.literals, count)]
        found = launcher.pieces(family.engine, [text.encode() for text in texts])
        for text, one in zip(texts, found, strict=True):
            if one is not None:
                assert one.tolist() == family.engine.pieces(text).tolist(), text


def test_times(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    """A kernel takes a millisecond here: the graph all of the chain, pre-tokenization what stands before the merges."""
    measured = launcher.measure(tokenizer, TEXTS[:3], repeats=3)
    assert measured is not None
    launches = plan.launches(measured.capacity, measured.shape)
    assert measured.kernels == pytest.approx(len(launches) / 1000)
    before = [one.kernel for one in launches].index("report_pieces") + 1
    assert measured.pre_tokenization == pytest.approx(before / 1000)
    assert sum(measured.by_kernel.values()) == pytest.approx(measured.kernels)
    assert measured.totals["bytes"] == sum(map(len, TEXTS[:3]))
    assert launcher.measure(tokenizer, [b"a" * SMALL.arena_bytes], repeats=1) is None


def test_arrays_of_a_batch(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    """Many small texts without an object for each; and which of them are left."""
    batch = [*TEXTS, b"\xff bad", b"ab"]
    found = launcher.encode_arrays(tokenizer, batch)
    assert found is not None
    ids, begins, left = found
    assert left == [len(TEXTS)]
    for number, text in enumerate(batch):
        if number not in left:
            assert ids[begins[number] : begins[number + 1]].tolist() == tokenizer.encode(text).tolist()
    assert launcher.encode_arrays(tokenizer, [b"a" * SMALL.arena_bytes]) is None


def test_a_bad_byte_anywhere(launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    """Validity is looked at eight bytes at a time: bad and good characters at every place of such a stretch."""
    characters = (
        b"\x80",
        b"\xc3",
        b"\xe4\xb8",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"\xc3\xa9",
        b"\xe4\xb8\xad",
    )
    batch = [b"a" * at + one + b"b" * behind for one in characters for at in range(17) for behind in (0, 3, 9)]
    for text, one in zip(batch, launcher.encode(tokenizer, [Document(text) for text in batch]), strict=True):
        try:
            text.decode()
        except UnicodeDecodeError:
            assert one is None, text
        else:
            assert one is not None, text
