"""A text that grows by appends and edits in time of the change, joined only when somebody needs all of it.

The pieces are stretches of the caller's own strings where possible: a text that was set whole is not copied, nor is one
that an edit cuts in two. Limits: no tokens, no positions but code points; not thread-safe.
"""

from __future__ import annotations

#: Pieces kept before they are joined: a scan of so many costs about 20 us, and joining a text of n characters once in
#: so many edits costs each of them n/512.
PIECES_MAX = 512


class PieceText:
    """A text as a list of pieces."""

    __slots__ = ("_pieces", "length")

    def __init__(self, text: str = "") -> None:
        #: (string, start, stop): joined, these stretches are the text; none is empty. At most PIECES_MAX.
        self._pieces: list[tuple[str, int, int]] = []
        #: Code points over all pieces.
        self.length = 0
        self.set(text)

    def __str__(self) -> str:
        if len(self._pieces) == 1:
            text, start, stop = self._pieces[0]
            if stop - start == len(text):
                return text
        self.set("".join([text[start:stop] for text, start, stop in self._pieces]))
        return self._pieces[0][0] if self._pieces else ""

    def copy(self) -> PieceText:
        twin = PieceText.__new__(PieceText)
        twin._pieces = self._pieces.copy()
        twin.length = self.length
        return twin

    def set(self, text: str) -> None:
        self._pieces = [(text, 0, len(text))] if text else []
        self.length = len(text)

    def append(self, delta: str) -> None:
        """Add at the end. Small neighbours are joined as in a binary counter: few pieces, rarely moved."""
        if not delta:
            return
        pieces = self._pieces
        self.length += len(delta)
        while len(pieces) > 1 and pieces[-1][2] - pieces[-1][1] <= len(delta):
            text, start, stop = pieces.pop()
            delta = text[start:stop] + delta
        pieces.append((delta, 0, len(delta)))
        self._bound()

    def edit(self, start: int, stop: int, replacement: str) -> None:
        """Replace [start, stop), which lies in the text."""
        pieces = self._pieces
        first, first_at = self._find(start)
        last, last_at = first, first_at
        while last < len(pieces) and last_at + (pieces[last][2] - pieces[last][1]) < stop:
            last_at += pieces[last][2] - pieces[last][1]
            last += 1
        parts = [(replacement, 0, len(replacement))]
        if first < len(pieces):
            text, begin, _ = pieces[first]
            parts.insert(0, (text, begin, begin + start - first_at))
        if last < len(pieces):
            text, begin, end = pieces[last]
            parts.append((text, begin + stop - last_at, end))
        pieces[first : last + 1] = [part for part in parts if part[1] < part[2]]
        self.length += len(replacement) - (stop - start)
        self._bound()

    def _find(self, position: int) -> tuple[int, int]:
        """Return the piece that holds a position, and where it begins; one past the last for the end."""
        begin = 0
        for index, (_, start, stop) in enumerate(self._pieces):
            if position < begin + stop - start:
                return index, begin
            begin += stop - start
        return len(self._pieces), begin

    def _bound(self) -> None:
        if len(self._pieces) > PIECES_MAX:
            str(self)
