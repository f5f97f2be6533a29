"""Tokenizers that nobody named: pipelines put together at random, each through a short campaign.

Whatever is admitted natively must hold; what is refused is passed over. `--effort 50` makes a long hunt of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from support.pipelines import character_pipeline, pipeline
from tokseam.kernels.errors import BadTokenizerError
from tokseam.scripts.verify import rounds as rounds_module
from tokseam.scripts.verify.checks import Tally
from tokseam.scripts.verify.corpus import Corpus
from tokseam.scripts.verify.rounds import Rounds
from tokseam.scripts.verify.shrink import shrink
from tokseam.scripts.verify.subject import from_json
from tokseam.scripts.verify.walks import Coverage


@pytest.mark.parametrize("make", [pipeline, character_pipeline])
@pytest.mark.parametrize("part", range(3))
def test_random_pipelines(
    make: Callable[[random.Random], dict[str, Any]],
    part: int,
    rng: random.Random,
    effort: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds_module, "ROUND_CHARS", 6_000)
    corpus = Corpus(None)
    native = tried = 0
    while native < 4 * effort:
        described = make(rng)
        tried += 1
        try:
            subject = from_json("random", json.dumps(described).encode())
        except BadTokenizerError:
            continue
        if not subject.native:
            assert tried < 60 * effort, f"hardly anything is native: {subject.tokenizer.reason}"
            continue
        native += 1
        rounds, tally, coverage = Rounds(subject, corpus, rng.randrange(1000)), Tally(), Coverage(subject.compiled)
        listed = [2 * at for at, task in enumerate(rounds.systematic) if task.kind in ("literals", "seams")]
        for number in (*listed[:3], *range(1, 24, 2)):
            found = rounds.run(number, tally, coverage)
            if found:
                small = shrink(subject, found, 10)
                shown = {key: value for key, value in described.items() if key not in ("model", "decoder", "version")}
                pytest.fail(f"{small}\n{json.dumps(shown)}\nignore_merges: {described['model']['ignore_merges']}")
        assert tally.total > 1_000
