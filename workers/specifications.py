"""What `--tokenizer NAME=PATH` and `NAME=tiktoken:ENCODING` name, and the tokenizers loaded from it."""

from __future__ import annotations

from collections.abc import Sequence

from tokseam.broker import protocol
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

_TIKTOKEN = "tiktoken:"


def read_specifications(specifications: Sequence[str]) -> dict[str, str]:
    """Return name -> source, in order. Raises BadTokenizerError naming the one at fault."""
    read: dict[str, str] = {}
    for specification in specifications:
        name, separator, source = specification.partition("=")
        if not separator or not name or not source:
            raise BadTokenizerError(f"{specification}: a tokenizer is given as NAME=PATH or NAME=tiktoken:ENCODING")
        if name in read:
            raise BadTokenizerError(f"{specification}: the name {name!r} is given twice")
        if len(name.encode()) > protocol.TOKENIZER_MAX_BYTES:
            raise BadTokenizerError(f"{specification}: a name has at most {protocol.TOKENIZER_MAX_BYTES} bytes")
        read[name] = source
    return read


def load_tokenizers(specifications: Sequence[str]) -> dict[str, engine.Tokenizer]:
    """Load what the specifications name. Raises BadTokenizerError naming the one at fault."""
    loaded: dict[str, engine.Tokenizer] = {}
    for name, source in read_specifications(specifications).items():
        try:
            loaded[name] = engine.load(find_source(source))
        except BadTokenizerError as error:
            raise BadTokenizerError(f"tokenizer {name}: {error}") from None
    return loaded


def find_source(source: str) -> object:
    """Return what `engine.load` takes: a path, or a tiktoken.Encoding that nobody else has.

    Raises BadTokenizerError.
    """
    return _tiktoken(source[len(_TIKTOKEN) :]) if source.startswith(_TIKTOKEN) else source


def _tiktoken(encoding: str) -> object:
    try:
        import tiktoken

        shared = tiktoken.get_encoding(encoding)
        # tiktoken hands one object to everybody of a process; this one has no history but its caller's.
        return tiktoken.Encoding(
            shared.name,
            pat_str=shared._pat_str,
            mergeable_ranks=shared._mergeable_ranks,
            special_tokens=shared._special_tokens,
        )
    except ImportError:
        raise BadTokenizerError("tiktoken is not installed") from None
    except ValueError as error:
        raise BadTokenizerError(f"tiktoken has no encoding {encoding!r}: {str(error).splitlines()[0]}") from None
    except Exception as error:  # whatever its loader meets; mostly, that there is no network
        raise BadTokenizerError(
            f"tiktoken could not load the ranks of {encoding!r} ({type(error).__name__}); "
            "it takes them from the network, or from the folder that TIKTOKEN_CACHE_DIR names"
        ) from None
