"""Admission: may this tokenizer run natively? Never a guess: every condition is proved or the answer is no, with the
reason.

After the proof comes a test: a short text of everything that ever went wrong is encoded both ways, and a single
difference is a
refusal too.
"""

from __future__ import annotations

import json
from typing import Any

from ..reference import HuggingFaceReference, Reference, TiktokenReference
from .pipeline import Pipeline, from_tiktoken, from_tokenizer_json
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


def admit(reference: Reference, source: Any) -> Compiled:
    """Compile the tokenizer that `reference` answers for. Raises Refusal.

    source: the content of its tokenizer.json (bytes), or the `tiktoken.Encoding` itself.
    """
    compiled = compile_pipeline(_pipeline(reference, source))
    _last_look(reference, compiled)
    return compiled


def _pipeline(reference: Reference, source: Any) -> Pipeline:
    if isinstance(reference, TiktokenReference):
        return from_tiktoken(source)
    assert isinstance(reference, HuggingFaceReference)
    try:
        return from_tokenizer_json(json.loads(source), reference.added_tokens())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refusal(
            f"its description is not of the form that is understood: {type(error).__name__}: {error}"
        ) from error


def _last_look(reference: Reference, compiled: Compiled) -> None:
    text = _PROBE_TEXT + "".join(token.content for token in compiled.pipeline.added_tokens[:32])
    for split in (False, True):
        if compiled.encoder.encode(text, split).tolist() != reference.encode(text, False, split).tolist():
            raise Refusal("its native ids differ from the reference's on the probe text; please report this tokenizer")
    around = reference.encode("", True, False).tolist()
    if around != compiled.pipeline.prefix + compiled.pipeline.suffix:
        raise Refusal("its template adds other ids than its description says")
