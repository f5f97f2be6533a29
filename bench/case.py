"""What a case is, and what all cases are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.table import Table

#: One measurement to do, as plain data: it travels to a process of its own.
Job = dict[str, Any]
#: One measured row, as plain data: it goes into the record.
Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """The command line, for the cases."""

    tokenizers: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    quick: bool = False
    long: bool = False
    broker: bool = True
    texts: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()


class Case(Protocol):
    """A module of bench/cases."""

    #: One line: what it shows.
    TITLE: str
    jobs: Callable[[Options], list[Job]]
    run: Callable[[Job], list[Row]]
    tables: Callable[[list[Row]], list[Table]]
    figures: Callable[[list[Row], Path], list[Path]]
