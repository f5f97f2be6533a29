"""A worker, MODULE ARGUMENT..., whose native answers are harmed on their way to the wire. For tests.

A repair worker's appends are when their text says PLANTED, a fresh worker's whole texts when theirs says SOWN. The
fresh worker also tells of a speed that no processor has.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys

import numpy as np
from tokseam.broker.protocol import Reply, Request
from tokseam.workers.speed import Speed

WORDS = {"tokseam.workers.repair": ("append", b"PLANTED"), "tokseam.workers.fresh": ("fresh", b"SOWN")}


def main() -> int:
    path, word = WORDS[sys.argv[1]]

    def harm(request: Request, reply: Reply) -> Reply:
        if reply.path != path or word not in bytes(request.body[0]):
            return reply
        ids = np.frombuffer(reply.body[0], "<u4").copy()
        ids[-1] ^= 1
        return dataclasses.replace(reply, body=[ids.tobytes()])

    if path == "fresh":
        Speed.bytes_per_s = lambda self, now: 10**10  # type: ignore[method-assign]
    found: int = importlib.import_module(sys.argv[1]).main(sys.argv[2:], seam=harm)
    return found


if __name__ == "__main__":
    sys.exit(main())
