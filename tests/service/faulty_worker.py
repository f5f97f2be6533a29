"""A repair worker whose native appends are harmed on their way to the wire when their text says PLANTED. For tests."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
from tokseam.broker.protocol import Reply, Request
from tokseam.workers.repair import main


def harm(request: Request, reply: Reply) -> Reply:
    if reply.path != "append" or b"PLANTED" not in bytes(request.body[0]):
        return reply
    ids = np.frombuffer(reply.body[0], "<u4").copy()
    ids[-1] ^= 1
    return dataclasses.replace(reply, body=[ids.tobytes()])


if __name__ == "__main__":
    sys.exit(main(seam=harm))
