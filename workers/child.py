"""What every child of the supervisor runs first: tie its life to its parent's, take its core, then become its module.

`python -m tokseam.workers.child --parent PID [--cpus LIST] [--nice N] [--aside] MODULE [ARGUMENT...]`

It is small on purpose: the core, or the lowest priority, is taken before the module, and with it the first big
allocation, is imported.
Limits: Linux for the tie; elsewhere a child outlives a parent that is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import runpy
import signal
import sys

from .pinning import parse_list, pin, step_aside

#: <linux/prctl.h>
PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that happens."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was told
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tokseam.workers.child")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--cpus", type=parse_list, default=[])
    parser.add_argument("--nice", type=int, default=0, help="give way to others by so much")
    parser.add_argument("--aside", action="store_true", help="run at the lowest priority")
    parser.add_argument("module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    die_with(options.parent)
    if options.cpus:
        trouble = pin(*options.cpus)
        if trouble is not None:
            print(f"tokseam: {trouble}; this process runs on any core", file=sys.stderr, flush=True)
    if options.nice:
        with contextlib.suppress(OSError):
            os.nice(options.nice)
    if options.aside:
        step_aside()
    sys.argv = [options.module, *options.arguments]
    runpy.run_module(options.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
