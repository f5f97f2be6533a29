"""Runs a Python fuzz target: its corpus and regressions, then mutations of them, always the same ones for one seed.

    python tests/fuzz/drive.py wire [--runs N] [--seed N] [--seconds S] [--atheris] [INPUT ...]

With --atheris (if that package is installed) libFuzzer chooses the inputs by coverage instead. An input that fails is
written to crash-NAME in the working folder; once mended, it belongs into regressions/.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import time
from pathlib import Path

os.environ["RUST_BACKTRACE"] = "0"  # the reference panics at some files, which is no news
sys.path.insert(0, str(Path(__file__).parent))
from targets import TARGETS

FOLDER = Path(__file__).parent
#: Bytes of an input whose bytes are flipped at random.
MAX_BYTES = 60_000


def inputs(name: str) -> list[bytes]:
    """Return the corpus and the regressions of a target, in a fixed order."""
    paths = sorted([*(FOLDER / "corpus" / name).iterdir(), *(FOLDER / "regressions" / name).iterdir()])
    return [path.read_bytes() for path in paths if path.name != ".gitkeep"]


def flipped(rng: random.Random, data: bytes, corpus: list[bytes]) -> bytes:
    """Change some bytes: put in, take out, replace, flip, repeat, or go on as another input does."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            changed.insert(at, rng.randrange(256))
        elif kind == 1:
            del changed[at : at + rng.randrange(4)]
        elif kind == 2 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 3 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 4:
            start = rng.randrange(len(changed) + 1)
            changed[at:at] = changed[start : start + rng.randrange(12)]
        else:
            other = rng.choice(corpus)
            changed[at:] = other[rng.randrange(len(other) + 1) :]
    return bytes(changed[:MAX_BYTES])


def fuzz(name: str, runs: int, seed: int = 1, seconds: float = 1e9) -> int:
    """Run the corpus and `runs` mutations, or as many as `seconds` allow. Returns how many."""
    target, change = TARGETS[name]
    corpus = inputs(name)
    rng = random.Random(f"{seed} {name}")
    end = time.monotonic() + seconds
    for data in corpus:
        _try(name, target, data)
    done = 0
    while done < runs and time.monotonic() < end:
        data = rng.choice(corpus)
        if change is not None and rng.random() < 0.9:
            data = change(data, rng.randrange)
        else:
            data = flipped(rng, data, corpus)
        _try(name, target, data)
        done += 1
    return done


def _try(name: str, target: object, data: bytes) -> None:
    assert callable(target)
    try:
        target(data)
    except BaseException as error:  # a panic of the reference is no Exception
        if not isinstance(error, KeyboardInterrupt):
            path = Path(f"crash-{name}-{hashlib.sha256(data).hexdigest()[:12]}")
            path.write_bytes(data)
            print(f"the input is in {path.resolve()}", file=sys.stderr)
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("inputs", nargs="*", type=Path, help="run these files alone")
    parser.add_argument("--runs", type=int, default=1_000_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--atheris", action="store_true", help="let libFuzzer choose the inputs")
    options = parser.parse_args()
    if options.inputs:
        for path in options.inputs:
            TARGETS[options.target][0](path.read_bytes())
        return
    if not options.atheris:
        print(f"{options.target}: {fuzz(options.target, options.runs, options.seed, options.seconds)} mutations: ok")
        return
    import atheris

    found = Path("corpus") / options.target  # libFuzzer writes what it finds worth keeping into the first folder
    found.mkdir(parents=True, exist_ok=True)
    folders = [str(found), *(str(FOLDER / kind / options.target) for kind in ("corpus", "regressions"))]
    arguments = [sys.argv[0], f"-max_total_time={int(options.seconds)}", "-max_len=4096", *folders]
    atheris.instrument_all()
    atheris.Setup(arguments, TARGETS[options.target][0])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
