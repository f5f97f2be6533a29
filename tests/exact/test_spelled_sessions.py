"""Sessions of texts with long tokens, which keep ids in place of text: what they spell is the text, at every step.

Rulers, indentation and long words, with what no id spells in between: literals that take white space along, what
normalization changes, characters in bytes. Whether a text is kept or spelled shows in the session's size alone.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import hostile
from support.families import Family
from support.histories import Mirror, drawn_history, shared_prefix

#: Text of a few long tokens each, in nearly every vocabulary.
DENSE = (
    " " * 64,
    "\n" + " " * 40,
    "=" * 64,
    "-" * 80,
    "─" * 48,
    "*" * 32,
    " international",
    " understanding",
    " development",
)

#: What the ids of many a tokenizer do not spell, or only together.
ODD = (
    "e\u0301",
    "\u212b",
    "\uac00\u11a8",
    "\U0001f937\U0001f3fd\u200d\u2642\ufe0f",
    "\u2581",
    "\u2581\u2581a",
    "ABC",
    "\x00",
    "é",
)


def dense_text(rng: random.Random, parts: int, odd: tuple[str, ...]) -> str:
    return "".join(
        rng.choice(odd)
        if rng.random() < 0.02
        else rng.choice(DENSE) * rng.randrange(1, 4) + rng.choice((" a", "\n", " ("))
        for _ in range(parts)
    )


def test_histories_of_long_tokens(family: Family, rng: random.Random, effort: float) -> None:
    odd = (*ODD, *(literal for literal in family.literals if literal), *(f" {one} " for one in family.literals[:8]))
    mirror = Mirror.start(family.engine, family.reference)
    mirror.append(dense_text(rng, 300, odd))
    mirror.check()
    others = [mirror.fork()]
    for step in range(int(12 * effort)):
        size = len(mirror.text)
        at = rng.randrange(size)
        match step % 4:
            case 0:
                mirror.append(dense_text(rng, rng.randrange(1, 40), odd))
            case 1:
                mirror.edit(at, min(size, at + rng.randrange(30)), rng.choice((*odd, *DENSE, "", "x")))
            case 2:
                mirror.edit(at, min(size, at + 3_000), dense_text(rng, 10, odd))
            case _:
                new = mirror.text[:at] + rng.choice((*odd, "an edit")) + mirror.text[min(size, at + rng.randrange(9)) :]
                prefix, suffix = mirror.session.shared_ends(new)
                assert prefix == shared_prefix(mirror.text, new)
                rest = min(size, len(new)) - prefix
                assert suffix == min(rest, shared_prefix(mirror.text[::-1], new[::-1]))
                mirror.become(new)
                others = [*others[-2:], mirror.fork()]
        mirror.check()
    for other in others:
        other.append(" and goes its own way")
        other.check()
    assert mirror.session.work.path != "reference"


def test_a_session_of_long_tokens_is_small(family: Family) -> None:
    """At most nine bytes a token, but for the last chunk, wherever the ids spell the text."""
    text = "".join(f"{' ' * 40}international {'=' * 64} {'-' * 80} understanding\n" for _ in range(400))
    session = family.engine.session()
    for start in range(0, len(text), 1_000):
        session.append(text[start : start + 1_000])
    assert session.text() == text
    last = 20_000
    long_tokens = len(text) > 7 * session.token_count
    assert session.spells or not long_tokens or family.engine.decode(session.ids().tolist()) != text
    if session.spells:
        assert session.memory_bytes <= 9 * session.token_count + last
    twin = session.fork()
    twin.edit(10, 20, "an edit")
    assert session.text() == text
    assert twin.text() == text[:10] + "an edit" + text[20:]


@pytest.mark.parametrize("width", ["ascii", "latin", "wide", "astral"])
def test_shared_ends_of_every_width(family: Family, rng: random.Random, width: str) -> None:
    """The other text is stored in one, two or four bytes a character; the session's text is what it is."""
    mark = {"ascii": "x", "latin": "é", "wide": "─", "astral": "\U0001f642"}[width]
    text = "".join(rng.choice(DENSE[:4]) + rng.choice((" a", "\n", mark)) for _ in range(400))
    session = family.engine.session()
    session.append(text)
    assert session.shared_ends(text) == (len(text), 0)
    for _ in range(20):
        at = rng.randrange(len(text))
        new = text[:at] + mark + text[at + 1 :]
        prefix = shared_prefix(text, new)
        suffix = min(len(text) - prefix, shared_prefix(text[::-1], new[::-1]))
        assert session.shared_ends(new) == (prefix, suffix)


@given(data=st.data())
def test_generated_histories_of_long_tokens(family: Family, data: st.DataObject) -> None:
    odd = st.one_of(st.sampled_from(ODD), hostile.hostile_texts(family.literals, max_parts=3))
    part = st.one_of(st.builds(lambda one, times: one * times, st.sampled_from(DENSE), st.integers(1, 60)), odd)
    texts = st.lists(part, max_size=6).map("".join)
    mirror = Mirror.start(family.engine, family.reference)
    mirror.append("".join(DENSE) * 12 + " begins\n")
    drawn_history(data, mirror, texts, longest_edit=4_000)
