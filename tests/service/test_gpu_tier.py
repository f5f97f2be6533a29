"""A running tier whose fresh worker has a GPU that is none: through the broker, and when it is lost on the way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from emulator import build
from service_support import FAST
from test_fresh_tier import THRESHOLD, all_ready, fresh_worker, whole_text
from tokenizers import Tokenizer
from tokseam.client import Tier, connect
from tokseam.scripts.serve import RunningTier, running_tier

Reference = Callable[..., list[int]]

STANDING_IN = Path(__file__).resolve().parents[1] / "launcher" / "standing_in"
LOST_AFTER = 6


@pytest.fixture(scope="module")
def gpu_tier(short_folder: Path, deepseek: Path) -> Iterator[RunningTier]:
    if build.compiler() is None:
        pytest.skip("no C++ compiler to build the emulated kernels with")
    build.kernels()  # here, so that the worker need not
    settings = {"PYTHONPATH": str(STANDING_IN), "TOKSEAM_TEST_LOST_AFTER": str(LOST_AFTER)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        arguments = [*FAST, "--validate", "--fresh-threshold", str(THRESHOLD)]
        with running_tier({"ds": deepseek}, endpoint=f"ipc://{short_folder}/gpu.sock", arguments=arguments) as running:
            yield running


def engine_of(client: Tier) -> str:
    return str(fresh_worker(client)["engine"])


def test_by_the_gpu_and_when_it_is_lost(gpu_tier: RunningTier, reference: Reference) -> None:
    """Sessions begin on the GPU and go on with their owners; once it is lost, on the CPU, and no answer is."""
    with connect(gpu_tier.endpoint) as client:
        all_ready(client)
        assert engine_of(client) == "gpu, Fake 1000"
        for number in range(2 * LOST_AFTER):
            text = whole_text(number)
            with client.session(f"gpu-{number}") as session:
                assert session.encode(text) == reference(text)
                assert session.last.path == "fresh"  # type: ignore[union-attr]
                assert session.append(" and more") == reference(text + " and more")
                assert session.last.path == "append"  # type: ignore[union-attr]
        assert engine_of(client).startswith("cpu")
        assert fresh_worker(client)["engine_failures"] == 1
        texts = [whole_text(number) for number in range(10)]
        assert client.encode_batch(texts) == [reference(text) for text in texts]


def test_normal_forms(short_folder: Path, deepseek: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions whose texts a normalizer changes begin on the GPU too, and go on with their owners."""
    monkeypatch.setenv("PYTHONPATH", str(STANDING_IN))
    path = tmp_path / "nfc.json"
    path.write_text(json.dumps(json.loads(deepseek.read_bytes()) | {"normalizer": {"type": "NFC"}}))
    plain = Tokenizer.from_file(str(path))

    def reference(text: str) -> list[int]:
        ids: list[int] = plain.encode(text, add_special_tokens=False).ids
        return ids

    arguments = [*FAST, "--validate", "--fresh-threshold", str(THRESHOLD)]
    endpoint = f"ipc://{short_folder}/forms.sock"
    with (
        running_tier({"nfc": path}, endpoint=endpoint, arguments=arguments) as running,
        connect(running.endpoint) as client,
    ):
        all_ready(client)
        assert engine_of(client) == "gpu, Fake 1000"
        for number in range(4):
            text = whole_text(number).replace("naïve", "nai\u0308ve \u1100\u1161\u11a8")
            assert reference(text) != reference(whole_text(number))
            with client.session(f"forms-{number}") as session:
                assert session.encode(text) == reference(text)
                assert session.last.path == "fresh"  # type: ignore[union-attr]
                assert session.append("e") == reference(text + "e")
                assert session.append("\u0301 and more") == reference(text + "e\u0301 and more")
                session.edit(5, 9, "\u0327")
                assert session.ids == reference(text[:5] + "\u0327" + text[9:] + "e\u0301 and more")
        assert fresh_worker(client)["engine_failures"] == 0
        assert engine_of(client) == "gpu, Fake 1000"


def test_the_setting(short_folder: Path, deepseek: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOKSEAM_GPU=0 keeps CuPy from being imported at all: here it would fail."""
    monkeypatch.setenv("PYTHONPATH", str(STANDING_IN))
    monkeypatch.setenv("TOKSEAM_TEST_LOST_AFTER", "not a number")
    monkeypatch.setenv("TOKSEAM_GPU", "0")
    assert "TOKSEAM_GPU" in os.environ
    with (
        running_tier({"ds": deepseek}, endpoint=f"ipc://{short_folder}/no-gpu.sock", arguments=FAST) as running,
        connect(running.endpoint) as client,
    ):
        all_ready(client)
        assert engine_of(client).startswith("cpu")
