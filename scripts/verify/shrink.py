"""Make a diverging input as small as it gets: drop characters (or steps), then make those that are left plainer.

An input counts as the same divergence while the same check finds a difference at the same level. Limits: the result is
minimal in that no single character or step can be dropped, not the shortest there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from .checks import Divergence, Step, Tally, check_chunks, check_cuts, check_flags, check_history, check_texts
from .subject import Subject

Item = TypeVar("Item")

#: Seconds after which a divergence is reported as small as it is by then.
SHRINK_S = 60.0

#: What a character is replaced by if the divergence stays, the plainest first.
PLAIN = "a 0.\n"


def find(subject: Subject, divergence: Divergence, what: dict[str, Any]) -> Divergence | None:
    """Check one input anew: the divergence that it shows, or None."""
    tally = Tally()
    flags = (bool(what.get("add_special_tokens")), bool(what.get("split_special_tokens")))
    if divergence.check == "session":
        steps: list[Step] = [tuple(step) for step in what["steps"]]
        return check_history(subject, steps, tally, flags)
    if divergence.check == "flags":
        return check_flags(subject, [what["text"]], tally, *flags)
    if divergence.check == "full":
        return check_texts(subject, [what["text"]], tally)
    known = set(subject.tokenizer.cuts(what["text"]).tolist())
    cuts = [cut for cut in what["cuts"] if cut in known]
    check = check_cuts if divergence.check == "cut" else check_chunks
    return check(subject, [(what["text"], cuts)], tally)


def shrink(subject: Subject, divergence: Divergence, seconds: float = SHRINK_S) -> Divergence:
    """Return the divergence with the smallest input that was found within `seconds`."""
    deadline = time.monotonic() + seconds
    divergence = _without_parts(subject, divergence)
    best = divergence

    def shows(what: dict[str, Any]) -> bool:
        nonlocal best
        if time.monotonic() > deadline:
            return False
        found = find(subject, divergence, what)
        if found is None or not divergence.same_kind(found):
            return False
        best = replace(found, input=what)
        return True

    if divergence.check == "session":
        _shrink_history(best.input, shows, lambda: best.input)
    elif "cuts" in divergence.input:
        _shrink_parted(best.input, shows, lambda: best.input)
    else:
        _shrink_text(best.input, shows, lambda: best.input)
    return best


def _without_parts(subject: Subject, divergence: Divergence) -> Divergence:
    """Return a difference of a full encode in place of one of chunks, where the text or one of its chunks shows it."""
    if divergence.check != "chunks":
        return divergence
    text, cuts = divergence.input["text"], divergence.input["cuts"]
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return check_texts(subject, [text, *parts], Tally()) or divergence


Shows = Callable[[dict[str, Any]], bool]
Now = Callable[[], dict[str, Any]]


def _shrink_text(what: dict[str, Any], shows: Shows, now: Now) -> None:
    for _ in range(2):  # once characters are plainer, some more can often go
        _minimal(list(now()["text"]), lambda items: shows({**what, "text": "".join(items)}))
        _plainer(now, lambda text: shows({**what, "text": text}))


def _shrink_parted(what: dict[str, Any], shows: Shows, now: Now) -> None:
    text = what["text"]
    for cut in what["cuts"]:  # one cut is enough, nearly always
        if shows({**what, "cuts": [cut]}):
            break
    cuts = now()["cuts"]
    # Characters carry their cut along: a cut stands before one character, and goes when that goes.
    marked = [(character, at in cuts) for at, character in enumerate(text)]

    def parted(items: Sequence[tuple[str, bool]]) -> bool:
        kept = [at for at, (_, cut) in enumerate(items) if cut and at]
        return bool(kept) and shows({**what, "text": "".join(c for c, _ in items), "cuts": kept})

    _minimal(marked, parted)
    _plainer(now, lambda plainer: shows({**now(), "text": plainer}))


def _shrink_history(what: dict[str, Any], shows: Shows, now: Now) -> None:
    steps = _minimal(what["steps"], lambda items: shows({**what, "steps": list(items)}))
    for at in range(len(steps)):
        kind, which, a, b, text = now()["steps"][at]

        def with_step(*changed: Any, at: int = at) -> bool:
            current = list(now()["steps"])
            current[at] = list(changed)
            return shows({**what, "steps": current})

        for smaller in (0, which % 2):
            if with_step(kind, smaller, a, b, text):
                which = smaller
                break
        shrunk = _minimal(list(text), lambda items: with_step(kind, which, a, b, "".join(items)))  # noqa: B023
        text = "".join(shrunk)
        while a and with_step(kind, which, a // 2, b, text):
            a //= 2
        while b and with_step(kind, which, a, b // 2, text):
            b //= 2


def _minimal(items: Sequence[Item], shows: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """Delta debugging: drop ever smaller stretches while what is left still shows the divergence."""
    current = list(items)
    size = max(1, len(current) // 2)
    while current:
        at, dropped = 0, False
        while at < len(current):
            candidate = current[:at] + current[at + size :]
            if len(candidate) < len(current) and shows(candidate):
                current, dropped = candidate, True
            else:
                at += size
        if size > 1:
            size = max(1, size // 2)
        elif not dropped:
            break
    return current


def _plainer(now: Now, shows: Callable[[str], bool]) -> None:
    for at in range(len(now()["text"])):
        text = now()["text"]
        for plain in PLAIN:
            if text[at] == plain or shows(text[:at] + plain + text[at + 1 :]):
                break
