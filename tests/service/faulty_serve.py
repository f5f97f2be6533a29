"""`tokseam serve` with faulty_worker.py in the place of its workers. For tests."""

from __future__ import annotations

from typing import Any

from tokseam.scripts import cli, serve
from tokseam.workers import supervisor


def faulty_tier(*arguments: Any, **named: Any) -> list[supervisor.Child]:
    children = supervisor.tier(*arguments, **named)
    for child in children:
        if child.module in ("tokseam.workers.repair", "tokseam.workers.fresh"):
            child.arguments = [child.module, *child.arguments]
            child.module = "faulty_worker"
    return children


if __name__ == "__main__":
    vars(serve)["tier"] = faulty_tier
    cli.main()
