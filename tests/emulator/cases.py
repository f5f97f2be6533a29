"""The whole case table, hostile shapes and the borders of buckets under the emulator, for every tokenizer of a folder.

    PYTHONPATH=tests python -m emulator.cases [--folder DIR] [--only NAME ...] [--largest BYTES]
        [--json FILE [--append]]

The folder holds tokenizer.json files, packed with xz or not; those that are not native are passed over. Documents go in
batches of mixed sizes, literals of special tokens cut out or not. Ids are compared with what ../shared/data/cases has
recorded, with a fresh reference for texts of up to 12,000 characters, and with the engine; pieces with the engine's,
and with the reference's own. The exit status is 0 only without a difference. `bench/results/emulator_cases.json` is one
such run; what its counts mean stands in comparison.py. Documents drawn at random: campaign.py.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from support import hostile, shared_data
from support.cases import REFERENCE_CHARS, probes_of, states
from support.families import fresh_reference, literals_of
from tokseam.kernels import engine
from tokseam.kernels.cuda import buckets, plan
from tokseam.scripts import transcripts

from . import build, documents
from .comparison import COUNTED, Asked, Subject, normalizes
from .device import Device, EmulatorError, Host, Kernels

sys.path.insert(0, str(build.ROOT))

from bench.verify_all import add_folder, unpacked

#: Documents of a batch, drawn from these, and bytes of one at most, unless a single text has more.
BATCHES, BATCH_BYTES = (1, 2, 5, 17, 60, 150), 1 << 20
#: Sizes of the hostile shapes: on either side of where another kernel takes over, of a super-tile, of a block of words.
HOSTILE_SIZES = tuple(
    border + more
    for border in (*documents.BORDERS, plan.TILE_BYTES * plan.TILES_PER_SUPER, plan.WORDS_PER_BLOCK * 32)
    for more in (-1, 0, 1)
)
#: The largest bucket whose borders are tried.
LARGEST_BYTES = 1 << 20
#: Buckets of more spans are filled by bytes alone: each document is compared by itself.
MOST_DOCUMENTS = 20_000
#: Differences of a tokenizer that are told: the first ones say it.
TOLD = 20


def probed(case: dict[str, Any], name: str) -> list[Asked]:
    """Return every text of a case for a family, in every state that its probes pass through."""
    probes, recorded = probes_of(case, name)
    return [
        Asked(
            f"{case['id']}, probe {number}, state {state}",
            text,
            add,
            bool(probe.get("split_special_tokens", False)),
            recorded[number]["ids"][state] if recorded is not None else None,
        )
        for number, probe in enumerate(probes)
        for state, (text, add) in enumerate(states(probe))
    ]


def in_both_modes(asked: Sequence[Asked]) -> list[Asked]:
    """Add each text that the reference is asked about in the mode that it was not asked for in."""
    return [
        *asked,
        *(
            replace(one, split_special_tokens=not one.split_special_tokens, recorded=None)
            for one in asked
            if len(one.text) <= REFERENCE_CHARS
        ),
    ]


def table(name: str, most_chars: int | None = None) -> list[Asked]:
    """Return the texts of the case table that a family's tokenizer is asked as it is, in both modes."""
    asked = [one for case in shared_data.text_cases() if not case["input"].get("patch") for one in probed(case, name)]
    return in_both_modes([one for one in asked if most_chars is None or len(one.text) <= most_chars])


def patched(path: Path, name: str, folder: Path) -> Iterator[tuple[Path, list[Asked]]]:
    """Yield the tokenizer.json of each case that changes this family's, and what it is asked."""
    module = shared_data.cases_module()
    for case in shared_data.text_cases():
        if case["input"].get("patch"):
            asked = probed(case, name)
            if asked:
                assert module is not None
                target = folder / f"{name}-{case['id']}.json"
                target.write_text(json.dumps(module.patch(case, json.loads(path.read_bytes()))), encoding="utf-8")
                yield target, in_both_modes(asked)


def in_batches(asked: Sequence[Asked], rng: random.Random) -> Iterator[list[Asked]]:
    """Part texts, in order, into batches of mixed sizes."""
    batch: list[Asked] = []
    total, size = 0, rng.choice(BATCHES)
    for one in asked:
        nbytes = len(one.utf8)
        if batch and (len(batch) == size or total + nbytes > BATCH_BYTES):
            yield batch
            batch, total, size = [], 0, rng.choice(BATCHES)
        batch.append(one)
        total += nbytes
    if batch:
        yield batch


def run(subject: Subject, asked: Sequence[Asked], rng: random.Random) -> None:
    """Encode texts in batches of mixed sizes, in random order."""
    for batch in in_batches(rng.sample(asked, len(asked)), rng):
        subject.check(batch, seed=rng.choice((0, rng.randrange(1, 1 << 20))))


def shapes(literals: Sequence[str]) -> list[Asked]:
    """Return the hostile shapes and pieces of every size around a border."""
    texts = documents.hostile_shapes(literals, HOSTILE_SIZES)
    texts += [*documents.at_every_border(), *documents.with_unsettled_seams()]
    return [Asked(f"shape {number}", text) for number, text in enumerate(texts)]


class Filler:
    """Documents that, staged, come to just so many bytes."""

    def __init__(self, host: Host, literals: Sequence[str]) -> None:
        self._host, self._literals = host, literals
        self._alphabet = hostile.atoms(list(literals))
        # No character of it does any normalizer change, as far as they are proved; and runs of spaces are literals of
        # some tokenizers, which would fill a bucket by their number.
        plain = "\n".join(transcripts.source_texts()).encode("ascii", "ignore").decode().lower()
        self._plain = " ".join(plain.split())

    def staged(self, text: str) -> tuple[int, int]:
        """Return how many bytes and spans a document comes to."""
        found = self._host.stage([text.encode()])
        return len(found.text), len(found.ids)

    def text(self, nbytes: int, rng: random.Random) -> str:
        """Return one document of that size, a hundred bytes or more: code, and letters to fill it up."""
        at = rng.randrange(len(self._plain) - nbytes)
        text = self._plain[at : at + nbytes]
        while (over := self.staged(text)[0] + 8 - nbytes) > 0:
            text = text[: len(text) - max(1, over // 3)]
        text += "\n"
        return text + "x" * (nbytes - self.staged(text)[0])

    def texts(self, bucket: plan.Capacity, rng: random.Random) -> list[str]:
        """Return documents of mixed sizes that together fill a bucket's bytes, and at most half of its spans."""
        texts: list[str] = []
        left, spans_left = bucket.bytes, bucket.spans // 2
        while left > 8_192:
            text = documents.text(rng, self._alphabet, self._literals)
            size, spans = self.staged(text)
            if left - size >= 100 and spans < spans_left:
                texts.append(text)
                left, spans_left = left - size, spans_left - spans
        return [*texts, self.text(left, rng)]

    def grown(self, texts: Sequence[str], more: int) -> list[str]:
        """Return the documents with the last one longer, or shorter, by so many bytes."""
        last = texts[-1] + "x" * more if more > 0 else texts[-1][: len(texts[-1]) + more]
        return [*texts[:-1], last]


def borders(
    subject: Subject,
    literals: Sequence[str],
    rng: random.Random,
    largest_bytes: int,
    smallest_bytes: int = buckets.SMALLEST_BYTES,
) -> None:
    """Fill each bucket to its border, and to one byte, document or span more, which the next bucket takes."""
    host = subject.device.host
    filler = Filler(host, literals)
    found = buckets.buckets(buckets.Limits().arena_bytes, host.shape, smallest_bytes)
    for bucket, above in pairwise(found):
        if bucket.bytes > largest_bytes:
            break
        _at_border(subject, [filler.text(bucket.bytes, rng)], bucket, above, fits=True, seed=1)
        texts = filler.texts(bucket, rng)
        for more in (-1, 0, 1):
            _at_border(subject, filler.grown(texts, more), bucket, above, fits=more <= 0, seed=more + 2)
        if bucket.spans <= MOST_DOCUMENTS:
            for full in _full_of_spans(host, literals, rng, bucket):
                _at_border(subject, full, bucket, above, fits=True, seed=3)
                _at_border(subject, [*full, "x"], bucket, above, fits=False, seed=4)


def _full_of_spans(
    host: Host, literals: Sequence[str], rng: random.Random, bucket: plan.Capacity
) -> Iterator[list[str]]:
    """Yield as many documents as a bucket takes, and half as many, with a literal in each that makes another span."""
    small = [*("x", "(", "1", "é", " ", "ab", "can't"), *(literal + "x" for literal in literals)]
    spans = {text: len(host.stage([text.encode()]).ids) for text in small}
    single, double = ([text for text in small if spans[text] == count] for count in (1, 2))
    yield rng.choices(single, k=bucket.documents)
    if double:
        yield [*rng.choices(double, k=bucket.spans // 2), *rng.choices(single, k=bucket.spans % 2)]


def _at_border(
    subject: Subject, texts: Sequence[str], bucket: plan.Capacity, above: plan.Capacity, fits: bool, seed: int
) -> None:
    """Check a batch in the bucket that it is meant for; one that does not fit is refused by the one below."""
    asked = [Asked(f"bucket of {bucket.bytes}, text {number}", text) for number, text in enumerate(texts)]
    staged = subject.device.host.stage([one.utf8 for one in asked])
    chosen = buckets.choose([bucket, above], len(staged.text), len(staged.ids), len(texts))
    if chosen != (bucket if fits else above):
        made = (len(staged.text), len(staged.ids), len(texts))
        subject.differences.append(f"made for the border of {bucket}, but of {made} bytes, spans and documents")
        return
    if not fits:
        subject.refuses(asked, bucket, seed)
    subject.check(asked, chosen, seed)


@dataclass
class Record:
    """What one tokenizer's run came to: what was counted in each part of it, what differs."""

    tokenizer: str
    commit: str
    parts: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Patched tokenizers that are not native, which no kernel sees.
    patched_by_reference: int = 0
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, part: str, subject: Subject) -> None:
        """Move what a subject counted to a part."""
        counted = Counter(self.parts.get(part, {})) + subject.counts
        self.parts[part] = {name: counted[name] for name in COUNTED}
        self.differences += [f"{part}: {one}" for one in subject.differences]
        subject.counts.clear()
        subject.differences.clear()


def subject_of(path: Path, kernels: Kernels) -> Subject | None:
    """Put a tokenizer on the device; None where it is not native."""
    tokenizer = engine.load(path)
    if tokenizer.status != "native":
        return None
    return Subject(tokenizer, Device(tokenizer, kernels, Host(tokenizer)), fresh_reference(path), normalizes(path))


def run_tokenizer(record: Record, path: Path, folder: Path, largest_bytes: int, kernels: Kernels) -> bool:
    """Run one tokenizer; False where it is not native."""
    began = time.monotonic()
    subject = subject_of(path, kernels)
    if subject is None:
        return False
    name, literals, rng = record.tokenizer, literals_of(path), random.Random(record.tokenizer)
    _part(record, "table", subject, lambda: run(subject, table(name), rng))
    _part(record, "shapes", subject, lambda: run(subject, shapes(literals), rng))
    _part(record, "buckets", subject, lambda: borders(subject, literals, rng, largest_bytes))
    for changed, asked in patched(path, name, folder):
        other = subject_of(changed, kernels)
        if other is None:
            record.patched_by_reference += 1
        else:
            _part(record, "patched", other, partial(run, other, asked, rng))
    record.seconds = round(time.monotonic() - began, 1)
    return True


def _part(record: Record, part: str, subject: Subject, go: Callable[[], None]) -> None:
    """Run a part. What the emulator refuses is a difference too, and ends it."""
    try:
        go()
    except EmulatorError as error:
        subject.differences.append(str(error))
    record.add(part, subject)


def summary(records: Sequence[Record], largest_bytes: int, not_native: Sequence[str]) -> dict[str, Any]:
    """Return the record of a run: sums over its tokenizers, and each one's own."""
    parts: dict[str, Counter[str]] = {}
    for record in records:
        for part, counted in record.parts.items():
            parts.setdefault(part, Counter()).update(counted)
    return {
        "largest_bucket_bytes": largest_bytes,
        "tokenizers": len(records),
        "not_native": not_native,
        "parts": parts,
        "patched_by_reference": sum(record.patched_by_reference for record in records),
        "differences": sum(len(record.differences) for record in records),
        "runs": [asdict(record) | {"differences": record.differences[:TOLD]} for record in records],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--only", nargs="*", default=None, help="names of tokenizers, without .json")
    parser.add_argument("--largest", type=int, default=LARGEST_BYTES, help="bytes of the largest bucket to fill")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--append", action="store_true", help="go on with the record of --json: keep what it has")
    options = parser.parse_args()
    if not shared_data.text_cases():
        parser.error("../shared/data/cases is not on this machine")
    before: dict[str, Any] = {"runs": [], "not_native": []}
    if options.append and options.json is not None and options.json.exists():
        before = json.loads(options.json.read_text())
    records = [Record(**run) for run in before["runs"]]
    not_native: list[str] = before["not_native"]
    done = {*not_native, *(record.tokenizer for record in records)}
    paths = sorted([*options.folder.glob("*.json"), *options.folder.glob("*.json.xz")])
    commit = subprocess.run(["git", "-C", build.ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    kernels = Kernels()
    for path in paths:
        name = path.name.split(".json")[0]
        if name in done or (options.only is not None and name not in options.only):
            continue
        record = Record(name, commit.stdout.strip())
        with tempfile.TemporaryDirectory() as folder:
            native = run_tokenizer(record, unpacked(path, Path(folder)), Path(folder), options.largest, kernels)
        if native:
            records.append(record)
            documents_run = sum(part["documents"] for part in record.parts.values())
            line = f"{name}: {documents_run} documents, {len(record.differences)} differences, {record.seconds} s"
            print("\n  ".join([line, *record.differences[:TOLD]]), flush=True)
        else:
            not_native.append(name)
        if options.json is not None:
            options.json.write_text(json.dumps(summary(records, options.largest, not_native), indent=1) + "\n")
    print(json.dumps(summary(records, options.largest, not_native) | {"runs": len(records)}))
    return int(not records or any(record.differences for record in records))


if __name__ == "__main__":
    sys.exit(main())
