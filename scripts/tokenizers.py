"""`tokseam tokenizers`: what a running tier has registered, or what given tokenizers would be."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table
from tokseam.client import Embedded, connect
from tokseam.client.errors import TokseamError

from .options import describe_file, endpoint_setting, load_tokenizers, setting


def table(entries: list[dict[str, str]]) -> Table:
    """Return the table of `tokenizers()`'s entries."""
    made = Table(box=None, header_style="bold")
    for column in ("name", "status", "sha256"):
        made.add_column(column, no_wrap=True)
    made.add_column("reason", overflow="fold")
    for entry in entries:
        colour = "green" if entry["status"] == "native" else "yellow"
        made.add_row(entry["name"], f"[{colour}]{entry['status']}[/]", entry["sha256"][:16], entry["reason"])
    return made


@click.command()
@endpoint_setting("The tier to ask.")
@setting(
    "--tokenizer",
    "specifications",
    envvar="TOKSEAM_TOKENIZERS",
    multiple=True,
    metavar="NAME=PATH",
    help="Ask no tier: load this here and tell what it would be. Repeatable.",
)
def command(endpoint: str | None, specifications: tuple[str, ...]) -> None:
    """List tokenizers: name, native or reference, and why."""
    if specifications:
        loaded = load_tokenizers(specifications)
        Console().print(table(Embedded(loaded).tokenizers()))
        for name, tokenizer in loaded.items():
            where = "none" if tokenizer.compiled_file is None else describe_file(tokenizer.compiled_file)
            click.echo(f"compiled file of {name}: {where}")
    else:
        try:
            with connect(endpoint, connect_timeout=3.0) as tier:
                entries = tier.tokenizers()
        except TokseamError as error:
            raise click.ClickException(str(error)) from None
        Console().print(table(entries))
