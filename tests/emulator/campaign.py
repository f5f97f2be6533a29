"""A long run of the kernels under the emulator: every tokenizer of a folder, batches of generated documents.

    PYTHONPATH=tests python -m emulator.campaign [--folder DIR] [--documents N] [--seed S] [--json FILE] [--only NAME]

The folder holds tokenizer.json files, packed with xz or not. Every document that the kernels do not hand back is
compared with the engine, in ids and pieces; every tenth of the short ones also with a fresh reference. The exit status
is 0 only without a difference. `bench/results/emulator.json` is one such run.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from support import hostile
from support.families import fresh_reference, literals_of
from tokseam.kernels import engine
from tokseam.kernels.cuda import plan

from . import build, documents
from .device import Device, EmulatorError, Host, Kernels

sys.path.insert(0, str(build.ROOT))

from bench.verify_all import add_folder, unpacked

#: Documents of a batch, drawn from these.
BATCHES = (1, 2, 5, 17, 60, 150)

#: The reference is asked about documents of this size at most, one in so many.
REFERENCE_CHARS, REFERENCE_EVERY = 300, 10


@dataclass
class Record:
    """What one tokenizer's part of a run came to."""

    tokenizer: str
    documents: int = 0
    batches: int = 0
    bytes: int = 0
    normalized: int = 0  # on the device, by the chain that does so
    handed_back: int = 0  # to the engine: normalization may change them, or their windows could not be joined
    by_reference: int = 0
    pieces: dict[str, int] = field(
        default_factory=dict
    )  # by who merged them; stretches by tiles, windows, seams settled
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0


def campaign(path: Path, name: str, documents_wanted: int, seed: int, kernels: Kernels) -> Record | None:
    """Run one tokenizer; None where it is not native."""
    tokenizer = engine.load(path)
    if tokenizer.status != "native":
        return None
    record = Record(name)
    literals = literals_of(path)
    alphabet = hostile.atoms(literals)
    reference = fresh_reference(path)
    device = Device(tokenizer, kernels, Host(tokenizer))
    rng = random.Random(f"{seed} {name}")
    began = time.monotonic()
    while record.documents < documents_wanted and len(record.differences) < 5:
        texts = documents.batch(rng, alphabet, literals, rng.choice(BATCHES))
        split_special, turn = rng.random() < 0.2, rng.choice((0, rng.randrange(1, 1 << 20)))
        try:
            found = device.encode(texts, seed=turn, split_special=split_special)
            answers = [(found, number) for number in range(len(texts))]
            suspects = np.flatnonzero(found.flags == plan.SUSPECT).tolist()
            if suspects and device.host.normalizing is not None:
                chosen = [texts[number] for number in suspects]
                again = device.encode(chosen, seed=turn, normalizing=True, split_special=split_special)
                for place, number in enumerate(suspects):
                    answers[number] = (again, place)
        except EmulatorError as error:
            record.differences.append(f"{error}: batch {record.batches}, seed {seed}")
            break
        for number, (text, (launched, place)) in enumerate(zip(texts, answers, strict=True)):
            if launched.flags[place]:
                record.handed_back += 1
                continue
            record.normalized += launched is not found
            ids = launched.ids_of(place)
            same = ids == tokenizer.encode(text, split_special_tokens=split_special).tolist()
            if same and not split_special and launched is found:
                same = found.pieces_of(number) == tokenizer.pieces(text).tolist()
            if same and len(text) <= REFERENCE_CHARS and rng.randrange(REFERENCE_EVERY) == 0:
                record.by_reference += 1
                same = ids == reference.ids(text, False, split_special)
            if not same:
                record.differences.append(f"batch {record.batches}, document {number}: {text[:300]!r}")
        record.documents += len(texts)
        record.batches += 1
        record.bytes += len(found.staged.text)
        counted = {key: found.totals[key] for key in ("short", "middle", "large", "giant", "windows", "long", "supers")}
        for key, count in (counted | {"settled": found.seams_settled}).items():
            record.pieces[key] = record.pieces.get(key, 0) + count
    record.seconds = round(time.monotonic() - began, 1)
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--documents", type=int, default=100_000, help="of all tokenizers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=None, help="names of tokenizers, without .json")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    paths = sorted([*options.folder.glob("*.json"), *options.folder.glob("*.json.xz")])
    if options.only is not None:
        paths = [path for path in paths if path.name.split(".json")[0] in options.only]
    each = -(-options.documents // max(1, len(paths)))
    records: list[Record] = []
    kernels = Kernels()
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            name = path.name.split(".json")[0]
            record = campaign(unpacked(path, Path(folder)), name, each, options.seed, kernels)
            if record is None:
                continue
            records.append(record)
            print(
                f"{name}: {record.documents} documents, {len(record.differences)} differences, {record.seconds} s",
                flush=True,
            )
    commit = subprocess.run(["git", "-C", build.ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    summary = {
        "commit": commit.stdout.strip(),
        "seed": options.seed,
        "tokenizers": len(records),
        "documents": sum(record.documents for record in records),
        "bytes": sum(record.bytes for record in records),
        "normalized": sum(record.normalized for record in records),
        "handed_back": sum(record.handed_back for record in records),
        "by_reference": sum(record.by_reference for record in records),
        "differences": sum(len(record.differences) for record in records),
    }
    print(json.dumps(summary))
    if options.json is not None:
        options.json.write_text(json.dumps(summary | {"runs": [asdict(record) for record in records]}, indent=1) + "\n")
    return int(any(record.differences for record in records))


if __name__ == "__main__":
    sys.exit(main())
