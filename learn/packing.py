"""Packing: datums of one update into token-balanced micro-batches, the same number on every rank.

Invariant: a sequence is never cut or dropped (one longer than the budget is an error); every datum is in exactly one
micro-batch; ranks without enough work get anchors, copies with weight 0, so that all make the same calls. The plan
is a pure function of the datums, budget, world size and sharing; its hash is stored with the update.

A micro-batch has one of two layouts. `rows`: its sequences one behind the other. `tree`: what they share from the start
lies there once (see `learn.trie`). Budget and balance count the tokens that are computed.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
import torch

from learn.attention import Branches, Segments
from learn.datum import Datum, counting, places
from learn.flex_tree import block_mask
from learn.tokens import Tokens
from learn.trie import Walk, lay_out, walk
from sera_data.canonical import sha256_json
from sera_data.errors import ConfigError

Share = Literal["auto", "on", "off"]
Layout = Literal["rows", "tree"]
Part = tuple[list[int], int]
"""Datums of a micro-batch by their place in the batch, and the tokens that it computes."""
WORTH = 0.75
"""Share of the tokens of the layout `rows` below which `auto` takes the layout `tree`: see docs/packing.md."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Datums of one micro-batch in their layout; n_shared: tokens that are not computed again; an anchor counts for
    nothing."""

    datums: tuple[Datum, ...]
    anchor: bool = False
    layout: Layout = "rows"
    n_shared: int = 0

    @property
    def n_computed(self) -> int:
        """Tokens of the forward pass."""
        return sum(map(len, self.datums)) - self.n_shared


@dataclass(frozen=True, slots=True)
class Plan:
    """Micro-batches of an update in packing order; rank r of w runs packs r, r + w, r + 2w, ..."""

    packs: tuple[Pack, ...]
    world_size: int

    def of_rank(self, rank: int) -> tuple[Pack, ...]:
        """Micro-batches of one rank."""
        return self.packs[rank :: self.world_size]

    @property
    def datum_ids(self) -> list[str]:
        """Trained datums in packing order, anchors left out."""
        return [d.datum_id for pack in self.packs if not pack.anchor for d in pack.datums]

    @property
    def n_trained(self) -> int:
        """N of the token mean: trained tokens of the global batch."""
        return sum(d.n_trained for pack in self.packs if not pack.anchor for d in pack.datums)

    @property
    def n_computed(self) -> int:
        """Tokens of all forward passes, anchors left out; without shared prefixes the tokens of all datums."""
        return sum(pack.n_computed for pack in self.packs if not pack.anchor)

    @property
    def sha256(self) -> str:
        """Hash of who goes where, and how."""
        rows = [[pack.anchor, [d.datum_id for d in pack.datums]] for pack in self.packs]
        trees = {"trees": True} if any(pack.layout == "tree" for pack in self.packs) else {}
        return sha256_json({"world_size": self.world_size, "packs": rows, **trees})


def plan_packs(datums: Sequence[Datum], *, budget: int, world_size: int = 1, share: Share = "off") -> Plan:
    """Spread datums over as few micro-batches as hold them.

    Rows: the longest first into the least filled. Trees (`share` on, or auto where it is worth it): the datums in the
    order of their trie, cut where the parts become as equal as can be.
    Raises ConfigError naming a datum longer than `budget` tokens. No datum gives an empty plan.
    """
    if not datums:
        return Plan((), world_size)
    ids, sizes = [d.datum_id for d in datums], [len(d) for d in datums]
    order = sorted(range(len(datums)), key=ids.__getitem__)
    order.sort(key=sizes.__getitem__, reverse=True)
    longest = datums[order[0]]
    if len(longest) > budget:
        msg = f"datum {longest.datum_id} has {len(longest)} tokens, allowed are {budget} in a micro-batch"
        raise ConfigError(msg, hint=f"set engine.tokens_per_micro_batch to {len(longest)} or more")
    parts = None if share == "off" else _trees(datums, budget, world_size, worth=WORTH if share == "auto" else 1.0)
    layout: Layout = "rows" if parts is None else "tree"
    # within a pack the order of the batch is kept, so that the plan reads like the batch
    filled = sorted(
        (sorted(part), n_computed)
        for part, n_computed in (_rows(order, sizes, budget, world_size) if parts is None else parts)
    )
    packs = [
        Pack(tuple(datums[i] for i in part), layout=layout, n_shared=sum(sizes[i] for i in part) - n_computed)
        for part, n_computed in filled
    ]
    missing = _round_up(len(packs), world_size) - len(packs)
    packs += [Pack((datums[order[-1]],), anchor=True)] * missing
    return Plan(tuple(packs), world_size)


def _rows(order: Sequence[int], sizes: Sequence[int], budget: int, world_size: int) -> list[Part]:
    """As few parts as hold the datums, evenly filled where that is possible."""
    filled = _spread(order, sizes, _round_up(-(-sum(sizes) // budget), world_size), budget)
    if filled is None:
        full = _best_fit(order, sizes, budget)
        filled = _spread(order, sizes, _round_up(len(full), world_size), budget) or full
    return [(part, sum(sizes[i] for i in part)) for part in filled if part]


def _trees(datums: Sequence[Datum], budget: int, world_size: int, *, worth: float) -> list[Part] | None:
    """Consecutive parts of the walk, or None when they would compute more than `worth` of all tokens."""
    found = walk([d.token_ids for d in datums])
    most = worth * int(found.lengths.sum())
    if found.n_tokens > most:
        return None
    count = _round_up(len(found.cut(budget)), world_size)
    parts: list[Part] = [
        ([int(i) for i in found.order[part]], found.tokens_of(part)) for part in _even(found, count, budget)
    ]
    return parts if sum(tokens for _, tokens in parts) <= most else None


def _even(found: Walk, count: int, budget: int) -> list[slice]:
    """At most `count` consecutive parts whose longest is as short as can be."""
    low, high = -(-found.n_tokens // count) - 1, budget
    while high - low > 1:
        middle = (low + high) // 2
        parts = found.cut(middle)
        fits = len(parts) <= count and all(found.tokens_of(part) <= middle for part in parts)
        low, high = (low, middle) if fits else (middle, high)
    return found.cut(high)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _spread(order: Sequence[int], sizes: Sequence[int], bins: int, budget: int) -> list[list[int]] | None:
    """The longest first into the least filled of `bins` parts; None when one would not fit."""
    heap = list(range(bins))  # load * bins + part: whole numbers compare faster than pairs
    parts: list[list[int]] = [[] for _ in range(bins)]
    full = (budget + 1) * bins
    for place in order:
        filled = heap[0] + sizes[place] * bins
        if filled >= full:
            return None
        parts[filled % bins].append(place)
        heapq.heapreplace(heap, filled)
    return parts


def _best_fit(order: Sequence[int], sizes: Sequence[int], budget: int) -> list[list[int]]:
    """The longest first into the fullest part that has room for it."""
    most = len(order)
    rooms: list[int] = []  # tokens left * most + part, sorted
    parts: list[list[int]] = []
    for place in order:
        found = bisect.bisect_left(rooms, sizes[place] * most)
        if found < len(rooms):
            room = rooms.pop(found)
        else:
            room = budget * most + len(parts)
            parts.append([])
        parts[room % most].append(place)
        bisect.insort(rooms, room - sizes[place] * most)
    return parts


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A pack as tensors. `before[i]` is the position whose hidden state predicts `targets[i]`.

    token_ids, positions: int32[1, T], T the computed tokens. before, targets: int32[m]. tokens: the n trained tokens in
    the order of the datums. pick: int64[n], which of the m pairs each of them is; None when m = n in that order. A
    token that several datums train is one pair, predicted once, and counts in the loss for each of them.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    segments: Segments | Branches
    before: torch.Tensor
    targets: torch.Tensor
    tokens: Tokens
    pick: torch.Tensor | None = None


def micro_batch(pack: Pack, device: torch.device | str = "cpu") -> MicroBatch:
    """A pack in its layout; position ids are those of each sequence alone."""
    datums, device = pack.datums, torch.device(device)
    sizes = [len(d) for d in datums]
    starts = list(accumulate(sizes, initial=0))
    first, lengths, paid, logprobs = zip(*[d.runs() for d in datums], strict=True)
    counts = [len(part) for part in logprobs]
    every = np.concatenate(lengths)
    shift = np.array(starts[:-1]).repeat([len(f) for f in first])
    before = places(np.concatenate(first) + shift - 1, every, np.int32)
    advantages = np.concatenate(paid).repeat(every)
    sampled, paid_, weight, versions, segment = _tensors(
        device,
        np.concatenate(logprobs),
        np.zeros_like(advantages) if pack.anchor else advantages,
        np.full(len(before), 0 if pack.anchor else 1, np.float32),
        np.array([d.policy_version for d in datums], np.int32).repeat(counts),
        counting(len(datums), np.int32).repeat(counts),
    )
    tokens = Tokens(sampled, paid_, weight, versions, segment, n_segments=len(datums))
    if pack.layout == "tree":
        return _in_tree(datums, before + 1, tokens, device)
    ids = np.concatenate([d.token_ids for d in datums])
    positions = np.concatenate([counting(n, np.int32) for n in sizes])  # they restart with each sequence
    ids_, positions_, borders, before_, targets = _tensors(
        device, ids[None], positions[None], np.array(starts, np.int32), before, ids[1:].take(before)
    )
    return MicroBatch(ids_, positions_, Segments(tuple(sizes), borders), before_, targets, tokens)


def _tensors(device: torch.device, *arrays: np.ndarray) -> list[torch.Tensor]:
    """The arrays themselves on a CPU, copies elsewhere."""
    tensors = [torch.from_numpy(array) for array in arrays]
    return tensors if device.type == "cpu" else [tensor.to(device) for tensor in tensors]


def _in_tree(datums: Sequence[Datum], at: np.ndarray, tokens: Tokens, device: torch.device) -> MicroBatch:
    """The sequences as a trie."""
    trie = lay_out([d.token_ids for d in datums])
    # the place of a token in the trie stands for the whole pair: its ancestors and itself
    place = np.concatenate(trie.where)
    mine, first, pick = np.unique(place[at], return_index=True, return_inverse=True)
    return MicroBatch(
        token_ids=torch.as_tensor(trie.token_ids, dtype=torch.int32, device=device)[None],
        positions=torch.as_tensor(trie.positions, dtype=torch.int32, device=device)[None],
        segments=Branches(trie.nodes, block_mask(trie.ends, device) if device.type == "cuda" else None),
        before=torch.as_tensor(place[at - 1][first], dtype=torch.int32, device=device),
        targets=torch.as_tensor(trie.token_ids[mine], dtype=torch.int32, device=device),
        tokens=tokens,
        pick=torch.as_tensor(pick, dtype=torch.int64, device=device),
    )
