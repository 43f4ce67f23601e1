"""Datums in bulk: all sequences of a stage as flat arrays, checked and cut at once instead of one by one.

Invariant: gives exactly the datums of `learn.sequence`, or None where the turns are not of the ordinary form (a chain
of turns per trajectory, credited spans that do not overlap, one version): then that module builds them, or says what
is wrong. Nothing here runs once per turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from learn.datum import Datum, Runs, places
from learn.excerpt import excerpts
from learn.turn_files import Block, Chosen, Lists, blocks, capacity, choose

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


def bulk_datums(files: Sequence[Path], rows: pl.DataFrame, *, logprobs: pa.Table | None = None) -> list[Datum] | None:
    """Datums of the credit rows of one stage, ordered by group and trajectory; None: not of the ordinary form.

    logprobs: turn_id and logprobs of turns whose stored log-probabilities are replaced.
    """
    if rows.is_empty():
        return []
    rows, heads = _by_trajectory(rows)
    chosen = choose(files, rows["turn_id"].to_arrow().cast(pa.string()))
    flat = None if chosen is None else _read(chosen)
    if chosen is None or flat is None or (logprobs is not None and not _replace(flat, chosen, logprobs)):
        return None
    spans = _spans(rows, heads, flat, chosen.found)
    return None if spans is None else _cut(rows, flat, spans)


def _by_trajectory(rows: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """(rows with those of a trajectory together, by group and trajectory; the first row of each)."""
    heads = _heads(rows)
    group, owner = map(pl.col, OWNER)
    ascending = (group < group.shift(-1)) | ((group == group.shift(-1)) & (owner < owner.shift(-1)))
    if not rows[heads].select(ascending.all()).item():
        rows = rows.sort(OWNER)
        heads = _heads(rows)
    return rows, heads


def _heads(rows: pl.DataFrame) -> NDArray[np.int64]:
    group, owner = map(pl.col, OWNER)
    fresh = (group != group.shift()) | (owner != owner.shift())
    return rows.select(fresh.fill_null(value=True).arg_true()).to_series().to_numpy().astype(np.int64)


def _read(chosen: Chosen) -> Flat | None:
    """The flat tokens, or None when a chain is not one: each turn extends the one before it, the first extends none."""
    size, spoken = capacity(chosen)
    tokens, logprobs = _room(size, np.int32), _room(spoken, np.float32)
    at, said, light = 0, 0, []
    for part in blocks(chosen):
        spoke = part.completions.lengths
        if (spoke != part.logprobs.lengths).any():
            return None
        ids, logged = _joined(part), part.logprobs.joined
        tokens[at : at + len(ids)] = ids
        logprobs[said : said + len(logged)] = logged
        at, said = at + len(ids), said + len(logged)
        light.append((part.base_turns, part.prompts.lengths, spoke, part.versions))
    bases, *counted = zip(*light, strict=True)
    if not _chained(pa.concat_arrays(bases), chosen):
        return None
    prompts, completions, versions = map(np.concatenate, counted)
    stops = np.cumsum(prompts + completions, dtype=np.int64)
    starts = stops - completions
    first = np.flatnonzero(chosen.starts)
    begins = np.repeat((starts - prompts)[first], np.diff(first, append=len(starts)))
    return Flat(tokens[:at], logprobs[:said], starts, stops, begins, versions)


def _replace(flat: Flat, chosen: Chosen, logprobs: pa.Table) -> bool:
    """Put other log-probabilities in the place of those read; False when a list is not as long as its completion."""
    turn_ids, lists = (logprobs[name].combine_chunks() for name in ("turn_id", "logprobs"))
    at = pc.index_in(turn_ids, value_set=chosen.turn_ids)
    known = at.is_valid()
    at, lists = at.filter(known).to_numpy().astype(np.int64), lists.filter(known)
    lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
    spoken = flat.stops - flat.starts
    if (lengths != spoken[at]).any():
        return False
    flat.logprobs[places((np.cumsum(spoken) - spoken)[at], lengths)] = pc.list_flatten(lists).to_numpy()
    return True


def _chained(bases: pa.Array, chosen: Chosen) -> bool:
    same = pc.fill_null(pc.equal(bases[1:], chosen.turn_ids[:-1]), fill_value=False)
    follows = np.concatenate([[False], same.to_numpy(zero_copy_only=False)])
    alone = bases.is_null().to_numpy(zero_copy_only=False)
    return bool(np.where(chosen.starts, alone, follows).all())


def _room(count: int, kind: type[np.int32] | type[np.float32]) -> NDArray[Any]:
    """Uninitialised numbers in Arrow's memory, which is kept for the next batch: fresh pages cost more than to fill
    them, and numpy gives large arrays back to the system."""
    return np.frombuffer(pa.allocate_buffer(max(count, 1) * np.dtype(kind).itemsize), kind, count)


_NOTHING = pa.scalar(b"", pa.large_binary())


def _joined(part: Block) -> NDArray[np.int32]:
    """The prompt of a turn, then its completion, turn after turn: lists are strings of bytes, which Arrow joins."""
    size = len(part.prompts.joined) + len(part.completions.joined)
    if not size:
        return np.empty(0, np.int32)
    joined = pc.binary_join_element_wise(_as_bytes(part.prompts), _as_bytes(part.completions), _NOTHING)
    return np.frombuffer(joined.buffers()[2], np.int32, size)


def _as_bytes(lists: Lists) -> pa.Array:
    offsets = lists.offsets.astype(np.int64)
    offsets *= lists.values.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(lists.values)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


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
    owners = rows[spans.heads]
    stages, trajectories = owners["stage"].to_list(), owners["trajectory_id"].to_list()
    runs, spoken = _slices(firsts, lasts), _slices(said[firsts], said[lasts])
    return excerpts(
        len(owners),
        datum_id=[f"{trajectory}@{stage}.0" for trajectory, stage in zip(trajectories, stages, strict=True)],
        stage=stages,
        trajectory_id=trajectories,
        group_id=owners["group_id"].to_list(),
        depth=owners["depth"].to_list(),
        token_ids=map(flat.tokens.__getitem__, _slices(begins[spans.heads], ends)),
        policy_version=flat.versions[spans.turn[spans.heads]].tolist(),
        n_parts=[n if stage == "delegation" else 1 for n, stage in zip(turns.tolist(), stages, strict=True)],
        runs=[
            Runs(starts[run], lengths[run], advantages[run], logprobs[part])
            for run, part in zip(runs, spoken, strict=True)
        ],
    )


def _slices(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Iterator[slice]:
    return map(slice, starts.tolist(), stops.tolist())


def _trained(flat: Flat, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float32]:
    """Log-probabilities of the tokens in spans [low, high), which are sorted and each inside a completion."""
    spoken = flat.stops - flat.starts
    if (high - low).sum() == len(flat.logprobs):  # every completion is credited whole
        return flat.logprobs
    turn = np.searchsorted(flat.stops, low, side="right")
    said = (np.cumsum(spoken) - spoken)[turn] + low - flat.starts[turn]
    return flat.logprobs[places(said, high - low)]
