"""In a process of its own: from a tokenizer.json to the first id, by one library (`python -m bench.load_one`).

Nothing is imported before the clock starts but what this file needs to measure. Prints one line of JSON, then waits
for the end of its input, so that its parent can look at several of these together.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from . import process_memory
from .peers import Loaded, import_peer, load
from .subjects import Subject

TEXT = "The first words, the first ids."


def main() -> None:
    """Arguments: the peer, then tokenizer.json files."""
    peer, paths = sys.argv[1], [Path(argument) for argument in sys.argv[2:]]
    before = process_memory.now()
    cpu, wall = time.process_time(), time.perf_counter()
    import_peer(peer)
    imported = time.perf_counter()
    kept: list[Loaded] = []
    for path in paths:
        one = load(peer, Subject(path.name.split(".json")[0].rsplit("-", 1)[0], path))
        if not isinstance(one, Loaded):
            print(json.dumps({"missing": f"{path.name}: {one.reason}"}), flush=True)
            return
        kept.append(one)
    loaded = time.perf_counter()
    ids = [len(one.ids(one.encode(TEXT))) for one in kept]
    first = time.perf_counter()
    answer = {
        "seconds": first - wall,
        "import_seconds": imported - wall,
        "load_seconds": loaded - imported,
        "cpu_seconds": time.process_time() - cpu,
        "memory": process_memory.now().minus(before).as_dict(),
        "ids": ids,
        "version": kept[0].version,
    }
    print(json.dumps(answer), flush=True)
    sys.stdin.read()
    # Asked again when all its siblings have loaded: what is shared by then is counted as shared.
    print(json.dumps(process_memory.now().as_dict()), flush=True)
    sys.stdin.close()


if __name__ == "__main__":
    main()
