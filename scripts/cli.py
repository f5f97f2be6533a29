"""The `tokseam` command: one group, one subcommand a file.

Every flag has one environment twin, TOKSEAM_...; the flag wins; a bad value of either stops the start.
Limits: what a subcommand does is in its own file.
"""

from __future__ import annotations

import importlib
import logging
import sys

import click

#: Subcommand -> its module here; imported when called, so that `--help` does not load an engine.
COMMANDS = {
    "serve": ("serve", "Run a tier: a broker, its repair workers and a verifier."),
    "encode": ("encode", "Print the ids of a file or of standard input."),
    "tokenizers": ("tokenizers", "List the tokenizers of a running tier."),
    "status": ("status", "Watch the counters of a running tier."),
    "verify": ("verify", "Look for a difference from the reference, on your texts and on ones made to hurt."),
    "restore": ("restore", "Lift a tokenizer's demotion to the reference."),
    "doctor": ("doctor", "Tell what will run on this machine, and why."),
}


class LazyGroup(click.Group):
    """A group that knows its subcommands' names and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return super().get_command(ctx, name)
        command = importlib.import_module(f".{COMMANDS[name][0]}", __package__).command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tokseam")
def main() -> None:
    """An exact, stateful tokenization tier: it re-encodes only what a change can touch."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)


if __name__ == "__main__":
    main()
