"""`tokseam status`: the counters of a running tier, once or live."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from tokseam.client import Tier, connect
from tokseam.client.errors import ConnectError, RequestTimeoutError, TokseamError

from .options import endpoint_setting, setting

#: Rows: heading, a worker's key.
ROWS = (
    ("requests", "requests"),
    ("appends", "path_append"),
    ("edits", "path_edit"),
    ("fresh", "path_fresh"),
    ("by reference", "path_reference"),
    ("chars encoded", "chars_encoded"),
    ("sessions", "sessions"),
    ("session MiB", "session_bytes"),
    ("stale", "stale"),
    ("evicted", "evicted"),
    ("mismatches", "mismatches"),
    ("batches", "batches"),
    ("texts in them", "batch_documents"),
    ("MiB in them", "batch_bytes"),
    ("seeds", "seeds"),
    ("seeds refused", "seeds_refused"),
    ("engine failures", "engine_failures"),
    ("failed", "failed"),
)
#: Workers shown one by one; more would not fit beside each other.
WORKERS_SHOWN = 6


def render(endpoint: str, stats: dict[str, Any], before: dict[str, Any] | None, seconds: float, ping_s: float) -> Group:
    """Return what people see of one `stats()`, with rates against the one before."""
    broker = stats["broker"]
    rate = f" ({(broker['requests'] - before['broker']['requests']) / seconds:,.0f}/s)" if before else ""
    head = f"[bold]{endpoint}[/]\nround trip {ping_s * 1e6:.0f} us, requests {broker['requests']:,}{rate}"
    line = ", ".join(
        f"{name.replace('_', ' ')} {broker[name]:,}"
        for name in ("sent", "queued", "placements", "busy", "stale", "retried", "expired", "workers_lost", "refused")
    )
    notes = [fresh_line(stats), shadow_line(stats.get("shadow", {}))]
    notes += [f"[red]{entry['name']} by reference: {escape(entry['reason'])}[/]" for entry in stats.get("demoted", ())]
    shown = stats["workers"][:WORKERS_SHOWN]
    table = Table(box=None, header_style="bold")
    table.add_column("")
    table.add_column(f"all {len(stats['workers'])}", justify="right")
    for worker in shown:
        name = worker["name"] + (" (leaving)" if worker["leaving"] else "")
        table.add_column(f"{name}\n{worker['pid']}", justify="right")
    for heading, key in ROWS:
        values = [stats.get(key, 0), *(worker.get(key, 0) for worker in shown)]
        cells = [f"{value / 2**20:,.1f}" if "MiB" in heading else f"{value:,}" for value in values]
        table.add_row(heading, *cells)
    return Group(head, line, *notes, table)


def fresh_line(stats: dict[str, Any]) -> str:
    """Return what took the fresh path, in a line."""
    engines = [worker["engine"] for worker in stats["workers"] if "engine" in worker]
    if not engines:
        return "fresh workers: none"
    broker = stats["broker"]
    counts = ", ".join(
        f"{name.replace('_', ' ')} {broker[name]:,}"
        for name in ("fresh", "spilled", "seeds", "seeds_dropped", "rerouted")
    )
    documents = stats.get("batch_documents", 0) / max(1, stats.get("batches", 0))
    return f"fresh workers: {escape('; '.join(engines))}; {counts}, texts a batch {documents:,.1f}"


def shadow_line(shadow: dict[str, int]) -> str:
    """Return what the verifier did, in a line."""
    if "sampled" not in shadow:
        return "verifier: none"
    names = ["sampled", "verified", "mismatched", "queued", "dropped", "lost", "skipped"]
    names += [name for name in ("unsteady", "unverifiable", "failed", "faults") if shadow.get(name)]
    counts = ", ".join(f"{name} {shadow.get(name, 0):,}" for name in names)
    return (
        f"verifier: {counts}, {shadow.get('verified_bytes', 0) / 2**20:,.1f} MiB, "
        f"delay P50 {shadow.get('delay_p50_us', 0) / 1e3:,.1f} ms, P99 {shadow.get('delay_p99_us', 0) / 1e3:,.1f} ms"
    )


@click.command()
@endpoint_setting("The tier to watch.")
@setting("--interval-s", type=click.FloatRange(0.1, 60), default=1.0, help="Seconds between looks.")
@setting("--once", is_flag=True, help="Look once and end.")
@setting("--json", "as_json", envvar="TOKSEAM_JSON", is_flag=True, help="Print the counters once, as JSON.")
def command(endpoint: str | None, interval_s: float, once: bool, as_json: bool) -> None:
    """Watch a tier: its workers, sessions and counters. Ctrl-C ends the watching."""
    try:
        with connect(endpoint, connect_timeout=3.0, timeout=5.0) as tier:
            if as_json:
                click.echo(json.dumps(tier.stats()))
            elif once:
                Console().print(render(tier.endpoint, tier.stats(), None, 1.0, tier.ping()))
            else:
                watch(tier, interval_s)
    except TokseamError as error:
        raise click.ClickException(str(error)) from None


def watch(tier: Tier, interval_s: float) -> None:
    """Show the tier until Ctrl-C; one that goes away for a while is waited for."""
    before: dict[str, Any] | None = None
    looked = 0.0
    with Live(auto_refresh=False) as live:
        while True:
            try:
                stats, now = tier.stats(), time.monotonic()
                live.update(render(tier.endpoint, stats, before, now - looked, tier.ping()), refresh=True)
                before, looked = stats, now
            except (ConnectError, RequestTimeoutError) as error:
                live.update(str(error), refresh=True)
                before = None
            try:
                time.sleep(interval_s)
            except KeyboardInterrupt:
                return
