"""`tokseam serve`: a broker, its workers and a verifier under one supervisor. `running_tier`: from Python.

It prints a line when the tier answers: `tokseam ready: endpoint=... workers=... fresh=... tokenizers=NAME:STATUS,...`
Limits: it carries no requests itself; each process is started by workers/supervisor.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import zmq
from tokseam.broker import protocol
from tokseam.broker.endpoints import (
    EndpointError,
    back_endpoint,
    check_endpoint,
    ipc_path,
    make_private_folder,
    shadow_endpoint,
)
from tokseam.broker.state import Limits as BrokerLimits
from tokseam.kernels.engine import CHUNK_CACHE_BYTES
from tokseam.workers import pinning, quarantine, sampling
from tokseam.workers.store import Limits as WorkerLimits
from tokseam.workers.supervisor import Supervisor, tier

from .options import endpoint_setting, load_tokenizers, setting, tokenizers_setting

#: What the ready line begins with.
READY = "tokseam ready:"


@click.command(context_settings={"show_default": True})
@tokenizers_setting
@setting("--repair-workers", type=click.IntRange(1, 1024), default=2, help="Repair workers, each pinned to a core.")
@setting(
    "--fresh-workers",
    type=click.IntRange(0, 64),
    default=1,
    help="Fresh workers, which encode whole texts in batches; 0: repair workers encode everything.",
)
@setting(
    "--fresh-threshold",
    type=click.IntRange(0),
    default=BrokerLimits().fresh_bytes,
    help="Bytes of a whole text from which on a fresh worker encodes it.",
)
@setting(
    "--fresh-threads",
    type=click.IntRange(0, 1024),
    default=0,
    help="Cores that a fresh worker encodes on; 0: all that it may run on.",
)
@setting(
    "--gpu/--no-gpu",
    "gpu",
    envvar="TOKSEAM_GPU",
    default=True,
    help="Let fresh workers encode on a GPU, where one is here and CuPy finds it.",
)
@endpoint_setting("Where clients connect. By default an ipc path of this user's own; tcp only when asked.")
@setting("--pin/--no-pin", "pin", envvar="TOKSEAM_PIN", default=True, help="Pin each worker to a core.")
@setting(
    "--message-max-bytes",
    type=click.IntRange(2 * protocol.HEADER_MAX_BYTES, 2**31 - 1),
    default=protocol.MESSAGE_MAX_BYTES,
    help="Largest request, and largest text of a session.",
)
@setting(
    "--queue", type=click.IntRange(1), default=BrokerLimits().worker_queue, help="Requests that may wait a worker."
)
@setting("--sessions", type=click.IntRange(1), default=WorkerLimits().sessions, help="Sessions that a worker holds.")
@setting(
    "--session-bytes",
    type=click.IntRange(2**20),
    default=WorkerLimits().session_bytes,
    help="Memory of a worker's sessions; the least recently used goes first.",
)
@setting(
    "--chunk-cache-bytes",
    type=click.IntRange(0),
    default=CHUNK_CACHE_BYTES,
    help="Memory that a worker keeps for each tokenizer to recognise large chunks of text; 0: none.",
)
@setting(
    "--placements", type=click.IntRange(1), default=BrokerLimits().sessions, help="Sessions that the broker places."
)
@setting(
    "--heartbeat-s",
    type=click.FloatRange(0.05, 60),
    default=BrokerLimits().heartbeat_s,
    help="Seconds between heartbeats; four missed ones are a death.",
)
@setting(
    "--shadow-rate",
    type=click.FloatRange(0, 1),
    default=sampling.RATE,
    help="Share of answers that the verifier encodes again; 0 runs none.",
)
@setting(
    "--shadow-bytes-per-s",
    type=click.FloatRange(1),
    default=sampling.BYTES_PER_S,
    help="Bytes of text a second that the verifier is given; small and large texts share it.",
)
@setting(
    "--quarantine-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Where wrong answers are recorded, and demotions kept. By default in this user's state folder.",
)
@setting("--quarantine-text", is_flag=True, help="Let records hold the text and ids, not only their hashes.")
@setting("--validate", is_flag=True, help="Check the broker's invariants at every step (slow; for tests).")
def command(
    specifications: tuple[str, ...],
    repair_workers: int,
    fresh_workers: int,
    fresh_threshold: int,
    fresh_threads: int,
    gpu: bool,
    endpoint: str | None,
    pin: bool,
    message_max_bytes: int,
    queue: int,
    sessions: int,
    session_bytes: int,
    chunk_cache_bytes: int,
    placements: int,
    heartbeat_s: float,
    shadow_rate: float,
    shadow_bytes_per_s: float,
    quarantine_dir: Path | None,
    quarantine_text: bool,
    validate: bool,
) -> None:
    """Run a tier: a broker, its repair and fresh workers and a verifier. Ctrl-C or SIGTERM ends all of it."""
    try:
        front = check_endpoint(endpoint or protocol.default_endpoint())
        back = back_endpoint(front)
        for path in filter(None, (ipc_path(front), ipc_path(back))):
            make_private_folder(path.parent)
    except EndpointError as error:
        raise click.BadParameter(str(error), param_hint="'--endpoint'") from None
    load_tokenizers(specifications)  # here once, so that a bad one is named before anything starts
    cores = pinning.allowed_cores()
    seats: list[pinning.Seat | None] = pinning.plan(repair_workers, cores) if pin else [None] * repair_workers
    places = pinning.plan_fresh(fresh_workers, cores, seats)
    _say_seats(seats, places, cores, pin)
    kept = _quarantine_folder(quarantine_dir)
    samples = shadow_endpoint(front)
    children = tier(
        front,
        back,
        specifications,
        seats,
        places,
        broker_arguments=[
            *("--message-max-bytes", str(message_max_bytes)),
            *("--heartbeat-s", str(heartbeat_s)),
            *("--queue", str(queue)),
            *("--placements", str(placements)),
            *("--fresh-threshold", str(fresh_threshold)),
            *("--demotions", str(demotions_file(kept, front))),
            *(["--validate"] if validate else []),
        ],
        worker_arguments=[
            *("--message-max-bytes", str(message_max_bytes)),
            *("--heartbeat-s", str(heartbeat_s)),
            *("--chunk-cache-bytes", str(chunk_cache_bytes)),
            *(["--shadow-endpoint", samples, "--shadow-rate", str(shadow_rate)] if shadow_rate else []),
            *("--shadow-bytes-per-s", str(shadow_bytes_per_s / (repair_workers + fresh_workers))),
        ],
        repair_arguments=[
            *("--sessions", str(sessions)),
            *("--session-bytes", str(session_bytes)),
            *("--quarantine-dir", str(kept)),
        ],
        fresh_arguments=["--threads", str(fresh_threads), *([] if gpu else ["--no-gpu"])],
        verifier_arguments=[
            *("--endpoint", samples),
            *("--quarantine-dir", str(kept)),
            *(["--quarantine-text"] if quarantine_text else []),
        ]
        if shadow_rate
        else None,
    )
    # The broker knows when its workers are ready; a thread asks it, since the supervisor waits for other things.
    watch = threading.Thread(target=_say_ready, args=(front, repair_workers, fresh_workers), daemon=True)
    sys.exit(Supervisor(children, back, on_open=watch.start).run())


def _quarantine_folder(named: Path | None) -> Path:
    """Return the quarantine. One that is named must be usable now; the default is made when there is a record."""
    if named is None:
        return quarantine.default_folder()
    try:
        named.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{named}: {error.strerror}", param_hint="'--quarantine-dir'") from None
    if not os.access(named, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{named} can't be written", param_hint="'--quarantine-dir'")
    return named.absolute()


def demotions_file(folder: Path, front: str) -> Path:
    """Return where a tier keeps what is demoted: a file for each endpoint, since tiers may share a quarantine."""
    return folder / f"demotions-{hashlib.sha256(front.encode()).hexdigest()[:16]}.json"


def _say_seats(
    seats: Sequence[pinning.Seat | None], places: Sequence[pinning.Place], cores: list[pinning.Core], pin: bool
) -> None:
    taken = [seat.cpu for seat in seats if seat is not None]
    rest = len(seats) - len(taken)
    line = f"cores: {pinning.describe(cores)}; "
    line += f"workers pinned to {', '.join(map(str, taken))}" if taken else "workers not pinned"
    if rest and pin:
        line += f"; {rest} worker{'s' if rest > 1 else ''} beyond the cores run unpinned"
    for place in places:
        own = f"on {', '.join(map(str, place.cpus))}" if place.cpus else f"on any, giving way (nice {place.nice})"
        line += f"; a fresh worker {own}"
    click.echo(line, err=True)


def _say_ready(endpoint: str, repair_workers: int, fresh_workers: int) -> None:
    """Ask until every worker answers for itself, then print the ready line. Ends with the process."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as asking:
        asking.setsockopt(zmq.LINGER, 0)
        asking.setsockopt(zmq.RCVTIMEO, 250)
        asking.setsockopt(zmq.SNDTIMEO, 250)
        asking.setsockopt(zmq.IMMEDIATE, 1)
        asking.setsockopt(zmq.IPV6, int(endpoint.startswith("tcp://[")))
        asking.connect(endpoint)
        ready = 0
        tokenizers: list[dict[str, str]] = []
        while ready < repair_workers + fresh_workers:
            with contextlib.suppress(zmq.Again):
                for op in ("stats", "hello"):
                    asking.send_multipart(protocol.pack_request(protocol.Request(op, os.urandom(16))))
                    reply = protocol.unpack_reply(asking.recv_multipart())
                    if reply.stats is not None:
                        ready = len(reply.stats["workers"])
                    tokenizers = reply.tokenizers or tokenizers
            threading.Event().wait(0.02)
    statuses = ",".join(f"{entry['name']}:{entry['status']}" for entry in tokenizers)
    click.echo(f"{READY} endpoint={endpoint} workers={repair_workers} fresh={fresh_workers} tokenizers={statuses}")


@dataclass(slots=True)
class RunningTier:
    """A tier in processes of its own, started by `running_tier`."""

    endpoint: str
    process: subprocess.Popen[str]
    #: The ready line, for people.
    ready: str

    def stop(self, timeout: float = 15.0) -> int:
        """End it as Ctrl-C would. Returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


def start_tier(
    tokenizers: Mapping[str, str | os.PathLike[str]],
    *,
    endpoint: str,
    repair_workers: int = 2,
    arguments: Sequence[str] = (),
    timeout: float = 60.0,
    quiet: bool = True,
) -> RunningTier:
    """Start `tokseam serve` and wait until it is ready. It ends with the thread that started it, if not stopped before.

    Raises RuntimeError with its last words if it ends instead.
    """
    command_line = [sys.executable, "-m", "tokseam.workers.child", "--parent", str(os.getpid())]
    command_line += ["tokseam.scripts.cli", "serve", "--endpoint", endpoint]
    command_line += ["--repair-workers", str(repair_workers), *arguments]
    for name, path in tokenizers.items():
        command_line += ["--tokenizer", f"{name}={os.fspath(path)}"]
    process = subprocess.Popen(
        command_line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if quiet else None,
        text=True,
        start_new_session=True,
    )
    said: list[str] = []
    if process.stderr is not None:
        # Read for good: a full pipe would stop the tier.
        threading.Thread(target=_collect, args=(process.stderr, said), daemon=True).start()
    assert process.stdout is not None
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
    finally:
        timer.cancel()
    if not line.startswith(READY):
        process.kill()
        process.wait()
        raise RuntimeError(f"the tier did not start: {''.join(said[-20:]).strip() or line.strip() or 'no answer'}")
    return RunningTier(endpoint, process, line.strip())


def _collect(stream: Iterator[str], into: list[str]) -> None:
    for line in stream:
        into.append(line)
        del into[:-200]


@contextlib.contextmanager
def running_tier(
    tokenizers: Mapping[str, str | os.PathLike[str]],
    *,
    endpoint: str,
    repair_workers: int = 2,
    arguments: Sequence[str] = (),
    quiet: bool = True,
) -> Iterator[RunningTier]:
    """Run a tier for a `with` block: benches, tests and scripts use this.

    >>> with running_tier({"ds": "tokenizer.json"}, endpoint="ipc:///tmp/x/front.sock") as tier:  # doctest: +SKIP
    ...     connect(tier.endpoint).encode("Hello")
    """
    started = start_tier(tokenizers, endpoint=endpoint, repair_workers=repair_workers, arguments=arguments, quiet=quiet)
    try:
        yield started
    finally:
        started.stop()
