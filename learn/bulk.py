"""Datums in bulk: all sequences of a stage as flat arrays, checked and cut at once instead of one by one.

Invariant: gives exactly the datums of `learn.sequence`, or None where the turns are not of the ordinary form (a chain
of turns per trajectory, credited spans that do not overlap, one version): then that module builds them, or says what
is wrong. Nothing here runs once per turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from learn.datum import Datum, Runs, places
from learn.excerpt import excerpt
from learn.turn_files import Block, Chosen, blocks, capacity, choose

OWNER = ["group_id", "trajectory_id"]


@dataclass(frozen=True, slots=True)
class Flat:
    """Chosen turns one after the other, n of them. tokens: of prompts and completions. logprobs: of completions only.
    starts, stops: int64[n], where the completion of a turn lies in `tokens`. begins: int64[n], where the chain of a
    turn starts there. versions: int32[n]."""

    tokens: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    begins: NDArray[np.int64]
    versions: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Spans:
    """Credit rows of a stage on the flat tokens, trajectory by trajectory. turn: int64[r], of a row. heads: first rows
    of the trajectories."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    turn: NDArray[np.int64]
    advantages: NDArray[np.float32]
    heads: NDArray[np.int64]


def bulk_datums(files: Sequence[Path], rows: pl.DataFrame) -> list[Datum] | None:
    """Datums of the credit rows of one stage, ordered by group and trajectory; None: not of the ordinary form."""
    if rows.is_empty():
        return []
    rows, heads = _by_trajectory(rows)
    chosen = choose(files, rows["turn_id"].to_arrow().cast(pa.string()))
    flat = None if chosen is None else _read(chosen)
    if chosen is None or flat is None:
        return None
    spans = _spans(rows, heads, flat, chosen.found)
    return None if spans is None else _cut(rows, flat, spans)


def _by_trajectory(rows: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """(rows with those of a trajectory together, by group and trajectory; the first row of each)."""
    heads = _heads(rows)
    if any(one >= other for one, other in pairwise(rows[heads].select(OWNER).iter_rows())):
        rows = rows.sort(OWNER)
        heads = _heads(rows)
    return rows, heads


def _heads(rows: pl.DataFrame) -> NDArray[np.int64]:
    fresh = rows.select(pl.struct(OWNER).rle_id()).to_series().to_numpy()
    return np.flatnonzero(np.concatenate([[True], fresh[1:] != fresh[:-1]]))


def _read(chosen: Chosen) -> Flat | None:
    """The flat tokens, or None when a chain is not one: each turn extends the one before it, the first extends none."""
    size, spoken = capacity(chosen)
    tokens, logprobs = np.empty(size, np.int32), np.empty(spoken, np.float32)
    at, said, light = 0, 0, []
    for part in blocks(chosen):
        if (part.logprob_lengths != part.completion_lengths).any():
            return None
        ids = _joined(part)
        tokens[at : at + len(ids)] = ids
        logprobs[said : said + len(part.logprobs)] = part.logprobs
        at, said = at + len(ids), said + len(part.logprobs)
        light.append((part.base_turns, part.prompt_lengths, part.completion_lengths, part.versions))
    bases, *counted = zip(*light, strict=True)
    if not _chained(pa.concat_arrays(bases), chosen):
        return None
    prompts, completions, versions = map(np.concatenate, counted)
    stops = np.cumsum(prompts + completions)
    starts = stops - completions
    first = np.flatnonzero(chosen.starts)
    begins = np.repeat((starts - prompts)[first], np.diff(first, append=len(starts)))
    return Flat(tokens[:at], logprobs[:said], starts, stops, begins, versions)


def _chained(bases: pa.Array, chosen: Chosen) -> bool:
    same = pc.fill_null(pc.equal(bases[1:], chosen.turn_ids[:-1]), fill_value=False)
    follows = np.concatenate([[False], same.to_numpy(zero_copy_only=False)])
    alone = bases.is_null().to_numpy(zero_copy_only=False)
    return bool(np.where(chosen.starts, alone, follows).all())


def _joined(part: Block) -> NDArray[np.int32]:
    """The prompt of a turn, then its completion, turn after turn: lists are strings of bytes, which Arrow joins."""
    size = len(part.prompts) + len(part.completions)
    if not size:
        return part.prompts
    sides = _as_bytes(part.prompts, part.prompt_lengths), _as_bytes(part.completions, part.completion_lengths)
    joined = pc.binary_join_element_wise(*sides, pa.scalar(b"", pa.large_binary()))
    return np.frombuffer(joined.buffers()[2], np.int32, size)


def _as_bytes(values: NDArray[Any], lengths: NDArray[np.int64]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths * values.itemsize, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _spans(rows: pl.DataFrame, heads: NDArray[np.int64], flat: Flat, turn: NDArray[np.int64]) -> Spans | None:
    """The credited spans, or None when one is not inside its completion or a trajectory is not one chain."""
    low = flat.starts[turn] + rows["token_start"].to_numpy()
    high = flat.starts[turn] + rows["token_end"].to_numpy()
    inside = (low >= flat.starts[turn]) & (low < high) & (high <= flat.stops[turn]) & (low > flat.begins[turn])
    per_trajectory = (rows["depth"].to_numpy(), flat.versions[turn], flat.begins[turn])
    same = all((np.maximum.reduceat(a, heads) == np.minimum.reduceat(a, heads)).all() for a in per_trajectory)
    chains = len(np.unique(flat.begins[turn][heads])) == len(heads)
    advantages = rows["advantage"].to_numpy().astype(np.float32)
    if not (inside.all() and same and chains and np.isfinite(advantages).all()):
        return None
    return Spans(low, high, turn, advantages, heads)


def _cut(rows: pl.DataFrame, flat: Flat, spans: Spans) -> list[Datum] | None:
    """The datums as views of the flat arrays; None when spans overlap or a number is not finite."""
    order = np.argsort(spans.low, kind="stable")
    low, high = spans.low[order], spans.high[order]
    if (low[1:] < high[:-1]).any():
        return None
    lengths = high - low
    logprobs = _trained(flat, low, high)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(logprobs.sum()):
            return None
    begins = flat.begins[spans.turn]
    starts, advantages = low - begins[order], spans.advantages[order]
    ends = np.maximum.reduceat(spans.high, spans.heads)
    # a chain is of one trajectory, so its spans follow each other
    firsts = np.searchsorted(low, begins[spans.heads])
    lasts = firsts + np.diff(spans.heads, append=len(low))
    nth = np.cumsum(np.diff(spans.turn[order], prepend=-1) != 0)
    turns = nth[lasts - 1] - nth[firsts] + 1
    said = np.concatenate([[0], np.cumsum(lengths)])
    numbers = (begins[spans.heads], ends, firsts, lasts, said[firsts], said[lasts], turns)
    facts = rows[spans.heads].select("stage", "group_id", "trajectory_id", "depth").iter_rows()
    versions = flat.versions[spans.turn[spans.heads]].tolist()
    return [
        excerpt(
            datum_id=f"{trajectory}@{stage}.0",
            stage=stage,
            trajectory_id=trajectory,
            group_id=group,
            depth=depth,
            token_ids=flat.tokens[begin:end],
            policy_version=version,
            n_parts=count if stage == "delegation" else 1,
            runs=Runs(starts[a:z], lengths[a:z], advantages[a:z], logprobs[first:last]),
        )
        for (stage, group, trajectory, depth), version, (begin, end, a, z, first, last, count) in zip(
            facts, versions, zip(*(column.tolist() for column in numbers), strict=True), strict=True
        )
    ]


def _trained(flat: Flat, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float32]:
    """Log-probabilities of the tokens in spans [low, high), which are sorted and each inside a completion."""
    spoken = flat.stops - flat.starts
    if (high - low).sum() == len(flat.logprobs):  # every completion is credited whole
        return flat.logprobs
    turn = np.searchsorted(flat.stops, low, side="right")
    said = (np.cumsum(spoken) - spoken)[turn] + low - flat.starts[turn]
    return flat.logprobs[places(said, high - low)]
