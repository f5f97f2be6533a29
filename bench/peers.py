"""What is measured side by side: our engine, and every other tokenizer library that can give the same ids.

A peer is loaded from the very bytes of the tokenizer under test where its interface allows that, and called in its
cheapest form: what it returns is what its own users get, and it becomes a list of ids only for the comparison.
Whether the ids are the reference's is never taken from a peer's word: see `compare`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

# What this module imports counts in the case `load`: no more than it needs.
if TYPE_CHECKING:
    from .subjects import Subject

Encode = Callable[[str], Any]
ToIds = Callable[[Any], Any]

OURS = "tokseam"
#: Ours that recognises no chunk of text that came before: what a repeated text costs piece by piece.
PIECES = "tokseam pieces"


class UnfitError(Exception):
    """A peer that cannot take part, with the reason in words."""


@dataclass(frozen=True)
class Loaded:
    """A peer that is ready: `encode` is what is timed, `ids` turns its result into an array, untimed."""

    name: str
    version: str
    encode: Encode
    ids: ToIds
    #: What `encode` returns, for the record.
    form: str
    #: Where a peer has sessions: given a text and a delta, it opens a session at the text, untimed, and returns the
    #: append to be timed.
    append: Callable[[str, str], Callable[[], Any]] | None = None


@dataclass(frozen=True)
class Missing:
    """A peer that is reported and not measured."""

    name: str
    reason: str


def _same(result: Any) -> Any:
    return result


def _ids_of(result: Any) -> Any:
    return result.ids


def _pieces(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    return _ours(subject, threads, chunk_cache_bytes=0)


def _ours(subject: Subject, threads: int, **options: int) -> tuple[Encode, ToIds, str]:
    import inspect

    from tokseam.client import Embedded

    engine = Embedded({"t": subject.source}, **options)
    if threads == 1:
        return engine.encode_array, _same, "numpy array"
    if "threads" not in inspect.signature(engine.encode_array).parameters:
        raise UnfitError("encode_array takes no threads=")
    parallel: Any = engine.encode_array
    return lambda text: parallel(text, threads=threads), _same, "numpy array"


def _tokenizers(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(subject.json_path()))
    return lambda text: tokenizer.encode(text, add_special_tokens=False), _ids_of, "Encoding"


def _tiktoken(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    import unicodedata

    encoding, composed = subject.as_tiktoken()
    if not composed:
        return lambda text: encoding.encode_to_numpy(text, allowed_special="all"), _same, "numpy array"

    def encode(text: str) -> Any:
        return encoding.encode_to_numpy(unicodedata.normalize("NFC", text), allowed_special="all")

    return encode, _same, "numpy array, text composed by the caller"


def _fastokens(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    fastokens: Any = import_module("fastokens")

    if subject.is_tiktoken:
        encoding = subject.source
        tokenizer = fastokens.Tokenizer.from_tiktoken(
            str(subject.ranks_path()), encoding._pat_str, encoding._special_tokens
        )
    else:
        tokenizer = fastokens.Tokenizer.from_file(str(subject.json_path()))
    return tokenizer.encode, _ids_of, "Encoding"


def _gigatoken(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    gigatoken: Any = import_module("gigatoken")

    if subject.is_tiktoken:
        encoding = subject.source
        tokenizer = gigatoken.Tokenizer.from_tiktoken(
            str(subject.ranks_path()), pretokenizer=subject.name, special_tokens=encoding._special_tokens
        )
    else:
        tokenizer = gigatoken.Tokenizer(str(subject.json_path()))
    return tokenizer.encode, _same, "numpy array"


def _kitoken(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    kitoken: Any = import_module("kitoken").Kitoken

    tokenizer = kitoken.from_tokenizers_file(str(subject.json_path()))
    return lambda text: tokenizer.encode(text, True), _same, "list"


def _tokie(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    tokie: Any = import_module("tokie")

    tokenizer = tokie.Tokenizer.from_json(str(subject.json_path()))
    return lambda text: tokenizer.encode(text, add_special_tokens=False), _ids_of, "Encoding"


def _quicktok(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    quicktok: Any = import_module("quicktok")

    known = {"qwen3": "qwen3", "llama3_1": "llama3", "gptoss": "o200k_harmony", "o200k": "o200k_base"}
    known["cl100k"] = "cl100k_base"
    if subject.name not in known:
        raise UnfitError("it brings vocabularies of its own; none is of this tokenizer")
    return quicktok.get_encoding(known[subject.name]).encode_with_special, _same, "list"


def _wordchipper(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    wordchipper: Any = import_module("wordchipper")

    known = {"cl100k": "cl100k_base", "o200k": "o200k_base", "gptoss": "o200k_harmony", "r50k": "r50k_base"}
    if subject.name not in known:
        raise UnfitError("it knows OpenAI's encodings only")
    # Without its download it answers with a vocabulary of single bytes; the comparison of ids shows that.
    return wordchipper.Tokenizer.from_pretrained(known[subject.name]).encode, _same, "list"


class _Toktier:
    """toktier, whole or by its sessions."""

    def __init__(self, tokenizer: Any, threads: int) -> None:
        self._tokenizer = tokenizer
        self._options: dict[str, Any] = {"lookup": "off"} if threads == 1 else {"parallel": threads}

    def __call__(self, text: str) -> Any:
        return self._tokenizer.encode(text, **self._options)

    def append(self, text: str, delta: str) -> Callable[[], Any]:
        # Leaving the context does nothing to a session, so it need not be kept.
        with self._tokenizer.session(text=text) as session:
            return lambda: session.append_patch(delta)


def _toktier(subject: Subject, threads: int) -> tuple[Encode, ToIds, str]:
    from .toktier_store import load

    return _Toktier(load(subject), threads), _ids_of, "Encoding"


_LOADERS: dict[str, tuple[str, Callable[[Subject, int], tuple[Encode, ToIds, str]]]] = {
    OURS: ("tokseam", _ours),
    "fastokens": ("fastokens", _fastokens),
    "gigatoken": ("gigatoken", _gigatoken),
    "toktier": ("toktier", _toktier),
    "quicktok": ("quicktok-v1", _quicktok),
    "kitoken": ("kitoken", _kitoken),
    "tokie": ("tokie", _tokie),
    "wordchipper": ("wordchipper", _wordchipper),
    "tiktoken": ("tiktoken", _tiktoken),
    "tokenizers": ("tokenizers", _tokenizers),
}

NAMES = tuple(_LOADERS)
_LOADERS[PIECES] = ("tokseam", _pieces)
#: What a loader imports first, where that is not the peer's name.
_MODULES = {OURS: "tokseam.client.embedded", PIECES: "tokseam.client.embedded"}
#: The two fastest and the two that everybody has: what a quick run shows.
QUICK = (OURS, "fastokens", "gigatoken", "tiktoken", "tokenizers")


def import_peer(name: str) -> None:
    """Import what a peer's loader imports, so that a clock may tell the import from the load."""
    with contextlib.suppress(Exception):  # `load` meets it again, and says in words why the peer takes no part
        import_module(_MODULES.get(name, name))


def load(name: str, subject: Subject, threads: int = 1) -> Loaded | Missing:
    """Load one peer for a tokenizer, or say in words why it takes no part."""
    package, loader = _LOADERS[name]
    try:
        found = version(package)
    except PackageNotFoundError:
        return Missing(name, f"not installed: pip install {package}")
    try:
        encode, ids, form = loader(subject, threads)
    # A peer may fail in any way, and some end a panic in a BaseException of their own.
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return Missing(name, f"cannot load {subject.name}: {type(error).__name__}: {error}"[:300])
    return Loaded(name, found, encode, ids, form, getattr(encode, "append", None))


def load_all(names: Sequence[str], subject: Subject, threads: int = 1) -> tuple[list[Loaded], list[Missing]]:
    """Load every named peer; ours comes first whether it is named or not."""
    ready: list[Loaded] = []
    missing: list[Missing] = []
    for name in dict.fromkeys([OURS, *names]):
        one = load(name, subject, threads)
        if isinstance(one, Loaded):
            ready.append(one)
        else:
            missing.append(one)
    return ready, missing


def difference(found: Any, wanted: Any) -> str:
    """Return '' for equal ids, else where the first difference is."""
    import numpy as np

    left, right = np.asarray(found, dtype=np.int64), np.asarray(wanted, dtype=np.int64)
    if len(left) == len(right) and bool((left == right).all()):
        return ""
    shorter = min(len(left), len(right))
    unequal = np.flatnonzero(left[:shorter] != right[:shorter])
    at = int(unequal[0]) if len(unequal) else shorter
    return (
        f"differs at id {at} of {len(right)}: {left[at : at + 3].tolist()}, the reference has "
        f"{right[at : at + 3].tolist()}"
    )


def compare(peer: Loaded, text: str, wanted: Any) -> str:
    """Encode once; return '' where the ids are the reference's, else what differs or went wrong."""
    try:
        return difference(peer.ids(peer.encode(text)), wanted)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return f"failed: {type(error).__name__}: {error}"[:300]
