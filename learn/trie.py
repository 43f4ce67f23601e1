"""A trie of token sequences: what shares a prefix is laid out once, in the order of a depth-first walk.

Invariant: the row of the layout holds every distinct prefix exactly once, before all that extends it; two sequences
share a token only where all ids up to it are equal. A token at `q` may see the token at `k` if and only if
`k <= q < ends[k]`: those are its ancestors and itself. Everything is a pure function of the ids, without torch.

Lexicographic order is a depth-first walk, so sorting and the length of the common prefix of neighbours say it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Node = tuple[int, int, int]
"""(start, stop, end): tokens [start, stop) of the row have the same descendants, [stop, end)."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Sequences in the order of the walk. order: int64[n], their indices. lengths: int64[n]. shared: int64[n], tokens
    that each has in common with the one before it, 0 for the first."""

    order: NDArray[np.int64]
    lengths: NDArray[np.int64]
    shared: NDArray[np.int64]

    @property
    def n_tokens(self) -> int:
        """Distinct prefixes: the length of the row."""
        return int((self.lengths - self.shared).sum())

    def cut(self, capacity: int) -> list[slice]:
        """Consecutive parts, each as long as fits into `capacity` tokens of its own row; none is cut inside."""
        fresh = np.concatenate([[0], np.cumsum(self.lengths - self.shared)])
        parts, at = [], 0
        while at < len(self.order):
            # a part repeats what its first sequence shared with the part before
            room = capacity + fresh[at] - self.shared[at]
            stop = max(int(np.searchsorted(fresh, room, side="right")) - 1, at + 1)
            parts.append(slice(at, stop))
            at = stop
        return parts

    def tokens_of(self, part: slice) -> int:
        """Length of the row of a consecutive part alone."""
        return int((self.lengths - self.shared)[part].sum() + self.shared[part.start])


def walk(sequences: Sequence[Ids]) -> Walk:
    """Order sequences so that what shares a prefix stands together; ids must not be negative."""
    # the bytes of big-endian ids compare as the ids do
    order = sorted(range(len(sequences)), key=lambda i: sequences[i].astype(">i4").tobytes())
    shared = [0] * bool(order)
    shared += [common_prefix(sequences[a], sequences[b]) for a, b in pairwise(order)]
    lengths = [len(sequences[i]) for i in order]
    return Walk(np.array(order, np.int64), np.array(lengths, np.int64), np.array(shared, np.int64))


def common_prefix(one: Ids, other: Ids) -> int:
    """How many leading ids are equal."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length


@dataclass(frozen=True, slots=True)
class Layout:
    """The row of a trie with T tokens.

    token_ids: int32[T]. positions: int64[T], depth in the trie from 0, the position in each sequence. ends: int32[T],
    see the module. nodes: runs of tokens without a branch, in row order. where: per sequence, in the order given,
    int64[length], the place in the row of each of its tokens.
    """

    token_ids: Ids
    positions: NDArray[np.int64]
    ends: Ids
    nodes: tuple[Node, ...]
    where: list[NDArray[np.int64]]


def lay_out(sequences: Sequence[Ids]) -> Layout:
    """The row of `sequences`; O(tokens)."""
    found = walk(sequences)
    where: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(sequences)
    ids, positions = [], []
    path = np.empty(0, np.int64)
    at = 0
    for index, length, shared in zip(found.order.tolist(), found.lengths.tolist(), found.shared.tolist(), strict=True):
        path = np.concatenate([path[:shared], np.arange(at, at + length - shared)])
        where[index] = path
        ids.append(sequences[index][shared:])
        positions.append(np.arange(shared, length))
        at += length - shared
    nodes = _nodes(found)
    ends = np.empty(at, np.int32)
    for start, stop, end in nodes:
        ends[start:stop] = end
    return Layout(np.concatenate(ids), np.concatenate(positions), ends, nodes, where)


def _nodes(found: Walk) -> tuple[Node, ...]:
    """Close every run where the walk leaves it; a run is cut where a later sequence branches off."""
    open_runs: list[tuple[int, int, int]] = []  # (depth of its first token, start and stop in the row)
    nodes: list[Node] = []
    at = 0

    def leave(depth: int) -> None:
        """Close all tokens at `depth` and deeper."""
        while open_runs and open_runs[-1][0] + open_runs[-1][2] - open_runs[-1][1] > depth:
            first, start, stop = open_runs.pop()
            kept = max(depth - first, 0)
            nodes.append((start + kept, stop, at))
            if kept:
                open_runs.append((first, start, start + kept))

    for length, shared in zip(found.lengths.tolist(), found.shared.tolist(), strict=True):
        leave(shared)
        if length > shared:
            open_runs.append((shared, at, at + length - shared))
            at += length - shared
    leave(0)
    return tuple(sorted(nodes))
