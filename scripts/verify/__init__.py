"""`tokseam verify`: a campaign that looks for a difference between the engine and a fresh reference.

Ids, piece boundaries and spans of full encodes, cuts at synchronizing positions, chunks encoded side by side, and lives
of sessions; on your own texts and on ones made to hurt. What a check is: checks.py. What is tried: rounds.py and
systematic.py. The exit status is 0 only when there was no divergence.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import click
from rich.console import Console

from ..options import setting
from . import report
from .campaign import Campaign, ResumeError
from .corpus import Corpus
from .rounds import Rounds
from .subject import load_subject

#: Exit status after Ctrl-C, as a shell has it.
INTERRUPTED = 130


def seconds(text: str) -> float:
    """Read a duration.

    >>> seconds("10m"), seconds("1h30m"), seconds("45")
    (600.0, 5400.0, 45.0)
    """
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not match or not any(match.groups()):
        raise click.BadParameter(f"{text!r} is no duration: 90s, 10m, 1h30m")
    hours, minutes, rest = match.groups()
    return 3600.0 * int(hours or 0) + 60.0 * int(minutes or 0) + float(rest or 0)


@click.command()
@setting(
    "--tokenizer",
    required=True,
    metavar="PATH|tiktoken:NAME",
    help="A tokenizer.json, a tekken.json, a rank description, or tiktoken:ENCODING.",
    envvar="TOKSEAM_VERIFY_TOKENIZER",
)
@setting(
    "--corpus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    help="A folder of your own texts; otherwise the sources of Python's library.",
)
@setting("--budget", default="10m", help="How long to go on: 90s, 10m, 1h30m.")
@setting("--seed", type=int, default=1, help="Other seeds draw other texts.")
@setting(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Write the report to this file too.",
)
@setting("--workers", type=click.IntRange(1), default=None, help="Processes; otherwise one for each core.")
@setting(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Keep the state in this file, and go on from it if it exists.",
)
def command(
    tokenizer: str,
    corpus: Path | None,
    budget: str,
    seed: int,
    json_file: Path | None,
    workers: int | None,
    resume: Path | None,
) -> None:
    """Look for a difference between a tokenizer's native answers and the reference's. Fails when there is one."""
    from tokseam.kernels.errors import BadTokenizerError

    # The reference's own threads would not survive a fork, and every core has a process already.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    budget_s, console = seconds(budget), Console()
    try:
        subject = load_subject(tokenizer)
    except BadTokenizerError as error:
        raise click.BadParameter(str(error), param_hint="'--tokenizer'") from None
    texts = Corpus(corpus)
    fingerprint = {"sha256": subject.tokenizer.sha256, "seed": seed, "corpus": texts.sha256, **report.versions()}
    try:
        campaign = Campaign(Rounds(subject, texts, seed), fingerprint, resume)
    except (ResumeError, json.JSONDecodeError, KeyError) as error:
        raise click.BadParameter(str(error), param_hint="'--resume'") from None
    processes = workers or len(os.sched_getaffinity(0))
    with report.progress(console, budget_s) as watch:
        outcome = campaign.run(budget_s, processes, watch)
    report.print_summary(console, campaign)
    if json_file is not None:
        found = report.record(campaign, seed=seed, corpus_chars=texts.chars, workers=processes)
        json_file.write_text(json.dumps(found, indent=2) + "\n")
    if outcome.divergences or outcome.faults:
        sys.exit(1)
    if outcome.interrupted:
        sys.exit(INTERRUPTED)
