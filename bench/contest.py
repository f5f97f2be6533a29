"""One round-robin among peers on given texts: every run timed, every result compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import marking, peers
from .peers import Loaded, Missing
from .subjects import Subject
from .timing import Run, Sample, in_turn, quiet, timed


@dataclass
class Standing:
    """A peer in a contest: its runs by column, and what was wrong with its ids ('' while they are the reference's)."""

    peer: Loaded
    runs: dict[str, list[Run]] = field(default_factory=dict)
    differs: str = ""
    #: It raised: it is not asked again.
    out: bool = False


def copied(text: str) -> str:
    """Return an equal str that is another one: the UTF-8 that one peer leaves inside a str would be the next one's."""
    return (text + " ")[:-1]


class Contest:
    """The peers that could be loaded for a tokenizer, those that couldn't, and their runs."""

    def __init__(
        self, subject: Subject, names: Sequence[str], threads: int = 1, without: dict[str, str] | None = None
    ) -> None:
        """`without`: peers that are left out, each with the reason (it broke an earlier process, say)."""
        self.subject = subject
        ready, missing = peers.load_all([name for name in names if name not in (without or {})], subject, threads)
        ours = next((one for one in missing if one.name == peers.OURS), None)
        if ours is not None and threads == 1:
            raise RuntimeError(f"without ours there is nothing to compare: {ours.reason}")
        missing += [Missing(name, reason) for name, reason in (without or {}).items()]
        self.standings = [Standing(peer) for peer in ready]
        self.missing: list[Missing] = missing
        self._rounds = 0

    def warm(self, text: str) -> None:
        """Encode once with every peer, untimed, and compare with the reference."""
        wanted = self.subject.reference.ids(text)
        for one in self.standings:
            if not one.out:
                with marking.at_work(one.peer.name):
                    self._note(one, peers.compare(one.peer, text, wanted))

    def feed(self, text: str) -> None:
        """Encode once with every peer, untimed and not compared: for what fills caches only."""
        for one in self.standings:
            if not one.out:
                try:
                    with marking.at_work(one.peer.name):
                        one.peer.encode(text)
                except Exception as error:
                    self._note(one, f"failed: {type(error).__name__}: {error}"[:300])

    def round(self, column: str, text: str, times: int = 1) -> int:
        """Time every peer on `text`, `times` in turn; compare each last result; return the number of ids."""
        last: dict[str, Any] = {}
        for _ in range(times):
            with quiet():
                for index in in_turn(len(self.standings), self._rounds):
                    one = self.standings[index]
                    if one.out:
                        continue
                    try:
                        own = copied(text)
                        with marking.at_work(one.peer.name):
                            run, result = timed(lambda one=one, own=own: one.peer.encode(own))  # type: ignore[misc]
                    except Exception as error:
                        self._note(one, f"failed: {type(error).__name__}: {error}"[:300])
                        continue
                    one.runs.setdefault(column, []).append(run)
                    last[one.peer.name] = result
            self._rounds += 1
        wanted = self.subject.reference.ids(text)
        for one in self.standings:
            if one.peer.name in last:
                self._note(one, peers.difference(one.peer.ids(last[one.peer.name]), wanted))
        return len(wanted)

    def leave_out_slow(self, column: str, limit_us: float) -> None:
        """Ask no more whoever needed more than `limit_us` in a column."""
        for one in self.standings:
            runs = one.runs.get(column)
            if runs and Sample.of(runs).p50 > limit_us:
                one.out = True

    def result(self, column: str) -> dict[str, Any]:
        """Return the peers' samples of a column, as a row's `peers`; who took no part stands there with a reason."""
        found: dict[str, Any] = {}
        for one in self.standings:
            runs = one.runs.get(column)
            found[one.peer.name] = {
                "version": one.peer.version,
                "form": one.peer.form,
                "us": Sample.of(runs).as_dict() if runs else None,
                "differs": one.differs,
            }
        for one_missing in self.missing:
            found[one_missing.name] = {"us": None, "missing": one_missing.reason}
        return found

    @staticmethod
    def _note(one: Standing, differs: str) -> None:
        one.differs = one.differs or differs
        one.out = one.out or differs.startswith("failed")
