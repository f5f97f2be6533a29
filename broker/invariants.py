"""The invariants of a router's state, as the comments on its fields state them. For tests, and behind --validate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .protocol import OPERATIONS
from .state import Job

if TYPE_CHECKING:
    from .routing import Router


def check(router: Router) -> None:
    """Look at everything. Raises AssertionError at the first invariant that does not hold."""
    seen: dict[tuple[bytes, bytes], Job] = {}

    def see(job: Job) -> None:
        identity = (job.client, job.request_id)
        assert identity not in seen, f"job {job.number} is in two places"
        seen[identity] = job

    for identity, worker in router.workers.items():
        assert worker.identity == identity
        names, others = router.names, router.fresh_names
        if worker.fresh:
            names, others = others, names
            assert not worker.queue
            assert not worker.sessions
            assert all(job.fresh and OPERATIONS[job.op].fresh for job in worker.sent.values())
        else:
            assert not any(job.fresh for job in (*worker.sent.values(), *worker.queue))
        assert (names.get(worker.name) == identity) is not worker.leaving
        assert others.get(worker.name) != identity
        assert worker.bytes_per_s is None or worker.bytes_per_s > 0
        assert worker.sent_bytes == sum(job.size for job in worker.sent.values())
        assert worker.queue_bytes == sum(job.size for job in worker.queue)
        assert len(worker.queue) <= router.limits.worker_queue
        assert worker.sessions == {key for key, owner in router.sessions.items() if owner == identity}
        for number, job in worker.sent.items():
            assert job.number == number
            see(job)
        for job in worker.queue:
            assert job.key is not None
            see(job)
        if worker.queue and not worker.leaving and not router.shared:
            assert not router.has_credit(worker, worker.queue[0]), "work waits although there is credit"
        if worker.leaving:
            assert not worker.queue
    for job in router.shared:
        assert job.key is None
        see(job)
    assert router.shared_bytes == sum(job.size for job in router.shared)
    for job in router.fresh_queue:
        assert job.fresh
        assert OPERATIONS[job.op].fresh
        see(job)
        assert not any(router.has_credit(one, router.fresh_queue[0]) for one in router.fresh_workers())
    assert router.fresh_queue_bytes == sum(job.size for job in router.fresh_queue)
    assert router.fresh_names or not router.fresh_queue, "a fresh text waits for nobody"
    assert router.text_bytes.keys() <= router.sessions.keys()
    assert seen == router.open
    assert {*router.names.values(), *router.fresh_names.values()} <= router.workers.keys()
    assert not router.names.keys() & router.fresh_names.keys()
    assert set(router.sessions.values()) <= router.workers.keys()
    assert len(router.sessions) <= router.limits.sessions
    assert not router.demoted.keys() & router.restored.keys()
    assert router.names or not router.shared, "stateless work waits for nobody"
