"""A session seen from the client: turns become changes, changes become messages, patches become ids. Pure.

It keeps the text (to find a turn's change, and to send it again in full when the worker lost its state), the live ids,
and the base: the revision and digest that the worker stood at when it last answered. A call is three steps: plan a
change, make its message, take the reply; nothing of the state changes before the third.

The third may be broken off anywhere (KeyboardInterrupt, MemoryError). Text and base are values, replaced at one stroke;
the live ids are changed in place, between two marks. Who finds the first without the second sends the full text, whose
answer is compared with the ids as they are.

Limits: no sockets, no clock; the caller sees to it that one call is under way at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from tokseam.broker import protocol
from tokseam.broker.protocol import Reply, Request

from .errors import InternalError, StaleError
from .ids import as_list, id_list, numbers
from .surface import Outcome, Patch, check_range, check_session_id, shared_ends, utf8
from .text import PieceText


class Change(NamedTuple):
    """A change of a session's text: code points [start, stop) become `text`. `whole`: the new text, if at hand."""

    start: int
    stop: int
    text: str
    whole: str | None = None


class Base(NamedTuple):
    """Where the worker stood when it last answered."""

    revision: int
    digest: bytes


class Message:
    """What to send for a change."""

    __slots__ = ("_ahead", "_digest_of", "_text_after", "op", "payload")

    def __init__(
        self,
        op: Literal["full", "append", "edit"],
        payload: bytes,
        digest_of: Callable[[bytes], bytes],
        text_after: Callable[[], PieceText],
    ) -> None:
        self.op = op
        self.payload = payload
        self._digest_of = digest_of
        self._text_after = text_after
        self._ahead: tuple[bytes, PieceText] | None = None

    def prepare(self) -> tuple[bytes, PieceText]:
        """Return the digest that a right answer carries, and the text that it is for; in time of the payload.

        They are made while the answer is under way, when that costs nobody anything.
        """
        if self._ahead is None:
            self._ahead = self._digest_of(self.payload), self._text_after()
        return self._ahead

    @property
    def digest(self) -> bytes:
        """The digest that a right answer carries."""
        return self.prepare()[0]


def change_between(old: str, new: str) -> Change:
    """Return the smallest single change that turns one text into another."""
    prefix, suffix = shared_ends(old, new)
    return Change(prefix, len(old) - suffix, new[prefix : len(new) - suffix], new)


class Turns:
    """One session's text, ids and base."""

    def __init__(self, tokenizer: str, flags: int) -> None:
        self.tokenizer = tokenizer
        self.flags = flags
        #: Never changed in place, but replaced by another.
        self.text = PieceText()
        #: The ids of `text`, if they are an answer to it. Changed in place, since callers may hold it.
        self.ids: list[int] = []
        #: None until the first answer, after the worker was found to have lost the session, and after an answer that
        #: was not taken to the end.
        self.base: Base | None = None
        #: Whether `ids` are an answer to `text`: not before the first (an empty text may have ids too, from
        #: add_special_tokens), nor while one is taken.
        self.answered = False

    def fork(self) -> Turns:
        twin = Turns(self.tokenizer, self.flags)
        twin.text, twin.ids = self.text.copy(), self.ids.copy()
        twin.base, twin.answered = self.base, self.answered
        return twin

    # -- plan -------------------------------------------------------------------------------------------------

    def plan_turn(self, text: str) -> Change:
        """The next turn's whole text."""
        if not isinstance(text, str):
            utf8(text)
        return change_between(str(self.text), text)

    def plan_append(self, delta: str) -> Change:
        return Change(self.text.length, self.text.length, delta)

    def plan_edit(self, start: int, stop: int, replacement: str) -> Change:
        check_range(start, stop, self.text.length)
        return Change(start, stop, replacement)

    # -- message ----------------------------------------------------------------------------------------------

    def message(self, change: Change) -> Message | None:
        """Return what to send, None when nothing changes. Raises BadRequestError when the text has no UTF-8 form."""
        where = change.start if change.whole is not None else 0
        place = "text" if change.whole is not None else "delta" if change.start == self.text.length else "replacement"
        payload = utf8(change.text, place, where)
        if self.answered and not payload and change.start == change.stop:
            return None
        after = partial(_changed, self.text, change)
        if self.base is None or (change.start == 0 and change.stop == self.text.length):
            whole = payload if change.stop - change.start == self.text.length else self._whole(change).encode()
            return Message("full", whole, partial(protocol.digest_full, self.tokenizer, self.flags), after)
        base = self.base.digest
        if change.start == self.text.length:
            return Message("append", payload, partial(protocol.digest_change, base, "append", 0, 0), after)
        return Message("edit", payload, partial(protocol.digest_change, base, "edit", change.start, change.stop), after)

    def address(self, request: Request, message: Message, change: Change) -> None:
        """Fill in what a request for this message says of the session."""
        request.tokenizer, request.flags, request.body = self.tokenizer, self.flags, [message.payload]
        if self.base is not None:
            request.revision, request.digest = self.base
        if message.op == "edit":
            request.start, request.stop = change.start, change.stop

    def _whole(self, change: Change) -> str:
        if change.whole is not None:
            return change.whole
        return str(_changed(self.text, change))

    # -- take -------------------------------------------------------------------------------------------------

    def take(self, change: Change, message: Message, reply: Reply) -> Patch:
        """Apply an answer. Raises StaleError when it is of another history, InternalError when it makes no sense."""
        digest, text = message.prepare()
        if reply.digest != digest or reply.revision is None:
            self.base = None
            raise StaleError("the worker answered for another history of this session")
        if len(reply.body) != 1 or reply.start is None or reply.stop is None:
            raise InternalError("the answer to a change holds no patch")
        if message.op == "full":
            patch = patch_between(self.ids, numbers(reply.body[0]))
        else:
            patch = Patch(reply.start, reply.stop, id_list(reply.body[0]))
        if not 0 <= patch.start <= patch.stop <= len(self.ids):
            raise InternalError(f"the answer patches ids {patch.start}:{patch.stop} of {len(self.ids)}")
        base = Base(reply.revision, digest)
        self.base = None
        self.answered = False
        self.ids[patch.start : patch.stop] = patch.ids
        self.text = text
        self.base = base
        self.answered = True
        return patch

    def nothing(self) -> Patch:
        return Patch(len(self.ids), len(self.ids), [])


def _changed(text: PieceText, change: Change) -> PieceText:
    if change.whole is not None:
        return PieceText(change.whole)
    after = text.copy()
    if change.start == text.length:
        after.append(change.text)
    else:
        after.edit(change.start, change.stop, change.text)
    return after


def patch_between(old: list[int], new: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> Patch:
    """Return the smallest patch from the ids at hand to those of a full answer."""
    if not old:
        return Patch(0, 0, as_list(new))
    before = np.array(old, dtype=np.uint32)
    shared = min(len(before), len(new))
    unequal = np.flatnonzero(before[:shared] != new[:shared])
    start = int(unequal[0]) if len(unequal) else shared
    rest = shared - start
    unequal = np.flatnonzero(before[len(before) - rest :][::-1] != new[len(new) - rest :][::-1])
    suffix = int(unequal[0]) if len(unequal) else rest
    return Patch(start, len(before) - suffix, as_list(new[start : len(new) - suffix]))


__all__ = [
    "Base",
    "Change",
    "Message",
    "Outcome",
    "Patch",
    "Turns",
    "change_between",
    "check_session_id",
    "patch_between",
    "utf8",
]
