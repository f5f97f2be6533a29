"""`tokseam restore`: lift the demotion of a tokenizer that gave a wrong answer, on every worker of a tier."""

from __future__ import annotations

import click
from tokseam.client import connect
from tokseam.client.errors import TokseamError

from .options import endpoint_setting


@click.command()
@click.argument("tokenizer")
@endpoint_setting("The tier to tell.")
def command(tokenizer: str, endpoint: str | None) -> None:
    """Answer TOKENIZER (a name or a hash) natively again, after the verifier demoted it to the reference.

    Look at the quarantine first: what was wrong once will be again, if nothing changed.
    """
    try:
        with connect(endpoint, connect_timeout=3.0, timeout=5.0) as tier:
            lifted = tier.restore(tokenizer)
    except TokseamError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{tokenizer} is restored" if lifted else f"{tokenizer} was not demoted")
