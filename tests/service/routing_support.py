"""What the router's tests share: requests, workers, and what instructions come to."""

from __future__ import annotations

from collections.abc import Sequence

from tokseam.broker.protocol import Request
from tokseam.broker.routing import Router
from tokseam.broker.state import Answer, Instruction, Limits, Send

#: What every worker here has; requests name none, and so have one that is native.
NATIVE = [{"name": "", "sha256": "", "status": "native", "reason": ""}]

SMALL = Limits(worker_queue=4, total_queue=10, worker_queue_bytes=1000, total_queue_bytes=2000, sessions=6)


def request(number: int, op: str = "encode", session: str = "", budget_ms: int | None = None, new: str = "") -> Request:
    return Request(op, number.to_bytes(16, "little"), "t", budget_ms, session=session, new_session=new)


def ready(
    router: Router, name: str, now: float = 0.0, credits: int = 2, identity: bytes | None = None, engine: str = ""
) -> list[Instruction]:
    credit_bytes = 500 if credits <= 2 else 10**6
    return router.on_ready(identity or name.encode(), name, 100, credits, credit_bytes, NATIVE, now, (), engine)


def sends(instructions: Sequence[Instruction]) -> list[tuple[bytes, int]]:
    return [(one.worker, int.from_bytes(one.job.request_id, "little")) for one in instructions if isinstance(one, Send)]


def answers(instructions: Sequence[Instruction]) -> list[tuple[int, str]]:
    return [(int.from_bytes(one.request_id, "little"), one.code) for one in instructions if isinstance(one, Answer)]


def ask(router: Router, number: int, op: str = "encode", session: str = "", **rest: object) -> list[Instruction]:
    size = int(rest.pop("size", 10))  # type: ignore[call-overload]
    now = float(rest.pop("now", 0.0))  # type: ignore[arg-type]
    out = router.on_request(b"c", request(number, op, session, **rest), size, None, now)  # type: ignore[arg-type]
    router.validate()
    return out
