"""Credit at scale: the SQL of a method on a synthetic store, its seconds and memory.

Prints the seconds of each step and the peak memory of the process; exits 1 when the credit SQL takes 10 s or more on 2
threads, or the peak passes the limit. On a busy machine the CPU seconds over two count, where they are fewer. DuckDB
writes the store as the files of a sealed epoch would be: trees of 27 nodes, 16 of them off path.

Run: ``python benchmarks/credit.py [--nodes 1000000] [--method sera] [--limit-gb 6]``.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from learn.credit import compute_credit
from learn.credit_summary import summarise
from learn.method import open_method
from schemas import TABLES
from sera_data.duck import VIEWS, duckdb_type, view_sql

SQL = Path(__file__).with_name("credit_store.sql")
SECONDS = 10.0
THREADS = 2


def build(folder: Path, nodes: int) -> None:
    """Parquet files of the tables that credit reads."""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        connection.execute(f"set variable n_trees = {nodes // 27}")
        connection.execute(SQL.read_text(encoding="utf-8"))
        for name in ("tasks", "nodes", "turns", "rubrics", "branches", "labels", "scores"):
            given = {row[0] for row in connection.sql(f"describe {name}").fetchall()}
            columns = ", ".join(
                f'"{c.name}"::{duckdb_type(c.type)} as "{c.name}"'
                if c.name in given
                else f'null::{duckdb_type(c.type)} as "{c.name}"'
                for c in TABLES[name].columns
            )
            connection.execute(
                f"copy (select {columns} from {name}) to '{folder / name}.parquet'"
                " (format parquet, compression zstd, row_group_size 65536)"
            )


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """The views of a store over the files, two threads and a memory limit below the benchmark's."""
    connection = duckdb.connect(config={"threads": THREADS})
    for table in TABLES.values():
        path = folder / f"{table.name}.parquet"
        nulls = ", ".join(f'null::{duckdb_type(c.type)} as "{c.name}"' for c in table.columns)
        source = f"from read_parquet('{path}')" if path.exists() else f"select {nulls} where false"
        name = "task_rows" if table.name == "tasks" else table.name
        connection.execute(f"create view {name} as {source}")
    for view in VIEWS:
        connection.execute(f"create view {view} as {view_sql(view)}")
    return connection


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--method", default="sera")
    parser.add_argument("--limit-gb", type=float, default=6.0)
    parser.add_argument("--keep", type=Path, help="directory of the files, made when it is not there")
    args = parser.parse_args()
    method = open_method(args.method)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "scores.parquet").exists():
            started = time.perf_counter()
            build(folder, args.nodes)
            print(f"built in {time.perf_counter() - started:.1f} s")
        connection = connect(folder)
        count, turns = connection.sql("select (select count(*) from nodes), (select count(*) from turns)").fetchall()[0]
        print(f"{count} nodes, {turns} turns")
        marks = [("start", time.perf_counter(), time.process_time())]
        credit = compute_credit(
            connection, method, ran=lambda name: marks.append((name, time.perf_counter(), time.process_time()))
        )
        summary = summarise(credit, method.stages)
    wall = cpu = 0.0
    for (_, wall_before, cpu_before), (name, wall_after, cpu_after) in itertools.pairwise(marks):
        print(f"{name}: {wall_after - wall_before:.2f} s wall, {cpu_after - cpu_before:.2f} s CPU")
        if name.endswith(".sql") or name == "verdicts":
            wall, cpu = wall + wall_after - wall_before, cpu + cpu_after - cpu_before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"rows {summary['rows']}, groups used {summary['groups_used']}, dropped {summary['groups_dropped']}")
    print(f"credit SQL {wall:.2f} s wall, {cpu / THREADS:.2f} s of {THREADS} free cores; peak {peak:.2f} GB")
    return int(min(wall, cpu / THREADS) >= SECONDS or peak > args.limit_gb)


if __name__ == "__main__":
    sys.exit(main())
