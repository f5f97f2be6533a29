"""`tokseam encode`: a file or standard input to ids, by the engine in this process."""

from __future__ import annotations

import json
from typing import BinaryIO

import click
import numpy as np
from tokseam.client import Embedded
from tokseam.client.errors import TokseamError

from .options import load_tokenizers, setting, tokenizers_setting


@click.command()
@tokenizers_setting
@click.argument("file", type=click.File("rb"), default="-")
@setting("--name", default=None, metavar="NAME", help="Which of several tokenizers to use.")
@setting("--add-special-tokens", is_flag=True, help="Add what the tokenizer's template adds.")
@setting("--split-special-tokens", is_flag=True, help="Take special tokens in the text as ordinary text.")
@setting("--count", is_flag=True, help="Print only how many ids there are.")
@setting("--pieces", "show_pieces", envvar="TOKSEAM_PIECES", is_flag=True, help="Print each id with its text.")
@setting("--json", "as_json", envvar="TOKSEAM_JSON", is_flag=True, help="Print a JSON array.")
def command(
    specifications: tuple[str, ...],
    file: BinaryIO,
    name: str | None,
    add_special_tokens: bool,
    split_special_tokens: bool,
    count: bool,
    show_pieces: bool,
    as_json: bool,
) -> None:
    """Print the ids of FILE, or of standard input, separated by spaces."""
    engine = Embedded(load_tokenizers(specifications))
    source = getattr(file, "name", "input")
    try:
        text = file.read().decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{source}: byte {error.start} is not UTF-8: {error.reason}") from None
    try:
        ids = engine.encode_array(text, name, add_special_tokens, split_special_tokens)
        if count:
            click.echo(len(ids))
        elif show_pieces:
            for one in ids.tolist():
                click.echo(f"{one}\t{engine.decode([one], name)!r}")
        else:
            click.echo(json.dumps(ids.tolist()) if as_json else " ".join(np.char.mod("%d", ids)))
    except TokseamError as error:
        raise click.ClickException(f"{source}: {error}") from None
