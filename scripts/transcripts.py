"""Texts of agents at work, for the first run, load, benches and tests.

Real transcripts where `../shared/data/sessions` is present, else transcripts built from the Python sources on this
machine in the shape that agents' steps have. Reads files; encodes nothing.
"""

from __future__ import annotations

import json
import random
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .tokenizer_catalogue import shared_folder

#: Sizes of a built step, in characters: a log-normal with the median and the P90 that published agent logs have.
STEP_MEDIAN_CHARS = 1_400
STEP_LOG_SIGMA = 1.534  # ln(10,000 / 1,400) / 1.2816: P90 at 10,000 characters
STEP_MAX_CHARS = 60_000


def session_files() -> list[Path]:
    """Return the real transcripts, by name; empty without the shared folder."""
    shared = shared_folder()
    return sorted((shared / "data" / "sessions").glob("*.jsonl")) if shared else []


def read_session(path: Path) -> list[str]:
    """Return the texts of a session's steps; joined in order they are the growing transcript."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [json.loads(line) for line in file]
    return [str(step["text"]) for step in lines[1:]]


@cache
def source_texts() -> tuple[str, ...]:
    """Return the modules of the standard library that are UTF-8, in the order of their names."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts: list[str] = []
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("*/*.py")):
        if "site-packages" in path.parts or "test" in path.parts:
            continue
        try:
            texts.append(path.read_bytes().decode())
        except (OSError, UnicodeDecodeError):
            continue
    return tuple(text for text in texts if len(text) > 200)


def source_text(chars: int, seed: int = 0) -> str:
    """Return `chars` characters of source code, starting at a module that `seed` picks."""
    texts = source_texts()
    parts: list[str] = []
    size, at = 0, random.Random(seed).randrange(len(texts))
    while size < chars:
        parts.append(texts[at % len(texts)])
        size += len(parts[-1])
        at += 1
    return "".join(parts)[:chars]


def built_steps(seed: int = 0) -> Iterator[str]:
    """Yield an endless agent's session: what it says, and what its tools print, in turn."""
    rng = random.Random(seed)
    texts = source_texts()
    number = 0
    while True:
        number += 1
        size = min(STEP_MAX_CHARS, max(20, int(rng.lognormvariate(0, STEP_LOG_SIGMA) * STEP_MEDIAN_CHARS)))
        module = rng.choice(texts)
        start = rng.randrange(max(1, len(module) - size))
        body = module[start : start + size]
        kind = rng.randrange(4)
        if kind == 0:
            lines = body.splitlines()
            body = "\n".join(f"{index:6d}\t{line}" for index, line in enumerate(lines, start=1))
            yield f"\n\n[tool] read (step {number})\n{body}"
        elif kind == 1:
            yield f"\n\n[assistant] I'll change this part; here's the patch:\n```diff\n{body}\n```\n"
        elif kind == 2:
            words = " ".join(body.split())
            yield f"\n\n[tool] {json.dumps({'step': number, 'exit_code': rng.randrange(2), 'output': words})}\n"
        else:
            yield f"\n\n[user] Let's look again, it doesn't work yet:\n{body}"


def transcript(chars: int, seed: int = 0) -> tuple[list[str], str]:
    """Return the steps of one growing session of at least `chars` characters, and where they come from.

    Real sessions are joined one after the other until they are long enough; those with a step of a size that no
    usual agent's has are left out.
    """
    files = [path for path in session_files() if max(map(len, read_session(path))) <= 2 * STEP_MAX_CHARS]
    if not files:
        steps, name = built_steps(seed), "built from this machine's Python sources"
    else:
        random.Random(seed).shuffle(files)
        steps = (text for path in files * (1 + chars // 1_000_000) for text in read_session(path))
        name = "real agent sessions, joined"
    taken: list[str] = []
    size = 0
    for text in steps:
        taken.append(text)
        size += len(text)
        if size >= chars:
            break
    return taken, name


def merged_turns(steps: list[str], turns: int) -> list[str]:
    """Join neighbouring steps so that about `turns` turns of like size remain, none split and none empty."""
    total = sum(map(len, steps))
    merged: list[str] = []
    open_turn: list[str] = []
    size = 0
    for step in steps:
        open_turn.append(step)
        size += len(step)
        if size * turns >= total * (len(merged) + 1):
            merged.append("".join(open_turn))
            open_turn = []
    if open_turn:
        merged.append("".join(open_turn))
    return [text for text in merged if text]
