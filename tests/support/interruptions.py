"""Break a call off between any two of its instructions, as Ctrl-C and an empty memory can."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


def break_off(call: Callable[[], object], within: set[CodeType], before: int) -> bool:
    """Call, and raise KeyboardInterrupt before the instruction of this number in the functions of `within`.

    Returns whether the call had so many of them. Where the interpreter itself never looks for an interrupt (between a
    lock and its release by `with`) none should be raised: leave such functions out.
    """
    left = before

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code not in within:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def codes(*owners: Any, without: tuple[str, ...] = ()) -> set[CodeType]:
    """Return the code of every function in classes and modules, but those of these names."""
    return {
        function.__code__
        for owner in owners
        for name, function in vars(owner).items()
        if hasattr(function, "__code__") and name not in without
    }
