"""Session-shaped requests straight into a worker's core, and faults planted between its engine and the wire.

Shared by test_shadow.py and bench/shadow.py. The faults are the paper's: an id substituted, deleted, doubled, swapped
with its neighbour, and a tail split otherwise into as many ids of the same bytes. Limits: no client applies the
patches, so a fault stays in its own answer.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from tokseam.broker import protocol
from tokseam.broker.protocol import Reply, Request
from tokseam.workers.core import WorkerCore

#: Of the paper: faults, requests.
FAULTS, REQUESTS = 434, 2999
KINDS = ("substitution", "deletion", "duplication", "swap", "resplit")


@dataclass
class Planter:
    """A seam that harms the answers of chosen requests. `harmed`: number of the request -> kind of fault."""

    #: Token strings by id, and back, in which joining strings joins bytes (the byte-level alphabet).
    tokens: dict[int, str]
    #: Numbers of the requests to harm; one whose answer can't be harmed passes its fault on to the next.
    chosen: set[int]
    dice: random.Random
    kinds: Sequence[str] = KINDS
    number: int = 0
    owed: int = 0
    harmed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids = {token: number for number, token in self.tokens.items()}
        self._kinds = itertools.cycle(self.kinds)
        self._kind = next(self._kinds)

    def __call__(self, request: Request, reply: Reply) -> Reply:
        self.owed += self.number in self.chosen
        if self.owed and len(reply.body) == 1:
            ids = np.frombuffer(reply.body[0], "<u4").tolist()
            harmed = self.harm(ids, self._kind)
            if harmed is not None:
                self.harmed[self.number] = self._kind
                self._kind = next(self._kinds)
                self.owed -= 1
                reply = replace(reply, body=[np.array(harmed, "<u4").tobytes()])
        self.number += 1
        return reply

    def harm(self, ids: list[int], kind: str) -> list[int] | None:
        """Return the ids with one fault; None where this kind can't be."""
        if not ids:
            return None
        at = self.dice.randrange(len(ids))
        if kind == "substitution":
            other = self.dice.choice([one for one in self.dice.choices(list(self.tokens), k=4) if one != ids[at]])
            return [*ids[:at], other, *ids[at + 1 :]]
        if kind == "deletion":
            return [*ids[:at], *ids[at + 1 :]]
        if kind == "duplication":
            return [*ids[: at + 1], *ids[at:]]
        if kind == "swap":
            unequal = [place for place in range(len(ids) - 1) if ids[place] != ids[place + 1]]
            if not unequal:
                return None
            at = self.dice.choice(unequal)
            return [*ids[:at], ids[at + 1], ids[at], *ids[at + 2 :]]
        for at in range(len(ids) - 2, max(-1, len(ids) - 200), -1):  # a resplit, as near to the tail as there is one
            first, second = self.tokens.get(ids[at], ""), self.tokens.get(ids[at + 1], "")
            both = first + second
            for cut in range(1, len(both)):
                left, right = self.ids.get(both[:cut]), self.ids.get(both[cut:])
                if cut != len(first) and left is not None and right is not None:
                    return [*ids[:at], left, right, *ids[at + 2 :]]
        return None


class Asked(NamedTuple):
    """A request to come, by what it does to the text."""

    session: int
    op: str
    start: int
    stop: int
    text: str


def session_shaped(count: int, steps: Iterator[str], dice: random.Random, context_chars: int) -> Iterator[Asked]:
    """Yield requests as agents' sessions make them: starts, many appends, some edits, a compaction when it is long."""
    lengths: dict[int, int] = {}
    for _ in range(count):
        session = dice.randrange(8)
        length = lengths.get(session)
        step = next(steps)
        if length is None or length > context_chars:
            text = "".join(itertools.islice(steps, 3))[: context_chars // 2] + step[: context_chars // 4]
            lengths[session] = len(text)
            yield Asked(session, "full", 0, 0, text)
        elif dice.random() < 0.08:
            start = dice.randrange(length)
            stop = min(length, start + dice.choice((0, 3, 200)))
            text = step[: dice.choice((1, 20, 400))]
            lengths[session] = length - (stop - start) + len(text)
            yield Asked(session, "edit", start, stop, text)
        else:
            text = step[: context_chars // 4]
            lengths[session] = length + len(text)
            yield Asked(session, "append", 0, 0, text)


class Driver:
    """Sends requests into a core, and keeps of each session what the next one has to say of it."""

    def __init__(self, core: WorkerCore, tokenizer: str = "ds") -> None:
        self.core, self.tokenizer = core, tokenizer
        self.now = 0.0
        self._counter = itertools.count()
        self._bases: dict[int, tuple[int, bytes]] = {}

    def send(self, asked: Asked) -> Reply:
        """Carry one request out. Its samples lie in the core."""
        fields: dict[str, Any] = {"tokenizer": self.tokenizer, "session": f"s{asked.session}"}
        if asked.op != "full":
            fields["revision"], fields["digest"] = self._bases[asked.session]
        request = Request(asked.op, next(self._counter).to_bytes(16, "little"), body=[asked.text.encode()], **fields)
        request.start, request.stop = asked.start, asked.stop
        reply = protocol.unpack_reply(self.core.handle(protocol.pack_request(request), self.now)[1])
        assert reply.code == "ok", reply.message
        assert reply.revision is not None
        assert reply.digest is not None
        self._bases[asked.session] = (reply.revision, reply.digest)
        return reply


def token_strings(tokenizer_json: dict[str, Any]) -> dict[int, str]:
    """Return the vocabulary of a byte-level tokenizer.json by id, added tokens left out."""
    added = {entry["id"] for entry in tokenizer_json["added_tokens"]}
    return {number: token for token, number in tokenizer_json["model"]["vocab"].items() if number not in added}
