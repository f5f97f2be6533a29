"""Texts built to hurt: for `random` (session histories) and for hypothesis (shrinking to a small failing text)."""

from __future__ import annotations

import random

from hypothesis import strategies as st

#: Each line is one way in which tokenizers have been wrong.
ATOMS: list[str] = [
    # contractions in every case, with the characters that fold to s and k, and apostrophes that are none
    *("'s", "'S", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'Ll", "'d", "'D"),
    *(
        "'\u017f",
        "'\u212a",
        "\u017f",
        "\u212a",
        "'",
        "''",
        "\u2019s",
        "\u02bcs",
        "'ll\u017f",
        "'r",
        "'v",
        "'l",
        "'\u0301s",
    ),
    # white space of all kinds, and what only looks like it
    *(" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\r", "\n\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85"),
    *("\u00a0", "\u1680", "\u180e", "\u2000", "\u2003", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f"),
    *("\u205f", "\u2060", "\u3000", "\ufeff", " \n", "\n ", " \r\n ", "\u00a0\u3000"),
    # combining marks, compositions, reordering
    *(
        "e\u0301",
        "\u00e9",
        "\u0301",
        "\u0323",
        "\u0327",
        "\u0345",
        "\u0307",
        "a\u0323\u0307",
        "\u0344",
        "\u0958",
        "\u2126",
    ),
    *(
        "\u212b",
        "\u1e9b\u0323",
        "\u0f71\u0f72",
        "\u05b8\u05bc",
        "\u3099",
        "\u304b\u3099",
        "\u0b47\u0b3e",
        "\U000110a5\U000110ba",
    ),
    *("\U0001d15e", "\u0f43", "\u0897", "\u1dfa", "\u302e", "\u09c7\u09be"),
    # Hangul jamo, syllables and what composes with them
    *("\u1100", "\u1161", "\u11a8", "\uac00", "\uac01", "\u1100\u1161\u11a8", "\ud7b0", "\ua960", "\u3131", "\u11a7"),
    # joiners, emoji, flags, tags, variation selectors
    *("\u200d", "\u200c", "\ufe0f", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f3fd"),
    *("\u2764\ufe0f", "\U000e0067", "1\ufe0f\u20e3", "\U0001f600"),
    # digits and numbers of many scripts
    *(
        "0",
        "1",
        "12",
        "123",
        "1234",
        "\u0663",
        "\u06f4",
        "\u0967",
        "\u0e53",
        "\u00b2",
        "\u00bd",
        "\u2167",
        "\u2460",
        "\u4e00",
    ),
    *("\uff15", "\U0001d7d9", "\U00010107", "\u3007", "\U0001fbf1", "\u0df0"),
    # letters of every kind: upper, lower, title, modifier, other; scripts that fold strangely
    *(
        "a",
        "Z",
        "word",
        "Word",
        "WORD",
        "camelCase",
        "HTTPServer",
        "\u01c5",
        "\u02b0",
        "\u0130",
        "i\u0307",
        "\u0131",
        "\u00df",
        "\u1e9e",
    ),
    *(
        "\u0391",
        "\u03c2",
        "\u0416",
        "\u0561",
        "\u10d0",
        "\u1c90",
        "\u13a0",
        "\uab70",
        "\u05d0",
        "\u0627",
        "\u0e01\u0e33",
        "\u0915\u094d",
    ),
    *(
        "\u4f60\u597d",
        "\u9fa5",
        "\u9fa6",
        "\u3042",
        "\u309f",
        "\u30a0",
        "\u30ff",
        "\u3100",
        "\u3400",
        "\U00020000",
        "\U00010400",
        "\U0001d400",
    ),
    # punctuation and symbols
    *(
        "!",
        '"',
        "#",
        ".",
        "...",
        "/",
        "//",
        "\\",
        "_",
        "__",
        "-",
        "--",
        "(",
        ");",
        "{}",
        "</",
        ">",
        "<|",
        "|>",
        "=",
        "==",
        "$",
        "^",
        "`",
        "~",
    ),
    *(
        "\u2014",
        "\u00ab",
        "\u3002",
        "\uff0c",
        "\u00ad",
        "\u20ac",
        "\u00b4",
        "\uff5c",
        "\u2581",
        "\u2581\u2581",
        "\u00bf",
    ),
    # controls, ends of planes, private use, unassigned
    *(
        "\x00",
        "\x01",
        "\x7f",
        "\x80",
        "\x9f",
        "\ue000",
        "\ufffd",
        "\ufffe",
        "\uffff",
        "\U0001ffff",
        "\U000e0001",
        "\U0010ffff",
        "\u0378",
    ),
]


#: What long texts are made of that are to be parted: 1,500 of them are several parts of 64 KiB.
PARAGRAPHS = [
    "def part(text: str) -> list[int]:\n    return [ord(c) for c in text if c not in '<|end|>']\n\n",
    "It's 3,141 words; don't count them...  \t\n\n   \u00a0 e\u0301\u0327 \u1112\u1161\u11ab <|im_end|>\n",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u51fa\u53bb\u8d70\u8d70\u3002\U0001f468\u200d\U0001f469 ",
    "x" * 700 + "\n" + "\u4e00\u4e8c\u4e09" * 200,
]


def atoms(literals: list[str]) -> list[str]:
    """Return the alphabet, with added tokens, their prefixes and their ends."""
    cut: list[str] = []
    for literal in literals:
        cut += [literal, literal[:1], literal[: max(1, len(literal) // 2)], literal[:-1], literal[1:]]
    return [*ATOMS, *{part for part in cut if part}]


def hostile_text(rng: random.Random, parts: int, alphabet: list[str]) -> str:
    """Return a text of about `parts` atoms: runs of few kinds, runs of one, single characters of all Unicode."""
    out: list[str] = []
    while len(out) < parts:
        kind = rng.random()
        if kind < 0.45:
            out += rng.choices(alphabet, k=rng.randrange(1, 12))
        elif kind < 0.75:
            few = rng.choices(alphabet, k=rng.randrange(1, 4))
            out += rng.choices(few, k=rng.randrange(1, 16))
        elif kind < 0.85:
            out += [rng.choice(alphabet)] * rng.randrange(1, 40)
        elif kind < 0.93:
            out.append(any_character(rng))
        else:
            out.append(
                rng.choice(("def f(self):\n        return x\n", "It's 12345 o'clock, isn't it?  ", "\tif (a<b) {\r\n"))
            )
    return "".join(out)


def any_character(rng: random.Random) -> str:
    """Return any code point but a surrogate, the low planes more often."""
    code = rng.randrange(rng.choice((0x300, 0x3000, 0xD800, 0x110000)))
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def hostile_texts(literals: list[str], max_parts: int = 60) -> st.SearchStrategy[str]:
    """Return the hypothesis strategy of the same texts."""
    alphabet = atoms(literals)
    part = st.one_of(
        st.sampled_from(alphabet),
        st.builds(lambda atom, count: atom * count, st.sampled_from(alphabet), st.integers(1, 20)),
        st.characters(exclude_categories=["Cs"]),
    )
    return st.lists(part, max_size=max_parts).map("".join)
