r"""Parse the regexes of splitting stages into a small syntax tree.

Understands what real tokenizers write: classes with negation, ranges, nesting and `&&`, `\p{..}`, escapes, alternation,
groups, `(?i:..)`, `?` `*` `+` `{m,n}` (greedy, lazy, possessive), and one-character lookaheads. Everything else is
refused in words. It does not know which characters a class holds: an *atom* keeps its source text, and class_probe.py
asks
the reference engine. Two dialects: 'onig' (Oniguruma with Ruby's syntax, as in tokenizer.json) and 'rust'
(fancy-regex, as in
tiktoken); they read some of the same text differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

from .refusal import Refusal

Dialect = Literal["onig", "rust"]

#: Escapes that stand for exactly one character of a class, by dialect-independent meaning.
_CLASS_ESCAPES = frozenset("sSdDwW")
_LITERAL_ESCAPES = frozenset("rntfvae")

#: A repeat is expanded into copies; more than this is refused rather than built.
MAX_REPEAT = 64


@dataclass(frozen=True)
class Atom:
    """One character out of a class. `source` is a regex for it that the reference engine can be asked about."""

    source: str


@dataclass(frozen=True)
class Look:
    """A lookahead over one character: holds when the next one is (or, negated, is not) in `atom`.

    At the end of the text a positive one fails and a negated one holds. With no atom: holds at the end only.
    """

    atom: Atom | None
    negated: bool


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives, the first one preferred."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    body: Node
    least: int
    most: int | None
    mode: Literal["greedy", "lazy", "possessive"]


Node = Atom | Look | Sequence | Choice | Repeat


@dataclass(frozen=True)
class Flags:
    ignore_case: bool = False
    dot_all: bool = False


def parse(pattern: str, dialect: Dialect) -> Node:
    r"""Parse `pattern`; raises Refusal with the place of what is not understood.

    >>> parse(r"\s+(?!\S)", "onig").parts[1]
    Look(atom=Atom(source='\\S'), negated=True)
    """
    parser = _Parser(pattern, dialect)
    node = parser.alternatives(Flags())
    if parser.more():
        parser.refuse("an unbalanced )")
    return node


def literal(text: str) -> Node:
    """Return the tree of a plain string."""
    return Sequence(tuple(Atom(_escaped(char)) for char in text))


def _escaped(char: str) -> str:
    return "\\" + char if char.isascii() and not char.isalnum() and not char.isspace() else char


class _Parser:
    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self.pattern = pattern
        self.dialect = dialect
        self.at = 0

    def refuse(self, what: str) -> NoReturn:
        raise Refusal(f"the regex {self.pattern!r} has {what} at character {self.at}")

    def more(self) -> bool:
        return self.at < len(self.pattern)

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def next(self) -> str:
        if not self.more():
            self.refuse("an unexpected end")
        self.at += 1
        return self.pattern[self.at - 1]

    # -- structure ------------------------------------------------------------------------------------------------

    def alternatives(self, flags: Flags) -> Node:
        options = []
        while True:
            node, flags = self.sequence(flags)
            options.append(node)
            if not self.take("|"):
                break
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, flags: Flags) -> tuple[Node, Flags]:
        parts: list[Node] = []
        while self.more() and not self.peek("|") and not self.peek(")"):
            if self.peek("(?") and (inline := self.inline_flags(flags)) is not None:
                if self.dialect == "onig" and (parts or self.at_later_alternative()):
                    self.refuse("an inline flag that is not at its start")
                flags = inline
                continue
            parts.append(self.quantified(self.single(flags)))
        return (parts[0] if len(parts) == 1 else Sequence(tuple(parts))), flags

    def at_later_alternative(self) -> bool:
        # Oniguruma reads a(?i)b|c as a(?i:b|c): only a leading flag means the same in both dialects.
        return "|" in self.pattern[: self.pattern.rfind("(?", 0, self.at)]

    def inline_flags(self, flags: Flags) -> Flags | None:
        end = self.at + 2
        while end < len(self.pattern) and (self.pattern[end].isalpha() or self.pattern[end] == "-"):
            end += 1
        if end == self.at + 2 or end >= len(self.pattern) or self.pattern[end] != ")":
            return None
        letters = self.pattern[self.at + 2 : end]
        self.at = end + 1
        return self.with_flags(flags, letters)

    def with_flags(self, flags: Flags, letters: str) -> Flags:
        on = True
        ignore_case, dot_all = flags.ignore_case, flags.dot_all
        for letter in letters:
            if letter == "-":
                on = False
            elif letter == "i":
                ignore_case = on
            elif letter == ("m" if self.dialect == "onig" else "s"):
                dot_all = on
            elif letter == "u" and self.dialect == "rust" and on:
                pass  # already the default there
            else:
                self.refuse(f"the flag {letter!r}")
        return Flags(ignore_case, dot_all)

    def single(self, flags: Flags) -> Node:
        start = self.at
        char = self.next()
        if char == "(":
            return self.group(flags)
        if char == "[":
            self.class_body()
            return self.atom(self.pattern[start : self.at], flags)
        if char == "\\":
            return self.escape(start, flags)
        if char == ".":
            return Atom(("(?m:.)" if self.dialect == "onig" else "(?s:.)") if flags.dot_all else ".")
        if char == "$":
            # Ruby's $ also holds before every line feed.
            return Look(None, negated=False) if self.dialect == "rust" else Look(Atom(r"[^\n]"), negated=True)
        if char in "^*+?{" or (char in "}]" and self.dialect == "rust"):
            self.at = start
            self.refuse(f"a {char!r} that is not understood")
        return self.atom(_escaped(char), flags)

    def atom(self, source: str, flags: Flags) -> Atom:
        if not flags.ignore_case:
            return Atom(source)
        if not source.isascii() or "\\p" in source or "\\P" in source:
            # Oniguruma may then match several characters for one (\u00df for ss): not an atom any more.
            self.refuse("a class beyond ASCII letters under (?i)")
        return Atom(f"(?i:{source})")

    def group(self, flags: Flags) -> Node:
        if not self.take("?"):
            return self.closed(self.alternatives(flags))
        if self.take(":"):
            return self.closed(self.alternatives(flags))
        for mark, negated in (("=", False), ("!", True)):
            if self.take(mark):
                body = self.closed(self.alternatives(flags))
                if isinstance(body, Choice) and all(isinstance(option, Atom) for option in body.options):
                    body = Atom("[" + "".join(o.source for o in body.options if isinstance(o, Atom)) + "]")
                if isinstance(body, Look) and body.atom is None and not body.negated and negated:
                    return Look(Atom("(?m:.)" if self.dialect == "onig" else "(?s:.)"), negated=False)
                if not isinstance(body, Atom):
                    self.refuse("a lookahead over more than one character")
                return Look(body, negated)
        if self.peek("<") or self.peek("P<"):
            if self.peek("<=") or self.peek("<!"):
                self.refuse("a lookbehind")
            self.refuse("a named group")
        if self.peek(">"):
            self.refuse("an atomic group")
        letters = ""
        while self.more() and (self.pattern[self.at].isalpha() or self.pattern[self.at] == "-"):
            letters += self.next()
        if letters and self.take(":"):
            return self.closed(self.alternatives(self.with_flags(flags, letters)))
        return self.refuse("a group that is not understood")

    def closed(self, node: Node) -> Node:
        if not self.take(")"):
            self.refuse("a group without its )")
        return node

    # -- atoms ----------------------------------------------------------------------------------------------------

    def escape(self, start: int, flags: Flags) -> Node:
        char = self.next()
        if char == "z":
            return Look(None, negated=False)
        if char in "pP":
            self.property_name()
        elif char == "x":
            self.hex_byte()
        elif char == "u":
            self.hex_digits(4)
        elif char.isdigit():
            self.refuse("a back-reference or octal escape")
        elif char.isalpha() and char not in _CLASS_ESCAPES | _LITERAL_ESCAPES:
            self.refuse(f"the escape \\{char}")
        return self.atom(self.pattern[start : self.at], flags)

    def property_name(self) -> None:
        if not self.take("{"):
            self.next()
            return
        while self.next() != "}":
            pass

    def hex_digits(self, count: int) -> None:
        if self.take("{"):
            while self.next() != "}":
                pass
            return
        for _ in range(count):
            if self.next() not in "0123456789abcdefABCDEF":
                self.refuse("a malformed escape")

    def hex_byte(self) -> None:
        start = self.at
        self.hex_digits(2)
        digits = self.pattern[start : self.at]
        if self.dialect == "onig" and not digits.startswith("{") and int(digits, 16) >= 0x80:
            self.refuse("a byte of a character's UTF-8")

    def class_body(self) -> None:
        self.take("^")
        self.take("]")  # a ] in first place is a member
        while True:
            if self.peek("[:"):
                end = self.pattern.find(":]", self.at)
                if end < 0:
                    self.refuse("a class that does not end")
                self.at = end + 2
                continue
            char = self.next()
            if char == "]":
                return
            if char == "[":
                self.class_body()
            elif char == "\\":
                escaped = self.next()
                if escaped in "pP":
                    self.property_name()
                elif escaped == "x":
                    self.hex_byte()
                elif escaped.isalpha() and escaped not in _CLASS_ESCAPES | _LITERAL_ESCAPES | {"u"}:
                    self.refuse(f"the escape \\{escaped} in a class")

    # -- quantifiers ----------------------------------------------------------------------------------------------

    def quantified(self, body: Node) -> Node:
        while True:
            start = self.at
            if self.take("?"):
                least, most = 0, 1
            elif self.take("*"):
                least, most = 0, None
            elif self.take("+"):
                least, most = 1, None
            elif self.peek("{"):
                bounds = self.bounds()
                if bounds is None:
                    return body
                least, most = bounds
            else:
                return body
            counted = self.pattern[start] == "{"
            mode: Literal["greedy", "lazy", "possessive"] = "greedy"
            if self.peek("?"):
                if counted and self.dialect == "onig" and least == most:
                    self.refuse("{n}?, which Oniguruma reads in its own way")
                self.at += 1
                mode = "lazy"
            elif self.peek("+") and not (counted and self.dialect == "onig"):
                # Ruby's {n,m}+ is no possessive quantifier but a repeat of a repeat: the loop takes the + as one.
                self.at += 1
                mode = "possessive"
            if isinstance(body, Look):
                self.refuse("a repeated lookahead")
            body = Repeat(body, least, most, mode)

    def bounds(self) -> tuple[int, int | None] | None:
        end = self.pattern.find("}", self.at)
        inner = self.pattern[self.at + 1 : end] if end >= 0 else ""
        low, comma, high = inner.partition(",")
        if not low.isdigit() or (high and not high.isdigit()):
            self.refuse("a { that is not a repeat of the form {m}, {m,} or {m,n}")
        self.at = end + 1
        least, most = int(low), (int(high) if high else None if comma else int(low))
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            self.refuse(f"a repeat of more than {MAX_REPEAT} or with its bounds reversed")
        return least, most
