"""Generate client/sync.py from client/aio.py, so that the two never differ. `--check` fails on drift.

A plain list of replacements, applied in order to the source text: the two files differ by words only. Limits: what no
replacement can express belongs in transport.py.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parent.parent / "client"

#: Order matters: longer names first.
REPLACEMENTS: list[tuple[str, str]] = [
    (
        r'"""The client of a broker, for asyncio\. sync\.py is generated from this file [^\n]*\n',
        '"""The client of a broker, for threads. Generated from aio.py by scripts/unasync.py: do not edit.\n',
    ),
    (r"async def ", "def "),
    (r"async with ", "with "),
    (r"await ", ""),
    (r"import asyncio\n", ""),
    (r"asyncio\.sleep", "time.sleep"),
    (r"asyncio\.Lock", "CallLock"),
    (r"from \.session import", "from .locks import CallLock\nfrom .session import"),
    (r"connect_async", "connect"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"AsyncTransport", "SyncTransport"),
    (r"AsyncTier", "Tier"),
    (r"AsyncSession", "Session"),
]


def generate(source: str) -> str:
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    return source


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if client/sync.py is not what would be generated")
    options = parser.parse_args()
    generated = generate((CLIENT / "aio.py").read_text())
    target = CLIENT / "sync.py"
    if not options.check:
        target.write_text(generated)
        return 0
    if not target.exists() or target.read_text() != generated:
        print("client/sync.py differs from client/aio.py; run scripts/unasync.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
