"""What a tokenizer does to a text, read out of its own description: every stage is understood, or the whole is refused.

`from_tokenizer_json` reads a tokenizer.json, `from_tiktoken` a `tiktoken.Encoding`. Both give a `Pipeline`, which
tables.py
turns into what the native engine runs on. No family is recognised by its name or by a whole pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _native
from .normalization import Form
from .refusal import Refusal
from .regex_syntax import Atom, Choice, Dialect, Node, Repeat, literal, parse

#: What ByteLevel with use_regex splits by; a constant inside the reference (pre_tokenizers/byte_level.rs, after
#: GPT-2's encoder.py).
BYTE_LEVEL_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

#: The atom that stands for what the reference's Digits stage takes for a digit; it is probed out of that stage.
DIGIT = "<digit>"

#: The same for its Punctuation stage.
PUNCTUATION = "<punctuation>"

#: The \\w and the [^\\w\\s] of its Whitespace stage, and what its WhitespaceSplit stage takes for white space.
WORD, SIGN, SPACE = "<word>", "<sign>", "<space>"

#: Bytes that no UTF-8 text holds: a vocabulary without them lacks nothing.
NEVER_IN_UTF8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})


#: (n, 4): left id, right id, rank, merged id.
Merges = npt.NDArray[np.uint32]

#: What becomes of a match and the gaps beside it, by its number in kernels/native/automaton.hpp.
BEHAVIORS = ("Isolated", "MergedWithPrevious", "MergedWithNext", "MatchesDropped", "GapsDropped")
Behavior = Literal["Isolated", "MergedWithPrevious", "MergedWithNext", "MatchesDropped", "GapsDropped"]

#: When a marker is put in front of a segment, by its number in kernels/native/characters.hpp.
PREFIXES = ("never", "always", "unless there", "first, unless there")


@dataclass(frozen=True)
class Stage:
    """One splitting stage: its regex, and what becomes of matches and gaps."""

    tree: Node
    behavior: Behavior = "Isolated"


@dataclass(frozen=True)
class AddedToken:
    """A literal that is cut out of the text before anything else sees it."""

    content: str
    id: int
    special: bool
    normalized: bool
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


@dataclass(frozen=True)
class CharacterModel:
    """BPE over the characters of a whole segment, in place of stages and bytes (SentencePiece-style).

    replaced becomes replacement in the text; prefix says when the marker is put in front of a segment; byte_tokens are
    the ids that spell out what the vocabulary lacks.
    """

    replaced: str
    replacement: str
    marker: str
    prefix: str
    split_at_marker: bool
    byte_tokens: list[int | None]


class Entries(NamedTuple):
    """Vocabulary entries: their bytes one behind the other, where each ends, and ids (uint32)."""

    joined: bytes
    ends: npt.NDArray[np.uint32]
    ids: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, pairs: Sequence[tuple[bytes, int]]) -> Entries:
        """Build of (bytes, id)."""
        lengths = np.fromiter((len(entry) for entry, _ in pairs), dtype=np.int64, count=len(pairs))
        ids = np.fromiter((id_ for _, id_ in pairs), dtype=np.uint32, count=len(pairs))
        return cls(b"".join(entry for entry, _ in pairs), np.cumsum(lengths).astype(np.uint32), ids)

    def pairs(self) -> list[tuple[bytes, int]]:
        """Return (bytes, id) of each."""
        begins = [0, *self.ends.tolist()[:-1]]
        spans = zip(begins, self.ends.tolist(), strict=False)
        return [(self.joined[a:b], id_) for (a, b), id_ in zip(spans, self.ids.tolist(), strict=True)]


@dataclass
class Pipeline:
    """A tokenizer, understood.

    forms: the normalizations that the text goes through, in order. vocabulary: (bytes, id) of every entry that text can
    become. merges: rows of left id, right id, rank, merged id; of equal ranks the leftmost goes first. byte_ids: the id
    of each single byte, None where the vocabulary lacks it and the reference
    drops it.
    """

    dialect: Dialect
    forms: list[Form]
    stages: list[Stage]
    added_tokens: list[AddedToken]
    vocabulary: Entries
    merges: Merges
    whole_pieces_first: bool
    #: A space is put in front of every stretch between literals, unless it begins with one.
    space_in_front: bool
    byte_ids: list[int | None]
    #: Stages behind ByteLevel: they see each byte as the character that stands for it.
    byte_stages: list[Stage] = field(default_factory=list)
    characters: CharacterModel | None = None
    prefix: list[int] = field(default_factory=list)
    suffix: list[int] = field(default_factory=list)
    #: The post-processor trims white space off spans; with `leave_first_space`, not a single one at the text's start.
    trim_offsets: bool = False
    leave_first_space: bool = False


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the different values, in order."""
    # PERF: np.unique hashes, which is several times slower on millions of integers.
    ordered = np.sort(values, axis=None)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def among(values: npt.NDArray[np.uint32], chosen: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return which of the values are chosen ones."""
    highest = int(max(values.max(initial=0), chosen.max(initial=0)))
    if highest >= 1 << 24:
        return np.isin(values, chosen)
    table = np.zeros(highest + 1, dtype=bool)
    table[chosen] = True
    found: npt.NDArray[np.bool_] = table[values]
    return found


def byte_alphabet() -> dict[str, int]:
    """Return the characters that stand for bytes in byte-level vocabularies (GPT-2's encoder.py, bytes_to_unicode)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def from_tokenizer_json(
    content: Mapping[str, Any], large: _native.TokenizerJson | None, added_tokens: Mapping[int, Any]
) -> Pipeline:
    """Read the description of a tokenizer.json. Raises Refusal with what is not understood.

    large: its vocabulary and merges, which `content` need not hold; None where they are of no form that is understood.
    added_tokens: id -> `tokenizers.AddedToken`, as the reference holds them; it does not keep to the ids that the file
    gives.
    """
    for limit in ("truncation", "padding"):
        if content.get(limit) is not None:
            raise Refusal(f"its {limit} is on, so what it returns for a text is no encode of the whole text")
    normalizers = _flattened(content.get("normalizer"), "normalizers")
    pre_tokenizers = _flattened(content.get("pre_tokenizer"), "pretokenizers")
    model = content["model"]
    _check_model(model)
    if large is None:
        raise Refusal("its vocabulary and merges are not of the form that is understood")
    merges = large.merges()
    tokens = [
        AddedToken(t.content, id_, t.special, t.normalized, t.lstrip, t.rstrip, t.single_word)
        for id_, t in sorted(added_tokens.items())
    ]
    if any(part["type"] == "ByteLevel" for part in pre_tokenizers):
        at = next(i for i, part in enumerate(pre_tokenizers) if part["type"] == "ByteLevel") + 1
        forms, stages = _forms(normalizers), _stages(pre_tokenizers[:at])
        byte_stages = _stages(pre_tokenizers[at:], behind_bytes=True)
        vocabulary, byte_ids = _byte_level_vocabulary(model, large)
        characters = None
    else:
        forms, stages, byte_stages = [], [], []
        characters = _character_model(normalizers, pre_tokenizers, model, large, tokens)
        vocabulary = _checked(_without_empty(Entries(*large.entries())))
        byte_ids = [None] * 256
    pipeline = Pipeline(
        dialect="onig",
        forms=forms,
        stages=stages,
        added_tokens=tokens,
        vocabulary=vocabulary,
        merges=merges,
        whole_pieces_first=bool(model.get("ignore_merges")),
        space_in_front=any(
            part["type"] == "ByteLevel" and part.get("add_prefix_space", True) for part in pre_tokenizers
        ),
        byte_ids=byte_ids,
        byte_stages=byte_stages,
        characters=characters,
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
    pieces = [(piece, rank) for piece, rank in ranks.items() if piece]
    merges = []
    for piece, rank in pieces:
        for cut in range(1, len(piece)):
            left, right = ranks.get(piece[:cut]), ranks.get(piece[cut:])
            if left is not None and right is not None:
                merges.append((left, right, rank, rank))
    return Pipeline(
        dialect="rust",
        forms=[],
        stages=[Stage(parse(encoding._pat_str, "rust"), "GapsDropped")],
        added_tokens=[AddedToken(content, id_, True, False) for content, id_ in special.items() if content],
        vocabulary=Entries.of(pieces),
        merges=np.array(merges, dtype=np.uint32).reshape(-1, 4),
        whole_pieces_first=True,
        space_in_front=False,
        byte_ids=[ranks[bytes([byte])] for byte in range(256)],
    )


def _forms(normalizers: list[Mapping[str, Any]]) -> list[Form]:
    """Return the normalizations that the text goes through."""
    forms: list[Form] = []
    for part in normalizers:
        if part["type"] not in ("NFC", "NFKC", "NFD", "NFKD", "Lowercase"):
            raise Refusal(f"its normalizer {part['type']} is not understood yet")
        forms.append(part["type"])
    return forms


def _stages(parts: list[Mapping[str, Any]], behind_bytes: bool = False) -> list[Stage]:
    stages = []
    for part in parts:
        kind = part["type"]
        if kind == "ByteLevel" and not behind_bytes:
            if part.get("add_prefix_space", True) and part is not parts[0]:
                raise Refusal("its ByteLevel adds a space in front of every piece of the stages before it")
            if part.get("use_regex", True):
                stages.append(Stage(parse(BYTE_LEVEL_REGEX, "onig")))
        elif kind == "Split":
            stages.append(_split(part))
        elif kind == "Digits":
            stages.append(_stage(Atom(DIGIT), "Isolated" if part["individual_digits"] else "Contiguous"))
        elif kind == "Whitespace":
            stages.append(
                Stage(
                    Choice((Repeat(Atom(WORD), 1, None, "greedy"), Repeat(Atom(SIGN), 1, None, "greedy"))),
                    "GapsDropped",
                )
            )
        elif kind == "WhitespaceSplit":
            stages.append(Stage(Atom(SPACE), "MatchesDropped"))
        elif kind == "Punctuation":
            stages.append(_stage(Atom(PUNCTUATION), part.get("behavior", "Isolated")))
        else:
            raise Refusal(f"its pre-tokenizer {kind} is not understood yet")
    if not stages and not behind_bytes:
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
    return _stage(tree, part["behavior"], bool(part.get("invert", False)))


def _stage(tree: Node, behavior: str, invert: bool = False) -> Stage:
    if behavior == "Isolated":
        return Stage(tree)  # invert swaps what is a match and what is not, and Isolated keeps both
    if behavior == "Contiguous":
        # Matches side by side are one piece. A greedy loop never goes back into a match: it may always end behind it.
        return Stage(Repeat(tree, 1, None, "greedy"))
    if behavior == "Removed":
        return Stage(tree, "GapsDropped" if invert else "MatchesDropped")
    if behavior == "MergedWithPrevious" and not invert:
        return Stage(tree, "MergedWithPrevious")
    if behavior == "MergedWithNext" and not invert:
        return Stage(tree, "MergedWithNext")
    inverted = " with invert" if invert else ""
    raise Refusal(f"its split has the behavior {behavior}{inverted}, which is not understood yet")


def _flattened(part: Mapping[str, Any] | None, key: str) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [inner for entry in part[key] for inner in _flattened(entry, key)]
    return [part]


def _check_model(model: Mapping[str, Any]) -> None:
    kind = model.get("type", "BPE" if "merges" in model else "?")
    if kind != "BPE":
        raise Refusal(f"its model is {kind}, not BPE")
    if model.get("dropout"):
        raise Refusal("its merges are dropped at random (dropout)")
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(affix):
            raise Refusal(f"its model has a {affix}, which is not understood yet")


def _without_empty(entries: Entries) -> Entries:
    lengths = np.diff(entries.ends, prepend=np.uint32(0))
    kept = lengths > 0
    return Entries(entries.joined, entries.ends[kept], entries.ids[kept])


def _checked(entries: Entries) -> Entries:
    if len(distinct(entries.ids)) != len(entries.ids):
        raise Refusal("two entries of its vocabulary have one id")
    return entries


def _byte_level_vocabulary(model: Mapping[str, Any], large: _native.TokenizerJson) -> tuple[Entries, list[int | None]]:
    alphabet = [char for char, _ in sorted(byte_alphabet().items(), key=lambda pair: pair[1])]
    _checked(Entries(*large.entries()))
    vocabulary = Entries(*large.byte_level(np.array([ord(char) for char in alphabet], dtype=np.uint32)))
    byte_ids = [large.find(char) for char in alphabet]
    missing = {byte for byte, id_ in enumerate(byte_ids) if id_ is None} - NEVER_IN_UTF8
    if missing and (model.get("unk_token") is not None or model.get("byte_fallback")):
        raise Refusal(f"its vocabulary lacks the byte 0x{min(missing):02X} and it has an unknown token for it")
    return vocabulary, byte_ids


def _character_model(
    normalizers: list[Mapping[str, Any]],
    pre_tokenizers: list[Mapping[str, Any]],
    model: Mapping[str, Any],
    large: _native.TokenizerJson,
    tokens: list[AddedToken],
) -> CharacterModel:
    """Read a pipeline without ByteLevel. Raises Refusal unless it is BPE over the characters of whole segments."""
    if model.get("ignore_merges"):
        raise Refusal("its model looks up a whole text before it merges (ignore_merges)")
    replaced = replacement = marker = ""
    prefix, split_at_marker = "never", False
    for part in normalizers:
        if part["type"] == "Prepend" and len(part["prepend"]) == 1 and prefix == "never":
            prefix, marker = "always", part["prepend"]
        elif part["type"] == "Replace" and not replaced and len(part["pattern"].get("String", "")) == 1:
            replaced, replacement = part["pattern"]["String"], part["content"]
        else:
            raise Refusal(f"its normalizer {part['type']} is not understood yet")
    if len(replacement) != len(replaced) or (replaced and replaced in (marker, replacement)):
        raise Refusal("its normalizer replaces a character by something else than one other character")
    for part in pre_tokenizers:
        if part["type"] == "Split" and replaced and part["pattern"].get("String") == replaced:
            continue  # what it would split at, the normalizer has replaced
        if part["type"] != "Metaspace" or normalizers or marker:
            raise Refusal(f"its pre-tokenizer {part['type']} does not end with ByteLevel and is not understood yet")
        if any(token.normalized for token in tokens):
            raise Refusal("its Metaspace comes behind added tokens that are looked for in normalized text")
        replaced, replacement, marker = " ", part["replacement"], part["replacement"]
        scheme = part.get("prepend_scheme", "always")
        prefix = {"always": "unless there", "first": "first, unless there", "never": "never"}[scheme]
        split_at_marker = bool(part.get("split", True))
    return CharacterModel(
        replaced, replacement, marker or replacement, prefix, split_at_marker, _byte_tokens(model, large)
    )


def _byte_tokens(model: Mapping[str, Any], large: _native.TokenizerJson) -> list[int | None]:
    """Return the ids of <0x00> to <0xFF>. Raises Refusal where a character could end as unknown."""
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    byte_tokens = [large.find(name) for name in names]
    missing = {byte for byte, id_ in enumerate(byte_tokens) if id_ is None} - NEVER_IN_UTF8
    unspelled = [byte for byte in sorted(missing) if byte >= 0x80 or large.find(chr(byte)) is None]
    if not model.get("byte_fallback") or unspelled:
        raise Refusal("its vocabulary does not spell every character (byte_fallback), so unknown ones merge or vanish")
    spelled = {id_: name for name, id_ in zip(names, byte_tokens, strict=True) if id_ is not None}
    used = among(large.merges()[:, [0, 1, 3]], np.array(list(spelled), dtype=np.uint32))
    if used.any():
        raise Refusal(f"its merges use the byte token {spelled[int(large.merges()[:, [0, 1, 3]][used][0])]}")
    return byte_tokens


def _post_processor(processor: Mapping[str, Any] | None, pipeline: Pipeline) -> None:
    for part in _flattened(processor, "processors"):
        if part["type"] == "ByteLevel":
            if part.get("trim_offsets", True):
                if pipeline.characters:
                    raise Refusal("its post-processor trims spans of a vocabulary that is not of bytes")
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
