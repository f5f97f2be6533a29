"""Sessions: after every append, edit and fork the ids are those of a full encode by a fresh reference.

Real transcripts are sampled here (a few sessions, a few turns); `python -m bench sweep` goes through all of them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import hostile, shared_data
from support.families import Family
from support.histories import Mirror, drawn_history, random_history
from tokseam.kernels.errors import BadEditError, BadTextError
from tokseam.scripts import transcripts

#: How much of a transcript one test replays, and how many of its turns are checked: the reference re-encodes all of
#: the text at each.
REPLAY_CHARS = 160_000
CHECKED_TURNS = 4


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)], ids=["plain", "add", "split"])
def test_random_histories(family: Family, rng: random.Random, effort: float, flags: tuple[bool, bool]) -> None:
    alphabet = hostile.atoms(family.literals)
    for _ in range(int(12 * effort)):
        mirror = Mirror.start(family.engine, family.reference, flags)
        mirror.append(hostile.hostile_text(rng, rng.randrange(80), alphabet))
        random_history(rng, mirror, 15, alphabet)


def test_random_histories_by_reference(reference_family: Family, rng: random.Random) -> None:
    alphabet = hostile.atoms(reference_family.literals)
    random_history(rng, Mirror.start(reference_family.engine, reference_family.reference), 15, alphabet)


def test_history_of_code(family: Family, rng: random.Random, effort: float) -> None:
    """A larger text, so that a session holds many chunks; edits at its ends, in its middle, and across much of it."""
    alphabet = hostile.atoms(family.literals)
    mirror = Mirror.start(family.engine, family.reference)
    mirror.append(transcripts.source_text(60_000, seed=rng.randrange(1 << 30)))
    twin = mirror.fork()
    for step in range(int(14 * effort)):
        size = len(mirror.text)
        at = rng.choice((0, size, rng.randrange(size)))
        if step % 5 == 4:
            mirror.edit(size // 4, size // 2, "")
        elif step % 2:
            mirror.edit(at, min(size, at + rng.randrange(200)), hostile.hostile_text(rng, 20, alphabet))
        else:
            mirror.append(transcripts.source_text(1_400, seed=rng.randrange(1 << 30)))
        mirror.check(whole=step % 4 == 0)
    mirror.check()
    twin.check()


@pytest.mark.parametrize("flags", [(False, False), (True, True)], ids=["plain", "add-split"])
def test_packed_changes_are_the_same(
    family: Family, rng: random.Random, effort: float, flags: tuple[bool, bool]
) -> None:
    """UTF-8 in and bytes of ids out: splice by splice what str and arrays give, refusals included."""
    alphabet = [*hostile.atoms(family.literals), "caf\u00e9 ", "\u6c49\u5b57 ", "\U0001f600"]
    add, split = flags
    for _ in range(int(4 * effort)):
        plain = family.engine.session(add_special_tokens=add, split_special_tokens=split)
        packed = plain.fork()
        for _ in range(20):
            text = hostile.hostile_text(rng, rng.randrange(40), alphabet)
            start = rng.randrange(plain.chars + 1)
            stop = min(plain.chars, start + rng.choice((0, 1, 5, 50)))
            if rng.random() < 0.5:
                wanted, made = plain.append(text), packed.append_packed(text.encode())
            else:
                wanted, made = plain.edit(start, stop, text), packed.edit_packed(start, stop, text.encode())
            assert made == (wanted.start, wanted.stop, wanted.ids.astype("<u4").tobytes(), *plain.work)
            assert packed.work == plain.work
            with pytest.raises(BadTextError, match="byte 1 is 0xFF"):
                packed.append_packed(b"a\xff")
            with pytest.raises(BadTextError, match="byte 0 is 0xED"):
                packed.edit_packed(0, 0, b"\xed\xa0\x80")
            with pytest.raises(BadEditError):
                packed.edit_packed(0, packed.chars + 1, b"")
        assert packed.text() == plain.text()
        assert packed.ids_list() == plain.ids_list() == family.reference.ids(plain.text(), add, split)


@given(data=st.data())
def test_generated_histories(family: Family, data: st.DataObject) -> None:
    """hypothesis looks for a short history that goes wrong, and shrinks it."""
    texts = hostile.hostile_texts(family.literals, max_parts=12)
    mirror = Mirror.start(family.engine, family.reference)
    mirror.append(data.draw(texts, label="start"))
    mirror.check()
    drawn_history(data, mirror, texts)


@pytest.mark.parametrize("characters", [1, 2, 3])
def test_appended_by_characters(family: Family, rng: random.Random, characters: int) -> None:
    """The smallest appends there are, through literals, marks and white space."""
    text = hostile.hostile_text(rng, 70, hostile.atoms(family.literals)) + "".join(family.literals[:6])
    mirror = Mirror.start(family.engine, family.reference)
    for start in range(0, len(text), characters):
        mirror.append(text[start : start + characters])
        mirror.check(whole=False)
    mirror.check()


def test_a_mark_withdraws_what_stands_before(family: Family) -> None:
    """A mark of a low combining class reorders to the left of thousands: no fixed look-back is enough."""
    mirror = Mirror.start(family.engine, family.reference)
    mirror.append("a" + "\u0301" * 800)
    mirror.append("\u0327")
    mirror.check()
    mirror.edit(1, 1, "\u0327")
    mirror.check()
    mirror.append(" and on")
    mirror.check()


def test_long_run_then_word(family: Family) -> None:
    for unit in (" ", "\n", "a", "1", "="):
        mirror = Mirror.start(family.engine, family.reference)
        mirror.append(unit * 3_000)
        for delta in ("x", " ", unit * 5, "\n", "'s"):
            mirror.append(delta)
            mirror.check()
        mirror.edit(1_500, 1_501, "Q")
        mirror.check()


@pytest.mark.parametrize("draw", range(3))
def test_transcripts(family: Family, rng: random.Random, draw: int, effort: float) -> None:
    """A transcript turn by turn: every splice applied, some turns and the last compared with the reference."""
    files = transcripts.session_files()
    if files:
        turns = transcripts.read_session(rng.choice(files))
    else:
        turns, _ = transcripts.transcript(REPLAY_CHARS, seed=rng.randrange(1 << 30))
    sizes, total = [], 0
    for turn in turns:
        total += len(turn)
        sizes.append(total)
        if total > REPLAY_CHARS * effort:
            break
    turns = turns[: len(sizes)]
    checked = {len(turns) - 1, *rng.sample(range(len(turns)), min(len(turns), CHECKED_TURNS))}
    mirror = Mirror.start(family.engine, family.reference)
    for index, turn in enumerate(turns):
        mirror.append(turn)
        if index in checked:
            mirror.check(whole=index == len(turns) - 1)


def test_multi_text_appended(family: Family, rng: random.Random) -> None:
    """Texts of many languages, joined from pieces cut anywhere, also inside what a reader sees as one character."""
    files = shared_data.multi_texts()
    if not files:
        pytest.skip("../shared/data/multi is not on this machine")
    mirror = Mirror.start(family.engine, family.reference)
    for path in rng.sample(files, 12):
        text = _slice(rng, path, 1_500)
        while text:
            size = rng.randrange(1, 400)
            mirror.append(text[:size])
            text = text[size:]
        mirror.check(whole=False)
    mirror.check()


def _slice(rng: random.Random, path: Path, chars: int) -> str:
    text = shared_data.read_text(path)
    start = rng.randrange(max(1, len(text) - chars))
    return text[start : start + chars]


# Refusals: each names the place and leaves the session as it was.


@pytest.mark.parametrize(
    ("bad", "position", "unit"),
    [
        ("ab\ud800c", 2, "character"),
        ("\udfff", 0, "character"),
        ("\U0001f600\ud83d", 1, "character"),
        (b"ab\xff", 2, "byte"),
        (b"\xc3", 0, "byte"),
        (b"caf\xc3\xa9 \xed\xa0\x80", 6, "byte"),
        (b"\xf0\x9f\x98", 0, "byte"),
        (b"x\xc0\x80", 1, "byte"),
        (b"x\xf4\x90\x80\x80", 1, "byte"),
    ],
)
def test_text_that_is_not_unicode(any_family: Family, bad: str | bytes, position: int, unit: str) -> None:
    tokenizer = any_family.engine
    mirror = Mirror.start(tokenizer, any_family.reference)
    mirror.append("before it ")
    calls = (
        lambda: tokenizer.encode(bad),
        lambda: tokenizer.offsets(bad),
        lambda: mirror.session.append(bad),
        lambda: mirror.session.edit(2, 4, bad),
        lambda: mirror.session.reset(bad),
    )
    for call in calls:
        with pytest.raises(BadTextError) as caught:
            call()
        assert (caught.value.position, caught.value.unit) == (position, unit)
        mirror.check()
    mirror.append("after it")
    mirror.check()


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 7), (7, 7), (-2, -1), (1 << 40, 1 << 41)])
def test_edit_outside_the_text(any_family: Family, start: int, stop: int) -> None:
    mirror = Mirror.start(any_family.engine, any_family.reference)
    mirror.append("sëven\n")
    with pytest.raises(BadEditError):
        mirror.session.edit(start, stop, "x")
    mirror.check()
    mirror.edit(0, 6, "")
    mirror.check()
    mirror.edit(0, 0, "again")
    mirror.check()


def test_work_says_what_was_encoded(family: Family) -> None:
    """An append's work follows the change, not the context."""
    session = family.engine.session()
    session.append(transcripts.source_text(300_000))
    session.append(" and a little more")
    appended = session.work
    session.edit(150_000, 150_010, "changed()")
    edited = session.work
    session.reset("new")
    assert [appended.path, edited.path, session.work.path] == ["append", "edit", "fresh"]
    assert appended.chars_encoded < 10_000
    assert edited.chars_encoded < 20_000


def test_memory_stays_small(family: Family) -> None:
    """At most nine bytes a token of five bytes, beside a fixed start (design section 4)."""
    session = family.engine.session()
    for start in range(0, 40):
        session.append(transcripts.source_text(20_000, seed=start))
    per_token = (session.memory_bytes - 100_000) / session.token_count
    text_bytes = len(session.text().encode()) / session.token_count
    assert per_token <= 3.5 + 1.1 * text_bytes
