"""Where the reference engines' classes of characters differ from Python's: `tokseam doctor --unicode`.

The engine takes its classes from the reference, character by character, and never from a table of Unicode; this shows
why that matters on this machine. Limits: it asks for the classes that real tokenizers' regexes are made of, no others.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from tokseam.kernels import engines
from tokseam.kernels.compile.class_probe import Members, every_character, members_of, probe_atom
from tokseam.kernels.compile.regex_syntax import Dialect

#: Characters shown of those that only one of the two holds.
EXAMPLES = 4


def _category(first: str) -> Callable[[str], bool]:
    return lambda char: unicodedata.category(char)[0] == first


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda char: compiled.fullmatch(char) is not None


#: Atom -> (what Python has for it, and whether it holds a character).
PYTHON: dict[str, tuple[str, Callable[[str], bool]]] = {
    r"\p{L}": ("category L*", _category("L")),
    r"\p{Lu}": ("category Lu", lambda char: unicodedata.category(char) == "Lu"),
    r"\p{Ll}": ("category Ll", lambda char: unicodedata.category(char) == "Ll"),
    r"\p{N}": ("category N*", _category("N")),
    r"\p{M}": ("category M*", _category("M")),
    r"\p{P}": ("category P*", _category("P")),
    r"\p{S}": ("category S*", _category("S")),
    r"\s": (r"re \s", _matches(r"\s")),
    r"\w": (r"re \w", _matches(r"\w")),
    r"\d": (r"re \d", _matches(r"\d")),
    "(?i:s)": ("re s, IGNORECASE", _matches("s", re.IGNORECASE)),
    "(?i:k)": ("re k, IGNORECASE", _matches("k", re.IGNORECASE)),
}


class Difference(NamedTuple):
    """One class of one engine, beside Python's."""

    engine: str
    atom: str
    python: str
    members: int
    #: Characters that only the engine's class holds, and that only Python's does.
    engine_alone: str
    python_alone: str


def differences() -> Iterator[Difference]:
    """Compare every class of every installed reference engine with Python's."""
    characters = every_character()
    dialects: list[Dialect] = ["onig"]
    if importlib.util.find_spec("tiktoken") is not None:
        dialects.append("rust")
    for atom, (name, holds) in PYTHON.items():
        by_python = members_of("".join(filter(holds, characters)))
        for dialect in dialects:
            by_engine = probe_atom(atom, dialect)
            yield Difference(
                engines.version(dialect),
                atom,
                name,
                int(by_engine.sum()),
                _text(by_engine & ~by_python),
                _text(by_python & ~by_engine),
            )


def _text(members: Members) -> str:
    return "".join(map(chr, np.flatnonzero(members)))


def shown(characters: str) -> str:
    """Name the first of some characters.

    >>> shown("\\u017f")
    'U+017F LATIN SMALL LETTER LONG S'
    """
    names = [f"U+{ord(char):04X} {unicodedata.name(char, '(no name here)')}" for char in characters[:EXAMPLES]]
    return ", ".join(names) + (", ..." if len(characters) > EXAMPLES else "")


def print_report(console: Console) -> None:
    """Print the table of differences."""
    table = Table(
        title=f"Classes of characters beside Python's (Unicode {unicodedata.unidata_version})", title_style=""
    )
    table.add_column("engine", no_wrap=True)
    table.add_column("class", no_wrap=True)
    table.add_column("Python's", no_wrap=True)
    for column in ("members", "engine alone", "Python alone"):
        table.add_column(column, justify="right")
    table.add_column("first examples", overflow="fold")
    for found in differences():
        examples = [
            f"{whose}: {shown(characters)}"
            for whose, characters in (("engine", found.engine_alone), ("Python", found.python_alone))
            if characters
        ]
        table.add_row(
            *(found.engine, found.atom, found.python, f"{found.members:,}"),
            *(f"{len(found.engine_alone):,}", f"{len(found.python_alone):,}", "\n".join(examples) or "the same"),
        )
    console.print(table, markup=False, highlight=False)
