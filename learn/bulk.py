"""Datums in bulk: all sequences of a stage as flat arrays, checked and cut at once instead of one by one.

Invariant: gives exactly the datums of `learn.sequence`, or None where the turns are not of the ordinary form (a chain
of turns per trajectory, credited spans that do not overlap, one version): then that module builds them, or says what
is wrong. Nothing here runs once per turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from learn.datum import Datum, checked_as_a_whole
from learn.turn_files import Block, Chosen, blocks, capacity, choose

ORDER = ("group_id", "trajectory_id", "turn_id", "token_start")


@dataclass(frozen=True, slots=True)
class Flat:
    """Chosen turns one after the other. tokens, logprobs: [T], 0 at prompts. completions: int64[n + 1 each], where the
    completion of a turn starts and ends. begins: int64[n], where the chain of a turn starts. versions: int32[n]."""

    tokens: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    begins: NDArray[np.int64]
    versions: NDArray[np.int32]
    turn_ids: pa.Array


@dataclass(frozen=True, slots=True)
class Spans:
    """Credit rows of a stage on the flat tokens, in the order of trajectories. owner: int64[r], trajectory of a row."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    turn: NDArray[np.int64]
    advantages: NDArray[np.float32]
    owner: NDArray[np.int64]


def bulk_datums(files: Sequence[Path], rows: pl.DataFrame) -> list[Datum] | None:
    """Datums of the credit rows of one stage, ordered by group and trajectory; None: not of the ordinary form."""
    rows = rows.sort(*ORDER)
    credited = rows["turn_id"].to_arrow().cast(pa.string())
    chosen = choose(files, pc.unique(credited))
    flat = None if chosen is None else _read(chosen)
    if flat is None:
        return None
    found = pc.index_in(credited, value_set=flat.turn_ids)
    if found.null_count:
        return None
    spans = _spans(rows, flat, found.to_numpy(zero_copy_only=False).astype(np.int64))
    return None if spans is None else _cut(rows, flat, spans)


def _read(chosen: Chosen) -> Flat | None:
    """The flat tokens, or None when a chain is not one: each turn extends the one before it, the first extends none."""
    size = capacity(chosen)
    tokens, logprobs = np.empty(size, np.int32), np.empty(size, np.float32)
    at, light = 0, []
    for part in blocks(chosen):
        if (part.logprob_lengths != part.completion_lengths).any():
            return None
        at = _pour(part, tokens, logprobs, at)
        light.append((part.base_turns, part.prompt_lengths, part.completion_lengths, part.versions))
    bases, *counted = zip(*light, strict=True)
    if not _chained(pa.concat_arrays(bases), chosen):
        return None
    prompts, completions, versions = map(np.concatenate, counted)
    stops = np.cumsum(prompts + completions)
    starts = stops - completions
    first = np.flatnonzero(chosen.starts)
    begins = np.repeat((starts - prompts)[first], np.diff([*first, len(starts)]))
    return Flat(tokens[:at], logprobs[:at], starts, stops, begins, versions, chosen.turn_ids)


def _chained(bases: pa.Array, chosen: Chosen) -> bool:
    same = pc.fill_null(pc.equal(bases[1:], chosen.turn_ids[:-1]), fill_value=False)
    follows = np.concatenate([[False], same.to_numpy(zero_copy_only=False)])
    alone = bases.is_null().to_numpy(zero_copy_only=False)
    return bool(np.where(chosen.starts, alone, follows).all())


def _pour(part: Block, tokens: NDArray[np.int32], logprobs: NDArray[np.float32], at: int) -> int:
    """Put prompts and completions of a block where they belong, from `at` on; where the next block starts."""
    ids = _joined(part.prompts, part.prompt_lengths, part.completions, part.completion_lengths)
    end = at + len(ids)
    tokens[at:end] = ids
    unknown = np.zeros(len(part.prompts), np.float32)
    logprobs[at:end] = _joined(unknown, part.prompt_lengths, part.logprobs, part.completion_lengths)
    return end


def _joined(
    left: NDArray[Any], left_lengths: NDArray[np.int64], right: NDArray[Any], right_lengths: NDArray[np.int64]
) -> NDArray[Any]:
    """The left list of a row, then its right list, row after row: lists are strings of bytes, which Arrow joins."""
    if not len(left) + len(right):
        return left
    sides = (_as_bytes(left, left_lengths), _as_bytes(right, right_lengths))
    joined = pc.binary_join_element_wise(*sides, pa.scalar(b"", pa.large_binary()))
    return np.frombuffer(joined.buffers()[2], left.dtype, len(left) + len(right))


def _as_bytes(values: NDArray[Any], lengths: NDArray[np.int64]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths * values.itemsize, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _spans(rows: pl.DataFrame, flat: Flat, turn: NDArray[np.int64]) -> Spans | None:
    """The credited spans, or None when one is not inside its completion or a trajectory is not one chain."""
    low = flat.starts[turn] + rows["token_start"].to_numpy()
    high = flat.starts[turn] + rows["token_end"].to_numpy()
    inside = (low >= flat.starts[turn]) & (low < high) & (high <= flat.stops[turn]) & (low > flat.begins[turn])
    fresh = (rows.select(pl.struct("group_id", "trajectory_id").rle_id()).to_series()).to_numpy().astype(np.int64)
    heads = np.flatnonzero(np.concatenate([[True], np.diff(fresh) != 0]))
    per_trajectory = (rows["depth"].to_numpy(), flat.versions[turn], flat.begins[turn])
    same = all((np.maximum.reduceat(a, heads) == np.minimum.reduceat(a, heads)).all() for a in per_trajectory)
    chains = len(np.unique(flat.begins[turn][heads])) == len(heads)
    advantages = rows["advantage"].to_numpy().astype(np.float32)
    if not (inside.all() and same and chains and np.isfinite(advantages).all()):
        return None
    return Spans(low, high, turn, advantages, fresh)


def _cut(rows: pl.DataFrame, flat: Flat, spans: Spans) -> list[Datum] | None:
    """Spread the spans over the tokens and cut the datums out; None when spans overlap or a number is not finite."""
    order = np.argsort(spans.low, kind="stable")
    low, high = spans.low[order], spans.high[order]
    if (low[1:] < high[:-1]).any():
        return None
    # lengths of what lies before, in and between the spans
    lengths = np.diff(np.stack([low, high], axis=1).ravel(), prepend=0, append=len(flat.tokens))
    trained = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    if (high - low).sum() < (flat.stops - flat.starts).sum():  # else every completion is credited whole
        flat.logprobs[~trained] = 0
    if not np.isfinite(flat.logprobs.sum(dtype=np.float64)):
        return None
    advantages = np.repeat(_between(spans.advantages[order], 0), lengths)
    versions = np.repeat(_between(flat.versions[spans.turn[order]], -1), lengths)
    heads = np.flatnonzero(np.diff(spans.owner, prepend=-1))
    ends = np.maximum.reduceat(spans.high, heads)
    turns = np.add.reduceat(np.diff(spans.turn, prepend=-1) != 0, heads)
    facts = rows[heads].select("stage", "group_id", "trajectory_id", "depth").iter_rows()
    sampled = flat.versions[spans.turn[heads]].tolist()
    begins = flat.begins[spans.turn[heads]].tolist()
    datums = []
    for (stage, group, trajectory, depth), start, end, version, count in zip(
        facts, begins, ends.tolist(), sampled, turns.tolist(), strict=True
    ):
        own = slice(start, end)
        datums.append(
            checked_as_a_whole(
                datum_id=f"{trajectory}@{stage}.0",
                stage=stage,
                trajectory_id=trajectory,
                group_id=group,
                depth=depth,
                token_ids=flat.tokens[own],
                trained=trained[own],
                logprobs=flat.logprobs[own],
                advantages=advantages[own],
                versions=versions[own],
                policy_version=version,
                n_parts=count if stage == "delegation" else 1,
            )
        )
    return datums


def _between(values: NDArray[Any], rest: float) -> NDArray[Any]:
    """rest, values[0], rest, values[1], ..., rest."""
    spread = np.full(2 * len(values) + 1, rest, values.dtype)
    spread[1::2] = values
    return spread
