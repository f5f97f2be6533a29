"""What several subcommands of `tokseam` share: the settings of tokenizers and endpoints, and how they fail.

Limits: no subcommand is here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def setting(*names: str, **rest: Any) -> Callable[[Decorated], Decorated]:
    """Declare an option with its environment twin: --message-max-bytes is TOKSEAM_MESSAGE_MAX_BYTES."""
    long = next(name for name in names if name.startswith("--"))
    rest.setdefault("envvar", "TOKSEAM_" + long[2:].upper().replace("-", "_"))
    rest.setdefault("show_envvar", True)
    rest.setdefault("show_default", rest.get("default") is not None)
    return click.option(*names, **rest)


#: NAME=PATH or NAME=tiktoken:ENCODING, any number; in the environment TOKSEAM_TOKENIZERS, separated by white space.
tokenizers_setting = setting(
    "--tokenizer",
    "specifications",
    envvar="TOKSEAM_TOKENIZERS",
    multiple=True,
    required=True,
    metavar="NAME=PATH",
    help="A tokenizer.json, a tekken.json or a rank description, or NAME=tiktoken:ENCODING. "
    "Repeat for more (in the environment: separated by spaces).",
)


def endpoint_setting(help_text: str) -> Callable[[Decorated], Decorated]:
    return setting("--endpoint", default=None, metavar="ipc://PATH|tcp://HOST:PORT", help=help_text)


def load_tokenizers(specifications: tuple[str, ...]) -> dict[str, engine.Tokenizer]:
    """Load what --tokenizer names. Raises click.BadParameter, so that a bad one stops the start."""
    from tokseam.workers.specifications import load_tokenizers as load

    try:
        return load(specifications)
    except BadTokenizerError as error:
        raise click.BadParameter(str(error), param_hint="'--tokenizer'") from None


def describe_file(path: Path) -> str:
    """Return a file's path and size, for people."""
    try:
        return f"{path} ({path.stat().st_size / 1e6:.1f} MB)"
    except OSError as error:
        return f"{path} ({error.strerror})"
