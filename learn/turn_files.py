"""Turn files: the tokens of chosen turns straight from the Parquet files of a connection, without SQL.

Invariant: the rows are those that `credited_turns.sql` gives, in the order of the files: of each acting node every act
turn up to its last wanted one, and wanted turns of other kinds. Only row groups with such a row are decoded, some rows
at a time, so that what is decoded is still in the processor's cache when it is used. Objects in a bucket and what is
not a store's connection are not read here (`local_files` is empty for them).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sera_data.damage import VARIABLE
from sera_data.place import SCHEME

KEYS = ["turn_id", "node_id", "kind"]
TOKENS = ["base_turn", "prompt_ids", "completion_ids", "logprobs", "policy_version"]
ROWS = 2_048
"""Rows that are decoded at once: few enough to be in the processor's cache still when they are used."""


class Lists(NamedTuple):
    """n lists one behind the other. offsets: int32[n + 1], where each begins in `values` and the last one ends; null is
    a list of none."""

    values: NDArray[Any]
    offsets: NDArray[np.int32]

    @property
    def lengths(self) -> NDArray[np.int32]:
        """int32[n]."""
        lengths: NDArray[np.int32] = self.offsets[1:] - self.offsets[:-1]
        return lengths

    @property
    def joined(self) -> NDArray[Any]:
        """The values of all lists."""
        return self.values[self.offsets[0] : self.offsets[-1]]


class Block(NamedTuple):
    """Some chosen rows that follow each other: ids are int32, log-probabilities float32, versions int32[n]."""

    base_turns: pa.Array
    prompts: Lists
    completions: Lists
    logprobs: Lists
    versions: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows to read, n of them. turn_ids: of the n rows. rows: int64[n], over all files one after the other. starts:
    bool[n], the first of its chain of turns. found: int64, which of the n rows each wanted turn is."""

    files: tuple[pq.ParquetFile, ...]
    turn_ids: pa.Array
    rows: NDArray[np.int64]
    starts: NDArray[np.bool_]
    found: NDArray[np.int64]


def local_files(connection: duckdb.DuckDBPyConnection) -> list[Path]:
    """The turn files of a store's connection; empty when there are none on disk."""
    ((text,),) = connection.sql(f"select getvariable('{VARIABLE}')").fetchall()
    names = [name for name, *_ in json.loads(text or "[]")]
    if any(name.startswith(SCHEME) for name in names):
        return []
    return [path for path in map(Path, names) if path.name.startswith("turns")]


def choose(files: Sequence[Path], wanted: pa.Array) -> Chosen | None:
    """The rows that the wanted turns need; None when the files lack one, hold a node in two places, or hold turns of
    other kinds among wanted acts."""
    opened = tuple(pq.ParquetFile(path, memory_map=True) for path in files)
    keys = pa.concat_tables([file.read(columns=KEYS, use_threads=False) for file in opened]).combine_chunks()
    turn_ids, nodes, kinds = (_array(keys[name]) for name in KEYS)
    found = pc.index_in(wanted, value_set=turn_ids)
    if found.null_count or not len(found):
        return None
    at = found.to_numpy(zero_copy_only=False).astype(np.int64)
    hit = np.zeros(len(turn_ids), np.bool_)
    hit[at] = True
    act = _bools(pc.equal(kinds, "act"))
    if act[at].any() != act[at].all():
        return None
    if not act[at].any():
        rows = np.flatnonzero(hit)
        return Chosen(opened, _taken(turn_ids, rows), rows, np.ones(len(rows), np.bool_), np.searchsorted(rows, at))
    acts = np.flatnonzero(act)
    of_act = _taken(nodes, acts)
    first = np.concatenate([[True], ~_bools(pc.equal(of_act[1:], of_act[:-1]))])
    begins = np.flatnonzero(first)
    last = np.maximum.reduceat(np.where(hit[acts], np.arange(len(acts)), -1), begins)
    kept = np.arange(len(acts)) <= np.repeat(last, np.diff(begins, append=len(acts)))
    used = begins[last >= 0]
    if pc.count_distinct(of_act.take(pa.array(used))).as_py() != len(used):
        return None
    rows = acts[kept]
    place = np.cumsum(kept) - 1
    return Chosen(opened, _taken(turn_ids, rows), rows, first[kept], place[np.searchsorted(acts, at)])


def blocks(chosen: Chosen) -> Iterator[Block]:
    """The chosen rows in order, a few at a time."""
    for file, groups, mine in _parts(chosen):
        end = 0
        for batch in file.iter_batches(ROWS, row_groups=groups, columns=TOKENS, use_threads=False):
            begin, end = end, end + batch.num_rows
            low, high = np.searchsorted(mine, [begin, end]).tolist()
            if low < high:
                yield _block(_rows(batch, mine[low:high] - begin))


def capacity(chosen: Chosen) -> tuple[int, int]:
    """No fewer than the tokens and the completion tokens of all blocks, from the files' footers."""
    totals = dict.fromkeys(TOKENS[1:3], 0)
    for file, groups, _ in _parts(chosen):
        columns = [file.schema.column(i).path for i in range(len(file.schema))]
        for name in totals:
            at = next(i for i, path in enumerate(columns) if path.partition(".")[0] == name)
            totals[name] += sum(file.metadata.row_group(group).column(at).num_values for group in groups)
    return sum(totals.values()), totals["completion_ids"]


def _parts(chosen: Chosen) -> Iterator[tuple[pq.ParquetFile, list[int], NDArray[np.int64]]]:
    """(file, its row groups with a chosen row, the numbers of the chosen rows among the rows of those groups)."""
    before = 0
    for file in chosen.files:
        sizes = np.array([file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)], np.int64)
        edges = before + np.cumsum(sizes, dtype=np.int64)
        cuts = np.searchsorted(chosen.rows, np.concatenate([[before], edges]))
        before = int(edges[-1]) if len(edges) else before
        counts = np.diff(cuts)
        groups = np.flatnonzero(counts)
        if len(groups):
            skipped = edges[groups] - np.cumsum(sizes[groups])  # rows before a group that are not read
            yield file, groups.tolist(), chosen.rows[cuts[0] : cuts[-1]] - np.repeat(skipped, counts[groups])


def _rows(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))


def _taken(array: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    return array if len(rows) == len(array) else array.take(pa.array(rows))


def _block(batch: pa.RecordBatch) -> Block:
    prompts, completions, logprobs = (_flat(batch[name]) for name in TOKENS[1:4])
    versions = batch["policy_version"].to_numpy(zero_copy_only=False)
    return Block(batch["base_turn"], prompts, completions, logprobs, versions.astype(np.int32, copy=False))


def _flat(lists: pa.ListArray) -> Lists:
    return Lists(lists.values.to_numpy(zero_copy_only=False), lists.offsets.to_numpy())


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _bools(array: pa.Array) -> NDArray[np.bool_]:
    return pc.fill_null(array, fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_)
