"""Pairs of tokens that the table of merges might take for one it does not hold: an error that no random text finds.

A slot of that table holds the low bits of a pair's hash above a rank, and a free slot is all ones
(kernels/native/merges.hpp). Some tens of the 10^10 pairs of a vocabulary have low bits that are all ones too: whoever
asks for them and forgets that a slot is free merges them. 'boardagi' is one of them for Qwen 3, 'leftmaker' for o200k.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from support.families import Family
from tokseam.kernels.errors import BadIdError

#: The factor of the hash, which is one to one (kOdd1 in kernels/native/device/hash.hpp), and its inverse.
FACTOR = 0x9E3779B97F4A7C15
INVERSE = pow(FACTOR, -1, 1 << 64)
#: Bits of a slot; of an id and of a rank, as vocabularies have them.
SLOT_BITS = 48
ID_BITS = range(15, 20)
RANK_BITS = range(15, 21)


def pairs(id_bits: int, rank_bits: int) -> Iterator[tuple[int, int]]:
    """Yield all pairs of ids whose hash has low bits, as many as a slot holds, that are all ones."""
    kept, hashed = SLOT_BITS - rank_bits, 2 * id_bits
    ones = (1 << min(kept, hashed)) - 1
    for high in range(1 << max(0, hashed - kept)):
        pair = (high << kept | ones) * INVERSE % (1 << hashed)
        assert pair * FACTOR % (1 << hashed) & ones == ones
        yield divmod(pair, 1 << id_bits)


def test_they_stay_apart(family: Family) -> None:
    texts = {"boardagi", "Stopagi", " meteragi", "leftmaker", " repeatmaker"}
    for pair in {pair for id_bits in ID_BITS for rank_bits in RANK_BITS for pair in pairs(id_bits, rank_bits)}:
        with suppress(BadIdError):  # no id
            texts.add(family.engine.decode(list(pair)))
    for text in sorted(texts):
        assert family.engine.encode(text).tolist() == family.reference.ids(text), text
