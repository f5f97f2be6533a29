"""Paragraphs of every kind, to be drawn from for long texts."""

PARAGRAPHS = [
    "def part(text: str) -> list[int]:\n    return [ord(c) for c in text if c not in '<|end|>']\n\n",
    "It's 3,141 words; don't count them...  \t\n\n   \u00a0 e\u0301\u0327 \u1112\u1161\u11ab <|im_end|>\n",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u51fa\u53bb\u8d70\u8d70\u3002\U0001f468\u200d\U0001f469 ",
    "x" * 700 + "\n" + "\u4e00\u4e8c\u4e09" * 200,
]
