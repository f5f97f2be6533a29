"""The router's fresh path: who gets a whole text, what follows its answer, and what becomes of it when workers die."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from routing_support import answers, ask, ready, sends
from tokseam.broker.estimates import SEED_WORK, assumed_beside, reroute_pays, seconds_on, soonest
from tokseam.broker.protocol import OPERATIONS, Demotion
from tokseam.broker.routing import Router
from tokseam.broker.state import Instruction, Job, Limits, Send, Worker

LARGE, SMALL_TEXT = 1000, 10
LIMITS = Limits(fresh_bytes=100)
SEED = ["header", "text", "ids", "marks"]


def tier(limits: Limits = LIMITS, owners: str = "ab", fresh: str = "f", credits: int = 100) -> Router:
    router = Router(limits)
    for name in owners:
        ready(router, name, credits=credits)
    for name in fresh:
        ready(router, name, credits=credits, engine="cpu")
    router.validate()
    return router


def done(router: Router, worker: bytes, code: str = "ok", seed: Any = None) -> list[Instruction]:
    """The worker answers the oldest of what it was sent."""
    number = min(router.workers[worker].sent)
    _, out = router.on_done(worker, number, code, 0.0, seed, 50 if seed else 0)
    router.validate()
    return out


def sent_ops(instructions: Sequence[Instruction]) -> list[tuple[bytes, str]]:
    return [(one.worker, one.job.op) for one in instructions if isinstance(one, Send)]


def speed(router: Router, worker: bytes, bytes_per_s: int) -> None:
    router.on_heartbeat(worker, {"bytes_per_s": bytes_per_s}, 0.0, "cpu" if worker == b"f" else "")


def test_whole_texts_above_the_threshold_go_to_a_fresh_worker() -> None:
    router = tier()
    speed(router, b"f", 10**9)
    large = [op for number, op in enumerate(OPERATIONS) if OPERATIONS[op].answered_by in ("any", "owner")]
    for number, op in enumerate(large):
        (worker, _) = sent_ops(ask(router, number, op, "s" if OPERATIONS[op].answered_by == "owner" else "", size=100))[
            0
        ]
        assert (worker == b"f") is (op in ("encode", "batch", "count", "full")), op
    for number, op in enumerate(large, 100):
        (worker, _) = sent_ops(ask(router, number, op, "s" if OPERATIONS[op].answered_by == "owner" else "", size=99))[
            0
        ]
        assert worker != b"f"
    assert router.counters["fresh"] == 4


def test_without_a_fresh_worker_owners_answer() -> None:
    router = tier(fresh="")
    assert sent_ops(ask(router, 1, "full", "s", size=LARGE))[0][0] in (b"a", b"b")
    assert router.counters["fresh"] == router.counters["spilled"] == 0


def test_fresh_workers_own_nothing() -> None:
    router = tier(owners="", fresh="f")
    assert answers(ask(router, 1, "full", "s", size=LARGE)) == [(1, "busy")]
    assert answers(ask(router, 2, "append", "s")) == [(2, "busy")]
    ready(router, "a")
    router.on_sessions(b"f", [("t", "s")], 0.0)
    router.validate()
    assert sends(ask(router, 3, "append", "s")) == [(b"a", 3)]


def test_a_seed_goes_before_whatever_its_client_asks_next() -> None:
    router = tier(owners="ab", credits=1)
    assert sent_ops(ask(router, 1, "full", "s", size=LARGE)) == [(b"f", "full")]
    owner = router.sessions["t", "s"]
    ask(router, 2, "append", "other")  # whatever keeps the owner busy
    busy = [key for key in ("x", "y", "z", "other") if router._rendezvous(("t", key)).identity == owner]
    for number, key in enumerate(busy, 10):
        ask(router, number, "full", key)
    out = done(router, b"f", seed=SEED)
    ask(router, 3, "append", "s")
    order = [one.job.op for one in out if isinstance(one, Send)]
    while router.workers[owner].sent:
        order += [one.job.op for one in done(router, owner) if isinstance(one, Send)]
    assert order.index("seed") < order.index("append")
    assert router.counters["seeds"] == 1
    assert router.counters["stale"] == 0


def test_a_seed_has_the_owners_place_and_frames_and_no_client() -> None:
    router = tier()
    ask(router, 1, "full", "s", size=LARGE)
    owner = router.sessions["t", "s"]
    (one,) = done(router, b"f", seed=SEED)
    assert isinstance(one, Send)
    assert (one.worker, one.job.client, one.job.key, one.job.payload) == (owner, b"", ("t", "s"), SEED)
    assert one.job.deaths == 0


@pytest.mark.parametrize("waits", [False, True], ids=["sent", "queued"])
@pytest.mark.parametrize("event", ["gone", "leave"])
def test_an_owner_that_dies_or_leaves_with_the_seed_leaves_it_to_the_heir(event: str, waits: bool) -> None:
    router = tier(credits=1)
    ask(router, 1, "full", "s", size=LARGE)
    owner = router.sessions["t", "s"]
    heir = ({b"a", b"b"} - {owner}).pop()
    if waits:
        ask(router, 2, "append", "s")
    done(router, b"f", seed=SEED)
    ask(router, 3, "append", "s")
    name = router.workers[owner].name
    out = router.on_gone(name, 100, 0.0) if event == "gone" else router.on_leave(owner, 0.0)
    router.validate()
    lost = [3] if event == "leave" or not waits else [2, 3]
    assert answers(out) == [(number, "stale") for number in lost]
    kept = event == "leave" and not waits  # it was sent, and is taken in by a worker that hands its sessions over
    assert sent_ops(out) == ([] if kept else [(heir, "seed")])
    ask(router, 4, "append", "s")
    assert kept or sent_ops(done(router, heir)) == [(heir, "append")]
    assert router.counters["stale"] == len(lost)


def test_a_seed_that_two_owners_died_over_is_dropped() -> None:
    router = tier(owners="abc")
    ask(router, 1, "full", "s", size=LARGE)
    done(router, b"f", seed=SEED)
    for lives in (2, 1):
        (holder,) = [worker.name for worker in router.workers.values() if worker.sent]
        router.on_gone(holder, 100, 0.0)
        router.validate()
        assert len(router.names) == lives
    assert router.idle
    assert (router.counters["seeds"], router.counters["seeds_dropped"], router.counters["stale"]) == (2, 1, 0)


def test_a_fresh_worker_with_much_ahead_is_not_given_longer_than_a_batch() -> None:
    limits = LIMITS._replace(heartbeat_s=1.0, misses=4, grace_s_per_byte=0.001, fresh_batch_bytes=2000)
    for sizes, seconds in (([500], 4.5), ([1000] * 5, 6.0), ([1000, 3000, 1000], 7.0)):
        router = tier(limits, fresh="f")
        speed(router, b"f", 10**9)
        for number, size in enumerate(sizes):
            ask(router, number, "encode", size=size)
        for now, alive in ((seconds - 0.1, True), (seconds + 0.1, False)):
            for worker in (b"a", b"b"):
                router.on_heartbeat(worker, None, now)
            router.on_tick(now)
            assert ("f" in router.fresh_names) is alive


def test_an_owner_that_dies_before_the_seed_leaves_it_to_the_heir() -> None:
    router = tier()
    ask(router, 1, "full", "s", size=LARGE)
    owner = router.sessions["t", "s"]
    router.on_gone(router.workers[owner].name, 100, 0.0)
    heir = ({b"a", b"b"} - {owner}).pop()
    assert sent_ops(done(router, b"f", seed=SEED)) == [(heir, "seed")]
    assert sends(ask(router, 2, "append", "s")) == [(heir, 2)]


def test_a_seed_without_a_place_is_dropped() -> None:
    router = tier(Limits(fresh_bytes=100, worker_queue=1), owners="a", credits=1)
    for number in range(3):
        ask(router, number, "full", f"s{number}", size=LARGE if number == 0 else SMALL_TEXT)
    assert len(router.workers[b"a"].queue) == 1
    assert done(router, b"f", seed=SEED) == []
    assert (router.counters["seeds"], router.counters["seeds_dropped"]) == (0, 1)
    ask(router, 9, "full", "s9", size=LARGE)
    router.on_gone("a", 100, 0.0)
    assert done(router, b"f", seed=SEED) == []
    assert router.counters["seeds_dropped"] == 2
    assert router.idle


def test_what_a_dead_fresh_worker_leaves_goes_to_the_owner() -> None:
    router = tier()
    speed(router, b"f", 10**9)
    ask(router, 1, "full", "s", size=LARGE)
    ask(router, 2, "encode", size=LARGE)
    owner = router.sessions["t", "s"]
    out = router.on_gone("f", 100, 0.0)
    router.validate()
    assert answers(out) == []
    placed = {number: worker for worker, number in sends(out)}
    assert placed[1] == owner
    assert placed[2] in (b"a", b"b")
    assert router.counters["retried"] == 2
    out = router.on_gone(router.workers[owner].name, 100, 0.0)
    assert (1, "stale") in answers(out)
    for worker in list(router.names.values()):
        out = router.on_unreachable(worker, 0.0)
    assert (2, "internal") in answers(out) or router.idle
    assert router.idle


def test_a_silent_fresh_worker_is_dead_and_told_so_when_it_is_back() -> None:
    router = tier(LIMITS._replace(heartbeat_s=1.0, misses=4, grace_s_per_byte=0.0))
    ask(router, 1, "full", "s", size=LARGE)
    for worker in (b"a", b"b"):
        router.on_heartbeat(worker, None, 4.5)
    out = router.on_tick(4.5)
    router.validate()
    assert sends(out) == [(router.sessions["t", "s"], 1)]
    assert "f" not in router.fresh_names
    job, out = router.on_done(b"f", 0, "ok", 5.0, SEED, 50)  # its answer comes after all
    assert job is None
    assert [(one.worker, one.op) for one in out] == [(b"f", "disconnect")]  # type: ignore[union-attr]
    ready(router, "f", 6.0, credits=100, engine="cpu", identity=b"f2")
    assert sent_ops(ask(router, 2, "full", "s", size=LARGE, now=6.0)) == [(b"f2", "full")]


@pytest.mark.parametrize("event", ["gone", "leave"])
def test_what_waits_for_the_last_fresh_worker_goes_to_the_others(event: str) -> None:
    router = tier(credits=1)
    router.on_credit(b"a", 10, 10**6, 0.0)
    router.on_credit(b"b", 10, 10**6, 0.0)
    ask(router, 0, "full", "s0", size=LARGE)
    speed(router, b"f", 10**9)
    for number in range(1, 4):
        assert sends(ask(router, number, "full", f"s{number}", size=LARGE)) == []
    assert len(router.fresh_queue) == 3
    out = router.on_gone("f", 100, 0.0) if event == "gone" else router.on_leave(b"f", 0.0)
    router.validate()
    assert sorted(number for _, number in sends(out)) == ([0, 1, 2, 3] if event == "gone" else [1, 2, 3])
    if event == "leave":  # it answers what it was sent, and that seeds as ever
        assert sent_ops(done(router, b"f", seed=SEED)) == [(router.sessions["t", "s0"], "seed")]
        router.on_disconnect(b"f", 0.0)
        router.validate()


def test_waiting_texts_go_to_whoever_is_done_first_and_expire() -> None:
    router = tier(fresh="fg", credits=1)
    speed(router, b"f", 10**9)
    router.on_heartbeat(b"g", {"bytes_per_s": 10**8}, 0.0, "cpu")
    assert sent_ops(ask(router, 0, "encode", size=LARGE)) == [(b"f", "encode")]
    assert sent_ops(ask(router, 1, "encode", size=LARGE)) == [(b"g", "encode")]
    ask(router, 2, "encode", size=LARGE, budget_ms=100)
    ask(router, 3, "encode", size=LARGE)
    router.on_tick(0.5)
    router.validate()
    assert router.counters["expired"] == 1
    assert sends(done(router, b"g")) == [(b"g", 3)]


def test_it_spills_to_owners_while_they_are_sooner_done() -> None:
    router = tier(owners="a")
    speed(router, b"f", 1000)
    speed(router, b"a", 1000)
    assert sent_ops(ask(router, 1, "full", "s1", size=LARGE)) == [(b"f", "full")]
    assert sent_ops(ask(router, 2, "full", "s2", size=LARGE)) == [(b"a", "full")]  # 2 s there, 1 s here
    assert sent_ops(ask(router, 3, "encode", size=LARGE)) == [(b"f", "encode")]  # 2 s on both
    assert sent_ops(ask(router, 4, "encode", size=LARGE)) == [(b"a", "encode")]
    assert router.counters["spilled"] == 2
    speed(router, b"f", 10**6)
    assert sent_ops(ask(router, 5, "full", "s5", size=LARGE)) == [(b"f", "full")]
    while router.workers[b"f"].sent:
        done(router, b"f")
    while router.workers[b"a"].sent:
        done(router, b"a")
    speed(router, b"f", 250)  # an idle one may be slower by some times
    assert sent_ops(ask(router, 6, "full", "s6", size=LARGE)) == [(b"f", "full")]
    done(router, b"f")
    speed(router, b"f", 249)
    assert sent_ops(ask(router, 7, "full", "s7", size=LARGE)) == [(b"a", "full")]
    speed(router, b"f", 0)  # it has no figure any more, and is tried again
    assert sent_ops(ask(router, 8, "full", "s8", size=LARGE)) == [(b"f", "full")]


def test_a_full_fresh_queue_spills_instead_of_refusing() -> None:
    router = tier(Limits(fresh_bytes=100, worker_queue=2), owners="a", credits=1)
    router.on_credit(b"a", 10, 10**6, 0.0)
    speed(router, b"f", 10**9)
    placed = [sent_ops(ask(router, number, "encode", size=LARGE)) for number in range(4)]
    assert placed == [[(b"f", "encode")], [], [], [(b"a", "encode")]]


def test_a_tokenizer_by_reference_is_not_worth_a_seed() -> None:
    router = tier()
    router.on_demote(b"a", [Demotion("", "planted", 1)])
    assert sent_ops(ask(router, 1, "full", "s", size=LARGE))[0][0] != b"f"
    assert sent_ops(ask(router, 2, "encode", size=LARGE))[0][0] == b"f"
    router.on_restore("", 2)
    assert sent_ops(ask(router, 3, "full", "s", size=LARGE))[0][0] == b"f"


def grown(limits: Limits, text: int) -> Router:
    """A tier with a session of `text` bytes."""
    router = tier(limits, owners="a")
    ask(router, 1, "full", "s", size=text)
    done(router, b"f", seed=SEED)
    done(router, b"a")
    return router


def test_a_change_that_costs_more_than_a_fresh_text_is_sent_back_for_one() -> None:
    limits = LIMITS._replace(round_trip_s=0.0, transfer_bytes_per_s=1e12)
    for op in ("append", "edit"):
        router = grown(limits, 1000)
        speed(router, b"a", 1000)
        speed(router, b"f", 10_000)
        assert answers(ask(router, 2, op, "s", size=200)) == [(2, "stale")]  # 0.12 s there, 0.2 s here
        assert answers(ask(router, 3, op, "s", size=110)) == []
        assert answers(ask(router, 4, op, "s", size=99)) == []  # not even looked at
        assert (router.counters["rerouted"], router.counters["stale"]) == (1, 1)
        speed(router, b"f", 2000)
        assert answers(ask(router, 5, op, "s", size=200)) == []
        assert sent_ops(ask(router, 6, "full", "s", size=1200)) == [(b"f", "full")]


def test_what_waits_for_an_owner_sends_nothing_back() -> None:
    router = grown(LIMITS._replace(round_trip_s=0.0), 1000)
    speed(router, b"a", 1000)
    speed(router, b"f", 1000)
    for number in range(2, 40):
        assert answers(ask(router, number, "append", "s", size=900)) == []
    assert router.counters["rerouted"] == 0


def test_a_text_of_unknown_size_stays_with_its_owner() -> None:
    router = tier(LIMITS._replace(round_trip_s=0.0, transfer_bytes_per_s=1e12), owners="a")
    router.on_sessions(b"a", [("t", "s")], 0.0)  # from before this broker
    speed(router, b"a", 1)
    speed(router, b"f", 10**9)
    assert sent_ops(ask(router, 1, "append", "s", size=LARGE)) == [(b"a", "append")]


def test_texts_are_counted_with_their_sessions() -> None:
    router = grown(LIMITS._replace(sessions=2), 1000)
    ask(router, 2, "append", "s", size=50)
    done(router, b"a")
    ask(router, 3, "fork", "s", new="twin", size=1)
    done(router, b"a")
    assert router.text_bytes == {("t", "s"): 1050, ("t", "twin"): 1050}
    ask(router, 4, "edit", "twin", size=20)
    done(router, b"a")
    assert router.text_bytes["t", "twin"] == 1070
    ask(router, 5, "close", "twin")
    done(router, b"a")
    assert router.text_bytes == {("t", "s"): 1050}
    for number in range(6, 9):
        ask(router, number, "full", f"s{number}", size=1)
        done(router, b"a")
    assert router.text_bytes == {("t", "s7"): 1, ("t", "s8"): 1}


def worker(sent: int = 0, queued: int = 0, bytes_per_s: float | None = 100.0, op: str = "full") -> Worker:
    def job(size: int) -> Job:
        return Job(size, b"", b"", op, None, None, size, None, None)

    made = Worker(b"w", "w", 1, 1, 1, [], 0.0, bytes_per_s=bytes_per_s)
    made.sent = {0: job(sent)}
    made.queue.append(job(queued))
    return made


def test_estimates() -> None:
    assert seconds_on(worker(), 100, 1.0) == 1.0
    assert seconds_on(worker(bytes_per_s=None), 100, 50.0) == 2.0
    assert seconds_on(worker(sent=50, queued=50), 100, 1.0, 200) == 4.0
    assert seconds_on(worker(sent=100, op="seed"), 100, 1.0) == 1.0 + SEED_WORK
    quick, slow = worker(sent=300, bytes_per_s=400), worker()
    assert soonest([slow, quick], 100, 1.0) == (slow, 1.0)
    assert soonest([slow, quick], 100, 1.0, waiting_bytes=200) == (quick, 1.25)
    limits = Limits(round_trip_s=0.5, transfer_bytes_per_s=1000)
    assert reroute_pays(limits, worker(), [worker(bytes_per_s=1000)], 0, 171, 1000) is False  # 1 + 0.5 + 1 > 1.71
    assert reroute_pays(limits, worker(), [worker(bytes_per_s=1000)], 0, 251, 1000) is True
    assert reroute_pays(limits, worker(), [worker(bytes_per_s=1000)], 100, 251, 1000) is False  # others wait
    assert reroute_pays(limits, worker(sent=10**6), [worker(bytes_per_s=1000)], 0, 171, 1000) is False
    limits = Limits(round_trip_s=0.0, transfer_bytes_per_s=1e12, assumed_bytes_per_s=500.0)
    assert [assumed_beside(limits, worker(bytes_per_s=one)) for one in (None, 100.0, 1000.0)] == [500.0, 100.0, 500.0]
    unknown = worker(bytes_per_s=None)
    assert reroute_pays(limits, unknown, [worker(bytes_per_s=100)], 0, 900, 1000) is False  # as slow as that one
    assert reroute_pays(limits, unknown, [worker(bytes_per_s=1000)], 0, 501, 1000) is True  # 1.002 s here, 1 s there


def test_hard_texts_send_nothing_to_an_owner_that_has_no_figure() -> None:
    """The fresh worker's figure says what the texts are like, not that an owner would be quicker."""
    router = tier(owners="a")
    speed(router, b"f", 10)
    for number, (op, session) in enumerate((("full", "s1"), ("encode", None), ("full", "s2"))):
        placed = ask(router, number, op, session, size=LARGE) if session else ask(router, number, op, size=LARGE)
        assert sent_ops(placed) == [(b"f", op)]
        done(router, b"f")
    speed(router, b"a", 1000)
    assert sent_ops(ask(router, 9, "full", "s9", size=LARGE)) == [(b"a", "full")]
