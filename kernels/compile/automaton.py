"""Compile a splitting stage's regex into a leftmost-first DFA over character classes.

A DFA state is an ordered list of NFA threads, the preferred one first, cut behind the first that matches. A lookahead
over one character is decided on the next class, or at the end: so a transition is a function of (state, next class),
and says two
things: whether the threads match *before* that class is consumed, and the state after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .class_probe import check_no_sequences
from .refusal import Refusal
from .regex_syntax import Atom, Choice, Dialect, Look, Node, Repeat, Sequence

#: Set in a transition when the attempt matches before the class is consumed.
MATCH = 0x8000
#: The part of a transition that is the next state.
STATE = 0x7FFF
#: The state without threads: the attempt is over.
DEAD = 0
START = 1

MAX_STATES = 4096
MAX_INSTRUCTIONS = 4096


@dataclass(frozen=True)
class _Char:
    atom: str
    then: int


@dataclass(frozen=True)
class _Split:
    first: int
    second: int


@dataclass(frozen=True)
class _Assert:
    atom: str | None  # None: the end of the text
    negated: bool
    then: int


@dataclass(frozen=True)
class _Match:
    pass


_Instruction = _Char | _Split | _Assert | _Match


class Program:
    """A regex as NFA instructions. Instruction 0 is the match; `start` is where an attempt begins."""

    def __init__(self, node: Node, dialect: Dialect) -> None:
        self.instructions: list[_Instruction] = [_Match()]
        #: (instruction a possessive repeat leaves to, its atom): to be proved equal to greedy once classes are known.
        self.possessive: list[tuple[int, str]] = []
        self._dialect = dialect
        _check_folding(node, dialect)
        self.start = self._build(node, 0)

    def atoms(self) -> list[str]:
        """Return the sources of all atoms, each once, in order."""
        found = [i.atom for i in self.instructions if isinstance(i, (_Char, _Assert)) and i.atom is not None]
        return list(dict.fromkeys(found))

    def _add(self, instruction: _Instruction) -> int:
        if len(self.instructions) >= MAX_INSTRUCTIONS:
            raise Refusal(f"a regex needs more than {MAX_INSTRUCTIONS} instructions")
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def _build(self, node: Node, then: int) -> int:
        """Add `node` in front of instruction `then`; return its entry."""
        if isinstance(node, Atom):
            return self._add(_Char(node.source, then))
        if isinstance(node, Look):
            return self._add(_Assert(node.atom.source if node.atom else None, node.negated, then))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self._build(part, then)
            return then
        if isinstance(node, Choice):
            entries = [self._build(option, then) for option in node.options]
            entry = entries[-1]
            for other in reversed(entries[:-1]):
                entry = self._add(_Split(other, entry))
            return entry
        return self._build_repeat(node, then)

    def _build_repeat(self, node: Repeat, then: int) -> int:
        if node.mode == "possessive":
            if not isinstance(node.body, Atom):
                raise Refusal("a possessive repeat of more than one class, which may match otherwise than a greedy one")
            self.possessive.append((then, node.body.source))
        lazy = node.mode == "lazy"

        def fork(again: int, leave: int) -> int:
            return self._add(_Split(leave, again) if lazy else _Split(again, leave))

        entry = then
        if node.most is None:
            if _nullable(node.body):
                raise Refusal("an unbounded repeat of something that matches nothing")
            loop = self._add(_Split(0, 0))  # placed first, filled when its body is known
            body = self._build(node.body, loop)
            self.instructions[loop] = _Split(then, body) if lazy else _Split(body, then)
            entry = loop
        else:
            for _ in range(node.most - node.least):
                entry = fork(self._build(node.body, entry), then)
        for _ in range(node.least):
            entry = self._build(node.body, entry)
        return entry


def _nullable(node: Node) -> bool:
    if isinstance(node, Atom):
        return False
    if isinstance(node, Look):
        return True
    if isinstance(node, Sequence):
        return all(_nullable(part) for part in node.parts)
    if isinstance(node, Choice):
        return any(_nullable(option) for option in node.options)
    return node.least == 0 or _nullable(node.body)


def _check_folding(node: Node, dialect: Dialect) -> None:
    """Check every run of adjacent case-insensitive atoms: no single character may match several of them."""
    if isinstance(node, Choice):
        for option in node.options:
            _check_folding(option, dialect)
        return
    run: list[str] = []
    for part in _flattened(node):
        if isinstance(part, Atom) and part.source.startswith("(?i:"):
            run.append(part.source)
            continue
        check_no_sequences(run, dialect)
        run = []
        if isinstance(part, Choice):
            _check_folding(part, dialect)
        elif isinstance(part, Repeat):
            # The engine may write a small repeat out: check as if what is repeated stood there three times.
            _check_folding(Sequence((part.body,) * 3), dialect)
    check_no_sequences(run, dialect)


def _flattened(node: Node) -> list[Node]:
    if isinstance(node, Sequence):
        return [inner for part in node.parts for inner in _flattened(part)]
    return [node]


@dataclass(frozen=True)
class Automaton:
    """A DFA over classes.

    transitions: uint16 (states, classes + 1); the last column is the end of the text. The low 15 bits are the next
    state,
    MATCH says that the attempt matches before the class is consumed. State DEAD has no threads, START begins an
    attempt.
    """

    transitions: npt.NDArray[np.uint16]

    @property
    def classes(self) -> int:
        return int(self.transitions.shape[1]) - 1

    def can_fail(self) -> npt.NDArray[np.bool_]:
        """For each class: can an attempt that starts with it end without a match?"""
        result = np.zeros(self.classes, dtype=bool)
        for first in range(self.classes):
            # Walk only along transitions without a match: reaching the end of the attempt there is a failure.
            target = int(self.transitions[START, first])
            seen, stack = set(), [target & STATE] if not target & MATCH else []
            while stack:
                state = stack.pop()
                if state == DEAD:
                    result[first] = True
                    break
                if state in seen:
                    continue
                seen.add(state)
                for entry in self.transitions[state]:
                    if not int(entry) & MATCH:
                        stack.append(int(entry))
        return result


def build(program: Program, membership: dict[str, npt.NDArray[np.bool_]], classes: int) -> Automaton:
    """Determinize. `membership[source][class]` tells whether an atom holds a class.

    Raises Refusal: the regex can match nothing, needs too many states, or has a possessive repeat that is not plainly
    greedy.
    """
    end = classes
    _check_possessive(program, membership)
    states: dict[tuple[int, ...], int] = {(): DEAD, (program.start,): START}
    queue: list[tuple[int, ...]] = [(program.start,)]
    rows: dict[int, list[int]] = {DEAD: [DEAD] * (classes + 1)}
    while queue:
        threads = queue.pop()
        row = []
        for symbol in range(classes + 1):
            live, matched = _closure(program, threads, None if symbol == end else symbol, membership)
            following = tuple(dict.fromkeys(then for then in live))
            if following not in states:
                if len(states) >= MAX_STATES:
                    raise Refusal(f"a regex needs more than {MAX_STATES} states")
                states[following] = len(states)
                queue.append(following)
            row.append(states[following] | (MATCH if matched else 0))
        rows[states[threads]] = row
    table = np.array([rows[state] for state in range(len(rows))], dtype=np.uint16)
    if (table[START] & MATCH).any():
        raise Refusal("a regex that can match the empty text")
    table = _minimized(table)
    if len(table) == 1:
        raise Refusal("a regex that matches nothing at all")
    return Automaton(table)


def _closure(
    program: Program, threads: tuple[int, ...], symbol: int | None, membership: dict[str, npt.NDArray[np.bool_]]
) -> tuple[list[int], bool]:
    """Run `threads` up to the next symbol (None.

    The end): where the ones that consume it go, and whether one matches first.
    """
    live: list[int] = []
    seen: set[int] = set()
    stack = list(reversed(threads))
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        instruction = program.instructions[at]
        if isinstance(instruction, _Match):
            return live, True  # the threads behind it are less preferred: cut
        if isinstance(instruction, _Split):
            stack.append(instruction.second)
            stack.append(instruction.first)
        elif isinstance(instruction, _Char):
            if symbol is not None and membership[instruction.atom][symbol]:
                live.append(instruction.then)
        elif _holds(instruction, symbol, membership):
            stack.append(instruction.then)
    return live, False


def _holds(look: _Assert, symbol: int | None, membership: dict[str, npt.NDArray[np.bool_]]) -> bool:
    if look.atom is None:
        return (symbol is None) != look.negated
    inside = symbol is not None and bool(membership[look.atom][symbol])
    return inside != look.negated


def _check_possessive(program: Program, membership: dict[str, npt.NDArray[np.bool_]]) -> None:
    """Prove that each possessive repeat matches as a greedy one does, or refuse.

    Greedy differs only where it gives characters back. It never does (a) when what follows can always match at once,
    nor
    (b) when what follows can't begin on a character of the repeat's own class, which is all that giving back can offer.
    """
    for leave, atom in program.possessive:
        if not _guarded(program, leave):
            continue
        for symbol in np.flatnonzero(membership[atom]):
            live, matched = _closure(program, (leave,), int(symbol), membership)
            if live or matched:
                raise Refusal(f"a possessive repeat of {atom!r} that would match otherwise if it were greedy")


def _guarded(program: Program, at: int) -> bool:
    """Is there no way from `at` to the match that needs neither a character nor a lookahead?"""
    seen, stack = set(), [at]
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        instruction = program.instructions[at]
        if isinstance(instruction, _Match):
            return False
        if isinstance(instruction, _Split):
            stack += [instruction.first, instruction.second]
    return True


def _minimized(table: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    """Merge states that no text tells apart (Moore's refinement), keeping DEAD and START in their places."""
    flags = table & MATCH
    group = np.unique(flags, axis=0, return_inverse=True)[1].reshape(-1)
    while True:
        signature = np.concatenate([flags, group[table & STATE]], axis=1)
        refined = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
        if refined.max() == group.max():
            break
        group = refined
    # DEAD keeps 0 and START 1 even where START is equal to another state.
    order = list(dict.fromkeys([int(group[DEAD]), *map(int, group[START:])]))
    number = {old: new for new, old in enumerate(order)}
    renumber = np.array([number[int(g)] for g in group], dtype=np.uint16)
    first = [int(np.flatnonzero(group == old)[0]) for old in order]
    small = table[first]
    merged: npt.NDArray[np.uint16] = (renumber[small & STATE] | (small & MATCH)).astype(np.uint16)
    return merged
