"""The small parts: piece texts, patches, id packing, endpoints, core plans, the generated client."""

from __future__ import annotations

import doctest
import os
import random
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokseam.broker import endpoints, protocol
from tokseam.broker.endpoints import Claim, EndpointError, back_endpoint, check_endpoint
from tokseam.client import surface, text
from tokseam.client.errors import BadRequestError
from tokseam.client.ids import batches, flat_ids, packed_ids
from tokseam.client.session import change_between, patch_between
from tokseam.workers import pinning
from tokseam.workers.pinning import Core, Place, plan, plan_fresh
from tokseam.workers.speed import STALE_S, TELLING_BYTES, Speed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", [endpoints, surface, pinning])
def test_examples_in_docstrings(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_the_threads_client_is_what_is_generated() -> None:
    subprocess.run([sys.executable, str(ROOT / "scripts" / "unasync.py"), "--check"], check=True)


@pytest.mark.parametrize("seed", range(40))
def test_piece_text_equals_a_string(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "PIECES_MAX", 8 if seed % 2 else 512)
    dice = random.Random(seed)
    pieces, plain = text.PieceText("start 😀" * (seed % 3)), "start 😀" * (seed % 3)
    for _ in range(100):
        if dice.random() < 0.5:
            delta = "añ" * dice.randrange(4)
            pieces.append(delta)
            plain += delta
        else:
            start = dice.randrange(len(plain) + 1)
            stop = min(len(plain), start + dice.randrange(6))
            replacement = "xyz"[: dice.randrange(4)]
            pieces.edit(start, stop, replacement)
            plain = plain[:start] + replacement + plain[stop:]
        assert pieces.length == len(plain)
        assert len(pieces._pieces) <= text.PIECES_MAX
        if dice.random() < 0.2:
            assert str(pieces.copy()) == plain
    assert str(pieces) == plain


def test_an_append_does_not_touch_the_whole_text() -> None:
    long = "x" * 10_000_000
    pieces = text.PieceText(long)
    for _ in range(1000):
        pieces.append("some words")
    assert pieces._pieces[0][0] is long
    assert len(pieces._pieces) < 30
    pieces.edit(5_000_000, 5_000_001, "y")
    assert pieces._pieces[0][0] is long


@pytest.mark.parametrize("seed", range(20))
def test_changes_and_patches_lead_from_old_to_new(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(50):
        old = [dice.randrange(3) for _ in range(dice.randrange(12))]
        new = [dice.randrange(3) for _ in range(dice.randrange(12))]
        patch = patch_between(old, np.array(new, dtype=np.uint32))
        assert old[: patch.start] + patch.ids + old[patch.stop :] == new
        before, after = "".join("aé😀"[one] for one in old), "".join("aé😀"[one] for one in new)
        change = change_between(before, after)
        assert before[: change.start] + change.text + before[change.stop :] == after == change.whole


def test_ids_and_batches() -> None:
    assert packed_ids([]) == b""
    assert packed_ids([1, 2**32 - 1]) == b"\x01\0\0\0\xff\xff\xff\xff"
    assert packed_ids(np.array([7], dtype=np.int64)) == b"\x07\0\0\0"
    wrong: list[tuple[list[Any], int]] = [([1, -1], 1), ([2**32], 0), ([1, 2.5], 1), ([True], 0), ([None], 0)]
    for bad, position in wrong:
        with pytest.raises(BadRequestError) as caught:
            packed_ids(bad)
        assert caught.value.position == position
    groups = batches([b"a" * 200_000, b"b" * 100_000, b"", b"c" * 300_000])
    assert [len(group[1]) for group in groups] == [200_000, 100_000, 300_000]
    assert batches([]) == []
    assert flat_ids(np.array([2, 0, 1], "<u4").tobytes(), np.array([4, 5, 6], "<u4").tobytes()) == [[4, 5], [], [6]]


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("http://x", "ipc://PATH or tcp://HOST:PORT"),
        ("ipc://", "ipc://PATH or tcp://HOST:PORT"),
        ("ipc://@abstract", "a path in the file system"),
        ("ipc:///tmp/" + "x" * 120, "at most 107"),
        ("tcp://localhost", "tcp://HOST:PORT"),
        ("tcp://localhost:99999", "from 1 to 65535"),
        ("tcp://::1:7000", "in brackets"),
    ],
)
def test_bad_endpoints_say_why(endpoint: str, says: str) -> None:
    with pytest.raises(EndpointError, match=says.replace("(", r"\(")):
        check_endpoint(endpoint)


@pytest.mark.parametrize("umask", [0o022, 0o000])
@pytest.mark.parametrize("chosen", ["made before", "missing", "missing/and its parent"])
def test_the_runtime_directory_stays_where_it_is(
    chosen: str, umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may look for it before a broker makes it, and after."""
    folder = tmp_path / chosen
    if chosen == "made before":
        folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("TOKSEAM_ENDPOINT", raising=False)
    endpoint = protocol.default_endpoint()
    assert endpoint == f"ipc://{folder}/tokseam/front.sock"
    before = os.umask(umask)
    try:
        claim = Claim(endpoint)
    finally:
        os.umask(before)
    try:
        assert protocol.default_endpoint() == endpoint
        assert all(stat.S_IMODE(one.stat().st_mode) == 0o700 for one in (folder, folder / "tokseam"))
    finally:
        claim.release()


def test_a_runtime_directory_of_others_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for chosen in ("", "run/relative", str(open_to_all)):
        monkeypatch.setenv("XDG_RUNTIME_DIR", chosen)
        assert not protocol.runtime_directory().startswith((str(tmp_path), "run"))
        assert os.path.isabs(protocol.runtime_directory())
    # As another user, with this one's variable: nothing here is that user's, and neither is what lies in /tmp.
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(mine))
    assert protocol.runtime_directory() == f"{mine}/tokseam"
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 12_345)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert protocol.runtime_directory() == f"{tmp_path}/runtime-{user + 12_345}/tokseam"
    (tmp_path / f"runtime-{user + 12_345}").mkdir(mode=0o700)
    with pytest.raises(PermissionError, match="belongs to another user"):
        protocol.runtime_directory()


def test_good_endpoints() -> None:
    assert check_endpoint("tcp://[::1]:7000") == "tcp://[::1]:7000"
    assert check_endpoint("ipc:///tmp/a/../b.sock") == "ipc:///tmp/b.sock"
    assert back_endpoint("tcp://127.0.0.1:7000").endswith("/127-0-0-1-7000.w")
    assert back_endpoint("ipc:///tmp/b.sock") == "ipc:///tmp/b.sock.w"


def test_a_claim_harms_nothing(short_folder: Path) -> None:
    folder = short_folder / "claims"
    path = folder / "s"
    first = Claim(f"ipc://{path}")
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(EndpointError, match="another broker"):
        Claim(f"ipc://{path}")
    first.release()
    path.write_text("a file")
    with pytest.raises(EndpointError, match="not a socket"):
        Claim(f"ipc://{path}")
    assert path.read_text() == "a file"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(EndpointError, match="something listens"):
            Claim(f"ipc://{path}")
    Claim(f"ipc://{path}").release()  # the listener is dead: its socket goes
    assert not path.exists()
    folder.chmod(0o777)
    with pytest.raises(EndpointError, match="written by others"):
        Claim(f"ipc://{path}")
    folder.chmod(0o700)


def test_plans_spread_over_nodes_and_physical_cores() -> None:
    cores = [Core(cpu, cpu // 4, cpu % 2) for cpu in range(8)]  # two nodes of two cores of two threads
    seats = plan(10, cores)
    assert [seat.cpu for seat in seats if seat] == [0, 4, 2, 6, 1, 5, 3, 7]
    assert seats[8:] == [None, None]
    assert {core.cpu for core in pinning.allowed_cores()} == os.sched_getaffinity(0)


def test_fresh_workers_take_the_cores_that_are_left_or_give_way() -> None:
    cores = [Core(cpu, cpu // 4, 0) for cpu in range(8)]  # two nodes of four cores
    seats = plan(2, cores)
    assert plan_fresh(0, cores, seats) == []
    assert plan_fresh(1, cores, seats) == [Place((1, 2, 3, 5, 6, 7), 0)]
    assert plan_fresh(2, cores, seats) == [Place((1, 2, 3), 0), Place((5, 6, 7), 0)]
    assert plan_fresh(4, cores, seats) == [Place((1, 2), 0), Place((3, 5), 0), Place((6,), 0), Place((7,), 0)]
    giving_way = Place((), pinning.SHARED_NICE)
    assert plan_fresh(7, cores, seats) == [giving_way] * 7
    assert plan_fresh(1, cores, plan(8, cores)) == [giving_way]
    assert plan_fresh(1, cores, [None, None]) == [giving_way]  # unpinned: they may be anywhere


def test_a_speed_is_of_late_and_of_long_texts() -> None:
    speed = Speed()
    assert speed.bytes_per_s(0.0) == 0
    speed.note(TELLING_BYTES - 1, 0.0, 1.0)
    speed.note(TELLING_BYTES, 1.0, 1.0)
    assert speed.bytes_per_s(1.0) == 0
    speed.note(1_000_000, 1.0, 2.0)
    assert speed.bytes_per_s(2.0) == 1_000_000
    speed.note(4_000_000, 2.0, 3.0)
    assert 1_000_000 < speed.bytes_per_s(3.0) < 4_000_000
    later = 3.0 + STALE_S + 0.1
    assert speed.bytes_per_s(later) == 0
    speed.note(3_000_000, later, later + 1.0)  # what was before it says nothing any more
    assert speed.bytes_per_s(later + 1.0) == 3_000_000
    short = Speed(stale_s=2.0)
    short.note(1_000_000, 0.0, 1.0)
    assert (short.bytes_per_s(3.0), short.bytes_per_s(3.1)) == (1_000_000, 0)


def test_where_pinning_is_not_allowed_it_says_so() -> None:
    trouble = pinning.pin(100_000)
    assert trouble is not None
    assert "not allowed" in trouble
