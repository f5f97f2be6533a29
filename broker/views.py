"""What people see of a router: its tokenizers and its counters. Reads only."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .placement import Placement
    from .routing import Router


def tokenizers(router: Placement) -> list[dict[str, str]]:
    """Every tokenizer that some worker has, as it is answered now."""
    found = {(entry["name"], entry["sha256"]): entry for w in router.workers.values() for entry in w.tokenizers}
    return [_as_answered(router, found[key]) for key in sorted(found)]


def _as_answered(router: Placement, entry: dict[str, str]) -> dict[str, str]:
    demotion = router.demoted.get(entry["sha256"])
    if demotion is None:
        return entry
    when = datetime.fromtimestamp(demotion.when_ms / 1000, timezone.utc).isoformat(timespec="seconds")
    return {**entry, "status": "reference", "reason": demotion.reason, "demoted": when}


def stats(router: Router) -> dict[str, Any]:
    """Counters of the tier: the workers' summed at the top, then the broker's and each worker's own.

    'shadow' has the verifier's, beside the workers' of what they sent it; 'demoted' the tokenizers that are so.
    """
    summed: dict[str, int] = {}
    for worker in router.workers.values():
        for key, value in worker.stats.items():
            summed[key] = summed.get(key, 0) + value
    return {
        **summed,
        "broker": {
            **router.counters,
            "queued": router.queued(),
            "queued_bytes": router.queued_bytes(),
            "sent": sum(len(worker.sent) for worker in router.workers.values()),
            "placements": len(router.sessions),
        },
        "shadow": {
            **{key[7:]: value for key, value in summed.items() if key.startswith("shadow_")},
            **router.verdicts,
        },
        "demoted": [entry for entry in tokenizers(router) if "demoted" in entry],
        "workers": [
            {
                "name": worker.name,
                "pid": worker.pid,
                "leaving": worker.leaving,
                "sent": len(worker.sent),
                "queued": len(worker.queue),
                "placements": len(worker.sessions),
                **({"engine": worker.engine} if worker.fresh else {}),
                **worker.stats,
            }
            for worker in sorted(router.workers.values(), key=lambda worker: worker.name)
        ],
    }
