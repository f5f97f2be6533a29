"""Admission: may this tokenizer run natively? Never a guess: every condition is proved or the answer is no, with the
reason.

After the proof comes a test: a short text of everything that ever went wrong is encoded both ways, and a single
difference is a
refusal too.
"""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer as HfTokenizer

from .. import _native
from ..errors import BadTokenizerError
from ..reference import HuggingFaceReference, Reference, TiktokenReference, read_tokenizer
from .pipeline import Entries, Pipeline, among, byte_alphabet, from_tiktoken, from_tokenizer_json
from .refusal import Refusal
from .tables import Compiled, compile_pipeline

#: What the last look before admission encodes: contractions, runs of white space, digits of several scripts, marks,
#: jamo, scripts without spaces, control characters, astral characters.
_PROBE_TEXT = (
    "I'm don't WE'LL x'\u017f it's\u2019s  two   spaces\t\ttabs \r\n\r\n  lines\n\n\n x \u00a0\u3000 y\u2003z 1234567 "
    "\u0661\u0662\u0663 \u00bd caf\u00e9 cafe\u0301 e\u0323\u0302 \u1ec7 \u212b \u1112\u1161\u11ab\ud55c\uae00 "
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 "
    "\u0928\u092e\u0938\u094d\u0924\u0947 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f642!? <|im_start|> "
    "a_b-c/d.e(f){g}[h];\x00\x1c\x85\ufeff \u01c5 \u02b0 CamelCaseWord HTTPServer https://example.com/a?b=c&d=%20 "
    "0x1F 3.14e-10 \u0130\u0131 \u1e9e\u00df   "
)


#: Entries above this many bytes are left out of a small reference.
_LONGEST = 48


def admit(reference: Reference, source: Any) -> Compiled:
    """Compile the tokenizer that `reference` answers for. Raises Refusal.

    source: the content of its tokenizer.json (bytes), or the `tiktoken.Encoding` itself.
    """
    compiled = compile_pipeline(_pipeline(reference, source))
    if (difference := _difference(reference, compiled)) is not None:
        raise Refusal(difference)
    return compiled


def admit_by_small_reference(content: bytes) -> Compiled | None:
    """Compile a tokenizer.json without its whole reference, which may take longer than all the rest.

    In its place stands the same tokenizer with those entries and merges alone that the last look's text can become: it
    is the reference's own reading of all other parts, and its answers to that text. None where anything is unusual or
    differs: then the whole reference has to be asked.
    """
    large = _native.TokenizerJson.read(content)
    try:
        if large is None:
            return None
        described = json.loads(large.rest)
        reference = _small_reference(described, large)
        if reference is None:
            return None
        compiled = compile_pipeline(from_tokenizer_json(described, large, reference.added_tokens()))
    except (Refusal, BadTokenizerError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return compiled if _difference(reference, compiled) is None else None


def _small_reference(described: dict[str, Any], large: _native.TokenizerJson) -> HuggingFaceReference | None:
    added = _added_ids(described["added_tokens"], large)
    if added is None:
        return None
    text = _look([content for content, _ in sorted(added.items(), key=lambda token: token[1])])
    bare = described | {"added_tokens": [], "pre_tokenizer": None, "post_processor": None, "decoder": None}
    normalizer = _reference_with(bare, {}, []).normalizer
    # With what a tokenizer may put in front.
    forms = {" " + text, " " + (text if normalizer is None else normalizer.normalize_str(text))}
    forms |= {form.replace(" ", "\u2581") for form in forms}
    spelled = [char for char, _ in sorted(byte_alphabet().items(), key=lambda pair: pair[1])]
    forms |= {"".join(spelled[byte] for byte in form.encode()) for form in forms}
    needed = "\n".join(sorted(forms)) + "\n" + "".join(f"<0x{byte:02X}>" for byte in range(256))
    entries = Entries(*large.occurring(needed.encode(), _LONGEST))
    by_id = {id_: entry.decode() for entry, id_ in entries.pairs()}
    merges = large.merges()
    within = among(merges[:, [0, 1, 3]], entries.ids).all(axis=1)
    pairs = [(by_id[left], by_id[right]) for left, right in merges[within][:, :2].tolist()]
    vocabulary = {entry: id_ for id_, entry in by_id.items()} | added
    reference = HuggingFaceReference(_reference_with(described, vocabulary, pairs), "")
    return reference if {t.content: i for i, t in reference.added_tokens().items()} == added else None


def _reference_with(
    described: dict[str, Any], vocabulary: dict[str, int], merges: list[tuple[str, str]]
) -> HfTokenizer:
    """Return the reference of a tokenizer with these entries and merges. Raises BadTokenizerError."""
    spaced = any(" " in part for pair in merges for part in pair)
    listed = [list(pair) for pair in merges] if spaced else [" ".join(pair) for pair in merges]
    model = described["model"] | {"vocab": vocabulary, "merges": listed}
    return read_tokenizer(json.dumps(described | {"model": model}).encode())


def _added_ids(added: list[dict[str, Any]], large: _native.TokenizerJson) -> dict[str, int] | None:
    """Return the ids that the reference gives the added tokens, or None where the file's own are others.

    The reference takes an entry's id where there is one, else the next beyond the vocabulary and all before it.
    """
    size = large.size
    found: dict[str, int] = {}
    highest = -1
    for token in added:
        content = token["content"]
        if not content or content in found:
            return None
        id_ = large.find(content)
        if id_ is None:
            id_ = max(highest + 1, size)
        if id_ != token["id"]:
            return None
        found[content] = id_
        highest = max(highest, id_)
    return found


def _pipeline(reference: Reference, source: Any) -> Pipeline:
    if isinstance(reference, TiktokenReference):
        return from_tiktoken(source)
    assert isinstance(reference, HuggingFaceReference)
    try:
        described = json.loads(source)
        # Unusual spellings of a vocabulary and merges are as good as Python's own.
        large = _native.TokenizerJson.read(source) or _native.TokenizerJson.read(json.dumps(described).encode())
        return from_tokenizer_json(described, large, reference.added_tokens())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refusal(
            f"its description is not of the form that is understood: {type(error).__name__}: {error}"
        ) from error


def _look(added_tokens: list[str]) -> str:
    return _PROBE_TEXT + "".join(added_tokens[:32])


def _difference(reference: Reference, compiled: Compiled) -> str | None:
    """Take the last look: say in what the compiled tokenizer differs from the reference, if in anything."""
    text = _look([token.content for token in compiled.pipeline.added_tokens])
    for split in (False, True):
        if compiled.encoder.encode(text, split).tolist() != reference.encode(text, False, split).tolist():
            return "its native ids differ from the reference's on the probe text; please report this tokenizer"
    around = reference.encode("", True, False).tolist()
    if around != compiled.pipeline.prefix + compiled.pipeline.suffix:
        return "its template adds other ids than its description says"
    return None
