"""The cache of segments changes no answer: full, come round, or asked for the same bytes in another mode."""

from __future__ import annotations

import random

import numpy as np
from support.families import Family

WORDS = ["the", " of", "\u4eca\u5929", "caf\u00e9", " 12", "\n\n", "    ", "--", "<|im_end|>", "_x", "'s", "\u2500"]


def texts(rng: random.Random, count: int) -> list[str]:
    """Texts of new words and of long runs: segments of every size that the cache tells apart."""
    made = []
    for number in range(count):
        parts = rng.choices(WORDS, k=60) + [f" w{number}{k}q" for k in range(20)]
        parts += [rng.choice(" -=\u2500a\n") * rng.choice((1, 14, 15, 16, 17, 111, 112, 113, 4095, 4096, 4097))]
        rng.shuffle(parts)
        made.append("".join(parts))
    return made


def test_what_was_encoded_before_changes_nothing(family: Family) -> None:
    tokenizer = family.engine
    encoder = tokenizer._encoder
    assert encoder is not None
    rng = random.Random(family.name)
    made = texts(rng, 120)
    for split in (False, True):
        fresh = []
        for text in made:
            encoder.forget_segments()
            fresh.append(tokenizer.encode(text, split_special_tokens=split))
        encoder.forget_segments()
        # More than the rings hold, each text several times, and each mode after the other.
        for index in rng.choices(range(len(made)), k=600):
            assert np.array_equal(tokenizer.encode(made[index], split_special_tokens=split), fresh[index])
            tokenizer.encode(made[index], split_special_tokens=not split)
    for text, ids in zip(made[:10], fresh, strict=False):
        assert ids.tolist() == tokenizer._reference.encode(text, False, True).tolist()
