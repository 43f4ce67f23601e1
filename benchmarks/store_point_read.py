"""Read one node out of 100,000 turns: a file as the seal writes it against one unsorted file of a single row group.

Both hold the same made-up turns of real sizes (20 turns a node, an opening prompt of 600 tokens, then 20-120 new prompt
and 30-150 completion tokens a turn). Each reader asks both files for the same nodes in turn, all columns. The sealed
file has the store's sort order, encodings and row groups and DuckDB reads it on the store's connection; the other is
written with PyArrow's defaults and read by a plain one. The files are written by another process, because a reader
whose memory is fragmented by the writing measures that. DuckDB has one thread: the single row group cannot use more,
and two threads that wait for each other measure how busy the machine is. A ratio is that of the medians; one
below 10 is measured again, twice at most, because a neighbour's burst of work is not the file's. Exit code 1 when one
stays below 10.

Run: ``python benchmarks/store_point_read.py [--turns 100000]``
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as arrow_dataset
import pyarrow.parquet as pq

from schemas import TURNS
from sera_data.canonical import sha256_text
from sera_data.content import in_blocks
from sera_data.disk import sealed_parquet
from sera_data.duck import connect_empty

WANTED = 10.0
TURNS_PER_NODE = 20
ROUNDS = 3
NODES = {"DuckDB": 24, "Polars": 8, "PyArrow": 8}
"""How many nodes each reader reads from each file."""
CONSTANT = {
    "run_id": "bench-1",
    "epoch": 0,
    "shard_id": "e000000.u0000",
    "kind": "act",
    "role": "act",
    "policy": "pocket",
    "policy_version": 0,
    "trainable": True,
    "ok": True,
    "logprobs_mode": "processed_logprobs",
    "temperature": 1.0,
    "top_p": 1.0,
    "max_tokens": 256,
    "finish_reason": "stop",
    "action": '{"tool":"view_inventory"}',
    "tool_calls": [],
    "delegations": [],
}


def made_up_turns(count: int, random: np.random.Generator) -> pa.Table:
    """`count` rows of `turns` as an Arrow table, in no order."""
    node = np.repeat(np.arange(-(-count // TURNS_PER_NODE)), TURNS_PER_NODE)[:count]
    step = np.arange(count) % TURNS_PER_NODE
    trees = [f"r{sha256_text(f'tree {i}')[:16]}" for i in range(int(node[-1]) + 1)]
    tasks = [f"t{sha256_text(f'task {i // 8}')[:16]}" for i in range(len(trees))]
    completion = random.integers(30, 150, count)
    prompt = np.where(step == 0, 600, random.integers(20, 120, count))
    letters = "".join(random.choice(list("abcdefghij klmnop qrstu "), 1 << 20))
    starts = random.integers(0, (1 << 20) - 600, count)
    given = {
        "turn_id": [f"{trees[n]}#{s:04d}" for n, s in zip(node, step, strict=True)],
        "node_id": [trees[n] for n in node],
        "tree_id": [trees[n] for n in node],
        "task_id": [tasks[n] for n in node],
        "step": step.astype(np.int32),
        "prompt_ids": _lists(prompt, random.zipf(1.3, prompt.sum()) % 64_000, pa.int32()),
        "completion_ids": _lists(completion, random.zipf(1.3, completion.sum()) % 64_000, pa.int32()),
        "logprobs": _lists(completion, -random.gamma(0.35, 1.6, completion.sum()), pa.float32()),
        "n_prompt": prompt.astype(np.int32),
        "text": [letters[s : s + 4 * n] for s, n in zip(starts, completion, strict=True)],
        "observation": [letters[s : s + 3 * n] for s, n in zip(starts[::-1], completion, strict=True)],
        "seed": random.integers(0, 2**62, count),
        "order_stamp": step.astype(np.int64),
        "prompt_sha256": [sha256_text(str(i)) for i in range(count)],
    }
    columns = [pa.array(given[c.name], c.type) if c.name in given else _same(c, count) for c in TURNS.columns]
    schema = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in TURNS.columns])
    return pa.Table.from_arrays(columns, schema=schema).take(random.permutation(count))


def _same(column, count: int) -> pa.Array:
    return pa.array([CONSTANT.get(column.name)] * count, column.type)


def _lists(lengths: np.ndarray, values: np.ndarray, kind: pa.DataType) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    lists = pa.list_(pa.field("element", kind, nullable=False))
    return pa.ListArray.from_arrays(offsets, pa.array(values.astype(kind.to_pandas_dtype())), type=lists)


def write_files(place: Path, turns: int) -> list[str]:
    """Write both files; returns the nodes to read, drawn at random."""
    random = np.random.default_rng(0)
    rows = made_up_turns(turns, random)
    pq.write_table(rows, place / "unsorted.parquet", row_group_size=rows.num_rows)
    ordered = rows.sort_by([(key, "ascending") for key in TURNS.sort])
    with sealed_parquet(place / "sealed.parquet", TURNS) as writer:
        for block in in_blocks(iter(ordered.to_batches()), TURNS.row_group):
            writer.write_batch(block, row_group_size=TURNS.row_group)
    return [str(n) for n in random.choice(rows["node_id"].unique().to_pylist(), 1 + max(NODES.values()), replace=False)]


def readers(path: Path) -> dict[str, Callable[[str], int]]:
    """One function a reader: all columns of a node, its number of rows. The file is opened before, as a store is."""
    connection = connect_empty() if path.stem == "sealed" else duckdb.connect()
    connection.execute("set threads = 1")
    connection.execute(f"create view turns as from read_parquet('{path}', hive_partitioning = false)")
    query = "select * from turns where node_id = $node"
    dataset, lazy = arrow_dataset.dataset(str(path)), pl.scan_parquet(path)
    return {
        "DuckDB": lambda node: connection.sql(query, params={"node": node}).to_arrow_table().num_rows,
        "Polars": lambda node: lazy.filter(pl.col("node_id") == node).collect().height,
        "PyArrow": lambda node: dataset.to_table(filter=arrow_dataset.field("node_id") == node).num_rows,
    }


def seconds(read: Callable[[str], int], node: str) -> float:
    """Wall seconds of one read."""
    start = time.perf_counter()
    found = read(node)
    took = time.perf_counter() - start
    if found != TURNS_PER_NODE:
        msg = f"node {node} has {found} turns, not {TURNS_PER_NODE}"
        raise AssertionError(msg)
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=100_000)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as place:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as writer:
            first, *nodes = writer.submit(write_files, Path(place), options.turns).result()
        sealed, unsorted = (readers(Path(place) / f"{name}.parquet") for name in ("sealed", "unsorted"))
        print(f"one node of {TURNS_PER_NODE} turns out of {options.turns:,}, all columns; wanted: {WANTED:g} x")
        print("  reader    unsorted, one row group   as sealed     ratio")
        for name, count in NODES.items():
            seconds(sealed[name], first), seconds(unsorted[name], first)
            for _ in range(ROUNDS):
                pairs = [(seconds(sealed[name], node), seconds(unsorted[name], node)) for node in nodes[:count]]
                ours, theirs = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
                if theirs / ours >= WANTED:
                    break
            ratios.append(theirs / ours)
            print(f"  {name:<8} {theirs:20.1f} ms {ours:11.1f} ms {ratios[-1]:7.1f} x")
    return 0 if min(ratios) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
