"""`tokseam doctor`: what will run on this machine, and why. It starts nothing and asks no network."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import zmq
from rich.console import Console
from rich.table import Table
from tokseam.broker import protocol
from tokseam.broker.endpoints import EndpointError, back_endpoint, check_endpoint, ipc_path, make_private_folder
from tokseam.client import connect
from tokseam.client.errors import TokseamError
from tokseam.kernels.cache import cache_dir
from tokseam.workers import pinning

from .options import describe_file, endpoint_setting, load_tokenizers, setting

Finding = tuple[str, str, str]  # 'ok', 'note' or 'bad'; what; why

_COLOURS = {"ok": "green", "note": "yellow", "bad": "red"}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_flags() -> set[str]:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


def check_engine() -> Iterator[Finding]:
    """The native module, and the instructions that it chooses among."""
    machine = platform.machine()
    if importlib.util.find_spec("tokseam.kernels._native") is None:
        yield "bad", "native engine", "not built: reinstall the package with a C++ compiler at hand"
    else:
        yield "ok", "native engine", f"built for {sys.implementation.cache_tag} on {machine}"
    flags = _cpu_flags()
    if machine == "x86_64":
        yield (
            ("ok", "AVX2", "this processor has it; chosen at run time where code for it exists")
            if "avx2" in flags
            else ("note", "AVX2", "this processor lacks it; the portable path runs")
        )
    else:
        yield "ok", "instructions", f"{machine}: the portable path runs"
    for package, role in (("tokenizers", "the reference of a tokenizer.json"), ("tiktoken", "its own reference")):
        found = _version(package)
        if found:
            yield "ok", package, f"{found}: {role}; native tables are probed out of it"
        else:
            yield ("bad" if package == "tokenizers" else "note"), package, "not installed"
    yield "ok", "ZeroMQ", f"libzmq {zmq.zmq_version()}, pyzmq {zmq.pyzmq_version()}"


def check_cores() -> Iterator[Finding]:
    """Cores, memory nodes, and whether pinning is allowed."""
    cores = pinning.allowed_cores()
    yield "ok", "cores", pinning.describe(cores) if cores else "this system does not tell"
    if not cores:
        yield "note", "pinning", "this system has no way to pin a process; workers run on any core"
        return
    before = os.sched_getaffinity(0)
    trouble = pinning.pin(cores[0].cpu)
    if trouble is None:
        os.sched_setaffinity(0, before)
        seats = pinning.plan(min(len(cores), 8), cores)
        order = ", ".join(str(seat.cpu) for seat in seats if seat is not None)
        yield "ok", "pinning", f"allowed; repair workers take cores {order}{', ...' if len(cores) > 8 else ''}"
        (place,) = pinning.plan_fresh(1, cores, pinning.plan(min(len(cores), 2), cores))
        where = (
            f"cores {', '.join(map(str, place.cpus))}" if place.cpus else f"any core, giving way (nice {place.nice})"
        )
        yield "ok", "fresh worker", f"beside two repair workers it takes {where}"
    else:
        yield "note", "pinning", f"{trouble}; workers run on any core"
    nodes = {core.node for core in cores}
    yield (
        "ok",
        "memory nodes",
        ("one: all memory is local" if len(nodes) == 1 else f"{len(nodes)}: workers take turns, their memory is local"),
    )


def check_gpu() -> Iterator[Finding]:
    """The libraries of the GPU path. No device is touched."""
    names = ("cupy-cuda12x", "cupy-cuda13x", "cupy")
    cupy = next((f"{name} {found}" for name in names if (found := _version(name))), None)
    device = any(Path("/dev").glob("nvidia[0-9]*"))
    if device and cupy:
        yield "ok", "GPU", f"a device is here, and {cupy}"
    elif device:
        yield "note", "GPU", "a device is here, but CuPy is not (`pip install tokseam[gpu]`); fresh texts go to the CPU"
    else:
        yield "note", "GPU", f"no device here{f' ({cupy} is installed)' if cupy else ''}; fresh texts go to the CPU"


def check_endpoint_of(endpoint: str | None) -> Iterator[Finding]:
    """Where clients would connect, and who is there."""
    try:
        front = check_endpoint(endpoint or protocol.default_endpoint())
        back = back_endpoint(front)
        path = ipc_path(front)
        if path is not None and path.parent.exists():
            make_private_folder(path.parent)
    except EndpointError as error:
        yield "bad", "endpoint", str(error)
        return
    yield "ok", "endpoint", f"{front} (workers: {back})"
    try:
        with connect(front, connect_timeout=0.5) as tier:
            names = ", ".join(f"{entry['name']} ({entry['status']})" for entry in tier.tokenizers())
            yield "ok", "tier", f"running, with {names}"
    except TokseamError:
        yield "note", "tier", "none runs there now (`tokseam serve` starts one)"


def check_tokenizers(specifications: tuple[str, ...]) -> Iterator[Finding]:
    """Each given tokenizer: native, or by the reference and why."""
    for name, tokenizer in load_tokenizers(specifications).items():
        if tokenizer.status == "native":
            yield "ok", f"tokenizer {name}", f"native ({tokenizer.sha256[:16]})"
        else:
            yield "note", f"tokenizer {name}", f"by the reference: {tokenizer.reason} ({tokenizer.sha256[:16]})"
        if tokenizer.compiled_file is None:
            yield "note", "compiled file", f"none, so each process compiles for itself: {cache_dir()} can't be written"
        elif tokenizer.status == "native":
            yield "ok", "compiled file", f"{describe_file(tokenizer.compiled_file)}, shared by all processes"


@click.command()
@setting(
    "--tokenizer",
    "specifications",
    envvar="TOKSEAM_TOKENIZERS",
    multiple=True,
    metavar="NAME=PATH",
    help="Tell of this one whether it is native. Repeatable.",
)
@endpoint_setting("Look whether a tier is there.")
@setting(
    "--unicode",
    "unicode_classes",
    is_flag=True,
    default=False,
    help="Tell instead where the references' classes of characters differ from Python's.",
)
def command(specifications: tuple[str, ...], endpoint: str | None, unicode_classes: bool) -> None:
    """Tell what will run here, and why. Fails when something would keep a tier from starting."""
    if unicode_classes:
        from .unicode_report import print_report

        print_report(Console())
        return
    found = Table(box=None, show_header=False)
    found.add_column(no_wrap=True)
    found.add_column(no_wrap=True, style="bold")
    found.add_column(overflow="fold")
    bad = False
    version = _version("tokseam") or "not installed"
    found.add_row("[green]ok[/]", "tokseam", f"{version}, Python {platform.python_version()}")
    for findings in (
        check_engine(),
        check_cores(),
        check_gpu(),
        check_endpoint_of(endpoint),
        check_tokenizers(specifications),
    ):
        for level, what, why in findings:
            found.add_row(f"[{_COLOURS[level]}]{level}[/]", what, why)
            bad = bad or level == "bad"
    Console().print(found)
    if bad:
        sys.exit(1)
