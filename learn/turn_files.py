"""Turn files: the tokens of chosen turns straight from the Parquet files of a connection, without SQL.

Invariant: the rows are those that `credited_turns.sql` gives, in the order of the files: of each acting node every act
turn up to its last wanted one, and wanted turns of other kinds. Only row groups with such a row are decoded, one at a
time, so that what is decoded is still in the processor's cache when it is used. Objects in a bucket and connections
that are not a store's are not read here (`local_files` is empty for them).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Block:
    """The chosen rows of one row group. Lists: values and int64 lengths, 0 for null; n rows."""

    turn_ids: pa.Array
    base_turns: pa.Array
    prompts: NDArray[np.int32]
    prompt_lengths: NDArray[np.int64]
    completions: NDArray[np.int32]
    completion_lengths: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    logprob_lengths: NDArray[np.int64]
    versions: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows to read. rows: int64, over all files one after the other. starts: bool per chosen row, the first of its
    chain of turns."""

    files: tuple[pq.ParquetFile, ...]
    turn_ids: pa.Array
    rows: NDArray[np.int64]
    starts: NDArray[np.bool_]


def local_files(connection: duckdb.DuckDBPyConnection) -> list[Path]:
    """The turn files of a store's connection; empty when there are none on disk."""
    ((text,),) = connection.sql(f"select getvariable('{VARIABLE}')").fetchall()
    names = [name for name, *_ in json.loads(text or "[]")]
    if any(name.startswith(SCHEME) for name in names):
        return []
    return [path for path in map(Path, names) if path.name.startswith("turns")]


def choose(files: Sequence[Path], wanted: pa.Array) -> Chosen | None:
    """The rows that the wanted turns need; None when the files hold a node in two places, or other kinds among acts."""
    opened = tuple(pq.ParquetFile(path, memory_map=True) for path in files)
    keys = pa.concat_tables([file.read(columns=KEYS, use_threads=False) for file in opened]).combine_chunks()
    turn_ids, nodes, kinds = (_array(keys[name]) for name in KEYS)
    hit = _bools(pc.is_in(turn_ids, value_set=wanted))
    act = _bools(pc.equal(kinds, "act"))
    if not hit.any() or act[hit].any() != act[hit].all():
        return None
    if not act[hit].any():
        rows = np.flatnonzero(hit)
        return Chosen(opened, turn_ids.take(pa.array(rows)), rows, np.ones(len(rows), np.bool_))
    acts = np.flatnonzero(act)
    of_act = nodes.take(pa.array(acts))
    first = np.concatenate([[True], ~_bools(pc.equal(of_act[1:], of_act[:-1]))])
    begins = np.flatnonzero(first)
    last = np.maximum.reduceat(np.where(hit[acts], np.arange(len(acts)), -1), begins)
    kept = np.arange(len(acts)) <= np.repeat(last, np.diff([*begins, len(acts)]))
    used = begins[last >= 0]
    if pc.count_distinct(of_act.take(pa.array(used))).as_py() != len(used):
        return None
    rows = acts[kept]
    return Chosen(opened, turn_ids.take(pa.array(rows)), rows, first[kept])


def blocks(chosen: Chosen) -> Iterator[Block]:
    """The chosen rows, a row group at a time."""
    for file, group, mine in _groups(chosen):
        table = file.read_row_group(group, columns=TOKENS, use_threads=False)
        at, rows = mine
        yield _block(table if len(rows) == table.num_rows else table.take(pa.array(rows)), chosen.turn_ids[at])


def capacity(chosen: Chosen) -> int:
    """No fewer than the tokens of all blocks, from the files' footers."""
    total = 0
    for file, group, _ in _groups(chosen):
        facts = file.metadata.row_group(group)
        columns = (facts.column(i) for i in range(facts.num_columns))
        total += sum(c.num_values for c in columns if c.path_in_schema.partition(".")[0] in TOKENS[1:3])
    return total


def _groups(chosen: Chosen) -> Iterator[tuple[pq.ParquetFile, int, tuple[slice, NDArray[np.int64]]]]:
    """(file, row group, (which of the chosen rows lie there, their numbers in it))."""
    begin = 0
    for file in chosen.files:
        for group in range(file.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(chosen.rows, [begin, end]).tolist()
            if low < high:
                yield file, group, (slice(low, high), chosen.rows[low:high] - begin)
            begin = end


def _block(table: pa.Table, turn_ids: pa.Array) -> Block:
    prompts, completions, logprobs = (_flat(_array(table[name])) for name in TOKENS[1:4])
    versions = _array(table["policy_version"]).to_numpy(zero_copy_only=False).astype(np.int32)
    return Block(turn_ids, _array(table["base_turn"]), *prompts, *completions, *logprobs, versions)


def _flat(lists: pa.ListArray) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(values, lengths) of a list column."""
    offsets = np.asarray(lists.offsets)
    values = lists.values[int(offsets[0]) : int(offsets[-1])]
    return values.to_numpy(zero_copy_only=False), np.diff(offsets).astype(np.int64)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _bools(array: pa.Array) -> NDArray[np.bool_]:
    return pc.fill_null(array, fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_)
