"""The `tokseam` command besides `serve`: what it prints, its environment twins, how it fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tokseam.scripts.cli import COMMANDS, main
from tokseam.scripts.serve import RunningTier


@pytest.fixture
def tokseam(deepseek: Path) -> Callable[..., Result]:
    def run(*arguments: str, stdin: bytes | str = "", **environment: Any) -> Result:
        kept = {name: None for name in os.environ if name.startswith("TOKSEAM_")}
        return CliRunner().invoke(
            main, [one.replace("{ds}", str(deepseek)) for one in arguments], input=stdin, env={**kept, **environment}
        )

    return run


def test_help_names_every_setting_and_its_twin(tokseam: Callable[..., Result]) -> None:
    assert all(name in tokseam("--help").output for name in COMMANDS)
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        twins = [option.envvar for option in command.params if isinstance(option, click.Option)]
        assert all(isinstance(twin, str) and twin.startswith("TOKSEAM_") for twin in twins), name
        assert len(set(twins)) == len(twins), name
        assert str(twins[0]) in tokseam(name, "--help").output.replace("\n", "")


def test_encode(tokseam: Callable[..., Result], deepseek: Path, reference: Callable[[str], list[int]]) -> None:
    expected = reference("Hello world é")
    done = tokseam("encode", "--tokenizer", "ds={ds}", stdin="Hello world é")
    assert done.output.split() == [str(one) for one in expected]
    done = tokseam("encode", "--json", stdin="Hello world é", TOKSEAM_TOKENIZERS=f"ds={deepseek}")
    assert json.loads(done.output) == expected
    done = tokseam("encode", "--count", "--tokenizer", "ds={ds}", stdin="Hello world é")
    assert done.output.strip() == str(len(expected))
    done = tokseam("encode", "--pieces", "--tokenizer", "ds={ds}", stdin="a b")
    assert done.output.splitlines()[0].endswith("'a'")


def test_encode_refuses(tokseam: Callable[..., Result]) -> None:
    done = tokseam("encode", "--tokenizer", "ds={ds}", stdin=b"ab\xff")
    assert (done.exit_code, "byte 2 is not UTF-8" in done.output) == (1, True)
    done = tokseam("encode", "--tokenizer", "ds={ds}", "--name", "nope", stdin="x")
    assert (done.exit_code, "no tokenizer 'nope'" in done.output) == (1, True)
    done = tokseam("encode", "--tokenizer", "ds={ds}", "/nowhere.txt")
    assert done.exit_code == 2


def test_status_and_tokenizers_of_a_tier(tokseam: Callable[..., Result], tier: RunningTier) -> None:
    stats = json.loads(tokseam("status", "--json", "--endpoint", tier.endpoint).output)
    assert [worker["name"] for worker in stats["workers"]] == ["fresh-0", "repair-0", "repair-1"]
    assert stats["broker"]["placements"] >= 0
    shown = tokseam("status", "--once", TOKSEAM_ENDPOINT=tier.endpoint).output
    assert "repair-0" in shown
    assert "chars encoded" in shown
    assert "fresh workers: cpu, " in shown
    listed = tokseam("tokenizers", "--endpoint", tier.endpoint).output
    assert "ds" in listed
    assert "native" in listed or "reference" in listed
    here = tokseam("tokenizers", "--tokenizer", "here={ds}").output
    assert "here" in here
    assert "compiled file of here: " in here
    assert " MB)" in here


def test_no_tier(tokseam: Callable[..., Result], endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tokseam("tokenizers", "--endpoint", endpoint)
    assert (done.exit_code, "is a tier running there" in done.output) == (1, True)


def test_doctor(tokseam: Callable[..., Result], tier: RunningTier, endpoint: str) -> None:
    done = tokseam("doctor", "--tokenizer", "ds={ds}", "--endpoint", tier.endpoint)
    assert done.exit_code == 0, done.output
    for word in (
        "native engine",
        "pinning",
        "memory nodes",
        "GPU",
        "tokenizer ds",
        "compiled file",
        "running, with ds",
    ):
        assert word in done.output
    assert "none runs there" in tokseam("doctor", "--endpoint", endpoint).output
    done = tokseam("doctor", "--endpoint", "ipc:///tmp/" + "x" * 200)
    assert (done.exit_code, "at most" in done.output) == (1, True)
