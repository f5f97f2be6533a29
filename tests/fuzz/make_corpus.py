"""Writes the seeds of the Python targets' corpus: small valid inputs of every kind. Run it when a format changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.synthetic import added, description, split
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from tokseam.broker import protocol
from tokseam.broker.protocol import Envelope, Reply, Request

CORPUS = Path(__file__).parent / "corpus"
SESSION = {"tokenizer": "ds", "session": "chat-1"}
CHANGE = {**SESSION, "revision": 3, "digest": bytes(16)}


def as_input(frames: list[Any]) -> bytes:
    return b"".join(len(frame).to_bytes(2, "little") + bytes(frame) for frame in frames)


def wire() -> dict[str, bytes]:
    identity, text = bytes(range(16)), "caf\u00e9".encode()
    fields: dict[str, Any] = {"tenant": "t", "budget_ms": 500, "tokenizer": "ds", "flags": 1, "session": "chat-1"}
    fields |= {"revision": 3, "digest": bytes(16), "start": 1, "stop": 2, "new_session": "chat-2"}
    made = {}
    for op, operation in protocol.OPERATIONS.items():
        frames = protocol.pack_request(Request(op, identity, **fields, body=[text] * operation.frames))
        made[f"request-{op}"] = as_input(frames)
    made["reply"] = as_input(protocol.pack_reply(Reply(identity, revision=4, digest=bytes(16), body=[bytes(8)])))
    made["envelope"] = as_input([protocol.pack_envelope(Envelope("ready", name="w", credits=8, stats={"a": 1}))])
    return made


def compiler() -> dict[str, dict[str, Any]]:
    words = r"(?i:'s|'t)| ?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+|[^\s\p{L}\p{N}]+"
    merges = [("a", "b"), ("ab", "c"), (" ", "a"), ("b", "c")]
    tokens = [added("<s>", 300), added("<unk>", 301, special=False, normalized=True, lstrip=True)]
    trimming = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    made = {
        "split": description([split(words)], merges=merges, added_tokens=tokens),
        "nfc": description(
            [split(words), {"type": "Digits", "individual_digits": True}],
            merges=merges,
            normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}]},
            post_processor=trimming,
            model={"ignore_merges": True},
        ),
    }
    vocab = {char: id_ for id_, char in enumerate("\u2581abcs't1234<>ekunk", 3)} | {"<unk>": 0, "<s>": 1, "\u2581a": 40}
    vocab |= {f"<0x{byte:02X}>": 100 + byte for byte in range(256)} | {"ab": 41}
    characters = Tokenizer(models.BPE(vocab, [("\u2581", "a"), ("a", "b")], unk_token="<unk>", byte_fallback=True))
    characters.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made["characters"] = json.loads(characters.to_str())
    characters.normalizer = None
    characters.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made["metaspace"] = json.loads(characters.to_str())
    return made


def main() -> None:
    for name, content in wire().items():
        (CORPUS / "wire" / name).write_bytes(content)
    for name, document in compiler().items():
        (CORPUS / "compiler" / name).write_text(json.dumps(document))


if __name__ == "__main__":
    main()
