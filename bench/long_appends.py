"""Appends by the hundred thousand, for what the slowest in a thousand take: `python -m bench append --long`.

Appends come in runs, as an agent's steps do: a fork of the session that stands at the context takes the appends of one
run and is closed. What is appended is drawn from one of the mixes below, the same appends at every context; the text
in front of them is the same for all mixes. No peer takes part: `python -m bench append` sets ours beside them.

The ids are compared with the reference's before the clock starts and after it stopped: all ids of a run's last text,
put together from the patches of its appends.
"""

from __future__ import annotations

import gc
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.table import Table

from . import beds, peers, subjects, texts
from .case import Job, Options, Row
from .peers import OURS
from .timing import Run, Sample, timed

BROKER = f"{OURS} broker"

CONTEXTS = (100_000, 1_000_000, 8_000_000)
QUICK_CONTEXTS = (100_000,)
#: The median step of a coding agent.
DELTA = 1_400
#: Of the embedded engine, and of a tier: there one in a thousand is told by fewer, and an append is a round trip.
ROUNDS, BROKER_ROUNDS = 100_000, 20_000
QUICK_ROUNDS, QUICK_BROKER_ROUNDS = 10_000, 1_000
#: Appends to one fork, before the next is made: a context of 100 K characters grows by a quarter at most.
APPENDS_IN_A_RUN = 20
#: What is asked of ours: the slowest in a thousand over the median, and the median at the longest context over that at
#: the shortest.
MOST_P999, MOST_GROWTH = 10.0, 1.3
#: For the estimate: seconds to make ready, and for each million characters of context; microseconds of an append with
#: all that is around it, embedded and through a tier.
READY_S, CONTEXT_S, APPEND_US, BROKER_APPEND_US = 6.0, 5.0, 60.0, 450.0
SESSIONS, LANGUAGES, EVERYTHING = "sessions", "languages", "everything"
#: Every file of `multi/`; by name, so that a new one changes no record in silence.
_EVERYTHING = (
    *("ar", "base64_hex", "code_cpp_cuda", "code_go", "code_python", "code_rust", "code_shell_sql_yaml_css"),
    *("code_swift", "code_typescript", "control_crlf_ansi", "diff_patches", "el", "emoji", "en_prose", "european_mix"),
    *("he", "hi", "ja", "json", "ko", "logs", "markdown_tables", "maths", "other_scripts_mix", "ru", "th"),
    *("unicode_all_assigned", "unicode_normalization_chars", "unicode_normalization_test", "unicode_tables"),
    *("vi", "vi_nfd", "wordlists", "zh", "zh_tw"),
)
#: Of the transcript, this much behind all contexts is appended. Sessions repeat each other: some of it stands in them.
SESSION_CHARS = 1_000_000


def _mixed() -> str:
    corpus = texts.Corpus("mixed")
    try:
        return corpus.take(2**40)
    except texts.ExhaustedError as all_of_it:
        return corpus.take(all_of_it.left)


#: By name: what is appended, in words, and the text that it is cut from (None: the transcript's end).
MIXES: dict[str, tuple[str, Callable[[], str] | None]] = {
    SESSIONS: (f"{SESSION_CHARS:,} characters of agent sessions from behind all contexts", None),
    LANGUAGES: ("14 scripts and languages of ../shared/data in turns of 1,200 characters", _mixed),
    EVERYTHING: (
        f"{len(_EVERYTHING)} texts of ../shared/data: languages, sources, logs, lists of all Unicode characters",
        lambda: "".join(texts.shared_texts(*_EVERYTHING)),
    ),
}


def jobs(options: Options) -> list[Job]:
    rounds, broker_rounds = (QUICK_ROUNDS, QUICK_BROKER_ROUNDS) if options.quick else (ROUNDS, BROKER_ROUNDS)
    return [
        {
            "tokenizer": tokenizer,
            "chars": chars,
            "mix": mix,
            "rounds": {OURS: rounds, **({BROKER: broker_rounds} if options.broker else {})},
            "cores": 1,
        }
        for tokenizer in (options.tokenizers or ("qwen3",))
        for mix in MIXES
        if not options.texts or mix in options.texts
        for chars in (options.sizes or (QUICK_CONTEXTS if options.quick else CONTEXTS))
    ]


def estimate_s(job: Job) -> float:
    """Return about how many seconds a job takes on a machine with nothing else to do."""
    rounds: dict[str, int] = job["rounds"]
    chars: int = job["chars"]
    appends_us = rounds[OURS] * APPEND_US + rounds.get(BROKER, 0) * BROKER_APPEND_US
    return READY_S + CONTEXT_S * chars / 1e6 + appends_us / 1e6


def run(job: Job) -> list[Row]:
    from tokseam.client import Embedded
    from tokseam.scripts import transcripts

    subject = subjects.load(job["tokenizer"])
    # Of one length for all contexts, so that what is appended is the same at each.
    steps, origin = transcripts.transcript(max(job["chars"], *CONTEXTS) + SESSION_CHARS)
    whole = "".join(steps)
    words, other = MIXES[job["mix"]]
    source = whole[-SESSION_CHARS:] if other is None else other()
    row: Row = {key: job[key] for key in ("tokenizer", "chars", "mix", "cores")}
    row |= {"kind": "append", "delta": DELTA, "words": words, "origin": origin, "peers": {}}
    if len(source) < SESSION_CHARS:
        return [{**row, "none": f"only {len(source):,} characters of that here"}]
    bed = Bed(subject, whole[: job["chars"]], source)
    row["peers"][OURS] = bed.measured(Embedded({"t": subject.source}), job["rounds"][OURS])
    if BROKER in job["rounds"]:
        try:
            with beds.broker(subject) as tier:
                row["peers"][BROKER] = bed.measured(tier, job["rounds"][BROKER])
        except Exception as error:
            row["peers"][BROKER] = {"us": None, "missing": f"{type(error).__name__}: {error}"[:300]}
    return [row]


class Durations:
    """What appends took, in nothing that the garbage collector counts or looks at: else it would be this bench's own
    list that it goes through, in one append of a few hundred, for 50 microseconds and more.
    """

    def __init__(self) -> None:
        self._wall_ns, self._cpu_ns = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._wall_ns)

    def add(self, took: Run) -> None:
        self._wall_ns.append(took.wall_ns)
        self._cpu_ns.append(took.cpu_ns)

    def clear(self) -> None:
        del self._wall_ns[:], self._cpu_ns[:]

    def sample(self) -> Sample:
        return Sample.of([Run(*both) for both in zip(self._wall_ns, self._cpu_ns, strict=True)])


class Bed:
    """A context, what is appended to it, and the reference's ids."""

    def __init__(self, subject: subjects.Subject, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._reference = subject.reference
        self._ids: list[int] = subject.reference.ids(text)

    def measured(self, tier: Any, rounds: int) -> dict[str, Any]:
        """Check a run of appends to a fork of one session, time `rounds` of them in others, and check the last run."""
        with tier.session("base", tokenizer="t") as base:
            context = base.append_patch(self._text)
            filler, deltas = next(self.runs(1))
            taken = Durations()
            differs = peers.difference(context.ids, self._ids)
            differs = differs or self._difference([filler, *deltas], self._appended(base, filler, deltas, taken))
            taken.clear()
            patches: list[Any] = []
            with settled():
                for filler, deltas in self.runs(2):
                    patches = self._appended(base, filler, deltas, taken)
                    if len(taken) >= rounds:
                        break
        differs = differs or self._difference([filler, *deltas], patches)
        return {"us": taken.sample().as_dict(), "differs": differs}

    def runs(self, seed: int) -> Iterator[tuple[str, list[str]]]:
        """Yield, without end, the filler of a run and its appends: the same for the same seed, whatever the context."""
        rng = random.Random(seed)

        def cut(chars: int) -> str:
            at = rng.randrange(len(self._source) - chars)
            return self._source[at : at + chars]

        while True:
            yield cut(1 + rng.randrange(beds.FILLER_CHARS)), [cut(DELTA) for _ in range(APPENDS_IN_A_RUN)]

    def _appended(self, base: Any, filler: str, deltas: Sequence[str], taken: Durations) -> list[Any]:
        """Append to a fork of `base`: the filler, untimed, for one end of a context would measure that end, and all
        of `deltas`. Return the patches.
        """
        with base.fork("run") as session:
            patches = [session.append_patch(filler)]
            for delta in deltas:
                took, patch = timed(lambda delta=delta: session.append_patch(delta))  # type: ignore[misc]
                taken.add(took)
                patches.append(patch)
        return patches

    def _difference(self, appended: Sequence[str], patches: Sequence[Any]) -> str:
        """Return '' where the patches make the reference's ids out of those of the context, else what differs."""
        ids = self._ids.copy()
        for patch in patches:
            ids[patch.start : patch.stop] = patch.ids
        return peers.difference(ids, self._reference.ids("".join((self._text, *appended))))


@contextmanager
def settled() -> Iterator[None]:
    """Keep what is old away from the garbage collector. It goes on: what appends make it looks through, as it will
    wherever they are called.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def tables(rows: list[Row]) -> list[Table]:
    return [_table(tokenizer, rows) for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows)]


def _table(tokenizer: str, rows: list[Row]) -> Table:
    rows = [row for row in rows if row["tokenizer"] == tokenizer]
    table = Table(title=f"{tokenizer}, appends of {DELTA:,} characters in runs of {APPENDS_IN_A_RUN}: microseconds")
    figures = ("appends", "P50", "P90", "P99", "P99.9", "max")
    targets = (f"P99.9 / P50 (at most {MOST_P999:g})", f"P50 / shortest (at most {MOST_GROWTH:g})")
    for heading in ("appended", "", "chars", *figures, *targets):
        table.add_column(heading, justify="left" if heading in ("appended", "") else "right")
    notes: dict[str, None] = {}
    for mix in dict.fromkeys(row["mix"] for row in rows):
        mine = [row for row in rows if row["mix"] == mix]
        notes[f"{mix}: {mine[0].get('none') or mine[0]['words']}; the context: {mine[0]['origin']}"] = None
        for way in (OURS, BROKER):
            timed_rows = [row for row in mine if row["peers"].get(way, {}).get("us")]
            for row in timed_rows:
                found = row["peers"][way]
                us, shortest = found["us"], timed_rows[0]["peers"][way]["us"]
                cells = [f"{us[key]:,.1f}" for key in ("p50", "p90", "p99", "p999", "maximum")]
                ratios = (us["p999"] / us["p50"], MOST_P999), (us["p50"] / shortest["p50"], MOST_GROWTH)
                cells += [_ratio(*ratio) if way == OURS else f"{ratio[0]:.2f}" for ratio in ratios]
                mark = " [red]≠[/]" if found["differs"] else ""
                table.add_row(mix, way + mark, f"{row['chars']:,}", f"{us['count']:,}", *cells)
                if found["differs"]:
                    notes[f"≠ {way}, {mix}, {row['chars']:,} characters: {found['differs']}"] = None
        for reason in (row["peers"].get(BROKER, {}).get("missing") for row in mine):
            if reason:
                notes[f"{BROKER} takes no part: {reason}"] = None
    table.caption, table.caption_justify = "\n".join(notes), "left"
    return table


def _ratio(ratio: float, most: float) -> str:
    return f"[{'green' if ratio <= most else 'red'}]{ratio:.2f}[/]"
