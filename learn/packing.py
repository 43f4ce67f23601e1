"""Packing: datums of one update into token-balanced micro-batches, the same number on every rank.

Invariant: a sequence is never cut or dropped (one longer than the budget is an error); every datum is in exactly one
micro-batch; ranks without enough work get anchors, copies with weight 0, so that all make the same calls. The plan
is a pure function of lengths, ids, budget and world size; its hash is stored with the update.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from learn.attention import Segments
from learn.datum import Datum
from learn.tokens import Tokens
from sera_data.canonical import sha256_json
from sera_data.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Pack:
    """Datums of one micro-batch; an anchor counts for nothing."""

    datums: tuple[Datum, ...]
    anchor: bool = False


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
    def sha256(self) -> str:
        """Hash of who goes where."""
        rows = [[pack.anchor, [d.datum_id for d in pack.datums]] for pack in self.packs]
        return sha256_json({"world_size": self.world_size, "packs": rows})


def plan_packs(datums: Sequence[Datum], *, budget: int, world_size: int = 1) -> Plan:
    """Spread datums over as few micro-batches as hold them, longest first into the least filled.

    Raises ConfigError naming a datum longer than `budget` tokens. No datum gives an empty plan.
    """
    if not datums:
        return Plan((), world_size)
    order = sorted(datums, key=lambda d: (-len(d), d.datum_id))
    if len(order[0]) > budget:
        msg = f"datum {order[0].datum_id} has {len(order[0])} tokens, allowed are {budget} in a micro-batch"
        raise ConfigError(msg, hint=f"set engine.tokens_per_micro_batch to {len(order[0])} or more")
    total = sum(len(d) for d in order)
    bins = _round_up(-(-total // budget), world_size)
    while True:
        filled = _spread(order, min(bins, _round_up(len(order), world_size)), budget)
        if filled is not None:
            break
        bins += world_size
    # within a pack the order of the batch is kept, so that the plan reads like the batch
    rank_of = {d.datum_id: i for i, d in enumerate(datums)}
    packs = [Pack(tuple(sorted(part, key=lambda d: rank_of[d.datum_id]))) for part in filled if part]
    packs.sort(key=lambda pack: rank_of[pack.datums[0].datum_id])
    missing = _round_up(len(packs), world_size) - len(packs)
    packs += [Pack((order[-1],), anchor=True)] * missing
    return Plan(tuple(packs), world_size)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _spread(order: Sequence[Datum], bins: int, budget: int) -> list[list[Datum]] | None:
    heap = [(0, index) for index in range(bins)]
    parts: list[list[Datum]] = [[] for _ in range(bins)]
    for datum in order:
        load, index = heap[0]
        if load + len(datum) > budget:
            return None
        parts[index].append(datum)
        heapq.heapreplace(heap, (load + len(datum), index))
    return parts


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A pack as tensors. `before[i]` is the position whose hidden state predicts trained token i."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    segments: Segments
    before: torch.Tensor
    targets: torch.Tensor
    tokens: Tokens


def micro_batch(pack: Pack, device: torch.device | str = "cpu") -> MicroBatch:
    """Concatenate the sequences of a pack; position ids restart with each of them."""
    datums = pack.datums
    lengths = [len(d) for d in datums]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    where = [np.flatnonzero(d.trained) for d in datums]

    def chosen(name: str) -> np.ndarray:
        return np.concatenate([getattr(d, name)[at] for d, at in zip(datums, where, strict=True)])

    def tensor(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
        return torch.as_tensor(array, dtype=dtype, device=device)

    counts = [len(at) for at in where]
    real = 0.0 if pack.anchor else 1.0
    tokens = Tokens(
        logprobs=tensor(chosen("logprobs"), torch.float32),
        advantages=tensor(chosen("advantages"), torch.float32) * real,
        weight=torch.full((sum(counts),), real, device=device),
        versions=tensor(chosen("versions"), torch.int64),
        segment=tensor(np.repeat(np.arange(len(datums)), counts), torch.int64),
        n_segments=len(datums),
    )
    return MicroBatch(
        token_ids=tensor(np.concatenate([d.token_ids for d in datums]), torch.int64)[None],
        positions=tensor(np.concatenate([np.arange(n) for n in lengths]), torch.int64)[None],
        segments=Segments(tuple(lengths), tensor(starts, torch.int32)),
        before=tensor(np.concatenate([s + at - 1 for s, at in zip(starts, where, strict=False)]), torch.int64),
        targets=tensor(chosen("token_ids"), torch.int64),
        tokens=tokens,
    )
