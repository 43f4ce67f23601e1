"""How many elements the output layer holds at once: it is computed in tiles, and the first ones stay for backward.

Invariant: arithmetic only, of the loops in `learn.vocabulary`, so that a plan needs no torch. A tile that is computed
lies beside what is made of it: its exponentials, or the next tile before the name of this one is given away.

Run: ``held_elements(60_000, 151_936, chunk=2048, tile=2**24, keep=2**27)``.
"""

from __future__ import annotations


def held_elements(rows: int, vocabulary: int, *, chunk: int, tile: int, keep: int) -> int:
    """Most elements of tiles that exist at one moment of forward and backward: the kept ones, a tile and its twin.

    chunk: rows of a tile; tile: most elements of one; keep: most elements that stay, whole tiles.
    """
    width = min(vocabulary, max(1, tile // max(1, min(rows, chunk))))
    kept = most = 0
    for height in _sizes(rows, chunk):
        for entries in _sizes(vocabulary, width):
            size = height * entries
            most = max(most, kept + 2 * size)
            if kept + size <= keep:
                kept += size
    return most


def _sizes(total: int, part: int) -> list[int]:
    return [min(part, total - start) for start in range(0, total, part)]
