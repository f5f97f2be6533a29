"""Sessions of `Embedded`: turns, appends and edits mixed, each patch applied and compared with a full encode.

What an Embedded adds to the engine's sessions is the search for what changed, the lists, and the errors' words.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from support import hostile
from support.families import Family
from tokseam.client import Embedded
from tokseam.client.errors import BadRequestError
from tokseam.scripts import transcripts


class Held:
    """A session, with the text and the ids that it must have."""

    def __init__(self, session: Any, family: Family, flags: tuple[bool, bool]) -> None:
        self.session, self.family, self.flags = session, family, flags
        self.text = ""
        self.ids: list[int] = []

    def take(self, patch: Any, text: str) -> None:
        assert 0 <= patch.start <= patch.stop <= len(self.ids)
        self.ids[patch.start : patch.stop] = patch.ids
        self.text = text
        wanted = self.family.reference.ids(text, *self.flags)
        assert self.ids == wanted, (text[-200:], patch)
        assert self.session.text == text

    def fork(self) -> Held:
        twin = Held(self.session.fork("twin"), self.family, self.flags)
        twin.text, twin.ids = self.text, list(self.ids)
        return twin


@pytest.mark.parametrize("flags", [(False, False), (True, True)], ids=["plain", "add-split"])
def test_mixed_turns(family: Family, rng: random.Random, effort: float, flags: tuple[bool, bool]) -> None:
    alphabet = [*hostile.atoms(family.literals), "caf\u00e9 ", "\u6c49\u5b57 ", "\U0001f600 ", " plain words", "\n"]
    tier = Embedded({"t": family.engine})
    for _ in range(int(4 * effort)):
        session = tier.session("s", add_special_tokens=flags[0], split_special_tokens=flags[1])
        alive = [Held(session, family, flags)]
        for step in range(25):
            held = rng.choice(alive)
            text, new = held.text, "".join(rng.choices(alphabet, k=rng.randrange(1, 30)))
            at = rng.randrange(len(text) + 1)
            stop = min(len(text), at + rng.choice((0, 1, 5, 50)))
            kind = rng.randrange(8)
            if kind < 2:
                held.take(held.session.append_patch(new), text + new)
            elif kind == 2:
                held.take(held.session.edit(at, stop, new), text[:at] + new + text[stop:])
            elif kind == 3 and len(alive) < 4:
                alive.append(held.fork())
            elif kind == 4:
                plain = "".join(one for one in text if one < "\x80")  # stored at another width than before
                held.take(held.session.encode_patch(plain), plain)
            elif kind == 5:
                assert held.session.encode(text + new) == family.reference.ids(text + new, *flags)
                held.text, held.ids = text + new, list(held.session.ids)
            else:
                turned = text[:at] + new + text[stop:]
                held.take(held.session.encode_patch(turned), turned)
            if step % 5 == 0:
                assert held.session.ids == held.ids
        for held in alive:
            assert held.session.text == held.text
            assert held.session.ids == held.ids


def test_edits_between_marks(family: Family, rng: random.Random, effort: float) -> None:
    """Texts long enough for many marks, few chunks: windows begin and end inside chunks, at hostile places too."""
    alphabet = hostile.atoms(family.literals)
    tier = Embedded({"t": family.engine})
    for _ in range(int(2 * effort)):
        held = Held(tier.session("s"), family, (False, False))
        text = "".join(
            hostile.hostile_text(rng, 60, alphabet) if rng.random() < 0.5 else " plain words, line after line\n" * 6
            for _ in range(40)
        )
        held.take(held.session.append_patch(text), text)
        for step in range(40):
            text = held.text
            at = len(text) if step % 4 == 0 else rng.randrange(len(text) + 1)
            stop = min(len(text), at + rng.choice((0, 0, 1, 3, 300, 2_000 if step % 10 == 0 else 2)))
            new = hostile.hostile_text(rng, rng.choice((0, 1, 3, 40)), alphabet)
            held.take(held.session.edit(at, stop, new), text[:at] + new + text[stop:])
        assert held.session.ids == held.ids
    assert family.engine.mismatches == 0


@pytest.mark.parametrize(
    ("call", "place", "position"),
    [
        (lambda s: s.append_patch("ab\ud800"), "delta", 2),
        (lambda s: s.append("\udfff"), "delta", 0),
        (lambda s: s.edit(2, 3, "x\ud800y"), "replacement", 1),
        (lambda s: s.edit(10, 10, "x\ud800y"), "delta", 1),
        (lambda s: s.encode_patch("caf\u00e9 words\ud800"), "text", 10),
        (lambda s: s.encode("caf\ud800 words"), "text", 3),
    ],
)
def test_lone_surrogates(any_family: Family, call: Any, place: str, position: int) -> None:
    session = Embedded({"t": any_family.engine}).session("s")
    session.append_patch("caf\u00e9 words")
    before = list(session.ids)
    with pytest.raises(BadRequestError, match=f"^{place}: character {position} is U\\+D[8F]..,") as caught:
        call(session)
    assert caught.value.position == position
    assert (session.text, session.ids) == ("caf\u00e9 words", before)


def test_a_first_turn_that_is_refused(any_family: Family) -> None:
    session = Embedded({"t": any_family.engine}).session("s")
    with pytest.raises(BadRequestError):
        session.encode_patch("\ud800")
    assert session.encode("words") == any_family.reference.ids("words")
    assert session.last is not None
    assert session.last.path in ("fresh", "reference")


def test_forks_share(family: Family) -> None:
    """A fork costs less than two hundredths of its parent, also after some changes of its own."""
    tier = Embedded({"t": family.engine})
    parent = tier.session("parent")
    parent.append_patch(transcripts.source_text(1_000_000))
    assert parent.unshared_bytes == parent.memory_bytes
    twin = parent.fork("twin")
    assert twin.unshared_bytes < 1_000
    twin.append_patch(" and a little more")
    twin.edit(500_000, 500_003, "changed")
    assert 0 < twin.unshared_bytes < parent.memory_bytes / 50
    assert parent.unshared_bytes < parent.memory_bytes / 50
    assert tier.stats()["session_bytes"] == parent.memory_bytes + twin.memory_bytes
    twin.close()
    del twin
    assert parent.unshared_bytes == parent.memory_bytes


def test_little_beside_text_and_ids(family: Family) -> None:
    """Text, three bytes an id and a quarter of one: nine bytes a token where tokens are shorter than 5.7 bytes."""
    session = Embedded({"t": family.engine}).session("s")
    text = transcripts.source_text(400_000)
    for start in range(0, len(text), 1_400):
        session.append_patch(text[start : start + 1_400])
    own = session.memory_bytes - len(text.encode()) - 3 * len(session.ids)
    assert own <= 4_000 + len(session.ids) / 4  # the last chunk's ids take four bytes


def test_appends_encode_little_beside_the_delta(family: Family) -> None:
    session = Embedded({"t": family.engine}).session("s")
    text = transcripts.source_text(400_000)
    session.append_patch(text[:200_000])
    encoded = 0
    for start in range(200_000, 400_000, 1_000):
        session.append_patch(text[start : start + 1_000])
        assert session.last is not None
        encoded += session.last.chars_encoded
    assert encoded <= 1.5 * 200_000
