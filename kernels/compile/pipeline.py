"""What a tokenizer does to a text, read out of its own description: every stage is understood, or the whole is refused.

`from_tokenizer_json` reads a tokenizer.json, `from_tiktoken` a `tiktoken.Encoding`. Both give a `Pipeline`, which
tables.py
turns into what the native engine runs on. No family is recognised by its name or by a whole pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .refusal import Refusal
from .regex_syntax import Atom, Dialect, Node, Repeat, literal, parse

#: What ByteLevel with use_regex splits by; a constant inside the reference (pre_tokenizers/byte_level.rs, after
#: GPT-2's encoder.py).
BYTE_LEVEL_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

#: The atom that stands for what the reference's Digits stage takes for a digit; it is probed out of that stage.
DIGIT = "<digit>"

#: Bytes that no UTF-8 text holds: a vocabulary without them lacks nothing.
NEVER_IN_UTF8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})


@dataclass(frozen=True)
class Stage:
    """One splitting stage.

    With total, a text that it leaves uncovered somewhere would be dropped, so it must never happen.
    """

    tree: Node
    total: bool = False


@dataclass(frozen=True)
class AddedToken:
    """A literal that is cut out of the text before anything else sees it."""

    content: str
    id: int
    special: bool
    normalized: bool


@dataclass
class Pipeline:
    """A tokenizer, understood.

    vocabulary: (bytes, id) of every entry that text can become. merges: (left id, right id, rank, merged id); of equal
    ranks the
    leftmost goes first. byte_ids: the id of each single byte, None where the vocabulary lacks it and the reference
    drops it.
    """

    dialect: Dialect
    nfc: bool
    stages: list[Stage]
    added_tokens: list[AddedToken]
    vocabulary: list[tuple[bytes, int]]
    merges: list[tuple[int, int, int, int]]
    whole_pieces_first: bool
    byte_ids: list[int | None]
    prefix: list[int] = field(default_factory=list)
    suffix: list[int] = field(default_factory=list)
    #: The post-processor trims white space off spans; with `leave_first_space`, not a single one at the text's start.
    trim_offsets: bool = False
    leave_first_space: bool = False


def byte_alphabet() -> dict[str, int]:
    """Return the characters that stand for bytes in byte-level vocabularies (GPT-2's encoder.py, bytes_to_unicode)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def from_tokenizer_json(content: Mapping[str, Any], added_tokens: Mapping[int, Any]) -> Pipeline:
    """Read the description of a tokenizer.json. Raises Refusal with what is not understood.

    added_tokens: id -> `tokenizers.AddedToken`, as the reference holds them; it does not keep to the ids that the file
    gives.
    """
    for limit in ("truncation", "padding"):
        if content.get(limit) is not None:
            raise Refusal(f"its {limit} is on, so what it returns for a text is no encode of the whole text")
    nfc = _normalizer(content.get("normalizer"))
    stages = _pre_tokenizer(content.get("pre_tokenizer"))
    model = content["model"]
    vocabulary, merges, byte_ids = _bpe(model)
    pipeline = Pipeline(
        dialect="onig",
        nfc=nfc,
        stages=stages,
        added_tokens=_added_tokens(added_tokens),
        vocabulary=vocabulary,
        merges=merges,
        whole_pieces_first=bool(model.get("ignore_merges")),
        byte_ids=byte_ids,
    )
    _post_processor(content.get("post_processor"), pipeline)
    return pipeline


def from_tiktoken(encoding: Any) -> Pipeline:
    """Read a `tiktoken.Encoding`. Raises Refusal with what is not understood."""
    ranks: dict[bytes, int] = encoding._mergeable_ranks
    special: dict[str, int] = encoding._special_tokens
    if missing := [byte for byte in range(256) if bytes([byte]) not in ranks]:
        raise Refusal(f"its ranks lack the byte 0x{missing[0]:02X}")
    for content in special:
        if longer := next((other for other in special if other != content and other.startswith(content)), None):
            raise Refusal(f"of its special tokens {content!r} and {longer!r} either may match first")
    vocabulary = [(piece, rank) for piece, rank in ranks.items() if piece]
    merges = []
    for piece, rank in vocabulary:
        for cut in range(1, len(piece)):
            left, right = ranks.get(piece[:cut]), ranks.get(piece[cut:])
            if left is not None and right is not None:
                merges.append((left, right, rank, rank))
    return Pipeline(
        dialect="rust",
        nfc=False,
        stages=[Stage(parse(encoding._pat_str, "rust"), total=True)],
        added_tokens=[AddedToken(content, id_, True, False) for content, id_ in special.items() if content],
        vocabulary=vocabulary,
        merges=merges,
        whole_pieces_first=True,
        byte_ids=[ranks[bytes([byte])] for byte in range(256)],
    )


def _normalizer(normalizer: Mapping[str, Any] | None) -> bool:
    """Return whether the text is brought to NFC."""
    if normalizer is None:
        return False
    if normalizer["type"] == "Sequence":
        return any(list(map(_normalizer, normalizer["normalizers"])))  # each is looked at: any of them may be refused
    if normalizer["type"] == "NFC":
        return True
    raise Refusal(f"its normalizer {normalizer['type']} is not understood yet")


def _pre_tokenizer(pre_tokenizer: Mapping[str, Any] | None) -> list[Stage]:
    parts = _flattened(pre_tokenizer, "pretokenizers")
    if not parts or parts[-1]["type"] != "ByteLevel":
        raise Refusal("its pre-tokenizer does not end with ByteLevel")
    stages = []
    for part in parts:
        kind = part["type"]
        if kind == "ByteLevel":
            if part is not parts[-1]:
                raise Refusal("its pre-tokenizer goes on behind ByteLevel")
            if part.get("add_prefix_space", True):
                raise Refusal("its ByteLevel adds a space in front of the text, which is not understood yet")
            if part.get("use_regex", True):
                stages.append(Stage(parse(BYTE_LEVEL_REGEX, "onig")))
        elif kind == "Split":
            stages.append(_split(part))
        elif kind == "Digits":
            digit = Atom(DIGIT)
            stages.append(Stage(digit if part["individual_digits"] else Repeat(digit, 1, None, "greedy")))
        else:
            raise Refusal(f"its pre-tokenizer {kind} is not understood yet")
    if not stages:
        raise Refusal("no stage of its pre-tokenizer splits the text, so a text is one single piece")
    return stages


def _split(part: Mapping[str, Any]) -> Stage:
    pattern = part["pattern"]
    if "String" in pattern:
        if not pattern["String"]:
            raise Refusal("its Split has an empty pattern")
        tree = literal(pattern["String"])
    else:
        tree = parse(pattern["Regex"], "onig")
    behavior, invert = part["behavior"], bool(part.get("invert", False))
    if behavior == "Isolated":
        return Stage(tree)  # invert swaps what is a match and what is not, and Isolated keeps both
    if behavior == "Removed" and invert:
        return Stage(tree, total=True)
    raise Refusal(
        f"its Split has the behavior {behavior}{' with invert' if invert else ''}, which is not understood yet"
    )


def _flattened(part: Mapping[str, Any] | None, key: str) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [inner for entry in part[key] for inner in _flattened(entry, key)]
    return [part]


def _bpe(model: Mapping[str, Any]) -> tuple[list[tuple[bytes, int]], list[tuple[int, int, int, int]], list[int | None]]:
    kind = model.get("type", "BPE" if "merges" in model else "?")
    if kind != "BPE":
        raise Refusal(f"its model is {kind}, not BPE")
    if model.get("dropout"):
        raise Refusal("its merges are dropped at random (dropout)")
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(affix):
            raise Refusal(f"its model has a {affix}, which is not understood yet")
    entries: dict[str, int] = model["vocab"]
    alphabet = byte_alphabet()
    byte_of = alphabet.get
    if len(set(entries.values())) != len(entries):
        raise Refusal("two entries of its vocabulary have one id")
    vocabulary = []
    for entry, id_ in entries.items():
        raw = [byte_of(char) for char in entry]
        if raw and None not in raw:
            vocabulary.append((bytes(raw), id_))  # type: ignore[arg-type]
    byte_ids = [entries.get(char) for char, _ in sorted(alphabet.items(), key=lambda pair: pair[1])]
    missing = {byte for byte, id_ in enumerate(byte_ids) if id_ is None} - NEVER_IN_UTF8
    if missing and (model.get("unk_token") is not None or model.get("byte_fallback")):
        raise Refusal(f"its vocabulary lacks the byte 0x{min(missing):02X} and it has an unknown token for it")
    merges = []
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merges.append((entries[left], entries[right], rank, entries[left + right]))
    return vocabulary, merges, byte_ids


def _added_tokens(tokens: Mapping[int, Any]) -> list[AddedToken]:
    for token in tokens.values():
        for flag in ("lstrip", "rstrip", "single_word"):
            if getattr(token, flag):
                raise Refusal(f"its added token {token.content!r} is {flag}, which is not understood yet")
    return [AddedToken(token.content, id_, token.special, token.normalized) for id_, token in sorted(tokens.items())]


def _post_processor(processor: Mapping[str, Any] | None, pipeline: Pipeline) -> None:
    for part in _flattened(processor, "processors"):
        if part["type"] == "ByteLevel":
            if part.get("trim_offsets", True):
                if pipeline.trim_offsets or pipeline.prefix or pipeline.suffix:
                    raise Refusal("its post-processor trims spans twice or behind a template")
                pipeline.trim_offsets = True
                pipeline.leave_first_space = bool(part.get("add_prefix_space", True))
        elif part["type"] == "TemplateProcessing":
            _template(part, pipeline)
        else:
            raise Refusal(f"its post-processor {part['type']} is not understood yet")


def _template(part: Mapping[str, Any], pipeline: Pipeline) -> None:
    before: list[int] = []
    after: list[int] = []
    seen = False
    for piece in part["single"]:
        if "Sequence" in piece:
            if seen or piece["Sequence"]["id"] != "A":
                raise Refusal("its template does not hold the text exactly once")
            seen = True
        else:
            (after if seen else before).extend(part["special_tokens"][piece["SpecialToken"]["id"]]["ids"])
    if not seen:
        raise Refusal("its template does not hold the text exactly once")
    if pipeline.prefix or pipeline.suffix:
        raise Refusal("it has a template around a template, which the reference itself can't do")
    pipeline.prefix, pipeline.suffix = before, after
