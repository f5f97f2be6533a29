"""Random lives of sessions over the public surface, each step compared with a fresh reference encode.

The tests call `live`. As a script it is one client process, TOKENIZER ENDPOINT SEED STEPS [ID], and prints its paths.
"""

from __future__ import annotations

import random
import sys
import uuid
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import hostile

WORDS = [
    " and",
    " the tokens",
    "\n\n",
    "  ",
    "def f(x):\n    return x\n",
    "12345",
    "don't",
    "é",
    "e\u0301",
    "😀",
    "x" * 40,
]


class Follower:
    """A session, with the text and ids that it must have."""

    def __init__(self, session: Any, text: str = "", ids: list[int] | None = None) -> None:
        self.session, self.text, self.ids = session, text, ids or []


def live(surface: Any, tokenizer: Tokenizer, seed: int, steps: int, shared_id: str | None = None) -> dict[str, int]:
    """Live random steps on forks of one session; raise AssertionError at the first difference.

    `shared_id`: the first session's id, when other clients are to fight over it. Returns how often each path answered.
    """
    dice = random.Random(seed)
    alphabet = hostile.atoms([token.content for token in tokenizer.get_added_tokens_decoder().values()][:20])
    alive = [Follower(surface.session(shared_id or f"life-{uuid.uuid4()}"))]
    paths: dict[str, int] = {}

    def some_text() -> str:
        kind = dice.random()
        if kind < 0.4:
            return "".join(dice.choice(WORDS) for _ in range(dice.randrange(1, 12)))
        return hostile.hostile_text(dice, dice.randrange(1, 15), alphabet)

    for step in range(steps):
        one = dice.choice(alive)
        size = len(one.text)
        kind = dice.random()
        patch = None
        if kind < 0.3:
            delta = some_text()
            one.text += delta
            patch = one.session.append_patch(delta)
        elif kind < 0.4:
            delta = some_text()
            one.text += delta
            one.ids = one.session.append(delta)
        elif kind < 0.65:
            start = dice.randrange(size + 1)
            stop = min(size, start + dice.choice((0, 1, 3, dice.randrange(60))))
            replacement = "" if dice.random() < 0.3 else some_text()
            one.text = one.text[:start] + replacement + one.text[stop:]
            patch = one.session.edit(start, stop, replacement)
        elif kind < 0.85:
            start = dice.randrange(size + 1)
            one.text = one.text[:start] + some_text() + one.text[min(size, start + dice.randrange(30)) :]
            if dice.random() < 0.1:
                one.text = some_text()  # compaction
            if dice.random() < 0.5:
                one.ids = one.session.encode(one.text)
            else:
                patch = one.session.encode_patch(one.text)
        else:
            twin = Follower(one.session.fork(f"life-{uuid.uuid4()}"), one.text, one.ids.copy())
            if len(alive) == 4:
                alive.pop(dice.randrange(4)).session.close()
            alive.append(twin)
            one = twin
        if patch is not None:
            one.ids[patch.start : patch.stop] = patch.ids
        wanted = tokenizer.encode(one.text, add_special_tokens=False).ids
        story = f"seed {seed}, step {step}, {one.text!r:.300}"
        assert one.ids == wanted, story
        assert one.session.ids == wanted, story
        assert one.session.text == one.text, story
        if one.session.last is not None:
            paths[one.session.last.path] = paths.get(one.session.last.path, 0) + 1
    for follower in alive:
        assert follower.session.ids == tokenizer.encode(follower.text, add_special_tokens=False).ids
        follower.session.close()
    return paths


def main() -> None:
    from tokseam.client import connect

    path, endpoint, seed, steps, *shared = sys.argv[1:]
    tokenizer = Tokenizer.from_file(path)
    with connect(endpoint) as client:
        print("ready", flush=True)
        sys.stdin.readline()  # all begin together
        print(live(client, tokenizer, int(seed), int(steps), *shared))


if __name__ == "__main__":
    main()
