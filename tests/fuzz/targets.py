"""The fuzz targets of the Python side: each takes arbitrary bytes, and raises when something is wrong.

`compiler`: a tokenizer.json that was damaged -> `load` answers native, reference or BadTokenizerError, never anything
else; and what it answers natively is what a fresh reference answers. `wire`: frames -> a request, a reply or an
envelope, or WireError. How inputs are made and run: drive.py. The C++ targets are beside this file.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokseam.broker import protocol
from tokseam.broker.protocol import WireError
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

#: Bytes of a tokenizer.json that are tried: longer ones are slow, and no more telling.
COMPILER_MAX_BYTES = 60_000

#: What a tokenizer that loads is asked.
TEXTS = (
    "",
    " ",
    "a",
    "it's 1234\r\n  x",
    "<s>ab<s> <unk>\u2581a",
    "caf\u00e9 e\u0301\u0323 \u4f60\u597d \U0001f642\u00a0\u3000/",
    "aab abc" * 9,
)

#: Patterns that a changed tokenizer.json may get in the place of its own.
PATTERNS = (
    *(
        r"\s+(?!\S)|\s+|\S+",
        r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+",
        r"(?i:'s|'t)|\w+|\W",
        r"[^\r\n]+|[\r\n]",
        r"\d{1,3}",
    ),
    *(
        r"a|ab|abc",
        r"(a+)b?",
        r"x*",
        r"(?=a).",
        r"[",
        r"(?<=a)b",
        r"a++b",
        r"\p{Han}+",
        r"^a",
        r"",
        r".",
        r"\X",
        r"(?i:st)",
    ),
)


def check(holds: bool, what: str) -> None:
    """Fail with `what` unless it holds."""
    if not holds:
        raise AssertionError(what)


def wire(data: bytes) -> None:
    """Frames, each with two bytes of length in front: read as a request, as a reply and as an envelope."""
    frames: list[bytes] = []
    while len(data) >= 2 and len(frames) < 6:
        length = int.from_bytes(data[:2], "little")
        frames.append(data[2 : 2 + length])
        data = data[2 + length :]
    for read in (protocol.unpack_request, protocol.unpack_reply):
        try:
            found: Any = read(frames)
        except WireError as error:
            check(error.code in protocol.CODES, error.code)
            continue
        pack: Callable[[Any], list[Any]] = (
            protocol.pack_request if read is protocol.unpack_request else protocol.pack_reply  # type: ignore[assignment]
        )
        if read is protocol.unpack_request:
            assert read(pack(found)) == found, "a request that is packed again is the same"
    if frames:
        try:
            envelope = protocol.unpack_envelope(frames[0])
        except WireError as error:
            check(error.code in protocol.CODES, error.code)
        else:
            assert protocol.unpack_envelope(protocol.pack_envelope(envelope)) == envelope


def compiler(data: bytes) -> None:
    """The content of a tokenizer.json."""
    if len(data) > COMPILER_MAX_BYTES:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_bytes(data)
        try:
            tokenizer = engine.load(path)
        except BadTokenizerError:
            return
    if tokenizer.status == "reference":
        assert tokenizer.reason
        return
    reference = Tokenizer.from_str(data.decode())
    for text in TEXTS:
        wanted = reference.encode(text, add_special_tokens=False)
        assert tokenizer.encode(text).tolist() == wanted.ids, text
        assert tokenizer.offsets(text).tolist() == [list(span) for span in wanted.offsets], text
        assert tokenizer.encode(text, add_special_tokens=True).tolist() == reference.encode(text).ids, text
        session = tokenizer.session()
        session.reset(text[:3])
        session.append(text[3:])
        assert session.ids().tolist() == wanted.ids, text
    assert tokenizer.mismatches == 0


def mutate_json(data: bytes, choose: Callable[[int], int]) -> bytes:
    """Change a JSON document somewhere, to another document of the same kind. `choose(n)` answers 0 to n - 1."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        children: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        for key in children if len(children) <= 40 else [children[choose(len(children))] for _ in range(20)]:
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                visit(node[key])

    if isinstance(document, (dict, list)):
        visit(document)
    for _ in range(1 + choose(3)):
        if not places:
            break
        node, key = places[choose(len(places))]
        try:
            old = node[key]
        except (KeyError, IndexError):
            continue
        other_node, other_key = places[choose(len(places))]
        others: list[Any] = [None, True, False, 0, 1, -1, 2**40, "", "a", " ", "\u2581", [], {}, "<s>", old]
        others += [PATTERNS[choose(len(PATTERNS))]] * (6 if isinstance(old, str) else 1)
        others += [not old] * (6 if isinstance(old, bool) else 0)
        kind = choose(5)
        if kind == 0 and isinstance(node, dict):
            del node[key]
        elif kind == 1:
            try:
                node[key] = json.loads(json.dumps(other_node[other_key]))
            except (KeyError, IndexError, ValueError, RecursionError):
                continue
        else:
            node[key] = others[choose(len(others))]
    return json.dumps(document).encode()


#: name -> (target, how an input is changed beside flipping bytes, or None).
TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[bytes, Callable[[int], int]], bytes] | None]] = {
    "wire": (wire, None),
    "compiler": (compiler, mutate_json),
}
