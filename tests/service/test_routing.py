"""The router without sockets or clock: single decisions, and random histories with every invariant checked."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from routing_support import NATIVE, SMALL, answers, ask, ready, request, sends
from tokseam.broker.routing import Router
from tokseam.broker.state import Answer, Instruction, Job, Limits, Send, Tell


def test_without_a_worker_everybody_is_told_to_wait() -> None:
    (answer,) = ask(Router(), 1)
    assert isinstance(answer, Answer)
    assert answer.code == "busy"
    assert answer.retry_after_ms


def test_a_session_stays_with_its_worker() -> None:
    router = Router(Limits())
    for name in "abc":
        ready(router, name, credits=100)
    owner = sends(ask(router, 1, "full", "chat"))[0][0]
    for number in range(2, 20):
        assert sends(ask(router, number, "append", "chat"))[0][0] == owner
    others = {sends(ask(router, 100 + number, "full", f"chat-{number}"))[0][0] for number in range(50)}
    assert others == {b"a", b"b", b"c"}


def test_rendezvous_moves_only_what_it_must() -> None:
    def owners(names: str) -> dict[str, bytes]:
        router = Router(Limits())
        for name in names:
            ready(router, name, credits=1000)
        return {f"s{n}": sends(ask(router, n, "full", f"s{n}"))[0][0] for n in range(200)}

    three, two = owners("abc"), owners("ab")
    assert all(two[session] == owner for session, owner in three.items() if owner != b"c")


def test_a_fork_lives_with_its_parent() -> None:
    router = Router(Limits())
    for name in "abcdef":
        ready(router, name, credits=100)
    for number in range(0, 100, 10):
        parent, child = f"p{number}", f"f{number}"
        owner, _ = sends(ask(router, number, "full", parent))[0]
        router.on_done(owner, max(router.workers[owner].sent), "ok", 0.0)
        assert sends(ask(router, number + 1, "fork", parent, new=child))[0][0] == owner
        router.on_done(owner, max(router.workers[owner].sent), "ok", 0.0)
        assert sends(ask(router, number + 2, "append", child))[0][0] == owner


def test_credits_in_requests_and_bytes_bound_what_is_sent() -> None:
    router = Router(SMALL)
    ready(router, "a", credits=2)
    assert len(sends(ask(router, 1))) == 1
    assert len(sends(ask(router, 2))) == 1
    assert sends(ask(router, 3)) == []
    _, out = router.on_done(b"a", 0, "ok", 0.0)
    assert sends(out) == [(b"a", 3)]
    for number in (1, 2):
        router.on_done(b"a", number, "ok", 0.0)
    assert len(sends(ask(router, 4, size=400))) == 1
    assert sends(ask(router, 5, size=200)) == []  # 600 bytes are over the 500 given
    _, out = router.on_done(b"a", 3, "ok", 0.0)
    assert sends(out) == [(b"a", 5)]
    router.on_done(b"a", 4, "ok", 0.0)
    assert len(sends(ask(router, 6, size=900))) == 1  # larger than all credit: alone
    assert len(sends(router.on_credit(b"a", 10, 5000, 0.0))) == 0
    assert len(sends(ask(router, 7, size=900))) == 1


def test_a_full_queue_is_busy_and_a_resend_is_dropped() -> None:
    router = Router(SMALL)
    ready(router, "a", credits=1)
    out: list[Instruction] = []
    for number in range(8):
        out += ask(router, number, "append", "s")
    assert answers(out) == [(5, "busy"), (6, "busy"), (7, "busy")]
    assert ask(router, 3, "append", "s") == []
    assert router.counters["resent"] == 1


def test_order_within_a_session_is_kept() -> None:
    router = Router(SMALL)
    ready(router, "a", credits=1)
    sent = []
    for number in range(5):
        sent += sends(ask(router, number, "append", "s"))
    for _ in range(4):
        _, out = router.on_done(b"a", next(iter(router.workers[b"a"].sent)), "ok", 0.0)
        sent += sends(out)
    assert [number for _, number in sent] == [0, 1, 2, 3, 4]


def test_a_dead_worker_strands_nobody() -> None:
    router = Router(Limits())
    ready(router, "a", credits=2)
    ask(router, 1)
    ask(router, 2, "append", "s")
    ask(router, 3, "append", "s")
    ask(router, 4, "close", "s")
    ask(router, 5)
    ready(router, "b", credits=10)
    out = router.on_gone("a", 100, 0.0)
    router.validate()
    assert sorted(answers(out)) == [(2, "stale"), (3, "stale"), (4, "ok")]
    assert (b"b", 1) in sends(out)
    assert "b" in router.names
    out = router.on_unreachable(b"b", 0.0)
    router.validate()
    assert sorted(answers(out)) == [
        (1, "internal"),
        (5, "busy"),
    ]  # its second death; no worker is left
    assert router.idle
    assert router.on_gone("a", 100, 0.0) == []


def test_silence_is_death_but_long_work_is_not_silence() -> None:
    router = Router(Limits(heartbeat_s=1.0, misses=4, grace_s_per_byte=0.01))
    ready(router, "a")
    ask(router, 1, size=400)  # 4 s of grace
    assert answers(router.on_tick(7.9)) == []
    assert "a" in router.names
    out = router.on_tick(8.1)
    assert answers(out) == [(1, "busy")]
    assert Tell(b"a", "disconnect") in out
    assert router.on_heartbeat(b"a", None, 9.0) == [Tell(b"a", "disconnect")]
    ready(router, "a", 10.0, identity=b"a2")
    router.on_heartbeat(b"a2", {"encodes": 3}, 13.0)
    router.on_tick(16.0)
    assert router.stats()["encodes"] == 3


def test_a_new_process_takes_its_name_over() -> None:
    router = Router(Limits())
    ready(router, "a", identity=b"old")
    ask(router, 1, "append", "s")
    out = ready(router, "a", identity=b"new")
    router.validate()
    assert answers(out) == [(1, "stale")]
    assert sends(ask(router, 2, "full", "s")) == [(b"new", 2)]


def test_a_restarted_broker_hears_where_sessions_are() -> None:
    router = Router(Limits())
    ready(router, "a", credits=100)
    ready(router, "b", credits=100)
    held = {b"a": [("t", f"a{n}") for n in range(20)], b"b": [("t", f"b{n}") for n in range(20)]}
    for identity, keys in held.items():
        router.on_sessions(identity, keys, 0.0)
        router.on_sessions(identity, keys, 0.0)
    router.on_sessions(b"b", held[b"a"], 0.0)  # told twice: the first stays
    router.validate()
    number = 0
    for identity, keys in held.items():
        for _, session in keys:
            number += 1
            assert sends(ask(router, number, "append", session)) == [(identity, number)]


def test_placements_are_bounded() -> None:
    router = Router(SMALL)
    ready(router, "a", credits=100)
    for number in range(20):
        ask(router, number, "full", f"s{number}", size=1)
        router.on_done(b"a", number, "ok", 0.0)
    assert list(router.sessions) == [("t", f"s{number}") for number in range(14, 20)]


def test_expired_work_is_not_sent() -> None:
    router = Router(SMALL)
    ready(router, "a", credits=1)
    ask(router, 1)
    ask(router, 2, budget_ms=100)
    ask(router, 3, "append", "s", budget_ms=100)
    ask(router, 4, budget_ms=1000)
    _, out = router.on_done(b"a", 0, "ok", 0.5)
    assert sends(out) == [(b"a", 4)]
    assert router.counters["expired"] == 2
    ask(router, 5, "append", "s", budget_ms=100, now=0.5)
    router.on_tick(0.7)
    router.validate()
    assert router.counters["expired"] == 3


def test_a_leaving_worker_finishes_and_gets_nothing_new() -> None:
    router = Router(Limits())
    ready(router, "a", credits=1)
    ready(router, "b", credits=1)
    owner = sends(ask(router, 1, "append", "s"))[0][0]
    ask(router, 2, "append", "s")
    out = router.on_leave(owner, 0.0)
    router.validate()
    assert answers(out) == [(2, "stale")]
    other = ({b"a", b"b"} - {owner}).pop()
    assert sends(ask(router, 3, "full", "s")) == [(other, 3)]
    job, _ = router.on_done(owner, 0, "ok", 0.0)
    assert isinstance(job, Job)
    assert answers(router.on_disconnect(owner, 0.0)) == []
    assert router.workers.keys() == {other}


def test_a_leaving_workers_sessions_go_to_their_heirs() -> None:
    router = Router(Limits())
    for name in "abc":
        ready(router, name, credits=1)
    keys = [f"s{number}" for number in range(30)]
    for number, key in enumerate(keys):
        owner, _ = sends(ask(router, number, "full", key))[0]
        router.on_done(owner, max(router.workers[owner].sent), "ok", 0.0)
    theirs = {key for _, key in router.workers[b"a"].sessions}
    assert len(theirs) > 3

    def hand(key: str, by: bytes = b"a", now: float = 1.0) -> list[Instruction]:
        out = router.on_handover(by, request(0, "adopt", key), 10, ["frames"], now)
        router.validate()
        return out

    assert hand(min(theirs)) == []  # it does not leave
    router.on_leave(b"a", 0.0)
    first, faster, *rest = sorted(theirs)
    ask(router, 100, "full", faster)
    assert hand(faster) == []  # its client was faster
    (sent,) = [one for one in hand(first) if isinstance(one, Send)]
    assert (sent.job.op, sent.job.client, sent.job.payload) == ("adopt", b"", ["frames"])
    for key in rest:
        hand(key)
    assert router.counters["handed_over"] == 1 + len(rest)
    # What comes for such a session goes to its heir, and after it.
    placed = router.sessions["t", first]
    assert placed in (b"b", b"c")
    ask(router, 101, "append", first, now=1.0)
    for identity in (b"b", b"c"):
        order = []
        while router.workers[identity].sent:
            (number,) = router.workers[identity].sent
            job, _ = router.on_done(identity, number, "ok", 1.0)
            assert job is not None
            router.validate()
            order.append((job.op, job.key))
        if identity == placed:
            assert order.index(("adopt", ("t", first))) < order.index(("append", ("t", first)))
    assert router.idle
    # An heir that dies with it answers nobody.
    router.on_handover(b"a", request(0, "adopt", "unseen"), 10, None, 1.0)
    out = [*router.on_gone("b", 100, 1.0), *router.on_gone("c", 100, 1.0)]
    assert [one.client for one in out if isinstance(one, Answer)] == [b""]
    router.validate()
    assert hand("unseen") == []  # nobody is left
    assert router.on_handover(b"x", request(0, "adopt", "unseen"), 10, None, 1.0) == [Tell(b"x", "disconnect")]


def test_a_handover_waits_neither_long_nor_in_a_full_queue() -> None:
    router = Router(Limits(worker_queue=2))
    ready(router, "a", credits=1)
    ready(router, "b", credits=1)
    router.on_leave(b"a", 0.0)
    for number in range(5):
        router.on_handover(b"a", request(0, "adopt", f"s{number}"), 10, None, 0.0)
        router.validate()
    assert len(router.sessions) == 3  # one with the worker, two that wait
    _, out = router.on_done(b"b", next(iter(router.workers[b"b"].sent)), "ok", 6.0)
    assert out == []
    assert router.counters["expired"] == 2
    assert router.idle


def test_stopping_refuses_and_abandoning_answers() -> None:
    router = Router(Limits())
    ready(router, "a")
    ask(router, 1)
    router.stop()
    assert answers(ask(router, 2)) == [(2, "shutting_down")]
    out = router.abandon()
    assert answers(out) == [(1, "shutting_down")]
    assert Tell(b"a", "drain") in out
    assert router.idle


@pytest.mark.parametrize("seed", range(1000))
def test_random_histories_keep_every_invariant(seed: int) -> None:
    """100 events a history. Whatever happens, each request is answered once, or its deadline passed.

    With and without fresh workers, whose speeds are reported at random; answers to whole texts bring seeds.
    """
    dice = random.Random(seed)
    limits = SMALL._replace(sessions=dice.choice([1, 6, 100]), handover_s=float("inf"))
    router = Router(limits._replace(fresh_bytes=dice.choice([0, 0, 100, 10**9]), round_trip_s=dice.choice([0, 1])))
    now = 0.0
    next_request = 0
    next_worker = 0
    asked: set[int] = set()
    answered: Counter[int] = Counter()
    #: What a worker's socket holds: the jobs it was sent, in order.
    inboxes: dict[bytes, list[Job]] = {}
    #: The newest job of a session that a worker was sent.
    newest: dict[tuple[bytes, Any], int] = {}

    def perform(instructions: list[Instruction]) -> None:
        pending = list(instructions)
        while pending:
            one = pending.pop(0)
            if isinstance(one, Send):
                if one.worker not in inboxes or dice.random() < 0.02:
                    inboxes.pop(one.worker, None)
                    pending += router.on_unreachable(one.worker, now)
                else:
                    inboxes[one.worker].append(one.job)
                    before = newest.get((one.worker, one.job.key), -1)
                    if one.job.op == "seed":
                        assert one.job.number > before, "a seed behind what its client asked since"
                    newest[one.worker, one.job.key] = max(before, one.job.number)
            elif isinstance(one, Answer) and one.client:
                answered[int.from_bytes(one.request_id, "little")] += 1
        router.validate()

    for _ in range(100):
        now += dice.random() * 0.3
        event = dice.random()
        names = [*router.names, *router.fresh_names]
        if event < 0.45:
            op = dice.choice(["encode", "encode", "full", "append", "append", "edit", "fork", "close", "batch"])
            session = f"s{dice.randrange(8)}"
            budget = dice.choice([None, None, 50, 5000])
            if asked and dice.random() < 0.1:  # a resend of something still open
                open_now = [int.from_bytes(rq, "little") for client, rq in router.open if client]
                number = dice.choice(open_now) if open_now else next_request
            else:
                number = next_request
            next_request = max(next_request, number + 1)
            asked.add(number)
            made = request(number, op, session, budget, new=f"s{dice.randrange(8)}")
            perform(router.on_request(b"c", made, dice.choice([1, 50, 400, 900]), None, now))
        elif event < 0.75:
            busy = [identity for identity, inbox in inboxes.items() if inbox]
            if busy:
                identity = dice.choice(busy)
                job = inboxes[identity].pop(0)
                code = dice.choice(["ok", "ok", "ok", "stale"]) if not job.fresh else dice.choice(["ok", "bad_request"])
                seed_of: Any = ["seed"] if job.fresh and job.op == "full" and code == "ok" else None
                assert router.job_of(identity, job.number) is job
                relayed, out = router.on_done(identity, job.number, code, now, seed_of, dice.choice([10, 600]))
                if relayed is not None and relayed.client:
                    answered[int.from_bytes(relayed.request_id, "little")] += 1
                perform(out)
        elif event < 0.82:
            identity = next_worker.to_bytes(4, "little")
            next_worker += 1
            inboxes[identity] = []
            engine = dice.choice(["", "", "cpu"])
            name = f"{engine}w{dice.randrange(4)}"
            credits = dice.randrange(1, 4)
            perform(router.on_ready(identity, name, next_worker, credits, 500, NATIVE, now, (), engine))
        elif event < 0.86 and inboxes:
            speed = dice.choice([0, 10, 1000, 10**6])
            perform(router.on_heartbeat(dice.choice(list(inboxes)), {"bytes_per_s": speed}, now))
        elif event < 0.90 and names:
            name = dice.choice(names)
            gone = (router.names | router.fresh_names)[name]
            inboxes.pop(gone, None)
            perform(router.on_gone(name, router.workers[gone].pid, now))
        elif event < 0.92 and inboxes:
            perform(router.on_leave(dice.choice(list(inboxes)), now))
        elif event < 0.93 and inboxes:
            identity = dice.choice(sorted(inboxes, key=lambda one: not router.workers[one].leaving)[:2])
            made = request(0, "adopt", f"s{dice.randrange(8)}")
            perform(router.on_handover(identity, made, dice.choice([1, 400]), None, now))
        elif event < 0.94 and inboxes:
            identity = dice.choice(list(inboxes))
            del inboxes[identity]
            perform(router.on_disconnect(identity, now))
        elif event < 0.96 and inboxes:
            keys = [("t", f"s{dice.randrange(8)}") for _ in range(3)]
            perform(router.on_sessions(dice.choice(list(inboxes)), keys, now))
        elif event < 0.97 and inboxes:
            perform(router.on_credit(dice.choice(list(inboxes)), dice.randrange(0, 5), 800, now))
        else:
            perform(router.on_tick(now))
        for identity in list(inboxes):
            if identity not in router.workers:
                del inboxes[identity]
    perform(router.abandon())
    assert router.idle
    assert max(answered.values(), default=1) == 1, "answered twice"
    assert answered.keys() <= asked
    assert len(asked) - len(answered) == router.counters["expired"]
