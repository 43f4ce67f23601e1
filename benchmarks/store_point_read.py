"""Read one node out of 100,000 turns: the sealed store against one unsorted file of a single row group.

Both are read by DuckDB with the same query, all columns of one node's turns, best of several nodes. The unsorted file
holds the same rows in random order, written as other dumps are: one row group. Exit code 1 when
the sealed store is not at least 10 times faster.

Run: ``python benchmarks/store_point_read.py [--turns 100000]``
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb
import numpy as np
import pyarrow.parquet as pq

import sera_data as sd
from benchmarks.trees import long_trees

WANTED = 10.0
TURNS_PER_NODE = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=100_000)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        store = sd.create(Path(place) / "store")
        long_trees(store, nodes=options.turns // TURNS_PER_NODE, turns=TURNS_PER_NODE, random=random, pool=500)
        rows = store.turns.arrow()
        unsorted = Path(place) / "unsorted.parquet"
        pq.write_table(rows.take(random.permutation(rows.num_rows)), unsorted, row_group_size=rows.num_rows)
        nodes = random.choice(store.nodes.arrow(["node_id"])["node_id"].to_pylist(), 9, replace=False)
        sealed = store.connect(view="sealed")
        dump = duckdb.connect()
        dump.execute(f"create view turns as from read_parquet('{unsorted}')")
        ours, theirs = ([point_read(connection, str(node)) for node in nodes] for connection in (sealed, dump))
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"one node of {len(nodes)} out of {rows.num_rows:,} turns, all columns, median")
    print(f"  unsorted, one row group  {1000 * statistics.median(theirs):9.1f} ms")
    print(f"  this store, sealed       {1000 * statistics.median(ours):9.1f} ms")
    print(f"  ratio                    {ratio:9.1f} x   wanted: at least {WANTED:g}")
    return 0 if ratio >= WANTED else 1


def point_read(connection: duckdb.DuckDBPyConnection, node: str) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        found = connection.sql("select * from turns where node_id = $node", params={"node": node}).to_arrow_table()
        best = min(best, time.perf_counter() - start)
        if found.num_rows != TURNS_PER_NODE:
            msg = f"node {node} has {found.num_rows} turns, not {TURNS_PER_NODE}"
            raise AssertionError(msg)
    return best


if __name__ == "__main__":
    sys.exit(main())
